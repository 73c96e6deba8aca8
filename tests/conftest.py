"""What holds for every test: nothing of the caller's clouds in the environment, no deadline, no files left."""

import os
import signal

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
