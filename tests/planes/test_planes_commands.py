"""`holdfast emulate --kubernetes` in one shell, and in another the commands for GKE as a user types them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from commands_rig import Shell, cloud_of, emulated, fit_out, make_cluster

from mockgcp.planes.k8s.programs import Programs

pytestmark = pytest.mark.planes


@pytest.fixture(scope="module")
def shell(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell with a cluster that is fitted out."""
    home = tmp_path_factory.mktemp("home")
    with emulated(home, "--kubernetes") as shell, pytest.MonkeyPatch.context() as monkeypatch:
        cloud = cloud_of(shell)
        make_cluster(cloud)
        fit_out(shell, cloud, programs, home, monkeypatch)
        yield shell


def test_jobs_are_submitted_watched_cancelled_and_run_again(shell: Shell) -> None:
    submitted = shell.submit("first")
    assert "submitted first to user-queue: 1 x 4x4, run id first" in submitted
    for verb in ("watch", "logs", "cancel"):
        assert f"  holdfast {verb} first --stack dev-gke-tpu" in submitted
    # No quota is left on demand.
    running = ("second: running: it runs", "flavor: dws", "Provisioned", "pods: 5 of 5 ready", "under way")
    told = shell.submitted_and_watched("second", until=running)
    waited = r"second: pending: quota of dws is reserved since .*GKE waits for 4 flex-start nodes at once"
    assert re.search(rf"{waited}(?s:.*)second: running", told), told
    assert "second goes on. `holdfast watch second --stack dev-gke-tpu` follows it again" in told
    taken = shell.submit("second", code=1)
    assert "there is a job second already: running. `holdfast watch second --stack dev-gke-tpu` follows it" in taken
    listed = shell.gke("runs")
    assert [line.split()[1] for line in listed.splitlines() if "running" in line] == ["second", "first"]
    assert "is deactivated: its pods get SIGTERM" in shell.gke("cancel", "second", "--yes")
    ended = shell.gke("watch", "second", "--every", "0.2", code=1)
    assert "second was cancelled: its workload was deactivated by hand" in ended
    assert "`holdfast resubmit second --stack dev-gke-tpu` resumes from the checkpoints" in ended
    assert "second is over already: cancelled" in shell.gke("cancel", "second", "--yes", code=1)
    shell.end("first")
    done = shell.gke("watch", "first", "--every", "0.2")
    assert "that was all" in done
    assert "first succeeded" in done
    assert "task 0" in (log := shell.gke("logs", "first"))
    assert log.index("under way") < log.index("step 2") < log.index("that was all")
    # Only now: the nodes that it had by flex-start are there for ten minutes more, and nobody's.
    shell.end("second")
    again = shell.run("resubmit", "second", "--watch", "--every", "0.2")
    assert "resubmitted second: run id second" in again
    assert "second succeeded" in again
    assert "deleted" in shell.gke("cancel", "second", "--delete", "--yes")


def test_what_a_stranger_does_wrong(shell: Shell) -> None:
    wrong = shell.gke("watch", "nope", code=1)
    assert "namespace default has no job nope; `holdfast runs --stack dev-gke-tpu` lists those it has" in wrong
    forgotten = shell.run("watch", "first", code=1)
    assert "This looked at stack dev-cloud-run; --stack dev-gke-tpu or --stack dev-slurm looks at another" in forgotten
    without = shell.run("runs", "--stack", "dev-gke-tpu", code=1, PATH=str(shell.home))
    assert "gke-gcloud-auth-plugin, which gets a token for the cluster, is not on PATH" in without
    assert "Put first on PATH what `holdfast emulate --kubernetes` prints" in without
