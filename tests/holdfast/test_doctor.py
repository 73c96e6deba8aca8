from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from holdfast import bootstrap, doctor
from holdfast.doctor import Setting, Tool

PYTHON = Tool("python", "3.11.7", "path", "/usr/bin/python3", True, "")
NO_GO = Tool("go", None, "", "", False, "make engine brings it")
NO_PULUMI = Tool("pulumi", None, "", "", True, "make engine")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a gcloud configuration `work` active, beside one that is not."""
    gcloud = tmp_path / ".config" / "gcloud"
    (gcloud / "configurations").mkdir(parents=True)
    (gcloud / "active_config").write_text("work\n")
    (gcloud / "configurations" / "config_work").write_text("[core]\nproject = ml-prod\naccount = me@example.com\n")
    (gcloud / "configurations" / "config_default").write_text("[core]\nproject = other\n")
    return tmp_path


def _values(settings: list[Setting], name: str) -> list[str]:
    return [setting.value for setting in settings if setting.name == name]


def test_the_active_gcloud_configuration_is_read(home: Path) -> None:
    settings = doctor.cloud({"HOME": str(home)})
    assert _values(settings, "gcloud configuration") == ["work"]
    assert _values(settings, "project") == ["ml-prod"]
    assert _values(settings, "account") == ["me@example.com"]


def test_variables_choose_the_configuration_and_its_folder(home: Path, tmp_path: Path) -> None:
    settings = doctor.cloud({"HOME": str(home), "CLOUDSDK_ACTIVE_CONFIG_NAME": "default"})
    assert _values(settings, "project") == ["other"]
    moved = tmp_path / "moved"
    (home / ".config" / "gcloud").rename(moved)
    assert _values(doctor.cloud({"HOME": "/nowhere", "CLOUDSDK_CONFIG": str(moved)}), "project") == ["ml-prod"]


def test_projects_come_in_the_order_of_precedence(home: Path) -> None:
    environ = {"HOME": str(home), "CLOUDSDK_CORE_PROJECT": "c", "GOOGLE_CLOUD_PROJECT": "b", "GOOGLE_PROJECT": "a"}
    assert _values(doctor.cloud(environ), "project") == ["a", "b", "c", "ml-prod"]
    [warning] = doctor.warnings(environ)
    assert "more than one project" in warning


def test_an_empty_home_is_no_error(tmp_path: Path) -> None:
    settings = doctor.cloud({"HOME": str(tmp_path)})
    assert _values(settings, "gcloud configuration") == ["default"]
    assert _values(settings, "project") == []
    assert _values(settings, "application default credentials") == ["absent"]


def test_a_broken_configuration_is_no_error(home: Path) -> None:
    (home / ".config" / "gcloud" / "configurations" / "config_work").write_text("not an ini file")
    assert _values(doctor.cloud({"HOME": str(home)}), "project") == []


def test_credentials_are_present_or_absent(home: Path) -> None:
    key = home / "key.json"
    environ = {"HOME": str(home), "GOOGLE_APPLICATION_CREDENTIALS": str(key)}
    assert _values(doctor.cloud(environ), "application default credentials") == ["absent"]
    key.write_text("{}")
    assert _values(doctor.cloud(environ), "application default credentials") == ["present"]


def test_no_secret_is_shown(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = home / "key.json"
    key.write_text('{"private_key": "s3cret-key"}')
    monkeypatch.setattr(doctor, "tools", lambda: [PYTHON])
    environ = {
        "HOME": str(home),
        "GOOGLE_APPLICATION_CREDENTIALS": str(key),
        "GOOGLE_OAUTH_ACCESS_TOKEN": "s3cret-token",
        "PULUMI_BACKEND_URL": "https://me:s3cret-word@state.example.com/x?token=s3cret",
        "PULUMI_CONFIG_PASSPHRASE": "s3cret-phrase",
    }
    for as_json in (False, True):
        out = io.StringIO()
        doctor.run(Console(file=out, width=200), as_json=as_json, environ=environ)
        assert "s3cret" not in out.getvalue()
        assert "https://state.example.com/x" in out.getvalue()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PULUMI_DEBUG_PROVIDERS", "gcp:4711"),
        ("CLOUDSDK_API_ENDPOINT_OVERRIDES_RUN", "http://127.0.0.1:1/"),
        ("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1"),
        ("HOLDFAST_API_ENDPOINT", "http://127.0.0.1:1"),
    ],
)
def test_a_shell_that_points_at_an_emulator_is_a_warning(tmp_path: Path, name: str, value: str) -> None:
    [warning] = doctor.warnings({"HOME": str(tmp_path), name: value})
    assert f"{name}={value}" in warning
    assert f"unset {name}" in warning
    assert doctor.warnings({"HOME": str(tmp_path), name: ""}) == []


def test_exit_code_and_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"HOME": str(tmp_path), "PULUMI_DEBUG_PROVIDERS": "gcp:1"}
    monkeypatch.setattr(doctor, "tools", lambda: [PYTHON, NO_GO])
    out = io.StringIO()
    assert doctor.run(Console(file=out, width=200), environ=environ) == 0
    assert "WARNING: PULUMI_DEBUG_PROVIDERS" in out.getvalue()
    monkeypatch.setattr(doctor, "tools", lambda: [PYTHON, NO_PULUMI])
    assert doctor.run(Console(file=out, width=200), environ=environ) == 1
    assert "missing: pulumi; make engine" in out.getvalue()


def test_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "tools", lambda: [PYTHON, NO_PULUMI])
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    out = io.StringIO()
    assert doctor.run(Console(file=out), as_json=True, environ={"HOME": str(tmp_path)}) == 1
    report = json.loads(out.getvalue())
    assert report["ok"] is False
    assert [tool["version"] for tool in report["tools"]] == ["3.11.7", None]
    assert report["cache"] == {"path": str(tmp_path / "cache"), "entries": []}


def test_this_environment_has_the_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    found = {tool.name: tool for tool in doctor.tools()}
    assert found["pulumi (library)"].version
    assert found["pulumi"].version is None
    assert found["pulumi"].way_out == "make engine"
    assert found["language host"].version is None


def test_every_library_that_a_rehearsal_needs_is_of_the_group_that_brings_it() -> None:
    for name, group in doctor.LIBRARIES.items():
        lock = (bootstrap.ROOT / "requirements" / f"{group}.lock").read_text(encoding="utf-8")
        assert f"\n{name}==" in f"\n{lock}", (name, group)
    assert set(doctor.LIBRARIES.values()) == {"base", "mockgcp", "trainer"}


@pytest.mark.parametrize("there", [True, False])
def test_what_builds_images_is_optional_and_named_with_its_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    monkeypatch.setattr(doctor.shutil, "which", lambda name, path="": f"/x/{name}" if there else None)
    optional = [doctor._optional(name, use) for name, use in doctor.OPTIONAL.items()]
    monkeypatch.setattr(doctor, "tools", lambda: [PYTHON, *optional])
    out = io.StringIO()
    assert doctor.run(Console(file=out, width=200), environ={"HOME": str(tmp_path)}) == 0
    for name, use in doctor.OPTIONAL.items():
        row = next(row for row in out.getvalue().splitlines() if f" {name} " in row)
        assert use in row
        assert (f"/x/{name}" if there else f"apt-get install {name}") in row
