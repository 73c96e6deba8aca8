"""What holds for every test: nothing of the caller's clouds in the environment, no deadline, no files left."""

import os
import signal

import pytest
from hypothesis import settings

# A shell that is set up for a deployment must not reach a test, nor a test that deployment.
for name in list(os.environ):
    if name.startswith(("PULUMI_", "GOOGLE_", "CLOUDSDK_", "KUBECONFIG")):
        del os.environ[name]

# What a shell without job control puts into the background ignores SIGINT, and so does all that it starts. Tests
# interrupt programs, as Ctrl-C does.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: other work on the machine is no failure. No database: it would be written into the checkout.
settings.register_profile("holdfast", deadline=None, database=None)
settings.load_profile("holdfast")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first, or one worker would end alone with it."""
    items.sort(key=lambda item: not any(item.get_closest_marker(name) for name in ("planes", "engine", "jax")))
