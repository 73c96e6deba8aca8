"""What stands in for a build's step: a builder makes an image's digest out of a source archive.

`Cloud.builder` is the one in use. The default one runs nothing: it reads the archive as `docker build` would begin to,
and derives the digest from what was to be built, so that the same source gives the same image.
Write another (one that really builds, say) against `Builder`: it is called once a build, in the thread that moves the
clock and while the cloud stands still, so it must not call the cloud, and other calls wait until it is done.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
import shlex
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


class BuildFailed(Exception):
    """A step failed; `lines` are what its log says."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class Builder(Protocol):
    """Builds the image of one build, which has one step `docker build`."""

    def build(self, archive: Path, build: Mapping[str, Any]) -> str:
        """The digest (`sha256:` and 64 hexadecimal digits) of the image that `build` makes of `archive` (.tar.gz).

        `build` is the API's Build resource; `docker_build` reads its step's `args`.

        Raises:
            BuildFailed: a step failed.
        """


@dataclass(frozen=True)
class DockerBuild:
    """One step `docker build`. `dockerfile` and `context` are paths in the archive; `unread`: flags not known here."""

    tags: tuple[str, ...] = ()
    dockerfile: str = "Dockerfile"
    context: str = ""
    args: Mapping[str, str] = field(default_factory=dict)
    target: str = ""
    unread: tuple[str, ...] = ()


_FLAGS = {"-t": "tag", "-f": "file", "--tag": "tag", "--file": "file", "--build-arg": "arg", "--target": "target"}


def docker_build(args: Sequence[str]) -> DockerBuild:
    """The arguments of a step, `build` first, read as docker does."""
    found: dict[str, list[str]] = {kind: [] for kind in (*_FLAGS.values(), "unread", "context")}
    rest = list(args[1:])
    while rest:
        word = rest.pop(0)
        flag, has_value, value = word.partition("=")
        if not word.startswith("-"):
            found["context"].append(word)
        elif flag not in _FLAGS or not (has_value or rest):
            found["unread"].append(word)
        else:
            found[_FLAGS[flag]].append(value if has_value else rest.pop(0))
    context = posixpath.normpath(found["context"][-1]) if found["context"] else "."
    dockerfile = found["file"][-1] if found["file"] else posixpath.join(context, "Dockerfile")
    return DockerBuild(
        tags=tuple(found["tag"]),
        dockerfile=posixpath.normpath(dockerfile),
        context="" if context == "." else context,
        args=dict(arg.partition("=")[::2] for arg in found["arg"]),
        target=found["target"][-1] if found["target"] else "",
        unread=(*found["unread"], *found["context"][:-1]),
    )


class ArchiveBuilder:
    """Builds nothing: looks whether the Dockerfile and all that it copies are in the archive."""

    def build(self, archive: Path, build: Mapping[str, Any]) -> str:
        digest = hashlib.sha256(archive.read_bytes())
        try:
            with tarfile.open(archive, "r:gz") as tar:
                names = {posixpath.normpath(member.name): member for member in tar.getmembers()}
                step = docker_build(build["steps"][0]["args"])
                _check(tar, names, step)
        except (tarfile.TarError, EOFError, OSError) as error:
            raise BuildFailed(f"the source is not a gzipped tar archive: {error}") from error
        except ValueError as error:  # quotes or brackets that do not close
            raise BuildFailed(f"Dockerfile parse error: {error}") from error
        made = [step.dockerfile, step.context, step.target, dict(sorted(step.args.items()))]
        digest.update(json.dumps(made).encode())
        return f"sha256:{digest.hexdigest()}"


def _check(tar: tarfile.TarFile, names: Mapping[str, tarfile.TarInfo], step: DockerBuild) -> None:
    member = names.get(step.dockerfile)
    content = tar.extractfile(member) if member is not None else None
    if content is None:
        raise BuildFailed(
            f"unable to prepare context: unable to evaluate symlinks in Dockerfile path: {step.dockerfile}"
        )
    lines = list(_instructions(content.read().decode("utf-8", "replace")))
    if not any(line.split(None, 1)[0].upper() == "FROM" for line in lines):
        raise BuildFailed(f"{step.dockerfile}: no build stage in current context")
    for number, line in enumerate(lines, 1):
        for source in _sources(line):
            pattern = _pattern(posixpath.normpath(posixpath.join(step.context, source.lstrip("/"))))
            if not any(pattern.match(name) for name in names):
                raise BuildFailed(
                    f"Step {number}/{len(lines)} : {line}",
                    f"COPY failed: file not found in build context or excluded by .dockerignore: stat {source}: "
                    "file does not exist",
                )


def _instructions(text: str) -> Iterator[str]:
    """A Dockerfile's instructions, each on one line. Here-documents are no instructions of their own."""
    joined = re.sub(r"\\[ \t]*\n(?:[ \t]*#[^\n]*\n)*", " ", text)
    here = ""
    for line in joined.splitlines():
        stripped = line.strip()
        if here:
            here = "" if stripped == here else here
        elif stripped and not stripped.startswith("#"):
            yield stripped
            found = re.search(r"<<-?[\"']?(\w+)", stripped)
            here = found[1] if found else ""


def _sources(line: str) -> list[str]:
    """What an instruction takes from the build context."""
    verb, _, rest = line.partition(" ")
    if verb.upper() not in ("COPY", "ADD") or "<<" in rest:
        return []
    words = json.loads(rest) if rest.lstrip().startswith("[") else shlex.split(rest)
    if any(word.startswith("--from") for word in words):
        return []
    paths = [word for word in words if not word.startswith("--")][:-1]
    # Build arguments and remote sources are the real builder's business.
    return [path for path in paths if "$" not in path and "://" not in path]


def _pattern(path: str) -> re.Pattern[str]:
    """What `path` matches in the archive: the file, or a folder by what is in it; `*` and `?` as docker has them."""
    if path in (".", ""):
        return re.compile("")
    text = re.escape(path).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
    return re.compile(rf"{text}(/|$)")
