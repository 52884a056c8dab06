"""Import the Python files of a folder as a package of its own, without `sys.path` and without cached bytecode.

The package's name follows from the folder's place and the content of its files: two folders with the same file
names keep apart, and an edited folder is imported afresh.
"""

import hashlib
import importlib
import os
import re
import sys
import traceback
from collections.abc import Sequence
from importlib.machinery import FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

DIGEST_CHARS = 12


def import_from_folder(folder: Path, module: str) -> tuple[ModuleType, str]:
    """Return a module of a folder, and the digest of the folder's Python files that it was made from.

    Args:
        folder: absolute; its files import each other with a dot (`from .tools import check`).
        module: name of the file without `.py`.

    Raises:
        Exception: whatever the folder's own code raises while it is imported.
    """
    digest = digest_of(source_files(folder), folder)
    return importlib.import_module(f"{_finder().register(folder, digest)}.{module}"), digest


def source_files(folder: Path) -> list[Path]:
    """Return the Python files of a folder and below, sorted; hidden folders, caches, virtual environments left out."""
    found: list[Path] = []
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not _is_foreign(Path(root) / name)]
        found += [Path(root) / name for name in files if name.endswith(".py")]
    return sorted(found)


def digest_of(files: Sequence[Path], folder: Path) -> str:
    """Return a digest of the names (seen from `folder`) and contents of files."""
    whole = hashlib.sha256()
    for file in files:
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        whole.update(f"{file.relative_to(folder).as_posix()} {content}\n".encode())
    return whole.hexdigest()[:DIGEST_CHARS]


def shown_path(path: Path) -> str:
    """Return a path as a person would write it here: from the working directory where it is near, else absolute."""
    try:
        relative = Path(os.path.relpath(path))
    except ValueError:  # another drive
        return str(path)
    return str(path.resolve()) if relative.parts[:2] == ("..", "..") else relative.as_posix()


def place_of(error: BaseException, folder: Path) -> str | None:
    """Return file, line and text of the last line of the folder's own that an error came through; None without one."""
    if isinstance(error, SyntaxError) and error.filename and _is_below(error.filename, folder):
        return f"{shown_path(Path(error.filename))}, line {error.lineno} (`{(error.text or '').strip()}`)"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_below(frame.filename, folder)]
    if not frames:
        return None
    return f"{shown_path(Path(frames[-1].filename))}, line {frames[-1].lineno} (`{frames[-1].line}`)"


def _is_foreign(folder: Path) -> bool:
    return folder.name.startswith(".") or folder.name == "__pycache__" or (folder / "pyvenv.cfg").exists()


def _is_below(file: str, folder: Path) -> bool:
    return Path(file).is_relative_to(folder) or Path(file).resolve().is_relative_to(folder.resolve())


class _FromSource(SourceFileLoader):
    """Compiles the source each time: cached bytecode counts as fresh when an edit keeps second and size."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


class _FolderFinder:
    """Finds the modules of suite folders, each folder under a package name of its own."""

    def __init__(self) -> None:
        self._folders: dict[str, Path] = {}

    def register(self, folder: Path, digest: str) -> str:
        """Return the package name of a folder in its present state."""
        key = hashlib.sha256(f"{folder}\n{digest}".encode()).hexdigest()[:DIGEST_CHARS]
        name = re.sub(r"\W", "_", folder.name)
        package = f"agentlab_suite_{name}_{key}"
        self._folders[package] = folder
        return package

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """Return the spec of a module of a registered folder; None for all others."""
        package, _, rest = name.partition(".")
        if package not in self._folders:
            return None
        if rest:
            found = (FileFinder(entry, (_FromSource, [".py"])).find_spec(name) for entry in path or ())
            return next((spec for spec in found if spec is not None), None)
        folder = self._folders[package]
        init = folder / "__init__.py"
        loader = _FromSource(name, str(init)) if init.is_file() else None
        spec = ModuleSpec(name, loader, origin=str(init) if loader else None, is_package=True)
        spec.has_location = loader is not None
        spec.submodule_search_locations = [str(folder)]
        return spec


def _finder() -> _FolderFinder:
    """The one finder of this process, in front of Python's own, which would use cached bytecode."""
    found = next((finder for finder in sys.meta_path if isinstance(finder, _FolderFinder)), None)
    if found is None:
        found = _FolderFinder()
        sys.meta_path.insert(0, found)
    return found
