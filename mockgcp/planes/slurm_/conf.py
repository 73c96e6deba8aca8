"""Slurm's configuration, rendered from a cluster as the API stores it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.catalog.slurm_conf import (
    CLUSTER,
    NODE_POOL,
    PARTITION,
    slurm_conf_problems,
    slurm_flags_since,
    slurm_keys,
    slurm_name,
)
from mockgcp.planes.slurm_.addresses import CONTROLLER, Addresses
from mockgcp.planes.slurm_.machine import CONTROLLER_DIR, GPU_FILES
from mockgcp.planes.slurm_.pools import compute_nodes
from mockgcp.planes.slurm_.programs import Programs
from mockgcp.planes.slurm_.times import Times

CONFIG = "/etc/slurm"
_SCRIPTS = ("prolog", "epilog")


@dataclass(frozen=True)
class Conf:
    """The files of /etc/slurm by name, scripts among them. `notices`: what was left out, and why."""

    files: Mapping[str, str]
    notices: tuple[str, ...]


def controller(name: str) -> str:
    """The controller's host name. The service's is not the user's to see."""
    return f"{name}-controller"


def render(name: str, cluster: Mapping[str, Any], programs: Programs, addresses: Addresses, times: Times) -> Conf:
    """The configuration of the cluster with that id.

    Raises:
        RuntimeError: a key or value that would stop this version of Slurm; an unknown machine type.
    """
    spec, keys = cluster["orchestratorSpec"]["slurmSpec"], _Keys(programs)
    conf = {slurm_name(key): (key, value) for key, value in _base(name, spec, addresses, times).items()}
    for key, value in keys.kept(spec.get("config", {}), CLUSTER).items():
        if key == "SchedulerParameters":  # replaces the service's default, not the plane's times
            value = f"{value},{_intervals(times)}"
        conf[slurm_name(key)] = (key, value)
    for key, value in conf.values():
        if key.endswith("Type") and "/" in value and not value.endswith("/none") and not programs.has_plugin(value):
            raise RuntimeError(f"{key}={value}: the plane's Slurm has no such plugin")
    lines = [f"{key}={value}" for key, value in conf.values()]
    of_pool = {each["nodePoolId"]: keys.kept(each.get("config", {}), NODE_POOL) for each in spec.get("nodeSets", [])}
    nodes, gres = compute_nodes(name, cluster), []
    for node in nodes:
        shape, (address, port) = node.pool.shape, addresses.node(node.name)
        line = {
            "NodeName": node.name,
            "NodeAddr": address,
            "Port": str(port),
            "CPUs": str(shape.cpus),
            "RealMemory": str(shape.memory_mb),
            "State": "CLOUD" if node.dynamic else "UNKNOWN",
        }
        if shape.gpus:
            line["Gres"] = f"gpu:{shape.gpus}"
            gres.append(f"NodeName={node.name} Name=gpu File={GPU_FILES}[0-{shape.gpus - 1}]")
        lines.append(_line({**line, **of_pool.get(node.pool.id, {})}))
    default = spec.get("defaultPartitionId") or spec["partitions"][0]["id"]
    for partition in spec["partitions"]:
        members = [node for node in nodes if node.pool.id in partition["nodePoolIds"]]
        line = {"PartitionName": partition["id"]}
        if members:
            line["Nodes"] = ",".join(node.name for node in members)
            line["DefMemPerCPU"] = str(min(node.pool.shape.memory_mb // node.pool.shape.cpus for node in members))
        line |= {"Default": "YES" if partition["id"] == default else "NO", "State": "UP"}
        lines.append(_line({**line, **keys.kept(partition.get("config", {}), PARTITION)}))
    files = {
        "slurm.conf": "\n".join(lines) + "\n",
        "gres.conf": "\n".join(gres) + "\n",
        "slurmdbd.conf": _slurmdbd(controller(name), addresses.accounting_port),
        "resume": _power("resume"),
        "suspend": _power("suspend"),
    }
    for kind in _SCRIPTS:
        files |= _dispatched(kind, spec.get(f"{kind}BashScripts", []))
    return Conf(files, tuple(keys.notices))


class _Keys:
    """Leaves out what this version of Slurm lacks, with a notice, and refuses what would stop it."""

    def __init__(self, programs: Programs) -> None:
        major, minor = programs.release
        self._release = f"{major}.{minor:02}"
        self.notices: list[str] = []

    def kept(self, config: Mapping[str, str], scope: str) -> dict[str, str]:
        known, kept = slurm_keys(scope), {}
        for written, value in config.items():
            key = known.get(slurm_name(written))
            if key is not None and not key.known_in(self._release):
                self._leave_out(key.name)
                continue
            name = key.name if key else written
            newer = slurm_flags_since(name, self._release)
            flags = value.split(",")
            for flag in (each for each in flags if each in newer):
                self._leave_out(f"{name}={flag}")
            if left := ",".join(each for each in flags if each not in newer):
                kept[name] = left
        if problems := slurm_conf_problems(kept, scope, release=self._release):
            raise RuntimeError("; ".join(each.message for each in problems))
        return kept

    def _leave_out(self, what: str) -> None:
        self.notices.append(f"{what} is left out: the plane's Slurm is {self._release}, which does not know it")


def _intervals(times: Times) -> str:
    return f"bf_interval={times.backfill_interval_s},sched_interval={times.backfill_interval_s}"


def _base(name: str, spec: Mapping[str, Any], addresses: Addresses, times: Times) -> dict[str, str]:
    """What the service writes itself, and what the config map may replace."""
    host = controller(name)
    base = {
        "ClusterName": name,
        "SlurmctldHost": f"{host}({CONTROLLER})",
        "SlurmctldPort": str(addresses.controller_port),
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "AuthInfo": f"cred_expire={times.cred_expire_s}",
        "CommunicationParameters": "NoCtldInAddrAny",
        "StateSaveLocation": f"{CONTROLLER_DIR}/state",
        "SlurmdSpoolDir": "/run/slurmd",
        "SlurmctldPidFile": "/run/slurmctld.pid",
        "SlurmdPidFile": "/run/slurmd.pid",
        "ProctrackType": "proctrack/linuxproc",  # the other way is cgroups, which a plain machine may lack
        "JobAcctGatherType": "jobacct_gather/linux",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
        "SlurmdParameters": "config_overrides",
        "MpiDefault": "none",
        "GresTypes": "gpu",
        "ReturnToService": "2",
        "JobRequeue": "1",
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": f"nohold_on_prolog_fail,{_intervals(times)}",
        "SlurmctldParameters": f"idle_on_node_suspend,power_save_interval={times.power_save_interval_s}",
        "SlurmctldLogFile": f"{CONTROLLER_DIR}/slurmctld.log",
        "PriorityCalcPeriod": _clock(times.priority_calc_period_s),
        "PrivateData": "cloud",  # powered-down nodes are shown
        "SlurmdTimeout": str(times.slurmd_timeout_s),
        "KillWait": str(times.kill_wait_s),
        "MessageTimeout": str(times.message_timeout_s),
        "ResumeProgram": f"{CONFIG}/resume",
        "SuspendProgram": f"{CONFIG}/suspend",
        "ResumeTimeout": str(times.resume_timeout_s),
        "SuspendTimeout": str(times.suspend_timeout_s),
        "SuspendTime": str(times.idle_s),
        "ResumeRate": "0",
        "SuspendRate": "0",
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": host,
        "AccountingStoragePort": str(addresses.accounting_port),
        "AccountingStorageTRES": "gres/gpu",
    }
    for kind in _SCRIPTS:
        if spec.get(f"{kind}BashScripts"):
            base[kind.capitalize()] = f"{CONFIG}/{kind}"
    if spec.get("prologBashScripts"):
        base["PrologFlags"] = "Alloc"  # on each node when it is allocated, not before a job's first step there
    return base


def _clock(seconds: int) -> str:
    """PriorityCalcPeriod in minutes and seconds."""
    return f"00:{seconds // 60:02}:{seconds % 60:02}"


def _line(pairs: Mapping[str, str]) -> str:
    """The first pair first; of keys in two spellings the later value."""
    merged = {slurm_name(key): (key, value) for key, value in pairs.items()}
    return " ".join(f"{key}={value}" for key, value in merged.values())


def _slurmdbd(host: str, port: int) -> str:
    return f"""DbdHost={host}
DbdPort={port}
SlurmUser=root
PidFile=/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
"""


def _dispatched(kind: str, scripts: list[str]) -> dict[str, str]:
    """The scripts, and one that runs them in the list's order until one fails. (Slurm's globs go backwards.)"""
    if not scripts:
        return {}
    names = [f"{kind}.d/{index:02}.sh" for index in range(len(scripts))]
    calls = "".join(f"{CONFIG}/{name} || exit $?\n" for name in names)
    return {kind: f"#!/bin/sh\n{calls}", **dict(zip(names, scripts, strict=True))}


def _power(what: str) -> str:
    """Tells the plane which nodes are wanted, or wanted no more; it makes and deletes the machines."""
    return f"""#!/bin/sh
for node in $(scontrol show hostnames "$1"); do : >"{CONTROLLER_DIR}/{what}/$node"; done
"""
