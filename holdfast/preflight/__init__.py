"""What `up` and a run will meet on a project, looked at before they do. `run` is the whole; it prints nothing."""

from holdfast.preflight.checks import NAMES, run
from holdfast.preflight.report import Check, PreflightReport, Status

__all__ = ["NAMES", "Check", "PreflightReport", "Status", "run"]
