from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import toolcache


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_root_order() -> None:
    assert toolcache.root({"HOLDFAST_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}) == Path("/a")
    assert toolcache.root({"XDG_CACHE_HOME": "/b", "HOME": "/c"}) == Path("/b/holdfast")
    assert toolcache.root({"HOME": "/c"}) == Path("/c/.cache/holdfast")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26, 8)),
        ("v3.274.1", (3, 274, 1)),
        ("uv 0.13.9 (x86_64-unknown-linux-gnu)", (0, 13, 9)),
        ("3.280.0-alpha.1", (3, 280, 0)),
        ("command not found", ()),
    ],
)
def test_version_key(text: str, key: tuple[int, ...]) -> None:
    assert toolcache.version_key(text) == key


def test_versions_compare_as_numbers() -> None:
    assert toolcache.version_key("1.9.9") < toolcache.version_key("1.26.6")
    assert toolcache.version_key("no version") < toolcache.version_key("0.1")


def test_recipe_hash_keeps_parts_apart() -> None:
    assert toolcache.recipe_hash("ab", "c") != toolcache.recipe_hash("a", "bc")
    assert toolcache.recipe_hash("ab", "c") == toolcache.recipe_hash(b"ab", "c")


def test_a_tool_is_built_once_and_listed() -> None:
    wanted = toolcache.entry("tool", "1.0", "f" * 64)
    built: list[Path] = []

    def build(folder: Path, log: Path) -> None:
        built.append(folder)
        assert not wanted.ready
        (folder / "bin").mkdir()

    for _ in range(2):
        assert toolcache.ensure(wanted, build, print) == wanted.path
    assert len(built) == 1
    assert (wanted.path / "bin").is_dir()
    assert toolcache.entries() == [wanted.path]
    assert not wanted.log.exists()


def test_another_recipe_is_another_entry() -> None:
    assert toolcache.entry("tool", "1.0", "a" * 64).path != toolcache.entry("tool", "1.0", "b" * 64).path


def test_a_failed_build_leaves_only_its_log() -> None:
    wanted = toolcache.entry("tool", "1.0", "0" * 64)

    def build(folder: Path, log: Path) -> None:
        (folder / "half").write_text("made")
        log.write_text("gcc: no such file\n")
        raise OSError("exit code 2")

    with pytest.raises(toolcache.ToolError, match=r"(?s)tool 1\.0 .*exit code 2.*gcc: no such file.*tool-1\.0-0+\.log"):
        toolcache.ensure(wanted, build, print)
    assert wanted.log.read_text() == "gcc: no such file\n"
    assert list(wanted.path.parent.iterdir()) == []
    toolcache.ensure(wanted, lambda folder, log: None, print)
    assert wanted.ready
    assert not wanted.log.exists()


def test_what_a_killed_builder_left_is_removed() -> None:
    wanted = toolcache.entry("tool", "1.0", "0" * 64)
    partial = wanted.path.with_name(wanted.key + ".partial")
    partial.mkdir(parents=True)
    (partial / "half").write_text("made")
    assert toolcache.entries() == []
    toolcache.ensure(wanted, lambda folder, log: None, print)
    assert list(wanted.path.iterdir()) == []


BUILDER = """
import sys, time
from pathlib import Path
from holdfast import toolcache

def build(folder, log):
    with open(sys.argv[1], "a") as out:
        out.write("built\\n")
    (folder / "one").write_text("1")
    time.sleep(0.3)
    (folder / "two").write_text("2")

print("ready", flush=True)
sys.stdin.readline()
folder = toolcache.ensure(toolcache.entry("tool", "1", "e" * 64), build, print)
print(sorted(p.name for p in folder.iterdir()))
"""


def test_two_processes_build_once_and_both_see_the_whole(tmp_path: Path) -> None:
    count = tmp_path / "count"
    command = [sys.executable, "-c", BUILDER, str(count)]
    root = Path(toolcache.__file__).parent.parent
    both = [
        subprocess.Popen(command, cwd=root, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)
    ]
    for process in both:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in both:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate(timeout=30)[0].splitlines() for process in both]
    assert [lines[-1] for lines in said] == ["['one', 'two']"] * 2
    assert count.read_text() == "built\n"


def test_a_cache_that_cannot_be_made_says_how_to_move_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(toolcache.ToolError, match="set HOLDFAST_CACHE"):
        toolcache.ensure(toolcache.entry("tool", "1", "0" * 64), lambda folder, log: None, print)
