"""`holdfast rehearse slurm` where no Slurm can run, and interrupted. The whole of it is `make rehearse-slurm`."""

import json
import signal
from pathlib import Path

import pytest
from rehearsal_rig import Start, end, left_over, until

from holdfast import toolcache
from holdfast.rehearsal import slurm_stage

pytestmark = pytest.mark.engine


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
    assert {each["name"]: each["held"] for each in report["stories"]} == {
        "preflight": True,
        "deployed": True,
        "policies": True,
        "second-up-changes-nothing": True,
        "nothing-left-over": True,
    }
    assert left_over(cache) == []


@pytest.mark.planes
@pytest.mark.skipif(bool(slurm_stage.unavailable()), reason=slurm_stage.unavailable())
def test_ctrl_c_while_stories_are_played_leaves_nothing(start: Start, cache: Path) -> None:
    process = start("slurm")
    until(process, "(job ")
    process.send_signal(signal.SIGINT)
    assert "interrupted; everything it started was ended" in end(process)
    assert process.returncode == 130
    assert left_over(cache) == []
