"""The PromQL that the emulated cloud evaluates, over time series made by hand."""

from __future__ import annotations

import pytest

from mockgcp.errors import ApiError
from mockgcp.services.monitoring_promql import LOOKBACK_S, compiled, prometheus_name
from mockgcp.services.monitoring_series import RUNNING, Series

SAVED = "logging_googleapis_com:user_saved"
GAUGE = "run_googleapis_com:job_running_executions"
T = 1_800_000_000  # a whole minute


def counter(points: dict[int, int], job: str = "train") -> Series:
    resource = {"type": "cloud_run_job", "labels": {"job_name": job}}
    return Series({"type": "logging.googleapis.com/user/saved", "labels": {}}, resource, points)


def gauge(points: dict[int, int]) -> Series:
    resource = {"type": "cloud_run_job", "labels": {"job_name": "train"}}
    return Series({"type": RUNNING, "labels": {}}, resource, points, kind="GAUGE")


TWO_JOBS = [counter({T - 120: 2, T - 60: 3}), counter({T - 600: 5}, "eval"), gauge({T - 60: 1, T: 2})]


@pytest.mark.parametrize(
    ("query", "values"),
    [
        (f"increase({SAVED}[1m])", [3]),
        (f"increase({SAVED}[2m])", [5]),
        (f"increase({SAVED}[1h])", [5, 5]),
        (f"sum(increase({SAVED}[1h]))", [10]),
        (f'increase({SAVED}{{job_name="eval"}}[1h])', [5]),
        (f'sum(increase({SAVED}{{monitored_resource="cloud_run_job"}}[1h]))', [10]),
        (f'increase({SAVED}{{monitored_resource="global"}}[1h])', []),
        (f'increase({SAVED}{{no_such_label=""}}[1m])', [3]),
        ("increase(logging_googleapis_com:user_other[1h])", []),
        ("sum(increase(logging_googleapis_com:user_other[1h]))", []),
        (f"increase({SAVED}[1m]) > 2", [3]),
        (f"increase({SAVED}[1m]) > 3", []),
        (f"increase({SAVED}[1m]) < 4", [3]),
        (GAUGE, [2]),
        (f"({GAUGE} > 1) unless (increase({SAVED}[5m]) > 4)", []),  # the same labels on both sides
        (f'({GAUGE} > 1) unless (increase({SAVED}{{job_name="eval"}}[1h]) > 4)', [2]),
    ],
)
def test_values(query: str, values: list[float]) -> None:
    assert sorted(compiled(query, TWO_JOBS)(T).values()) == values


def test_a_gauge_stands_for_a_while_and_what_counts_is_there_at_once() -> None:
    at = compiled(GAUGE, TWO_JOBS)
    assert list(at(T - 1).values()) == [1]
    assert list(at(T + LOOKBACK_S - 1).values()) == [2]
    assert at(T + LOOKBACK_S) == at(T - 61) == {}
    now = compiled(f"increase({SAVED}[1m])", [counter({T: 1})])
    assert (now(T), list(now(T + 5).values())) == ({}, [1])  # the minute that has begun, once it has


def test_names_are_spelt_as_cloud_monitoring_does() -> None:
    assert prometheus_name("logging.googleapis.com/user/a-b/c") == "logging_googleapis_com:user_a_b_c"


@pytest.mark.parametrize(
    ("query", "named"),
    [
        (f"rate({SAVED}[5m]) > 0", "rate("),
        (f"sum by (job_name) (increase({SAVED}[5m]))", "sum by (job_name)"),
        (f"max(increase({SAVED}[5m]))", "max("),
        (f"increase({SAVED}[5m]) >bool 0", "> bool 0"),
        (f"increase({SAVED}[5m]) == 0", "== 0"),
        (f"1 > increase({SAVED}[5m])", "1 > increase"),
        (f"{GAUGE} unless on(job_name) {GAUGE}", "unless on (job_name)"),
        (f"{GAUGE} and {GAUGE}", " and "),
        (f"{GAUGE} offset 5m", "offset 5m"),
        (f"{GAUGE} @ 100", "@ 100"),
        (f'{GAUGE}{{job_name=~"a.*"}}', '=~"a.*"'),
        (f'{GAUGE}{{job_name="a" or job_name="b"}}', " or "),
        (f"increase({SAVED}[5m:1m])", "[5m:1m]"),
        (f"increase({GAUGE}[5m])", f"increase({GAUGE}"),
        (SAVED, SAVED),
        ("kubernetes_io:container_restart_count", "kubernetes_io:container_restart_count"),
        (f"-{GAUGE}", f"-{GAUGE}"),
        ("vector(1)", "vector(1)"),
    ],
)
def test_all_else_is_refused_by_name(query: str, named: str) -> None:
    with pytest.raises(ApiError) as raised:
        compiled(query)
    assert raised.value.status == "UNIMPLEMENTED"
    assert named in raised.value.message


@pytest.mark.parametrize("query", ["sum(", "increase(x)", "a b"])
def test_what_is_no_promql_is_no_value(query: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        compiled(query)
