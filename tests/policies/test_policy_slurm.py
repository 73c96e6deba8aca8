"""Each rule on training clusters, violated and kept."""

from typing import Any

import pytest

from policies import (
    labels,
    slurm,
    slurm_cluster,
    slurm_home_zone,
    slurm_prolog_hold,
    slurm_public_ips,
    slurm_requeue,
    slurm_scripts,
)
from policies.props import UNKNOWN
from policies.rule import Props

ZONE = "us-central1-b"
HOME = f"projects/p/locations/{ZONE}/instances/home"


def cluster(pool: dict[str, Any] | None = None, environment: str = "prod", **slurm: Any) -> dict[str, Any]:
    """Scenario C's cluster, with changes to the pool of GPUs and to Slurm's settings."""
    login = {"id": "login", "machineSpec": {"machineType": "n2-standard-8"}, "zone": ZONE}
    gpus = {"id": "a3u", "machineSpec": {"machineType": "a3-ultragpu-8g"}, "zone": ZONE}
    spec = {"homeDirectoryStorage": HOME, "loginNodePoolId": "login", **slurm}
    return {
        "region": "us-central1",
        "labels": {"environment": environment},
        "network": {"network": UNKNOWN},
        "nodePools": [
            {**login, "scalingSpec": {"minNodeCount": 1, "maxNodeCount": 1}},
            {**gpus, "provisioningModel": "FLEX_START", "scalingSpec": {"maxNodeCount": 2}, **(pool or {})},
        ],
        "orchestratorSpec": {"slurmSpec": {"partitions": [{"id": "a3u", "nodePoolIds": ["a3u"]}], **spec}},
    }


REQUEUE = {"PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE"}
RESERVED = {"reservationAffinityType": "SPECIFIC_RESERVATION", "values": ["projects/p/zones/z/reservations/r"]}


@pytest.mark.parametrize(
    "props",
    [
        cluster(),
        cluster({"flexStartMaxDuration": UNKNOWN, "zone": UNKNOWN}, homeDirectoryStorage=UNKNOWN),
        cluster(config={"PriorityWeightAge": UNKNOWN, **REQUEUE}),
        cluster(partitions=UNKNOWN),
        {"nodePools": UNKNOWN, "orchestratorSpec": UNKNOWN},
        {},
    ],
)
def test_what_is_sound_or_not_known_yet_breaks_no_rule(props: Props) -> None:
    rules = (slurm_cluster, slurm_public_ips, slurm_requeue, slurm_prolog_hold, slurm_scripts, slurm_home_zone)
    assert [rule.RULE.name for rule in rules if rule.check(props)] == []


@pytest.mark.parametrize(
    ("props", "where"),
    [
        (cluster({"flexStartMaxDuration": "29s"}), "nodePools[1].flexStartMaxDuration: "),
        (cluster({"provisioningModel": None}), "nodePools[1].provisioningModel: "),
        (
            cluster({"machineSpec": {"machineType": "a3-ultragpu-8g", "reservationAffinity": RESERVED}}),
            "nodePools[1].machineSpec.reservationAffinity: ",
        ),
        (
            cluster({"provisioningModel": "RESERVATION"}),
            "nodePools[1].machineSpec.reservationAffinity: ",
        ),
        (cluster(loginNodePoolId="a3u", partitions=[{"id": "c", "nodePoolIds": ["login"]}]), "nodePools[1].scaling"),
        (cluster(config={"PriorityType": "multifactor"}), "orchestratorSpec.slurmSpec.config: "),
        (cluster(defaultPartitionId="b"), "orchestratorSpec.slurmSpec.defaultPartitionId: "),
    ],
)
def test_a_cluster_that_the_service_refuses(props: Props, where: str) -> None:
    [message] = slurm_cluster.check(props)
    assert message.startswith(where)


@pytest.mark.parametrize(("environment", "on", "broken"), [("prod", True, 1), ("prod", False, 0), ("dev", True, 0)])
def test_public_addresses_are_for_dev(environment: str, on: bool, broken: int) -> None:
    messages = slurm_public_ips.check(cluster({"enablePublicIps": on}, environment))
    assert len(messages) == broken
    assert all(each.startswith("nodePools[1].enablePublicIps") for each in messages)


@pytest.mark.parametrize(
    ("config", "partition", "broken"),
    [
        ({**REQUEUE, "JobRequeue": "0"}, {}, True),
        ({**REQUEUE, "job_requeue": "0"}, {}, True),
        ({"JobRequeue": "0"}, {"PreemptMode": "REQUEUE"}, True),
        ({"JobRequeue": "0"}, {}, False),
        ({**REQUEUE, "JobRequeue": "1"}, {}, False),
        (REQUEUE, {}, False),
    ],
)
def test_preemption_by_requeue_needs_jobs_that_may_be_requeued(
    config: dict[str, str], partition: dict[str, str], broken: bool
) -> None:
    partitions = [{"id": "a3u", "nodePoolIds": ["a3u"], "config": partition}]
    assert bool(slurm_requeue.check(cluster(config=config, partitions=partitions))) is broken


@pytest.mark.parametrize(
    ("written", "prologs", "broken"),
    [
        ("bf_interval=30", ["#!/bin/bash"], True),
        ("bf_interval=30,nohold_on_prolog_fail", ["#!/bin/bash"], False),
        ("bf_interval=30", [], False),
        (None, ["#!/bin/bash"], False),
    ],
)
def test_a_failing_prolog_does_not_hold_the_job(written: str | None, prologs: list[str], broken: bool) -> None:
    config = {} if written is None else {"SchedulerParameters": written}
    assert bool(slurm_prolog_hold.check(cluster(config=config, prologBashScripts=prologs))) is broken


def test_scripts_begin_with_a_shebang() -> None:
    [message] = slurm_scripts.check(cluster(prologBashScripts=["#!/bin/bash", "true", UNKNOWN], epilogBashScripts=[""]))
    assert message.startswith("orchestratorSpec.slurmSpec.prologBashScripts[1] does not begin")


@pytest.mark.parametrize(
    ("home", "zone", "broken"),
    [
        (ZONE, ZONE, False),
        ("us-central1", ZONE, False),
        (ZONE, "us-central1-a", True),
        ("us-east1", ZONE, True),
    ],
)
def test_the_home_directory_is_where_nodes_are(home: str, zone: str, broken: bool) -> None:
    props = cluster({"zone": zone}, homeDirectoryStorage=f"projects/p/locations/{home}/instances/home")
    assert bool(slurm_home_zone.check(props)) is broken


@pytest.mark.parametrize("token", [slurm.CLUSTER, "gcp:filestore/instance:Instance"])
def test_a_cluster_and_its_home_directory_have_the_label(token: str) -> None:
    [message] = labels.RULE.checks[token]({"labels": {"environment": "prod"}})
    assert message.startswith("labels has no `app`")
    assert labels.RULE.checks[token]({"labels": {"app": "holdfast"}}) == []
