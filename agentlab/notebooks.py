"""Execute notebooks strictly (papermill): one process each, unknown parameters refused, failures named.

Papermill only warns about a parameter that no cell reads, and a notebook whose kernel died or timed out looks
completed in its output file; so parameters are checked before and success is never read from the output.
"""

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentlab.errors import AgentLabError, ConfigError, unknown_name
from agentlab.output_places import refuse_unwritable

DEFAULT_TIMEOUT_S = 3600.0
_ALLOWED = "text, true/false, whole and finite numbers, null, and lists or objects of these"


class NotebookFailed(AgentLabError):
    """A notebook did not run to its end; the partial output is kept."""


def execute_notebook(
    path: str | Path,
    out: str | Path,
    parameters: Mapping[str, Any] | None = None,
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> Path:
    """Execute a notebook in a process of its own and return the path of the executed copy.

    Args:
        path: notebook with exactly one cell tagged `parameters`.
        out: executed copy; its folder is made.
        parameters: values for names that the parameters cell assigns.
        timeout_s: limit for the whole notebook.

    Raises:
        ConfigError: no notebook, no or several parameters cells, an unknown parameter, a value that JSON cannot carry,
            or a copy that cannot be written or would overwrite the notebook.
        NotebookFailed: a cell raised, the kernel died, or the time limit was reached.
    """
    source, target = Path(path).resolve(), Path(out).resolve()
    if source == target:
        raise ConfigError(f"The executed copy would overwrite {source.name} itself. Name another file with --out.")
    values = dict(parameters or {})
    valid = parameter_names(source)
    for name, value in values.items():
        if name not in valid:
            raise unknown_name(f"parameter of {source.name}", name, valid)
        _refuse_odd_value(name, value)
    refuse_unwritable(target)
    before = _state_of(target)
    request = json.dumps({"path": str(source), "out": str(target), "parameters": values})
    # MPLBACKEND=agg, common on servers, would leave the notebook without its figures.
    environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    command = [sys.executable, "-m", "agentlab.notebook_process"]
    try:
        done = subprocess.run(
            command,
            input=request,
            text=True,
            encoding="utf-8",
            capture_output=True,
            env=environment,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        kept = f"; what it did is in {target}" if _state_of(target) != before else ""
        raise NotebookFailed(f"{source.name} did not end within {timeout_s:g} s{kept}.") from error
    if done.returncode != 0:
        reason = done.stderr.strip() or f"its process ended with {done.returncode}"
        kept = f"\nThe notebook up to this point: {target}" if _state_of(target) != before else ""
        raise NotebookFailed(f"{source.name}: {reason}{kept}")
    return target


def execute_notebooks(paths: Sequence[str | Path], folder: str | Path) -> dict[Path, NotebookFailed | None]:
    """Execute notebooks one after the other with their own parameters; a failed one does not keep the next back.

    Returns:
        The executed copy of each notebook with its failure; None when it ran to its end.
    """
    done: dict[Path, NotebookFailed | None] = {}
    for path in paths:
        out = Path(folder) / Path(path).name
        try:
            done[execute_notebook(path, out)] = None
        except NotebookFailed as failure:
            done[out.resolve()] = failure
    return done


def parameter_names(path: Path) -> list[str]:
    """Return the names that the notebook's parameters cell assigns.

    Raises:
        ConfigError: the file is missing or no notebook, or has no or several cells tagged `parameters`.
    """
    import ast

    import nbformat

    if not path.exists():
        raise ConfigError(f"There is no notebook {path}.")
    try:
        notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    except Exception as error:  # of many kinds, by what the file holds instead
        raise ConfigError(
            f"{path.name} is no notebook: name a .ipynb file. (An experiment file is run with `agentlab run`.)"
        ) from error
    cells = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    if len(cells) != 1:
        raise ConfigError(f"{path.name} needs exactly one cell tagged 'parameters', it has {len(cells)}.")
    names: list[str] = []
    for node in ast.parse(cells[0].source).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        names += [target.id for target in targets if isinstance(target, ast.Name)]
    return names


def parse_parameters(pairs: Sequence[str]) -> dict[str, Any]:
    """Return `name=value` texts as typed values: numbers, true/false, null, lists; everything else is text.

    Raises:
        ConfigError: a text without `=`.
    """
    import yaml

    values = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise ConfigError(f"A parameter is written name=value, not {pair!r}.")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            value = text
        values[name.strip()] = value if _is_plain(value) and text else text
    return values


def _state_of(file: Path) -> tuple[int, int] | None:
    """What tells a file that was written since from one that was there before; None where there is none."""
    if not file.exists():
        return None
    state = file.stat()
    return state.st_mtime_ns, state.st_ino


def _refuse_odd_value(name: str, value: Any) -> None:
    if not _is_plain(value):
        raise ConfigError(f"Parameter {name} is {value!r} ({type(value).__name__}); a notebook can take {_ALLOWED}.")


def _is_plain(value: Any) -> bool:
    """Would the value arrive in the notebook equal to what was passed, and keep the file strict JSON?"""
    if value is None or type(value) in (str, bool, int):
        return True
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is list:
        return all(_is_plain(item) for item in value)
    return type(value) is dict and all(type(key) is str and _is_plain(item) for key, item in value.items())
