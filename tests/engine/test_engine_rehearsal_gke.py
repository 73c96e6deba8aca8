"""`holdfast rehearse gke-tpu` where no control plane can run, and when it is interrupted while one comes up."""

import json
import signal
import time
from pathlib import Path

import pytest
from rehearsal_rig import Start, end, left_over, processes_of, until

from holdfast import toolcache
from holdfast.rehearsal import gke_tpu_stage

pytestmark = pytest.mark.engine


@pytest.fixture
def without_planes(tmp_path: Path) -> Path:
    """A cache that has the engine, and nothing of the planes."""
    cache = tmp_path / "other"
    (cache / "tools").mkdir(parents=True)
    for tool in (toolcache.root() / "tools").glob("pulumi-[0-9]*"):
        (cache / "tools" / tool.name).symlink_to(tool)
    return cache


def test_without_a_control_plane_it_shows_what_it_can_and_says_so(
    start: Start, without_planes: Path, tmp_path: Path
) -> None:
    file = tmp_path / "report.json"
    process = start("gke-tpu", "--json", str(file), cache=without_planes)
    said, _ = process.communicate(timeout=400)
    assert process.returncode == 0, said
    assert "NOT SHOWN" in said
    report = json.loads(file.read_text(encoding="utf-8"))
    assert "make planes" in report["not_shown"]
    assert [(each["name"], each["held"]) for each in report["stories"]] == [("preflight", True), ("policies", True)]
    assert (report["resources_created"], report["second_up_changes"], report["plane_versions"]) == (0, -1, {})
    assert left_over(without_planes) == []


@pytest.mark.planes
@pytest.mark.skipif(bool(gke_tpu_stage.unavailable()), reason=gke_tpu_stage.unavailable())
def test_ctrl_c_while_the_control_plane_comes_up_leaves_nothing(start: Start, cache: Path) -> None:
    process = start("gke-tpu")
    until(process, "pulumi preview dev-gke-tpu: ")
    deadline = time.monotonic() + 120
    while not any(each.name() == "etcd" for each in processes_of(cache)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert "interrupted; everything it started was ended" in end(process)
    assert process.returncode == 130
    assert left_over(cache) == []
