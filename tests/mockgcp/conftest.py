"""A seeded cloud with its clock held, two projects with the APIs of scenario A enabled, and the owner's client."""

from __future__ import annotations

from pathlib import Path

import pytest
from mockgcp_client import Client, seeded

from mockgcp.cloud import Cloud


@pytest.fixture
def cloud(tmp_path: Path) -> Cloud:
    return seeded(tmp_path / "cloud")


@pytest.fixture
def gcp(cloud: Cloud) -> Client:
    """The owner of both projects."""
    return Client(cloud)
