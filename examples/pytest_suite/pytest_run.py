"""Run `python -m pytest` in a process of its own, with a time limit, and read its report."""

import contextlib
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from agentlab.secrets import KEY_VARIABLES

NO_TESTS_COLLECTED = 5


@dataclass(slots=True)
class PytestReport:
    """What pytest reported; a test is named `tests/test_total.py::test_sum`."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Test -> the first line of why."""
    skipped: list[str] = field(default_factory=list)
    broken: str = ""
    """Why the tests could not even be collected; empty when they were."""


def run_pytest(folder: Path, path: str, timeout_s: float) -> PytestReport | None:
    """Return the report on a test file of a project folder; None when pytest did not end in time.

    Raises:
        RuntimeError: pytest could not be run at all (it is not installed, or it ended without a report).
    """
    with tempfile.TemporaryDirectory(prefix="agentlab-pytest-") as scratch:
        report, log = Path(scratch) / "report.xml", Path(scratch) / "log.txt"
        command = [sys.executable, "-m", "pytest", path, "--quiet", f"--junitxml={report}", "-p", "no:cacheprovider"]
        # The output goes to a file: a pipe would stay open as long as any process that the tests started.
        with log.open("wb") as output:
            process = subprocess.Popen(command, cwd=folder, env=_variables(), stdout=output, stderr=output)
            try:
                status = process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                return None
            finally:
                _end(process)
        if not report.exists():
            said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise RuntimeError(f"pytest ended with status {status}: {said[-1] if said else 'it said nothing'}")
        text = report.read_text(encoding="utf-8")
        # The place of the folder differs from run to run, which is nothing that a model should see.
        return _read(ElementTree.fromstring(text.replace(f"{folder}{os.sep}", "")), path, status)


def _variables() -> dict[str, str]:
    """The process's variables, without keys of model servers, and without plug-ins of this Python environment."""
    kept = {name: value for name, value in os.environ.items() if name not in (*KEY_VARIABLES, "PYTEST_ADDOPTS")}
    return {**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and all that it started."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
    process.kill()
    process.wait()


def _read(report: ElementTree.Element, path: str, status: int) -> PytestReport:
    result = PytestReport()
    if status == NO_TESTS_COLLECTED:
        result.broken = "There are no tests in it."
    for case in report.iter("testcase"):
        name = _name(path, case.get("classname", ""), case.get("name", ""))
        fault = next((case.find(kind) for kind in ("failure", "error") if case.find(kind) is not None), None)
        if fault is None:
            (result.passed if case.find("skipped") is None else result.skipped).append(name)
        elif "collection" in fault.get("message", ""):
            lines = [line for line in (fault.text or "").splitlines() if line.startswith("E ")]
            result.broken = lines[-1].removeprefix("E").strip() if lines else fault.get("message", "")
        else:
            result.failed[name] = fault.get("message", "").splitlines()[0]
    return result


def _name(path: str, classname: str, name: str) -> str:
    """The test as pytest names it on the command line; `classname` is the module and, where there is one, a class."""
    module = path.removesuffix(".py").replace("/", ".")
    inner = classname.removeprefix(module).strip(".").replace(".", "::")
    return "::".join(part for part in (path, inner, name) if part)
