"""`python -m mockgcp`: an emulated Google Cloud on this machine, for any client of its APIs, until it is ended."""

from __future__ import annotations

import typer

from mockgcp import emulator, options


def main(
    project: options.Project = options.PROJECT,
    port: options.Port = 0,
    state_dir: options.StateDir = None,
    universe: options.Universe = options.UNIVERSE,
    image: options.Images = None,
    gpu_quota: options.GpuQuota = 0,
    tpu_quota: options.TpuQuota = 0,
    operations: options.Operations = None,
) -> None:
    """Serve an emulated Google Cloud with one new project, its clock running and its Cloud Run jobs as processes.

    A request's bearer token is its principal, user:NAME@DOMAIN; without one it is the owner. All state but the files in
    --state-dir is lost at the end. `holdfast emulate` does the same, and runs the control planes of GKE clusters too.
    """
    settings = emulator.Settings(project, universe, emulator.images(image or []), gpu_quota, tpu_quota, operations)
    ended = emulator.ended()
    with (
        emulator.created(settings, state_dir) as (cloud, root),
        emulator.served(cloud, settings, root, port) as address,
    ):
        print(f"An emulated Google Cloud with the project {project}. Ctrl-C ends it. To use it from holdfast:")
        print(f"export HOLDFAST_API_ENDPOINT={address}", flush=True)
        ended.wait()


if __name__ == "__main__":
    typer.run(main)
