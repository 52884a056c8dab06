"""Write a new suite to start from: a working copy of the folder `template` beside this file."""

import re
from pathlib import Path

from agentlab.environments.base import SUITES
from agentlab.errors import ConfigError

TEMPLATE = Path(__file__).with_name("template")
TEMPLATE_NAME = "feature_flags"
"""The name of the suite in the template; every place of it is replaced by the new suite's name."""
FILES = (
    "__init__.py", "suite.py", "environment.py", "tasks.jsonl", "experiment.yaml", "README.md", "README.zh-CN.md",
)  # fmt: skip


def write_suite(folder: Path) -> list[Path]:
    """Write a working suite into a new or empty folder and return the files; the suite is named after the folder.

    Raises:
        ConfigError: the folder is not empty or cannot be written, or its name is that of a built-in suite.
    """
    name = _suite_name(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty, and nothing in it may be overwritten. Name a new folder.")
        written = []
        for file in FILES:
            text = (TEMPLATE / file).read_text(encoding="utf-8").replace(TEMPLATE_NAME, name)
            (folder / file).write_text(text, encoding="utf-8", newline="\n")
            written.append(folder / file)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror or error}. Name another folder.") from error
    return written


def _suite_name(folder: Path) -> str:
    """The folder's name as a suite's name; `my_suite` where nothing of it can be used."""
    name = re.sub(r"\W+", "_", folder.resolve().name.lower(), flags=re.ASCII).strip("_") or "my_suite"
    if name in SUITES:
        raise ConfigError(f"{name!r} is the name of a built-in suite. Choose another name for the folder.")
    return name[:64]
