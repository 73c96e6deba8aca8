"""The stage of `holdfast rehearse slurm`: its options, the stack's configuration, the cloud that it meets."""

from __future__ import annotations

import copy
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.engine import Engine
from holdfast.planes import slurm as programs
from holdfast.rehearsal import slurm_stories_changes as changes
from holdfast.rehearsal import slurm_stories_health as health
from holdfast.rehearsal import slurm_stories_sharing as sharing
from holdfast.rehearsal import slurm_stories_training as training
from holdfast.rehearsal.frame import Frame
from holdfast.rehearsal.pulumi_cli import Pulumi
from holdfast.rehearsal.report import SlurmReport, TimeOverride
from holdfast.rehearsal.sealed import REPOSITORY, Sealed, StackFile, sealed_environment
from holdfast.rehearsal.slurm_stories import SHARED
from holdfast.rehearsal.stage import RehearsalError, emulated_cloud, operations_override, shipped
from holdfast.toolcache import Progress
from mockgcp.cloud import Cloud
from mockgcp.frontends.pulumi.grpc import serve
from mockgcp.planes.processes import ProcessLedger
from mockgcp.planes.slurm import SlurmPlane
from mockgcp.planes.slurm_.times import QUICK, Times

_EXEMPT = "PreemptExemptTime"
# Jobs that are over before they are looked at have no memory in accounting.
_SAMPLED, _SAMPLED_S = "JobAcctGatherFrequency", 1
_POOL = {"machine": "a3-ultragpu-8g", "provisioning": "FLEX_START", "bootDiskType": "hyperdisk-balanced"}
# Beside the stack's own: static pools of so many nodes, and partitions on them.
_POOLS = {SHARED: 2, health.POOL: 2, changes.POOL: 1}
_PARTITIONS: list[dict[str, Any]] = [
    {"id": sharing.LOW, "pools": [SHARED], "config": {"PriorityTier": "1"}},
    {"id": sharing.HIGH, "pools": [SHARED], "config": {"PriorityTier": "10", "PreemptMode": "OFF"}},
    {"id": sharing.ALONE, "pools": [SHARED], "config": {"PriorityTier": "1", "OverSubscribe": "EXCLUSIVE"}},
    {"id": health.POOL, "pools": [health.POOL]},
    {"id": changes.POOL, "pools": [changes.POOL]},
]


@dataclass(frozen=True)
class Options:
    """What to rehearse.

    Attributes:
        environment: prefix of the stack's name (`dev` for dev-slurm).
        seed: of the weights, the data, and the emulated cloud's ids.
        keep: leave the rehearsal's folder.
    """

    environment: str = "dev"
    seed: int = 0
    keep: bool = False

    @property
    def stack(self) -> str:
        return f"{self.environment}-slurm"


@dataclass(frozen=True)
class Stage:
    """A rehearsal that is set up."""

    frame: Frame
    plane: SlurmPlane


@contextmanager
def staged(
    options: Options, files: dict[str, StackFile], engine: Engine, report: SlurmReport, say: Progress
) -> Iterator[Stage]:
    """The sealed environment with the emulated cloud, its provider and the Slurm plane running in it."""
    with sealed_environment(keep=options.keep) as sealed:
        _add_checks(sealed, files[options.stack].config)
        cloud = emulated_cloud(files, options.seed, sealed.state)
        plane = _plane(cloud, sealed)
        processes = ProcessLedger(sealed.root / "processes.jsonl")
        say(f"sealed environment: {sealed.root}")
        if not report.not_shown:
            plane.start()
            cloud.training_clusters = plane
        try:
            with serve(cloud) as port:
                pulumi = Pulumi(engine, sealed.project, sealed.environ(engine, port), processes)
                yield Stage(Frame(sealed, cloud, (plane,), pulumi, files, report, say), plane)
        finally:
            processes.kill()
            plane.stop()


def _plane(cloud: Cloud, sealed: Sealed) -> SlurmPlane:
    return SlurmPlane(
        cloud.clock,
        state_dir=sealed.state / "slurm",
        programs=programs.find(),
        times=QUICK,
        keep=[REPOSITORY, Path(sys.prefix), Path(sys.base_prefix), sealed.root],
    )


def _add_checks(sealed: Sealed, config: dict[str, Any]) -> None:
    """The rehearsal's own prologs and epilog after the stack's, which are files of the checkout."""
    for kind, texts in health.scripts().items():
        key, files = f"holdfast:{kind}Scripts", []
        for number, text in enumerate(texts):
            file = sealed.root / f"{kind}-{number}.sh"
            file.write_text(text, encoding="utf-8")
            files.append(str(file))
        config[key] = [*(str(REPOSITORY / path) for path in config.get(key) or ()), *files]


def can_train() -> bool:
    """Whether this environment can run the trainer: the dependency group `trainer`."""
    return all(importlib.util.find_spec(module) for module in ("jax", "orbax"))


def configuration(options: Options) -> dict[str, StackFile]:
    """The stack's configuration, with the pools and partitions that the stories need beside its own.

    Raises:
        RehearsalError: the stack names pools or partitions as the rehearsal does, or none at all.
    """
    file = shipped(options.stack)
    config = copy.deepcopy(file.config)
    where = f"stacks/Pulumi.{options.stack}.yaml"
    for key, own in (("pools", _POOLS), ("partitions", {each["id"]: each for each in _PARTITIONS})):
        given = config.setdefault(f"holdfast:{key}", [])
        if not given:
            raise RehearsalError(f"{where} has no holdfast:{key}, and the rehearsal adds to them: write them out")
        if taken := sorted({str(each["id"]) for each in given} & set(own)):
            raise RehearsalError(
                f"{where}, holdfast:{key}: {', '.join(taken)}: the rehearsal adds {key} of these names; choose others"
            )
    config["holdfast:pools"] += [
        {"id": name, **_POOL, "minNodes": nodes, "maxNodes": nodes} for name, nodes in _POOLS.items()
    ]
    config["holdfast:partitions"] += copy.deepcopy(_PARTITIONS)
    exempt_s = sharing.EXEMPT_S
    shortened = {_EXEMPT: f"00:00:{exempt_s}", _SAMPLED: str(_SAMPLED_S)}
    config["holdfast:config"] = {**config.get("holdfast:config", {}), **shortened}
    config["holdfast:deletionProtection"] = False
    return {options.stack: StackFile(config, file.secrets)}


def unavailable() -> str:
    """Why Slurm cannot run here, and the way out; empty where it can."""
    can = programs.availability()
    return "" if can.usable else f"{can.why}: {can.how}"


def overrides(options: Options) -> list[TimeOverride]:
    """The times that a rehearsal shortens."""
    platform, before = Times(), shipped(options.stack).config.get("holdfast:config", {})
    shortened: Mapping[str, tuple[float, float]] = {
        "a machine becomes a node (guess)": (platform.boot_s, QUICK.boot_s),
        "the service notices that a machine is gone (guess)": (platform.notice_s, QUICK.notice_s),
        "a faulty machine is repaired (guess)": (platform.repair_s, QUICK.repair_s),
        "cred_expire, which a requeued job waits": (platform.cred_expire_s, QUICK.cred_expire_s),
        "SlurmdTimeout": (platform.slurmd_timeout_s, QUICK.slurmd_timeout_s),
        "KillWait": (platform.kill_wait_s, QUICK.kill_wait_s),
        "PriorityCalcPeriod": (platform.priority_calc_period_s, QUICK.priority_calc_period_s),
    }
    return [
        *(TimeOverride(name=name, platform=f"{a:g} s", rehearsal=f"{b:g} s") for name, (a, b) in shortened.items()),
        TimeOverride(name=_EXEMPT, platform=str(before.get(_EXEMPT, "none")), rehearsal=f"00:00:{sharing.EXEMPT_S}"),
        TimeOverride(name=_SAMPLED, platform=str(before.get(_SAMPLED, "30 s")), rehearsal=f"{_SAMPLED_S} s"),
        TimeOverride(name="maximum duration of flex-start nodes", platform="7 days", rehearsal="when a story ends it"),
        TimeOverride(
            name="a killed writer's lease of its folder",
            platform="180 s",
            rehearsal=f"{training.settings(0)['HOLDFAST_LEASE_SECONDS']} s",
        ),
        operations_override(),
    ]
