"""How long things take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Times:
    """Seconds; those of machines by the cloud's clock, Slurm's own by the wall's. The defaults are the platform's.

    `boot_s`: a machine to become a node. `life_s`: a flex-start node's maximum duration, instead of its pool's.
    `notice_s`: the service to notice that a machine is gone, and to tell Slurm. `repair_s`: a faulty machine's repair.
    `settle_s`: a lost dynamic node to be made available again.
    `idle_s`: a dynamic node without jobs to be taken away. `cred_expire_s`: a requeued job to wait; the rest are
    slurm.conf's keys of that name. boot_s, notice_s, repair_s and idle_s are guesses: the service says none.
    """

    boot_s: float = 60.0
    life_s: float | None = None
    notice_s: float = 60.0
    repair_s: float = 600.0
    idle_s: int = 300
    settle_s: float = 120.0
    cred_expire_s: int = 120
    slurmd_timeout_s: int = 300
    suspend_timeout_s: int = 30
    resume_timeout_s: int = 600
    kill_wait_s: int = 30
    message_timeout_s: int = 10
    backfill_interval_s: int = 30
    priority_calc_period_s: int = 300
    power_save_interval_s: int = 10


QUICK = Times(
    boot_s=0.5,
    notice_s=0.5,
    repair_s=1.0,
    settle_s=15.0,
    cred_expire_s=5,
    slurmd_timeout_s=10,
    suspend_timeout_s=2,
    resume_timeout_s=30,
    kill_wait_s=2,
    backfill_interval_s=2,
    priority_calc_period_s=1,
    power_save_interval_s=1,
)
"""For rehearsals: what would be minutes is seconds."""
