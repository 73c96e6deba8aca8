"""What Holdfast finds on this machine: every tool with its version and origin, and the cloud this shell points at.

Reads files and variables only: it calls no cloud, and prints no secret (a token is `set` or absent).
"""

from __future__ import annotations

import configparser
import json
import os
import platform
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Column, Table

from holdfast import bootstrap, engine, planes, toolcache
from holdfast.engine import build, golang
from holdfast.gcp import ENDPOINT

LIBRARIES = {
    "pulumi": "base",
    "pulumi-gcp": "base",
    "pulumi-policy": "base",
    "google-api-python-client": "base",
    "grpcio": "mockgcp",
    "psutil": "mockgcp",
    "jax": "trainer",
    "optax": "trainer",
    "orbax-checkpoint": "trainer",
}
"""Distributions that a rehearsal needs, and the dependency group that brings each."""

OPTIONAL = {
    "buildah": "builds the trainer's image here (make image-test, rehearse --container; root)",
    "debootstrap": "makes the base image of such a build (Debian or Ubuntu; root)",
}
"""Programs of the system that no rehearsal needs, and what for they are used when they are there."""

PROJECT_VARIABLES = ("GOOGLE_PROJECT", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT")
"""Where pulumi-gcp looks for a project when the stack's `gcp:project` is not set, in its order (provider's docs)."""

SECRET_VARIABLES = ("GOOGLE_CREDENTIALS", "GOOGLE_OAUTH_ACCESS_TOKEN", "PULUMI_ACCESS_TOKEN")


@dataclass(frozen=True)
class Tool:
    """One tool or library. `version` is None when it is missing; `way_out` then says what brings it."""

    name: str
    version: str | None
    source: str
    """path, cache, built, venv, or empty when missing."""
    where: str
    needed: bool
    """Whether a rehearsal needs it."""
    way_out: str


@dataclass(frozen=True)
class Setting:
    """One thing the environment says about the cloud, and where it says so."""

    name: str
    value: str
    origin: str


def tools() -> list[Tool]:
    """Every tool and library, found or not."""
    found = engine.find()
    go = golang.find(build.go_minimum())
    libraries = [
        Tool(f"{name} (library)", version, "venv" if version else "", "", True, f"make env (group {group})")
        for name, group in LIBRARIES.items()
        for version in [_installed(name)]
    ]
    host_version = _installed("holdfast") if found and found.language_exec else found.version if found else None
    return [
        Tool("python", platform.python_version(), _python_source(), sys.executable, True, ""),
        _uv(),
        Tool("go", go.version, go.source, str(go.binary), False, "")
        if go
        else Tool("go", None, "", "", False, "make engine brings it, if it has to build"),
        Tool("pulumi", found.version, found.source, str(found.pulumi), True, "")
        if found
        else Tool("pulumi", None, "", "", True, "make engine"),
        Tool("language host", host_version, _host_source(found), str(found.language_host), True, "")
        if found
        else Tool("language host", None, "", "", True, "make engine"),
        *map(_plane, planes.RECIPES),
        *libraries,
        *(_optional(name, use) for name, use in OPTIONAL.items()),
    ]


def cloud(environ: Mapping[str, str]) -> list[Setting]:
    """What the environment says about Google Cloud, Pulumi's backend and Kubernetes, in the order of precedence."""
    home = Path(environ.get("HOME") or Path.home())
    gcloud = Path(environ.get("CLOUDSDK_CONFIG") or home / ".config" / "gcloud")
    name, name_origin = _active_configuration(environ, gcloud)
    core = _core(gcloud / "configurations" / f"config_{name}")
    settings = [Setting("gcloud configuration", name, name_origin)]
    settings += [Setting("project", environ[key], key) for key in PROJECT_VARIABLES if environ.get(key)]
    settings += [
        Setting(key, core[key], f"gcloud configuration {name}")
        for key in ("project", "account", "universe_domain")
        if core.get(key)
    ]
    settings.append(_credentials(environ, gcloud))
    settings += [Setting("secret", "set", key) for key in SECRET_VARIABLES if environ.get(key)]
    backend = environ.get("PULUMI_BACKEND_URL")
    settings.append(
        Setting("Pulumi backend", _without_password(backend), "PULUMI_BACKEND_URL")
        if backend
        else Setting("Pulumi backend", "that of `pulumi login`", "PULUMI_BACKEND_URL is not set")
    )
    if kubeconfig := environ.get("KUBECONFIG"):
        settings.append(Setting("kubeconfig", kubeconfig, "KUBECONFIG"))
    elif (default := home / ".kube" / "config").is_file():
        settings.append(Setting("kubeconfig", str(default), "default"))
    return settings


def warnings(environ: Mapping[str, str]) -> list[str]:
    """What in this shell would make a real deployment go wrong."""
    found = []
    if providers := environ.get("PULUMI_DEBUG_PROVIDERS"):
        found.append(
            f"PULUMI_DEBUG_PROVIDERS={providers}: an `up` in this shell talks to an emulator and would record "
            "resources that do not exist. Unless that is what you want: unset PULUMI_DEBUG_PROVIDERS"
        )
    for key in sorted(environ):
        if environ[key] and (key.startswith("CLOUDSDK_API_ENDPOINT_OVERRIDES_") or key.endswith("_EMULATOR_HOST")):
            found.append(f"{key}={environ[key]}: clients in this shell talk to that host, not to Google. unset {key}")
    if endpoint := environ.get(ENDPOINT):
        found.append(f"{ENDPOINT}={endpoint}: holdfast in this shell calls an emulated cloud. unset {ENDPOINT}")
    projects = {setting.value: setting.origin for setting in cloud(environ) if setting.name == "project"}
    if len(projects) > 1:
        said = ", ".join(f"{value} ({origin})" for value, origin in projects.items())
        found.append(f"more than one project: {said}. Pulumi takes the stack's gcp:project, else the first variable")
    return found


def run(console: Console, *, as_json: bool = False, environ: Mapping[str, str] = os.environ) -> int:
    """Print all of it; 0 when what a rehearsal needs is there, else 1 with the way out a line each."""
    everything, settings, alarms = tools(), cloud(environ), warnings(environ)
    missing = [tool for tool in everything if tool.needed and tool.version is None]
    if as_json:
        report = {
            "ok": not missing,
            "tools": [asdict(tool) for tool in everything],
            "cloud": [asdict(setting) for setting in settings],
            "warnings": alarms,
            "cache": {"path": str(toolcache.root()), "entries": [folder.name for folder in toolcache.entries()]},
        }
        console.file.write(json.dumps(report, indent=2) + "\n")
        return 1 if missing else 0
    _print_tools(console, everything)
    _print_cloud(console, settings)
    for alarm in alarms:
        console.print(f"WARNING: {alarm}", style="bold red", markup=False, highlight=False, soft_wrap=True)
    for tool in missing:
        console.print(f"missing: {tool.name}; {tool.way_out}", style="yellow", markup=False, soft_wrap=True)
    if not missing:
        console.print("All that a rehearsal needs is here.", style="green")
    return 1 if missing else 0


def _print_tools(console: Console, everything: list[Tool]) -> None:
    table = Table("tool", "version", "from", Column("where", overflow="fold"), title="Tools", title_justify="left")
    for tool in everything:
        where = tool.where if tool.version else tool.way_out
        if tool.version and tool.name in OPTIONAL:
            where += f": {OPTIONAL[tool.name]}"
        table.add_row(tool.name, tool.version or "-", tool.source or "missing", where)
    console.print(table)
    cached = ", ".join(folder.name for folder in toolcache.entries()) or "empty"
    console.print(f"cache {toolcache.root()}: {cached}", markup=False, highlight=False, soft_wrap=True)


def _print_cloud(console: Console, settings: list[Setting]) -> None:
    last = Column("from", overflow="fold")
    table = Table("setting", "value", last, title="Cloud (nothing was called)", title_justify="left")
    for setting in settings:
        table.add_row(setting.name, setting.value, setting.origin)
    console.print(table)


def _optional(name: str, use: str) -> Tool:
    """A program of the system. Its version is not asked for: any does."""
    # Where images are built it is looked for there too (sbin is on root's PATH only).
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    way_out = f"optional: {use}; apt-get install {name}"
    return Tool(name, "found" if found else None, "path" if found else "", found or "", False, way_out)


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _python_source() -> str:
    return "venv" if sys.prefix != sys.base_prefix else "path"


def _host_source(found: engine.Engine) -> str:
    return "cache" if found.language_exec else "path"


def _plane(recipe: planes.Recipe) -> Tool:
    entry = recipe.entry()
    if entry.ready:
        return Tool(entry.name, entry.version, "cache", str(entry.path), False, "")
    return Tool(entry.name, None, "", "", False, f"{planes.COMMAND} (for scenario B)")


def _uv() -> Tool:
    if found := bootstrap.find_uv():
        source, binary, version = found
        return Tool("uv", version, source, str(binary), False, "")
    return Tool("uv", None, "", "", False, "make env brings it")


def _active_configuration(environ: Mapping[str, str], gcloud: Path) -> tuple[str, str]:
    if name := environ.get("CLOUDSDK_ACTIVE_CONFIG_NAME"):
        return name, "CLOUDSDK_ACTIVE_CONFIG_NAME"
    active = gcloud / "active_config"
    try:
        return active.read_text().strip() or "default", str(active)
    except OSError:
        return "default", f"no {active}"


def _core(configuration: Path) -> dict[str, str]:
    """The [core] section of a gcloud configuration; empty when there is none or it cannot be parsed."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(configuration)
    except (configparser.Error, UnicodeDecodeError):
        return {}
    return dict(parser["core"]) if parser.has_section("core") else {}


def _credentials(environ: Mapping[str, str], gcloud: Path) -> Setting:
    """Where application default credentials are, present or not; their content is not read."""
    named = environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    path = Path(named) if named else gcloud / "application_default_credentials.json"
    origin = "GOOGLE_APPLICATION_CREDENTIALS" if named else str(path)
    return Setting("application default credentials", "present" if path.is_file() else "absent", origin)


def _without_password(url: str) -> str:
    """A URL without user, password and query, any of which may hold a secret."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
