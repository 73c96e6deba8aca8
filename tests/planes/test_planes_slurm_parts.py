"""The parts of the Slurm plane that need no Slurm: its configuration, addresses, users, and what apt is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from slurm_rig import EPILOG, PROLOG, pool, scenario

from holdfast.planes import slurm as recipe
from mockgcp.clock import Clock
from mockgcp.planes.slurm import SlurmPlane
from mockgcp.planes.slurm_.addresses import NODES_MAX, Addresses
from mockgcp.planes.slurm_.conf import Conf, render
from mockgcp.planes.slurm_.pools import Pool
from mockgcp.planes.slurm_.programs import Programs
from mockgcp.planes.slurm_.times import Times
from mockgcp.planes.slurm_.users import Users, os_login_name

PLUGINS = (
    "accounting_storage_slurmdbd",
    "jobacct_gather_linux",
    "preempt_partition_prio",
    "priority_multifactor",
    "proctrack_linuxproc",
    "sched_backfill",
    "select_cons_tres",
)


def rendered(folder: Path, stored: dict[str, Any], version: str = "22.05.8-4") -> Conf:
    plugins = folder / "usr/lib/x86_64-linux-gnu/slurm-wlm"
    plugins.mkdir(parents=True, exist_ok=True)
    for name in PLUGINS:
        (plugins / f"{name}.so").touch()
    addresses = Addresses(folder)
    try:
        return render("flexvm", stored, Programs(folder, {"slurmctld": version}), addresses, Times())
    finally:
        addresses.close()


def spec(stored: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = stored["orchestratorSpec"]["slurmSpec"]
    return found


def test_pools_partitions_and_scripts_become_files(tmp_path: Path) -> None:
    stored = scenario()
    spec(stored)["nodeSets"] = [{"nodePoolId": "dyn", "config": {"weight": "7"}}]
    conf = rendered(tmp_path, stored)
    lines = conf.files["slurm.conf"].splitlines()
    nodes = {line.split()[0]: line for line in lines if line.startswith("NodeName=")}
    assert list(nodes) == [f"NodeName=flexvm-{name}" for name in ("a3u-0", "a3u-1", "dyn-0", "dyn-1")]
    assert "State=UNKNOWN" in nodes["NodeName=flexvm-a3u-0"]
    assert nodes["NodeName=flexvm-dyn-1"].endswith("State=CLOUD Gres=gpu:8 Weight=7")
    partitions = [line.split() for line in lines if line.startswith("PartitionName=")]
    assert [(line[0], "Default=YES" in line) for line in partitions] == [
        ("PartitionName=a3u", True),
        ("PartitionName=high", False),
        ("PartitionName=dyn", False),
        ("PartitionName=alone", False),
    ]
    assert "Nodes=flexvm-dyn-0,flexvm-dyn-1" in partitions[2]
    assert [conf.files[f"prolog.d/0{index}.sh"] for index in (0, 1)] == PROLOG
    assert conf.files["epilog.d/00.sh"] == EPILOG[0]
    assert conf.files["prolog"].splitlines()[1:] == [f"/etc/slurm/prolog.d/0{n}.sh || exit $?" for n in (0, 1)]


def test_a_key_of_the_config_map_replaces_the_services_own_however_it_is_spelled(tmp_path: Path) -> None:
    stored = scenario()
    spec(stored)["config"] = {"kill_wait": "77", "SchedulerParameters": "defer"}
    lines = rendered(tmp_path, stored).files["slurm.conf"].splitlines()
    assert [line for line in lines if line.startswith("KillWait")] == ["KillWait=77"]
    (parameters,) = [line for line in lines if line.startswith("SchedulerParameters=")]
    assert parameters.startswith("SchedulerParameters=defer,bf_interval=")


@pytest.mark.parametrize(
    ("version", "kept", "notices"),
    [("22.05.8-4", "Alloc", ["MaxBatchRequeue", "PrologFlags=RunInJob"]), ("24.11.5-4", "Alloc,RunInJob", [])],
)
def test_what_this_slurm_lacks_is_left_out_with_a_notice(
    tmp_path: Path, version: str, kept: str, notices: list[str]
) -> None:
    stored = scenario()
    spec(stored)["config"] |= {"PrologFlags": "Alloc,RunInJob"}
    conf = rendered(tmp_path, stored, version)
    assert [notice.partition(" is left out")[0] for notice in conf.notices] == notices
    assert f"PrologFlags={kept}" in conf.files["slurm.conf"].splitlines()
    assert ("MaxBatchRequeue=10" in conf.files["slurm.conf"]) is not bool(notices)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("PriorityWeightAgee", "1", "did you mean PriorityWeightAge"),
        ("PriorityWeightAge", "-1", "no whole number"),
        ("TaskType", "task/none", "is no key"),
        ("JobCompType", "jobcomp/elasticsearch", "has no such plugin"),
    ],
)
def test_what_would_stop_slurm_is_refused(tmp_path: Path, key: str, value: str, why: str) -> None:
    stored = scenario()
    spec(stored)["config"][key] = value
    with pytest.raises(RuntimeError, match=why):
        rendered(tmp_path, stored)


def test_a_flex_start_pool_lives_as_long_as_it_says() -> None:
    stored = pool("a3u", 0, 2) | {"effectiveFlexStartMaxDuration": "3600s"}
    assert Pool.of(stored).life_s == 3600
    assert Pool.of({**stored, "provisioningModel": "SPOT"}).life_s is None
    with pytest.raises(RuntimeError, match="machine type 'z9-giga'"):
        Pool.of(pool("odd", 0, 1, machine="z9-giga"))


def test_two_clusters_have_ports_and_addresses_of_their_own(tmp_path: Path) -> None:
    first, second = Addresses(tmp_path), Addresses(tmp_path)
    try:
        nodes = [[each.node(f"n-{index}") for index in range(NODES_MAX)] for each in (first, second)]
        ports = [{port for _, port in each} for each in nodes]
        ports[0] |= {first.controller_port, first.accounting_port}
        assert not ports[0] & {*ports[1], second.controller_port, second.accounting_port}
        assert not {address for address, _ in nodes[0]} & {address for address, _ in nodes[1]}
        assert first.node("n-7") == nodes[0][7]
        with pytest.raises(RuntimeError, match="no more than 125 nodes"):
            first.node("one-more")
        assert f"{nodes[0][7][0]} n-7\n" in first.hosts("controller")
    finally:
        first.close()
        second.close()


@pytest.mark.parametrize(
    ("principal", "name"),
    [
        ("user:ada@example.com", "ada"),
        ("user:Ada.Lovelace@example.com", "ada_lovelace"),
        ("serviceAccount:9to5@p.iam.gserviceaccount.com", "_9to5"),
    ],
)
def test_a_principal_has_a_name_that_linux_takes(principal: str, name: str) -> None:
    assert os_login_name(principal) == name


def test_a_name_that_linux_does_not_take_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'Ada' is no user name"):
        Users(tmp_path / "etc", tmp_path / "home").get("Ada")


def test_without_slurm_the_plane_says_how_to_get_it(tmp_path: Path) -> None:
    plane = SlurmPlane(Clock(), state_dir=tmp_path, programs=None)
    with pytest.raises(RuntimeError, match="not in the tool cache; make planes"):
        plane.start()


def test_where_apt_is_missing_slurm_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(recipe, "version", lambda: None)
    said: list[str] = []
    recipe.bring(said.append)
    assert not recipe.availability().usable
    assert said
    assert said[0].startswith("Slurm is skipped: ")
    assert not recipe.wanted()
