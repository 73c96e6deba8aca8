"""What Slurm and the service refuse of slurm.conf: every fatal case that was measured, and what is fine."""

import pytest

from infra import catalog
from infra.catalog import CLUSTER, NODE_POOL, PARTITION, slurm_conf_problems

TUTORIAL = {
    "AccountingStorageEnforce": "associations,limits,qos",
    "PriorityType": "priority/multifactor",
    "PriorityWeightAge": "1000",
    "PriorityWeightFairshare": "10000",
    "PreemptType": "preempt/partition_prio",
    "PreemptMode": "REQUEUE",
    "PreemptExemptTime": "00:10:00",
}


@pytest.mark.parametrize("release", [None, "22.05", "26.05"])
def test_the_tutorials_map_is_fine(release: str | None) -> None:
    assert slurm_conf_problems(TUTORIAL, release=release) == []


@pytest.mark.parametrize(
    ("config", "scope"),
    [
        ({}, CLUSTER),
        ({"preempt_type": "preempt/qos", "PREEMPTMODE": "suspend,gang"}, CLUSTER),
        ({"PreemptType": "preempt/none", "PreemptMode": "OFF"}, CLUSTER),
        ({"PreemptMode": "GANG"}, CLUSTER),
        ({"PreemptExemptTime": "-1", "PriorityMaxAge": "7-0", "PriorityDecayHalfLife": "14"}, CLUSTER),
        ({"MaxBatchRequeue": "UNLIMITED", "PrologFlags": "Alloc,RunInJob", "JobRequeue": "1"}, CLUSTER),
        ({"PriorityWeightTRES": "CPU=1000,Mem=2000,GRES/gpu=3000", "MailDomain": '"a b"'}, CLUSTER),
        ({"GraceTime": "60", "PriorityTier": "10", "PreemptMode": "OFF", "OverSubscribe": "FORCE:1"}, PARTITION),
        ({"OverSubscribe": "exclusive", "MaxTime": "INFINITE", "State": "UP", "LLN": "yes"}, PARTITION),
        ({"Weight": "10", "Features": "h200,nvlink"}, NODE_POOL),
    ],
)
def test_what_slurm_takes_is_fine(config: dict[str, str], scope: str) -> None:
    assert slurm_conf_problems(config, scope) == []


@pytest.mark.parametrize(
    ("config", "key", "says"),
    [
        ({"PriorityType": "multifactor"}, "PriorityType", "did you mean priority/multifactor?"),
        ({"PreemptType": "partition_prio"}, "PreemptType", "did you mean preempt/partition_prio?"),
        ({"PreemptType": "preempt/partition_prio", "PreemptMode": "GANG"}, "PreemptMode", "Set PreemptMode=REQUEUE"),
        ({"PreemptType": "preempt/partition_prio", "PreemptMode": "OFF"}, "PreemptMode", "Set PreemptMode=REQUEUE"),
        ({"PreemptType": "preempt/partition_prio"}, "PreemptType", "no PreemptMode stops Slurm"),
        (
            {"PreemptType": "preempt/partition_prio", "PreemptMode": "SUSPEND"},
            "PreemptMode",
            "SUSPEND needs GANG too",
        ),
        (
            {"PreemptType": "preempt/qos", "PreemptMode": "CANCEL,REQUEUE"},
            "PreemptMode",
            "CANCEL, REQUEUE are modes that exclude each other",
        ),
        ({"PreemptMode": "REQUEUE"}, "PreemptMode", "no PreemptType says whom"),
        ({"PreemptExemptTime": "10m"}, "PreemptExemptTime", "Write 00:10:00"),
        ({"PreemptExemptTime": "600s"}, "PreemptExemptTime", "Write 00:10:00"),
        ({"PreemptExemptTime": "2d"}, "PreemptExemptTime", "Write 2-00:00:00"),
        ({"PriorityWeightAge": "abc"}, "PriorityWeightAge", "no whole number from 0 to 4294967295"),
        ({"PriorityWeightAge": "-1"}, "PriorityWeightAge", "no whole number"),
        ({"PriorityWeightAge": "1000.5"}, "PriorityWeightAge", "no whole number"),
        ({"KillWait": "65536"}, "KillWait", "from 0 to 65535"),
        ({"PriorityWeightFairshair": "1"}, "PriorityWeightFairshair", "did you mean PriorityWeightFairshare?"),
        ({"zzz": "1"}, "zzz", "no key of slurm.conf"),
        ({"GraceTime": "60"}, "GraceTime", "Move it to a partition's config"),
        ({"PriorityTier": "2"}, "PriorityTier", "Move it to a partition's config"),
        (
            {"AccountingStorageEnforce": "associations, limits"},
            "AccountingStorageEnforce",
            "has a space, where Slurm takes the value for ended. Write associations,limits",
        ),
        ({"AccountingStorageEnforce": "association"}, "AccountingStorageEnforce", "did you mean associations?"),
        ({"JobRequeue": ""}, "JobRequeue", "is empty"),
        ({"MailDomain": "x\nPartitionName=y"}, "MailDomain", "would end the line"),
        ({"DisableRootJobs": "maybe"}, "DisableRootJobs", "Write one of YES, NO"),
        ({"PriorityWeightTRES": "1000"}, "PriorityWeightTRES", "CPU=1000,GRES/gpu=3000"),
        ({"PreemptMode": "REQUEUE", "preempt_mode": "CANCEL"}, "preempt_mode", "is PreemptMode again"),
        ({"HealthCheckProgram": "/x"}, "HealthCheckProgram", "refused by the service"),
        ({"health_check_interval": "60"}, "health_check_interval", "refused by the service"),
        ({"HealthCheckNodeState": "ANY"}, "HealthCheckNodeState", "refused by the service"),
        ({"RequeueExit": "1"}, "RequeueExit", "refused by the service"),
        ({"RequeueExitHold": "1"}, "RequeueExitHold", "refused by the service"),
        ({"Prolog": "/x"}, "Prolog", "list the scripts as prolog scripts"),
        ({"Epilog": "/x"}, "Epilog", "list the scripts as epilog scripts"),
        ({"StorageHost": "db"}, "StorageHost", "a key of slurmdbd.conf"),
        ({"PurgeJobAfter": "1month"}, "PurgeJobAfter", "a key of slurmdbd.conf"),
        ({"NodeName": "n"}, "NodeName", "the service's own to write"),
        ({"CoreSpecPlugin": "x"}, "CoreSpecPlugin", "Slurm up to 23.11, not of 24.11 or 25.05 or 25.11"),
        ({"PowerAction": "x"}, "PowerAction", "the service's own"),
        ({"LicenseParameters": "x"}, "LicenseParameters", "Slurm since 26.05"),
    ],
)
def test_what_stops_slurm_is_one_message(config: dict[str, str], key: str, says: str) -> None:
    [problem] = slurm_conf_problems(config)
    assert problem.field == key
    assert problem.message.startswith(f"{key} in the cluster's config: ")
    assert says in problem.message


@pytest.mark.parametrize(
    ("config", "scope", "says"),
    [
        ({"Default": "YES"}, PARTITION, "name the partition as the default one"),
        ({"Nodes": "a"}, PARTITION, "the service's own"),
        ({"PreemptType": "preempt/qos"}, PARTITION, "Move it to the cluster's config"),
        ({"OverSubscribe": "SHARED"}, PARTITION, "FORCE:COUNT"),
        ({"GraceTime": "1m"}, PARTITION, "no whole number"),
        ({"PreemptMode": "GANG"}, PARTITION, "is not possible"),
        ({"NodeAddr": "10.0.0.1"}, NODE_POOL, "the service's own"),
        ({"PriorityTier": "1"}, NODE_POOL, "Move it to a partition's config"),
    ],
)
def test_partitions_and_pools_have_their_own_keys(config: dict[str, str], scope: str, says: str) -> None:
    [problem] = slurm_conf_problems(config, scope)
    assert says in problem.message


def test_a_partition_suspends_only_in_a_cluster_with_gang() -> None:
    suspend = {"PreemptMode": "SUSPEND"}
    assert slurm_conf_problems(suspend, PARTITION) == []
    [problem] = slurm_conf_problems(suspend, PARTITION, cluster={"PreemptMode": "REQUEUE"})
    assert "PreemptMode=SUSPEND,GANG there" in problem.message
    assert slurm_conf_problems(suspend, PARTITION, cluster={"PreemptMode": "SUSPEND,GANG"}) == []


@pytest.mark.parametrize(
    ("config", "release", "fine"),
    [
        ({"MaxBatchRequeue": "5"}, "22.05", False),
        ({"MaxBatchRequeue": "5"}, "23.02", True),
        ({"PreemptParameters": "x"}, "22.05", False),
        ({"PrologFlags": "RunInJob"}, "23.11", False),
        ({"PrologFlags": "RunInJob"}, "24.05", True),
        ({"PrologFlags": "ForceRequeueOnFail"}, "22.05", False),
        ({"PowerPlugin": "x"}, "23.11", True),
        ({"PowerPlugin": "x"}, "24.05", False),
    ],
)
def test_keys_and_flags_have_their_releases(config: dict[str, str], release: str, fine: bool) -> None:
    assert (slurm_conf_problems(config, release=release) == []) is fine


def test_every_fact_on_keys_is_about_a_key_that_there_is() -> None:
    for name in ("since", "until", "choices", "flags", "refused", "service_keys"):
        for scope, keys in catalog.fact("slurm_conf", name).value.items():
            assert [key for key in keys if catalog.slurm_key(key, scope) is None] == [], (name, scope)
    releases = set(catalog.fact("slurm_conf", "releases").value)
    assert set(catalog.fact("slurm_conf", "service_releases").value) <= releases


def test_a_key_is_found_as_the_service_compares_it() -> None:
    key = catalog.slurm_key("preempt_exempt_TIME")
    assert key is not None
    assert (key.name, key.kind) == ("PreemptExemptTime", "time")
    assert catalog.slurm_value({"preempt_mode": "OFF", "PreemptMode": "GANG"}, "PreemptMode") == "GANG"
    assert catalog.slurm_flags_since("PrologFlags", "22.05") == ["ForceRequeueOnFail", "RunInJob"]
