"""`holdfast rehearse slurm` whole, on real Slurm; and what it shows where none can run."""

import json
import signal
from pathlib import Path

import pytest
from rehearsal_rig import Start, end, left_over, until

from holdfast import toolcache
from holdfast.rehearsal import slurm_stage

pytestmark = pytest.mark.engine

STORIES = {
    *("deployed", "policies", "accounting", "access", "preemption", "exclusive", "fair-share"),
    *("prolog-failure", "prologs-in-order", "epilog-failure", "repair", "static-node-again"),
    *("running-update", "static-pool-resized", "expired-node", "idle-node", "usage"),
    *("second-up-changes-nothing", "nothing-left-over"),
}
LIMIT_S = 900  # of a busy machine; two idle cores take less than half


@pytest.mark.planes
@pytest.mark.xdist_group("slurm")
@pytest.mark.skipif(bool(slurm_stage.unavailable()), reason=slurm_stage.unavailable())
def test_the_whole_rehearsal_holds_and_leaves_nothing(start: Start, cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    process = start("slurm", "--json", str(file))
    said, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, said
    report = json.loads(file.read_text(encoding="utf-8"))
    held = {each["name"]: each["held"] for each in report["stories"]}
    assert held.keys() >= STORIES
    assert all(held.values())
    assert (report["bit_exact"], report["restarts"], report["second_up_changes"]) == (True, 1, 0)
    assert report["slurm_version"]
    assert all(each["evidence"] for each in report["stories"])
    assert "PreemptExemptTime" in [each["name"] for each in report["time_overrides"]]
    assert left_over(cache) == []


def test_without_slurm_it_shows_what_it_can_and_says_so(start: Start, tmp_path: Path) -> None:
    cache, file = tmp_path / "other", tmp_path / "report.json"
    (cache / "tools").mkdir(parents=True)
    for tool in (toolcache.root() / "tools").glob("pulumi-[0-9]*"):
        (cache / "tools" / tool.name).symlink_to(tool)
    process = start("slurm", "--json", str(file), cache=cache)
    said, _ = process.communicate(timeout=400)
    assert process.returncode == 0, said
    assert "NOT SHOWN" in said
    report = json.loads(file.read_text(encoding="utf-8"))
    assert report["not_shown"]
    assert {each["name"]: each["held"] for each in report["stories"] if each["name"] != "preflight"} == {
        "deployed": True,
        "policies": True,
        "second-up-changes-nothing": True,
        "nothing-left-over": True,
    }
    assert left_over(cache) == []


@pytest.mark.planes
@pytest.mark.xdist_group("slurm")
@pytest.mark.skipif(bool(slurm_stage.unavailable()), reason=slurm_stage.unavailable())
def test_ctrl_c_while_stories_are_played_leaves_nothing(start: Start, cache: Path) -> None:
    process = start("slurm")
    until(process, "(job ")
    process.send_signal(signal.SIGINT)
    assert "interrupted; everything it started was ended" in end(process)
    assert process.returncode == 130
    assert left_over(cache) == []
