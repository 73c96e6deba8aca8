"""A Ray cluster of this machine alone, small and short-lived, and one program on it:

    python -m workloads.ray.local --cpus 2 workloads/ray/linear_regression.py --workers 2

The program is the one that runs on a slice, and does not know. It and what Ray starts for it end together, with the
program's exit code; a SIGKILL of this process leaves Ray's, which end by themselves within seconds. Several at once do
not meet: each has ports and a folder of its own, below RAY_TMPDIR (short: sockets are there), else a temporary one.
"""

import argparse
import contextlib
import os
import runpy
import sys
import tempfile
from typing import Any

_OBJECT_STORE = 80 * 2**20  # bytes; Ray's least is 75 MiB
_ENV = {
    "RAY_AUTH_MODE": "disabled",  # else a token in the user's home
    "RAY_COLOR_PREFIX": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_worker_niceness": "0",  # 15 by default: beside other work, it would hardly get on
    # Seconds; a machine with much else to do needs more than the 60 that Ray gives each.
    "RAY_worker_register_timeout_seconds": "300",
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "300",
    # Seconds between two looks at the workers; 2 by default, which each report waits for.
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    # Each saves processes or their work: workers that run before anybody knows what for, and then are not fit for it;
    # nothing here announces preemptions, and nobody asks for the state.
    "RAY_prestart_worker_first_driver": "0",
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
    "RAY_TRAIN_ENABLE_STATE_ACTOR_RECONCILIATION": "0",
}


def spare() -> None:
    """Leaves out five processes of Ray's that do nothing here, each of which imports half of it: seconds of CPU time.

    Those are the cluster's autoscaler and dashboard; and of Ray Train who asks the autoscaler for nodes, who splits
    data sets, and who tidies up after a controller that died. Nothing public does it; Ray's version is locked.
    """
    from ray._private.node import Node
    from ray.train.v2._internal.callbacks import DatasetsCallback
    from ray.train.v2._internal.callbacks.placement_group_callback import PlacementGroupCleanerCallback
    from ray.train.v2._internal.execution.scaling_policy import FixedScalingPolicy
    from ray.train.v2.api import data_parallel_trainer

    class Alone(FixedScalingPolicy):  # type: ignore[misc]
        def after_controller_start(self, train_run_context: Any) -> None: ...

        def _maybe_send_resource_request(self) -> None: ...

    trainer = data_parallel_trainer.DataParallelTrainer
    callbacks = trainer._create_default_callbacks
    left_out = (DatasetsCallback, PlacementGroupCleanerCallback)
    trainer._create_default_callbacks = lambda self: [
        each for each in callbacks(self) if not isinstance(each, left_out)
    ]
    data_parallel_trainer.create_scaling_policy = Alone
    Node.start_monitor = Node.start_api_server = lambda self, **_: None


def main() -> None:
    """Runs the program as `__main__`. Raises what it raises."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpus", type=int, required=True, help="what Ray may place; a worker takes one")
    parser.add_argument("program", help="the program's file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    given = parser.parse_args()
    for name, value in _ENV.items():
        os.environ.setdefault(name, value)
    import ray

    spare()
    with _folder() as folder:
        ray.init(
            address="local",  # KubeRay's RAY_ADDRESS, which a job's environment has, is another cluster's
            num_cpus=given.cpus,
            include_dashboard=False,
            object_store_memory=_OBJECT_STORE,
            _temp_dir=folder,
        )
        sys.argv = [given.program, *given.arguments]
        try:
            runpy.run_path(given.program, run_name="__main__")
        finally:
            ray.shutdown()


def _folder() -> contextlib.AbstractContextManager[str]:
    """Where Ray keeps its files: the folder given, which is its owner's to remove, or one of its own.

    A SIGKILL leaves the latter, so it is not made without need."""
    given = os.environ.get("RAY_TMPDIR")
    if given:
        return contextlib.nullcontext(given)
    return tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True)


if __name__ == "__main__":
    main()
