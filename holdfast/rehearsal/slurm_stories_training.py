"""A node's end under the project's trainer, and the end of one that nobody uses."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.rehearsal import ray_training, slurm_record, training
from holdfast.rehearsal.report import Story
from holdfast.rehearsal.sealed import REPOSITORY
from holdfast.rehearsal.slurm_record import Record, story
from holdfast.rehearsal.slurm_scene import Take
from holdfast.runs import verbs
from holdfast.runs.slurm_job import SlurmOrder
from workloads.trainer.events import read_events

JOB = "expiring"
NODES = 2
STEPS = 20
OPERATOR = "root"
"""Who trains: this machine's interpreter may lie where no other user may read."""
_STEP_S = 0.5
# That a node does not come back has no moment at which it is certain.
_IDLE_S = 15.0


def settings(seed: int) -> Mapping[str, str]:
    """The trainer's variables."""
    return {**training.settings(seed, STEPS, _STEP_S), **ray_training.SETTINGS}


def expired_node(take: Take) -> None:
    scene = take.scene
    folder = scene.home / OPERATOR / "checkpoints" / JOB / JOB / "0"
    state = scene.frame.sealed.state
    image, wanted = training.image(state), settings(scene.seed)
    take.stack = {"nodes": NODES, "steps": STEPS}
    order = SlurmOrder(
        name=JOB,
        program=f"{sys.executable} -m workloads.trainer",
        env={**wanted, **image.env},
        nodes=NODES,
        workdir=str(REPOSITORY),
        checkpoint_dir=f"/home/{OPERATOR}/checkpoints",
    )
    with scene.steady():  # a change in between would hold the end up, and the job would be done before
        scene.say(f"  submit {JOB}")
        take.ids[JOB] = verbs.submit(scene.backend, order, scene.say).name
        take.until_state(JOB, "RUNNING")
        nodes = slurm_record.last(take.record, JOB)["NodeList"]
        first = take.tell("the first node", "scontrol", "show", "hostnames", nodes).splitlines()[0]
        take.until(
            lambda record: _beyond_a_checkpoint(folder), f"{JOB} trains on {NODES} nodes, a checkpoint behind it"
        )
        scene.cluster.nodes.expire(first)
        scene.say(f"  {first} expires, without SIGTERM")
    over = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")
    take.until(
        lambda record: slurm_record.restarts(record, JOB) > 0 or slurm_record.state(record, JOB) in over,
        f"{JOB} is requeued",
    )
    take.until_state(JOB, *over)
    take.training["events"] = _events(folder)
    if slurm_record.state(take.record, JOB) == "COMPLETED":
        scene.say("  an undisturbed run of the same seed, and the final checkpoints compared bit for bit")
        take.training["compared"] = training.compare_with_undisturbed(
            [folder], wanted, state / "undisturbed", image, scene.frame.pulumi.processes, NODES
        )


def expired_node_story(record: Record) -> Story:
    events, stack = record.training.get("events", []), record.stack
    last = max((number for number, each in enumerate(events) if each["event"] == "start"), default=0)
    first, second = events[:last], events[last:]
    resumed = [each["from_step"] for each in second if each["event"] == "resumed"]
    steps = {each["step"] for each in events if each["event"] == "step"}
    compared = record.training.get("compared", [])
    node, times = record.said.get("the first node", "").partition("\n")[0], slurm_record.times(record, JOB)
    checks = {
        "the node's maximum duration ended it": slurm_record.happened(record, "VM_DELETION", node),
        "requeued once, and completed": slurm_record.ends(record, JOB)[1:] == ["COMPLETED"]
        and slurm_record.restarts(record, JOB) == 1
        and len(times) == 2
        and times[0][1] <= times[1][0],
        "killed without a word": bool(first) and not {"sigterm", "exit", "done"} & {each["event"] for each in first},
        "resumed from the last checkpoint": training.resumed_from_the_last(first, second),
        "every step done": steps == set(range(1, stack.get("steps", 0) + 1)),
        "bit for bit as an undisturbed run": bit_exact(record),
    }
    arrays = sum(each.get("leaves", 0) for each in compared)
    return story(
        "expired-node",
        record,
        checks,
        f"{stack.get('nodes')} processes train on as many nodes; one node's end kills the job without a signal; Slurm "
        "requeues it, another node comes, the trainer resumes from its last checkpoint, and its final weights are "
        "those of an undisturbed run",
        "nothing; the steps since the last checkpoint are done twice, so choose HOLDFAST_CHECKPOINT_EVERY by what they "
        "cost",
        f"resumed from step {resumed}, {arrays} arrays compared" if resumed else "",
    )


def bit_exact(record: Record) -> bool:
    """Whether the final weights were compared, and none differed."""
    compared = record.training.get("compared", [])
    return bool(compared) and all(each.get("bit_exact") is True for each in compared)


def idle_node(take: Take) -> None:
    """Plays after a job has left the dynamic nodes idle; brings one itself where none did."""
    scene, pool = take.scene, take.pools[0]
    names = scene.nodes(pool)

    def there(record: Record) -> str | None:
        return next((name for name in names if slurm_record.is_idle(record, name)), None)

    if there(take.record) is None:
        take.submit("visitor", "true", f"--partition={_partition(scene.config, pool)}", user="ada")
        take.until_state("visitor", "COMPLETED")
    take.until(there, "a dynamic node is idle")
    node = there(take.record)
    assert node is not None
    take.stack = {"node": node, "seconds": _IDLE_S}
    scene.cluster.nodes.expire(node)
    take.until(lambda record: not record.nodes[node][-1]["machine"], f"{node}, idle, expires")
    take.until(lambda record: slurm_record.was(record, node, "POWERED_DOWN"), f"Slurm knows that {node} is off")
    scene.pause(_IDLE_S)


def idle_node_story(record: Record) -> Story:
    node = record.stack.get("node", "")
    history = record.nodes.get(node) or [{"at": 0, "machine": "?", "slurm": ""}]
    gone = next((number for number, each in enumerate(history) if not each["machine"]), len(history))
    checks = {
        "its machine expired": slurm_record.happened(record, "VM_DELETION", node) and gone < len(history),
        "none was made again": not any(each["machine"] for each in history[gone:])
        and len(slurm_record.machines(record, node)) == 1,
        "Slurm has it for later": "POWERED_DOWN" in history[-1]["slurm"].split("+"),
    }
    return story(
        "idle-node",
        record,
        checks,
        "a dynamic node that expires while no job waits is not replaced; it comes again for the next job",
        "nothing: an idle pool of minNodes 0 costs nothing",
        f"{node} was gone for {record.stack.get('seconds', 0):g} s and more",
    )


def _partition(config: Mapping[str, Any], pool: str) -> str:
    return str(next(each["id"] for each in config["holdfast:partitions"] if pool in each["pools"]))


def _events(folder: Path) -> list[dict[str, Any]]:
    return [dict(each) for each in read_events(folder / "events.jsonl")]


def _beyond_a_checkpoint(folder: Path) -> bool:
    events = [each["event"] for each in _events(folder)]
    return "saved" in events and "step" in events[events.index("saved") :]
