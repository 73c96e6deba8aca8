"""Addresses of pods that really run: no two clusters have one, whatever their folders."""

from pathlib import Path

import pytest

from mockgcp.planes.k8s.addresses import PodAddresses, availability

pytestmark = pytest.mark.planes


@pytest.mark.skipif(not availability().usable, reason=availability().why)
def test_an_address_that_another_cluster_has_is_not_taken(tmp_path: Path) -> None:
    # Of one folder: two others are given the same addresses once in 511 times.
    one, other = PodAddresses(tmp_path), PodAddresses(tmp_path)
    try:
        first = one.take()
        second = other.take()
        assert first != second
        one.give_back(first)
        assert other.take() == first
    finally:
        one.clear()
        other.clear()
