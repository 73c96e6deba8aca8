"""Which program a stack runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from infra.errors import InputError
from stacks import cloud_run, foundation
from stacks.choose import choose

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("stack", ["dev-foundation", "foundation", "prod-eu-foundation"])
def test_a_stacks_name_ends_in_its_module(stack: str) -> None:
    assert choose(stack) is foundation.deploy


def test_configuration_wins_over_the_name() -> None:
    assert choose("dev-foundation", "cloud-run") is cloud_run.deploy


def test_a_name_that_ends_in_no_module_is_refused_with_all_of_them() -> None:
    with pytest.raises(InputError, match=r"'myfoundation'.*\(foundation, cloud-run, gke-tpu, slurm\)"):
        choose("myfoundation")


def test_an_unknown_module_is_refused_with_all_of_them() -> None:
    with pytest.raises(InputError, match=r"Pulumi\.dev\.yaml, holdfast:stack: 'slurmm'.*foundation, cloud-run"):
        choose("dev", "slurmm")


def test_only_the_chosen_stacks_module_is_imported() -> None:
    program = "import sys; from stacks.choose import choose; choose('foundation'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert {"stacks.foundation", "stacks.cloud_run"} & set(done.stdout.split()) == {"stacks.foundation"}
