"""Find and load suites: by registered name, by folder, by importable module."""

import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from agentlab.environments.base import SUITES, Suite
from agentlab.environments.folder_package import digest_of, import_from_folder, place_of, shown_path, source_files
from agentlab.errors import AgentLabError, ConfigError, TaskError, unknown_name
from agentlab.tasks import Task

SUITE_FILE = "suite.py"
FACTORY = "load_suite"
EXPECTED = f"Expected: `def {FACTORY}() -> Suite` in {SUITE_FILE}; `agentlab init suite DIR` writes a working one."
SUITE_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)


def load(name: str) -> Suite:
    """Return the suite of that name, folder or module, with its folder and the digest of its source.

    Raises:
        ConfigError: there is none, or it cannot be loaded; says where and what is expected.
        TaskError: a task of it cannot be used.
    """
    if name in SUITES:
        module_name, _, factory = SUITES[name].partition(":")
        module = importlib.import_module(module_name)
        suite: Suite = getattr(module, factory)()
        return dataclasses.replace(suite, folder=_folder_of(module), source_digest=_digest_of(module))
    path = Path(name).expanduser()
    if path.is_dir() or _is_path(name):
        return _load_folder(path.parent if path.name == SUITE_FILE else path)
    refuse_unknown_suite(name)
    return _load_module(name)


def refuse_unknown_suite(name: str) -> None:
    """Raise a `ConfigError` when a name is no registered one, and neither a path nor a module could have it."""
    if name not in SUITES and not _is_path(name) and "." not in name and not Path(name).is_dir():
        hint = "Or name a folder (./my_suite), or an importable module (my_package.suite)."
        raise unknown_name("suite", name, SUITES, hint=hint)


def load_suites(names: Sequence[str]) -> list[Suite]:
    """Return the suites of one experiment, in order.

    Raises:
        ConfigError: as `load`, or two of them have the same name.
        TaskError: a task of a suite cannot be used.
    """
    suites: dict[str, Suite] = {}
    sources: dict[str, str] = {}
    for source in names:
        suite = load(source)
        if suite.name in suites:
            raise ConfigError(
                f"{sources[suite.name]} and {source} are both the suite {suite.name!r}: their runs could not be told "
                "apart. Name it once, or give one of them another name in its suite.py."
            )
        suites[suite.name], sources[suite.name] = suite, source
    return list(suites.values())


def locate(name: str, folder: Path) -> str:
    """Return the name under which `load` finds, from the working directory, what an experiment file names.

    Args:
        name: as written in the experiment file.
        folder: of the experiment file; paths are looked up there first, then in the working directory.

    Raises:
        ConfigError: it is a path, and there is nothing in either place.
    """
    if name in SUITES:
        return name
    path = Path(name).expanduser()
    tried = [folder / path, path]
    found = next((place for place in tried if place.exists()), None)
    if found is not None:
        shown = shown_path(found)
        return shown if _is_path(shown) else f"./{shown}"
    if _is_path(name):
        places = " and ".join(dict.fromkeys(shown_path(place) for place in tried))
        raise ConfigError(f"There is no suite folder {name} (looked for {places}). {EXPECTED}")
    return name


def words_of(error: BaseException) -> str:
    """Return an error of somebody else's code as kind and message; one of agentlab's own as its message."""
    if isinstance(error, AgentLabError):
        return str(error)
    return f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"


def _load_folder(folder: Path) -> Suite:
    if not folder.is_dir():
        raise ConfigError(f"There is no suite folder {folder}. {EXPECTED}")
    if not (folder / SUITE_FILE).is_file():
        raise ConfigError(f"{folder} has no {SUITE_FILE}. {EXPECTED}")
    folder = folder.resolve()
    with _in_words(folder):
        module, digest = import_from_folder(folder, SUITE_FILE.removesuffix(".py"))
    return _suite_of(module, folder, digest)


def _load_module(name: str) -> Suite:
    with _working_directory_importable():
        _refuse_missing(name)
        with _in_words(_top_folder(name)):
            module = importlib.import_module(name)
        return _suite_of(module, _folder_of(module), _digest_of(module))


def _refuse_missing(name: str) -> None:
    """Refuse a module of which a part cannot be found, before any error of the module's own could be meant."""
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        part = ".".join(parts[:length])
        with contextlib.suppress(Exception, SystemExit):  # a parent package that fails says so when it is imported
            if importlib.util.find_spec(part) is None:
                break
    else:
        return
    raise ConfigError(
        f"There is no importable module {name!r}: {part} is not found in the working directory or among the "
        f"installed packages. Install its package, or name its folder as a path: ./{'/'.join(parts[:-1])}"
    )


def _top_folder(name: str) -> Path:
    """The folder of the package that a dotted name begins with."""
    spec = importlib.util.find_spec(name.partition(".")[0])
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0]) if places else Path.cwd()


def _suite_of(module: ModuleType, folder: Path, digest: str) -> Suite:
    """What the module's factory returns, checked for what everything after relies on."""
    with _in_words(folder):
        suite = _factory_of(module)()
    if problem := _problem_of(suite):
        raise ConfigError(f"{_file_of(module)}: {problem}")
    checked: Suite = dataclasses.replace(suite, folder=folder, source_digest=digest)
    return checked


def _factory_of(module: ModuleType) -> Callable[[], Any]:
    factory: Callable[[], Any] | None = getattr(module, FACTORY, None)
    if callable(factory):
        return factory
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    defined = f"It defines {', '.join(own)}. " if own else ""
    raise ConfigError(f"{_file_of(module)} has no function {FACTORY}(). {defined}{EXPECTED}")


def _problem_of(suite: Any) -> str:
    if not isinstance(suite, Suite):
        return f"{FACTORY}() returns {type(suite).__name__}, expected an agentlab.environments.base.Suite."
    if suite.name in SUITES:
        return f"{suite.name!r} is the name of a built-in suite; choose another name, here and in the tasks."
    if not SUITE_NAME.fullmatch(suite.name):
        return f"the name {suite.name!r} cannot be used: letters, digits, _, - and ., at most 64, no space."
    if not suite.tasks:
        return "the suite has no tasks: write one task a line into tasks.jsonl."
    if not all(isinstance(task, Task) for task in suite.tasks):
        return "tasks must be a tuple of agentlab.tasks.Task: tuple(load_tasks(path)) makes one."
    if not callable(suite.make_environment):
        return "make_environment must be a class or function that takes the settings (a dict)."
    return ""


@contextlib.contextmanager
def _in_words(folder: Path) -> Iterator[None]:
    """Turn an error of the suite's own code into one with its line; tasks name their line themselves."""
    try:
        yield
    except TaskError as error:
        shown = f"{shown_path(folder)}/".removeprefix("./")
        raise TaskError(str(error).replace(f"{folder}{os.sep}", shown)) from error
    except (Exception, SystemExit) as error:
        place = place_of(error, folder)
        raise ConfigError(f"{place + ': ' if place else ''}{words_of(error)}{_import_hint(error, folder)}") from error


def _import_hint(error: BaseException, folder: Path) -> str:
    missing = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if not missing:
        return ""
    if missing == folder.name or (folder / f"{missing}.py").exists():
        own = "NAME" if missing == folder.name else missing
        return f". Write `from .{own} import ...`: files of a suite's folder import each other with a dot."
    return ". Is its package installed in this Python environment?"


def _file_of(module: ModuleType) -> str:
    return shown_path(Path(module.__file__)) if module.__file__ else module.__name__


def _folder_of(module: ModuleType) -> Path:
    return Path(module.__file__).resolve().parent if module.__file__ else _top_folder(module.__name__)


@functools.cache
def _digest_of(module: ModuleType) -> str:
    """Digest of the module's package, once: Python does not load a module again when its file changes."""
    folder = _folder_of(module)
    return digest_of(source_files(folder), folder)


def _is_path(name: str) -> bool:
    return name.startswith((".", "~")) or "/" in name or os.sep in name


@contextlib.contextmanager
def _working_directory_importable() -> Iterator[None]:
    """Let modules of the working directory be found, after all others, as `python -m agentlab` does."""
    entry = str(Path.cwd())
    sys.path.append(entry)
    try:
        yield
    finally:
        sys.path.remove(entry)
