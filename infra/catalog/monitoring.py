"""The limits of log-based metrics, alert policies, dashboards and budgets. Sources: monitoring.yaml."""

from functools import cache

from infra.catalog.facts import _Frozen, _values


class Monitoring(_Frozen):
    """Durations in seconds, lengths in characters, the rest in items."""

    metric_name_max: int
    metric_name_pattern: str
    metric_description_max: int
    metric_labels_max: int
    metric_known_after_s: int
    conditions_max: int
    condition_duration_step_s: int
    condition_duration_max_s: int
    absence_duration_min_s: int
    alignment_period_min_s: int
    evaluation_interval_step_s: int
    auto_close_min_s: int
    auto_close_max_s: int
    display_name_max: int
    documentation_max: int
    user_labels_max: int
    user_label_pattern: str
    mosaic_columns_max: int
    budget_display_name_max: int
    budget_channels_max: int


@cache
def monitoring() -> Monitoring:
    """The limits of log-based metrics, alert policies, dashboards and budgets."""
    return Monitoring.model_validate(_values("monitoring"))
