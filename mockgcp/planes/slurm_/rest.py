"""Slurm's REST API v0.0.42, as far as the service passes it on: submit, list, get and cancel jobs.

Debian's slurmrestd is older (v0.0.38), so the commands are asked and their answers given the newer shape. As there,
`#SBATCH` lines of the script say nothing: options are fields of the job, and those not known here are refused.
Shapes and names: https://slurm.schedmd.com/rest_api.html (v0.0.42), read 2026-11-29, unchecked.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mockgcp.training_clusters import Json, RestAnswer

if TYPE_CHECKING:
    from mockgcp.planes.slurm_.cluster import Cluster

_ROOT = "/slurm/v0.0.42/"
_JOB = re.compile(r"job/(\d+)")
_ASK_S = 30.0
_EPOCH = {"SLURM_TIME_FORMAT": "%s"}
# A field of `scontrol show job` begins after a space; its value may have spaces, too.
_FIELD = re.compile(r"(?:^|\s)([A-Z][\w/:]*)=(.*?)(?=\s+[A-Z][\w/:]*=|\s*$)")
_COUNTED_TIME = re.compile(r"(?:(\d+)-)?(\d+):(\d+):(\d+)")
_NO_JOB = "Invalid job id specified"


def answer(cluster: Cluster, method: str, path: str, body: Json | None, user: str) -> RestAnswer:
    """Answers as slurmrestd would for that user."""
    what = path.removeprefix(_ROOT).rstrip("/")
    job = _JOB.fullmatch(what)
    if (method, what) == ("POST", "job/submit"):
        return _submit(cluster, body or {}, user)
    if (method, what) == ("GET", "jobs"):
        return _jobs(cluster, "")
    if method == "GET" and job:
        return _jobs(cluster, job[1])
    if method == "DELETE" and job:
        return _answered(cluster, _ask(cluster, ["scancel", "--verbose", job[1]], user))
    return RestAnswer(501, _body(cluster, error=f"{method} {path} is not passed on by the service"))


def _number(value: Any) -> str:
    """A number, or Slurm's {set, infinite, number}."""
    if isinstance(value, Mapping):
        return "UNLIMITED" if value.get("infinite") else str(value["number"])
    return str(value)


def _list(value: Any) -> str:
    return value if isinstance(value, str) else ",".join(value)


def _flag(name: str, form: Callable[[Any], str] = str) -> Callable[[Any], list[str]]:
    return lambda value: [f"--{name}={form(value)}"]


def _signal(job: Json) -> list[str]:
    """--signal, of three fields; the last two may be left out."""
    flags = "B:" if "BATCH_JOB" in job.get("kill_warning_flags", []) else ""
    return [f"--signal={flags}{job['kill_warning_signal']}@{_number(job.get('kill_warning_delay', 60))}"]


_OPTIONS: Mapping[str, Callable[[Any], list[str]]] = {
    "account": _flag("account"),
    "array": _flag("array"),
    "begin_time": _flag("begin", _number),
    "comment": _flag("comment"),
    "constraints": _flag("constraint"),
    "cpus_per_task": _flag("cpus-per-task", _number),
    "dependency": _flag("dependency"),
    "excluded_nodes": _flag("exclude", _list),
    "hold": lambda value: ["--hold"] if value else [],
    "memory_per_cpu": _flag("mem-per-cpu", _number),
    "memory_per_node": _flag("mem", _number),
    "minimum_nodes": _flag("nodes", _number),
    "name": _flag("job-name"),
    "nice": _flag("nice", _number),
    "nodes": _flag("nodes", _number),
    "open_mode": _flag("open-mode", lambda value: _list(value).lower()),
    "partition": _flag("partition"),
    "priority": _flag("priority", _number),
    "qos": _flag("qos"),
    "requeue": lambda value: ["--requeue" if value else "--no-requeue"],
    "required_nodes": _flag("nodelist", _list),
    "reservation": _flag("reservation"),
    "shared": lambda value: ["--exclusive"] if "none" in value else [f"--exclusive={_list(value)}"],
    "standard_error": _flag("error"),
    "standard_input": _flag("input"),
    "standard_output": _flag("output"),
    "tasks": _flag("ntasks", _number),
    "tasks_per_node": _flag("ntasks-per-node", _number),
    "time_limit": _flag("time", _number),
    "tres_per_job": _flag("gpus", lambda value: re.sub(r"^gres[:/]gpu[:=]", "", value)),
    "tres_per_node": _flag("gres", lambda value: re.sub(r"\bgres[:/]", "", value)),
}
_HANDLED = (
    "script",
    "current_working_directory",
    "environment",
    "kill_warning_signal",
    "kill_warning_delay",
    "kill_warning_flags",
)


def _submit(cluster: Cluster, body: Json, user: str) -> RestAnswer:
    job = body.get("job", {})
    script = str(body.get("script") or job.get("script") or "")
    unknown = [each for each in body if each not in ("script", "job")]
    unknown += [f"job.{each}" for each in job if each not in _OPTIONS and each not in _HANDLED]
    if unknown:
        return _refused(cluster, f"fields that are not known here: {', '.join(unknown)}")
    if not script.startswith("#!"):
        return _refused(cluster, "script: a batch script that begins with #! is required")
    environment = job.get("environment") or []
    if not environment:
        return _refused(cluster, "job.environment: a list of NAME=VALUE with one at least is required")
    options = [flag for name, value in job.items() if name in _OPTIONS for flag in _OPTIONS[name](value)]
    if "kill_warning_signal" in job:
        options += _signal(job)
    if where := job.get("current_working_directory"):
        options.append(f"--chdir={where}")
    # A line that is no comment: sbatch reads no options after it.
    first, _, rest = script.partition("\n")
    env = dict(each.split("=", 1) for each in environment)
    done = _ask(cluster, ["sbatch", "--parsable", *options], user, f"{first}\n:\n{rest}", env)
    if done.returncode:
        return _answered(cluster, done)
    made = {"job_id": int(done.stdout.split(";")[0]), "step_id": "batch", "job_submit_user_msg": ""}
    return RestAnswer(200, {**made, **_body(cluster)})


def _jobs(cluster: Cluster, job: str) -> RestAnswer:
    done = _ask(cluster, ["scontrol", "--oneliner", "show", "jobs", *([job] if job else [])], "root")
    if done.returncode:
        return _answered(cluster, done)
    lines = [line for line in done.stdout.splitlines() if line.startswith("JobId=")]
    return RestAnswer(200, {"jobs": [_shaped(dict(_FIELD.findall(line))) for line in lines], **_body(cluster)})


def _shaped(job: Mapping[str, str]) -> dict[str, Any]:
    """A line of `scontrol show job`, as v0.0.42 has it; what a job has not is left out."""

    def known(key: str) -> str:
        value = job.get(key, "")
        return "" if value in ("(null)", "Unknown", "None", "N/A") else value

    status, _, signal = job.get("ExitCode", "0:0").partition(":")
    user, _, uid = known("UserId").rstrip(")").partition("(")
    shaped: dict[str, Any] = {
        "job_id": int(job["JobId"]),
        "name": known("JobName"),
        "user_name": user,
        "user_id": int(uid or 0),
        "account": known("Account"),
        "partition": known("Partition"),
        "qos": known("QOS"),
        "job_state": job["JobState"].split("+"),
        "state_reason": job.get("Reason", "None"),
        "nodes": known("NodeList"),
        "node_count": _set(known("NumNodes").partition("-")[0]),
        "cpus": _set(known("NumCPUs").partition("-")[0]),
        "tasks": _set(known("NumTasks")),
        "priority": _set(known("Priority")),
        "restart_cnt": int(job.get("Restarts", 0)),
        "requeue": job.get("Requeue") == "1",
        "batch_flag": job.get("BatchFlag", "0") != "0",
        "submit_time": _set(known("SubmitTime")),
        "start_time": _set(known("StartTime")),
        "end_time": _set(known("EndTime")),
        "time_limit": _minutes(known("TimeLimit")),
        "current_working_directory": known("WorkDir"),
        "standard_output": known("StdOut"),
        "standard_error": known("StdErr"),
        "dependency": known("Dependency"),
        "comment": known("Comment"),
        "tres_req_str": known("TRES"),
        "exit_code": {
            "status": ["SIGNALED" if signal not in ("", "0") else "ERROR" if status != "0" else "SUCCESS"],
            "return_code": _set(status),
            "signal": {"id": _set(signal)},
        },
    }
    if "ArrayJobId" in job:
        shaped["array_job_id"], shaped["array_task_id"] = _set(job["ArrayJobId"]), _set(job.get("ArrayTaskId", ""))
    return shaped


def _set(value: str) -> dict[str, Any]:
    """Slurm's number that may be unset or infinite."""
    return {"set": value.isdigit(), "infinite": value == "UNLIMITED", "number": int(value) if value.isdigit() else 0}


def _minutes(value: str) -> dict[str, Any]:
    found = _COUNTED_TIME.fullmatch(value)
    if not found:
        return _set(value)
    days, hours, minutes, _ = (int(each or 0) for each in found.groups())
    return _set(str((days * 24 + hours) * 60 + minutes))


def _ask(
    cluster: Cluster, argv: list[str], user: str, stdin: str = "", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        return cluster.run(argv, user=user, stdin=stdin, env={**_EPOCH, **(env or {})}, timeout_s=_ASK_S)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 124, "", f"slurmctld did not answer within {_ASK_S:g} s")


def _answered(cluster: Cluster, done: subprocess.CompletedProcess[str]) -> RestAnswer:
    """Of a command that may have failed."""
    said = done.stderr.strip()
    if _NO_JOB in said:
        return RestAnswer(404, _body(cluster, error=_NO_JOB))
    if done.returncode or "error:" in said:
        return RestAnswer(500, _body(cluster, error=said.rpartition("error: ")[2]))
    return RestAnswer(200, _body(cluster))


def _refused(cluster: Cluster, error: str) -> RestAnswer:
    return RestAnswer(400, _body(cluster, error=error))


def _body(cluster: Cluster, error: str = "") -> dict[str, Any]:
    slurm = {"release": cluster.release, "cluster": cluster.name}
    errors = [{"description": error, "error": error, "source": "slurmctld"}] if error else []
    return {"meta": {"slurm": slurm}, "errors": errors, "warnings": []}
