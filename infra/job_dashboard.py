"""A job at a glance, in Cloud Monitoring."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_gcp as gcp

from infra import job_logs
from infra.job_alerts import metric_type

_COLUMNS = 48
_TILE = (24, 16)


@dataclass(frozen=True)
class JobDashboardArgs:
    """Arguments of JobDashboard."""

    project: str
    """The project's id."""
    location: str
    """The job's region."""
    job_name: str
    """The job's name."""


class JobDashboard(pulumi.ComponentResource):
    """A dashboard of one job. Child: NAME."""

    dashboard_id: pulumi.Output[str]
    """projects/NUMBER/dashboards/ID"""

    def __init__(self, name: str, args: JobDashboardArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("holdfast:job_dashboard:JobDashboard", name, None, opts)
        dashboard = gcp.monitoring.Dashboard(
            name,
            project=args.project,
            dashboard_json=json.dumps(job_dashboard(args), sort_keys=True),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.dashboard_id = dashboard.id
        self.register_outputs({"dashboardId": self.dashboard_id})


def job_dashboard(args: JobDashboardArgs) -> dict[str, Any]:
    """The dashboard as Monitoring's API has it.

    Progress by step is not on it: a metric made of log lines counts them or sorts them into ranges, and would blur a
    step's number. `holdfast watch` shows it.
    """
    about = (args.job_name, args.location)
    run = "run.googleapis.com/job"
    widgets = [
        _chart("Running executions", _series(f"{run}/running_executions", args, "ALIGN_MAX")),
        _chart("Task attempts ended", _series(f"{run}/completed_task_attempt_count", args, "ALIGN_DELTA", "result")),
        _chart("Checkpoints saved", _series(metric_type("saved", *about), args, "ALIGN_DELTA")),
        _chart("Preemptions", _series(metric_type("preemptions", *about), args, "ALIGN_DELTA")),
        {
            "title": "Warnings, preemptions and checkpoints",
            "logsPanel": {"filter": f'{job_logs.job(*about)} AND (severity>=WARNING OR jsonPayload.event="saved")'},
        },
    ]
    return {
        "displayName": f"holdfast: {args.job_name} ({args.location})",
        "mosaicLayout": {"columns": _COLUMNS, "tiles": [_tile(at, widget) for at, widget in enumerate(widgets)]},
    }


def _tile(at: int, widget: Mapping[str, Any]) -> dict[str, Any]:
    """Two tiles a row; the log takes a row of its own."""
    width, height = _TILE
    a_row = _COLUMNS // width
    found: dict[str, Any] = {
        "yPos": at // a_row * height,
        "width": _COLUMNS if "logsPanel" in widget else width,
        "height": height,
        "widget": dict(widget),
    }
    # The API leaves zeros out of its answers.
    return {key: value for key, value in {"xPos": at % a_row * width, **found}.items() if value != 0}


def _chart(title: str, series: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "title": title,
        "xyChart": {
            "dataSets": [{"plotType": "LINE", "targetAxis": "Y1", "timeSeriesQuery": {"timeSeriesFilter": series}}]
        },
    }


def _series(metric: str, args: JobDashboardArgs, aligner: str, by: str = "") -> dict[str, Any]:
    grouped = {"groupByFields": [f"metric.label.{by}"]} if by else {}
    return {
        "filter": f'metric.type="{metric}" AND {job_logs.job(args.job_name, args.location)}',
        "aggregation": {
            "alignmentPeriod": "60s",
            "perSeriesAligner": aligner,
            "crossSeriesReducer": "REDUCE_SUM",
            **grouped,
        },
    }
