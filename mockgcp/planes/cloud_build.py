"""Cloud Build's steps for real: `docker build` of a source archive by buildah, and the images for the Cloud Run plane.

`Cloud.builder = BuildahBuilder(...)` puts it in the place of the builder that builds nothing.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mockgcp.builder import BuildFailed, DockerBuild, docker_build
from mockgcp.planes.container import Buildah, ContainerError, ContainerImage

BASE_ARG = "BASE"
"""The build argument that names the image to start from."""


class BuildahBuilder:
    """Builds each step's image with buildah.

    Args:
        buildah: where images are kept.
        base: an OCI layout. It stands in for the image that the build argument BASE names, since no registry can be
            reached.
        volumes: files of this machine that steps see while they run and images do not keep, by their paths there: how
            its builds reach package registries.
        say: told of each step as it begins.
    """

    def __init__(
        self,
        buildah: Buildah,
        base: Path,
        *,
        volumes: Mapping[str, Path] | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._buildah, self._base, self._volumes, self._say = buildah, base, volumes or {}, say
        self.images: dict[str, ContainerImage] = {}
        """What was built, by reference and digest: HOST/PROJECT/REPOSITORY/NAME@sha256:..."""

    def build(self, archive: Path, build: Mapping[str, Any]) -> str:
        self._buildah.store.mkdir(parents=True, exist_ok=True)
        source = Path(tempfile.mkdtemp(prefix="source-", dir=self._buildah.store))
        try:
            with tarfile.open(archive, "r:gz") as tar:
                tar.extractall(source, filter="data")
            digest = ""
            for step in build["steps"]:
                digest = self._docker_build(docker_build(step["args"]), source)
        except (ContainerError, tarfile.TarError, OSError) as error:
            raise BuildFailed(*str(error).splitlines()) from error
        finally:
            shutil.rmtree(source, ignore_errors=True)
        return digest

    def _docker_build(self, step: DockerBuild, source: Path) -> str:
        args = dict(step.args)
        if BASE_ARG in args:
            self._say(f"no registry can be reached here: {self._base} stands in for {args[BASE_ARG]}")
            args[BASE_ARG] = self._stored_base()
        flags = [f"--volume={path}:{inside}:ro" for inside, path in self._volumes.items()]
        flags += [f"--build-arg={name}={value}" for name, value in args.items()]
        flags += [f"--tag={tag}" for tag in step.tags] + ([f"--target={step.target}"] if step.target else [])
        iid = source / ".image-id"
        self._buildah.run(
            *("bud", "--isolation=chroot", "--pull-never", f"--iidfile={iid}", f"--file={step.dockerfile}"),
            *flags,
            step.context or ".",
            cwd=source,
            on_line=lambda line: self._say(line) if " STEP " in line or line.startswith("STEP ") else None,
        )
        image = iid.read_text(encoding="utf-8").strip()
        digest = self._buildah.digest(image)
        unpacked = self._buildah.unpack(image)
        self.images |= {f"{tag.rpartition(':')[0]}@{digest}": unpacked for tag in step.tags}
        return digest

    def _stored_base(self) -> str:
        """The base image's id in the store, fetched if need be."""
        # Relative, since buildah makes a name in the store of the path, and no part of such may begin with a dot.
        return self._buildah.run("pull", "--quiet", f"oci:{self._base.name}", cwd=self._base.parent)[-1]
