"""The trainer's contract as `--help` prints it; what it says of the variables comes from their declarations."""

import dataclasses
from typing import Any

from workloads.trainer.config import Config


def contract() -> str:
    """The trainer's contract as text: variables with their defaults, files, exit codes."""
    lines = ["environment variables (* determines the weights: a resume with another value is refused):"]
    for field in dataclasses.fields(Config):
        defaults: dict[Any, str] = {dataclasses.MISSING: " (required)", "": ""}
        default = defaults.get(field.default, f" (default {field.default})")
        star = "*" if field.metadata["run"] else " "
        lines.append(f" {star} {field.metadata['name']:<27} {field.metadata['help']}{default}")
    return "\n".join([*lines, _REST])


_REST = """\
    any other HOLDFAST_* variable is an error

JAX's own variables apply, among them:
   JAX_COMPILATION_CACHE_DIR=<folder>  spares a retry the compilation
   XLA_FLAGS="--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
                                       compiles about six times faster on a CPU, for rehearsals
   XLA_FLAGS="--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"
                                       without these a GPU does not repeat a run bit for bit

files in CHECKPOINT_DIR/<job>/<run id>/<task index>/:
   checkpoints/<step>/  the latest three, each complete or ignored; a save needs room for a fourth
   damaged/             checkpoints that could not be read, set aside
   events.jsonl         one JSON object a line, all attempts; stdout carries the same lines
   result.json          written when the run is done
   lease.json           who writes here, and until when unless it renews; removed on exit

several processes (HOLDFAST_PROCESS_COUNT) train one run: process 0 alone writes the files; SIGTERM to any one stops all
after the same step. A resume may have another number of processes or devices.

exit codes:
     0  done, also when it was done before
     1  error; see the exit event and stderr
     2  bad configuration; a retry cannot help
     3  another writer has the folder; nothing was changed, a retry may help later
   134  (SIGABRT) another process of the run died; a retry resumes
   143  preempted (SIGTERM); saved what there was time to save, a retry resumes"""
