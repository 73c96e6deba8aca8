"""Which lines of Cloud Logging are about a job: one place for its metrics, its alerts and whoever reads its log.

Pure functions that answer filters of the Logging query language, without Pulumi.
"""

SYSTEM_LOG = "run.googleapis.com/varlog/system"
"""The log in which the platform writes about a job's tasks; what they print themselves is in /stdout and /stderr."""


def job(job_name: str, location: str) -> str:
    """All lines of a job: its tasks' and the platform's."""
    return (
        f'resource.type="cloud_run_job" AND resource.labels.job_name="{job_name}" '
        f'AND resource.labels.location="{location}"'
    )


def execution(job_name: str, location: str, execution_name: str) -> str:
    """All lines of one execution, by its short name."""
    return f'{job(job_name, location)} AND labels."run.googleapis.com/execution_name"="{execution_name}"'


def preemptions(job_name: str, location: str) -> str:
    """One line for each task that the platform took its GPU from."""
    return f'{job(job_name, location)} AND log_id("{SYSTEM_LOG}") AND jsonPayload.reason="INSTANCE_PREEMPTED"'


def saved(job_name: str, location: str) -> str:
    """One line for each checkpoint that the trainer has committed (docs/decisions/0004-trainer-contract.md)."""
    return f'{job(job_name, location)} AND jsonPayload.event="saved"'
