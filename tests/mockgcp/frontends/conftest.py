"""A provider on an emulated cloud with one project."""

import facts_at_hand
import pytest
from scenario_a import Desk, seeded_cloud

from mockgcp.cloud import Cloud

# What the official provider was seen to do is no part of the project: without it there is nothing to compare with.
collect_ignore = (
    [] if facts_at_hand.SCHEMAS and facts_at_hand.STATES else ["test_pulumi_recorded.py", "test_rest_recorded.py"]
)


@pytest.fixture
def cloud() -> Cloud:
    return seeded_cloud()


@pytest.fixture
def desk(cloud: Cloud) -> Desk:
    return Desk(cloud)
