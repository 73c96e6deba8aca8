"""Which program a stack runs."""

import pytest

from infra.errors import InputError
from stacks import cloud_run, foundation
from stacks.choose import choose


@pytest.mark.parametrize("stack", ["dev-foundation", "foundation", "prod-eu-foundation"])
def test_a_stacks_name_ends_in_its_module(stack: str) -> None:
    assert choose(stack) is foundation.deploy


def test_configuration_wins_over_the_name() -> None:
    assert choose("dev-foundation", "cloud-run") is cloud_run.deploy


def test_a_name_that_ends_in_no_module_is_refused_with_all_of_them() -> None:
    with pytest.raises(InputError, match=r"'myfoundation'.*\(foundation, cloud-run\)"):
        choose("myfoundation")


def test_an_unknown_module_is_refused_with_all_of_them() -> None:
    with pytest.raises(InputError, match=r"Pulumi\.dev\.yaml, holdfast:stack: 'slurmm'.*foundation, cloud-run"):
        choose("dev", "slurmm")
