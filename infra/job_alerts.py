"""What somebody must hear about a job: too many preemptions, an execution that gave up, a run that saves nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pulumi
import pulumi_gcp as gcp

from infra import catalog, job_logs, names
from infra.catalog import Problem
from infra.errors import refuse

_EVALUATED_EVERY_S = 60


@dataclass(frozen=True)
class JobAlertsArgs:
    """Arguments of JobAlerts."""

    project: str
    """The project's id."""
    location: str
    """The job's region."""
    job_name: str
    """The job's name."""
    stack: str
    """The stack's name, for the commands in the alerts' texts."""
    preemptions_per_day: int = 3
    """Preemptions in 24 hours above which to alert. Maintenance comes about weekly to each task."""
    checkpoint_interval_s: int = 600
    """Seconds between two checkpoints of the trainer, as its settings and its speed make them: at least 60."""
    missed_checkpoints: int = 3
    """Intervals without a checkpoint, while an execution runs, after which to alert: at least 1."""
    email: str | None = None
    """Who is told. None makes the alerts all the same: they show in the console."""
    labels: Mapping[str, str] = field(default_factory=names.labels)
    """Labels of the policies and of the channel."""


class JobAlerts(pulumi.ComponentResource):
    """Log-based metrics, alert policies on them, and whom they tell.

    Conditions on log-based metrics are in PromQL, without the check that the metric exists: Monitoring knows a new
    metric only after minutes, and until then refuses any other condition on it, which would fail the first `up`. All
    tasks of the job count together: of many tasks, one that saves hides those that do not.

    Children: NAME-preemptions, NAME-saved (metrics), NAME-preempted, NAME-failed, NAME-stalled (policies), NAME-email.
    """

    policy_ids: pulumi.Output[list[str]]
    """The alert policies' full names."""

    def __init__(self, name: str, args: JobAlertsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        refuse(f"JobAlerts {name}", *job_alerts_problems(args))
        super().__init__("holdfast:job_alerts:JobAlerts", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        counters = {
            "preemptions": ("Tasks that the platform took the GPU from", job_logs.preemptions),
            "saved": ("Checkpoints that the trainer has committed", job_logs.saved),
        }
        metrics = [
            _counter(f"{name}-{what}", what, description, lines, args, child)
            for what, (description, lines) in counters.items()
        ]
        channels = [_email(f"{name}-email", args.email, args, child)] if args.email else []
        after_metrics = pulumi.ResourceOptions(parent=self, depends_on=metrics)
        policies = [
            gcp.monitoring.AlertPolicy(
                f"{name}-{what}",
                project=args.project,
                display_name=title,
                combiner="OR",
                conditions=[condition],
                # A count stops coming with the execution. Its incident would stay open for days, and hide the next one.
                alert_strategy=gcp.monitoring.AlertPolicyAlertStrategyArgs(
                    auto_close=f"{catalog.monitoring().auto_close_min_s}s"
                ),
                severity=severity,
                documentation=gcp.monitoring.AlertPolicyDocumentationArgs(
                    mime_type="text/markdown", content=text.format(job=args.job_name, stack=args.stack)
                ),
                notification_channels=channels,
                user_labels=args.labels,
                opts=after_metrics,
            )
            for what, title, severity, condition, text in (
                ("preempted", *_preempted(args), _PREEMPTED_TEXT),
                ("failed", *_failed(args), _FAILED_TEXT),
                ("stalled", *_stalled(args), _STALLED_TEXT),
            )
        ]
        self.policy_ids = pulumi.Output.all(*(each.name for each in policies)).apply(list)
        self.register_outputs({"policyIds": self.policy_ids})


def job_alerts_problems(args: JobAlertsArgs) -> list[Problem]:
    """Numbers that no alert can be made of."""
    lowest = {
        "preemptions_per_day": (args.preemptions_per_day, 0),
        "checkpoint_interval_s": (args.checkpoint_interval_s, _EVALUATED_EVERY_S),
        "missed_checkpoints": (args.missed_checkpoints, 1),
    }
    problems = [
        Problem(setting, f"{number}; set at least {least}")
        for setting, (number, least) in lowest.items()
        if number < least
    ]
    longest_s = catalog.monitoring().condition_duration_max_s
    if _silence_s(args) > longest_s:
        source = catalog.fact("monitoring", "condition_duration_max_s").source
        message = (
            f"{args.missed_checkpoints} intervals of {args.checkpoint_interval_s}s; a condition lasts at most "
            f"{longest_s}s ({source}). Save more often, or alert after fewer"
        )
        problems.append(Problem("missed_checkpoints", message))
    return problems


def metric_name(what: str, job_name: str, location: str) -> str:
    """A log-based metric's name. PromQL writes all but letters and digits as _, so there is nothing else in it."""
    return f"{job_name}_{location}_{what}".replace("-", "_")


def metric_type(what: str, job_name: str, location: str) -> str:
    """A log-based metric's name as Monitoring has it: `what` is preemptions or saved."""
    return f"logging.googleapis.com/user/{metric_name(what, job_name, location)}"


Condition = gcp.monitoring.AlertPolicyConditionArgs


def _counter(
    name: str,
    what: str,
    description: str,
    lines: Callable[[str, str], str],
    args: JobAlertsArgs,
    opts: pulumi.ResourceOptions,
) -> gcp.logging.Metric:
    return gcp.logging.Metric(
        name,
        project=args.project,
        name=metric_name(what, args.job_name, args.location),
        description=description,
        filter=lines(args.job_name, args.location),
        metric_descriptor=gcp.logging.MetricMetricDescriptorArgs(metric_kind="DELTA", value_type="INT64", unit="1"),
        # Given another name, the provider makes another metric and forgets the old one, which destroy then leaves:
        # https://github.com/hashicorp/terraform-provider-google/issues/18144.
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(replace_on_changes=["name"])),
    )


def _email(name: str, address: str, args: JobAlertsArgs, opts: pulumi.ResourceOptions) -> pulumi.Output[str]:
    channel = gcp.monitoring.NotificationChannel(
        name,
        project=args.project,
        display_name=f"{args.job_name}: {address}",
        type="email",
        labels={"email_address": address},
        user_labels=args.labels,
        opts=opts,
    )
    return channel.name


def _preempted(args: JobAlertsArgs) -> tuple[str, str, Condition]:
    title = f"{args.job_name}: more than {args.preemptions_per_day} preemptions in a day"
    return title, "WARNING", _promql(title, f"{_increase('preemptions', args, '1d')} > {args.preemptions_per_day}")


def _failed(args: JobAlertsArgs) -> tuple[str, str, Condition]:
    """Retries used up: the platform's own count of executions, which needs no line of a log to be as we expect."""
    title = f"{args.job_name}: an execution failed"
    threshold = gcp.monitoring.AlertPolicyConditionConditionThresholdArgs(
        filter=(
            'metric.type="run.googleapis.com/job/completed_execution_count" AND metric.labels.result="failed" AND '
            f"{job_logs.job(args.job_name, args.location)}"
        ),
        comparison="COMPARISON_GT",
        threshold_value=0,
        duration="0s",
        aggregations=[
            gcp.monitoring.AlertPolicyConditionConditionThresholdAggregationArgs(
                alignment_period="300s", per_series_aligner="ALIGN_DELTA", cross_series_reducer="REDUCE_SUM"
            )
        ],
    )
    return title, "ERROR", Condition(display_name=title, condition_threshold=threshold)


def _stalled(args: JobAlertsArgs) -> tuple[str, str, Condition]:
    """An execution runs, and no checkpoint came in the last interval; alert when that stays so for all of them.

    Looking back one interval and waiting for the rest, rather than looking back over all, leaves a run that has only
    just begun its time. After a checkpoint the alert comes one interval late.
    """
    title = f"{args.job_name}: no checkpoint for {args.missed_checkpoints} intervals"
    running = (
        'sum(run_googleapis_com:job_running_executions{monitored_resource="cloud_run_job",'
        f'job_name="{args.job_name}",location="{args.location}"}})'
    )
    query = f"({running} > 0) unless ({_increase('saved', args, f'{args.checkpoint_interval_s}s')} > 0)"
    return title, "ERROR", _promql(title, query, _silence_s(args))


def _silence_s(args: JobAlertsArgs) -> int:
    return args.missed_checkpoints * args.checkpoint_interval_s


def _increase(what: str, args: JobAlertsArgs, window: str) -> str:
    metric = metric_name(what, args.job_name, args.location)
    return f'sum(increase(logging_googleapis_com:user_{metric}{{monitored_resource="cloud_run_job"}}[{window}]))'


def _promql(title: str, query: str, duration_s: int = 0) -> Condition:
    return Condition(
        display_name=title,
        condition_prometheus_query_language=gcp.monitoring.AlertPolicyConditionConditionPrometheusQueryLanguageArgs(
            query=query,
            duration=f"{duration_s}s",
            evaluation_interval=f"{_EVALUATED_EVERY_S}s",
            disable_metric_validation=True,
        ),
    )


_PREEMPTED_TEXT = """\
The platform took the GPU from tasks of `{job}` more often than maintenance alone would. Each time takes a retry.

1. `holdfast watch --stack {stack}`: is there progress between two preemptions?
2. If retries run short: raise `holdfast:maxRetries` (at most 10), or save checkpoints more often.
3. `holdfast submit cloud-run --stack {stack}` resumes from the last checkpoint once the retries are used up.
"""
_FAILED_TEXT = """\
An execution of `{job}` ended without success: a task used up its retries. Its checkpoints are in the bucket.

1. `holdfast logs --stack {stack} --severity ERROR`: why did the last attempt fail?
2. If it was preempted too often, or once the cause is gone: `holdfast submit cloud-run --stack {stack}` resumes from \
the last checkpoint.
"""
_STALLED_TEXT = """\
An execution of `{job}` runs, is paid for, and has not saved a checkpoint for longer than it should take.

1. `holdfast watch --stack {stack}`: do steps go on? If so, saves fail or the interval is too short for the model.
2. `holdfast logs --stack {stack} --severity WARNING`: a save that failed says why.
3. If nothing moves: `holdfast cancel --stack {stack}`, then `holdfast submit cloud-run --stack {stack}`, which resumes.
"""
