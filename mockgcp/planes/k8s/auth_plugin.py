"""A stand-in for `gke-gcloud-auth-plugin`, which kubeconfigs of GKE name for their credentials."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

NAME = "gke-gcloud-auth-plugin"


def write(folder: Path, token: str) -> Path:
    """Writes the plugin into a folder, to be put on PATH: it says the token, which the plane's clusters alone take."""
    folder.mkdir(parents=True, exist_ok=True)
    credential = {"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential"}
    kept = folder / f".{NAME}.json"
    with open(os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump({**credential, "status": {"token": token}}, file)
    plugin = folder / NAME
    plugin.write_text(f"#!/bin/sh\nexec cat {shlex.quote(str(kept.absolute()))}\n")
    plugin.chmod(0o755)
    return plugin
