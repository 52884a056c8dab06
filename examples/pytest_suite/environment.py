"""The environment: a copy of a Python project in a folder of the run, and the tools that look at it and test it."""

import copy
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentlab.environments.changes import starting_state
from agentlab.errors import EnvironmentUnavailable, unknown_name
from agentlab.records import JsonObject, ToolResult
from agentlab.tasks import Task
from agentlab.tools import Tool, tool, tools_of

from .pytest_run import run_pytest

PROJECT = Path(__file__).with_name("project")
DEFAULT_TIMEOUT_S = 30.0


class ProjectTools:
    """The tools of one run."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self.folder = Path()
        self.files: dict[str, str] = {}

    @tool(zh="列出项目的文件。")
    def list_files(self) -> ToolResult:
        """List the files of the project."""
        return ToolResult(True, data=sorted(self.files))

    @tool(zh="读取项目中的一个文件。")
    def read_file(self, path: str) -> ToolResult:
        """Read a file of the project.

        Args:
            path: Path of the file as listed.
        """
        if path not in self.files:
            return _not_found(path)
        return ToolResult(True, subject=path, data=self.files[path])

    # pytest has its own, shorter limit; a run that took too long would take as long again, so it is not repeated.
    @tool(timeout_s=600, max_retries=0, zh="用 pytest 运行一个测试文件，检查其中的测试是否全部通过。")
    def run_tests(self, path: str) -> ToolResult:
        """Run a test file with pytest and check whether all its tests pass.

        Args:
            path: Path of the test file, for example tests/test_x.py.
        """
        if path not in self.files:
            return _not_found(path)
        try:
            report = run_pytest(self.folder, path, self._timeout_s)
        except RuntimeError as error:
            raise EnvironmentUnavailable(f"{error}. Is pytest installed? python -m pip install pytest") from error
        if report is None:
            message = f"The tests did not end within {self._timeout_s:g} s; they were stopped."
            return ToolResult(False, subject=path, error_kind="timed_out", message=message)
        if report.broken:
            return ToolResult(False, subject=path, error_kind="not_collected", message=report.broken)
        data = {"passed": report.passed, "failed": report.failed, "skipped": report.skipped}
        # The file as a whole is the check; each test is a criterion of its own for tasks that ask for it.
        tests = {f"test_passes@{name}": "passed" for name in report.passed}
        tests |= {f"test_passes@{name}": "failed" for name in report.failed}
        message = f"{len(report.passed)} passed, {len(report.failed)} failed, {len(report.skipped)} skipped."
        passed = not report.failed and bool(report.passed)
        return ToolResult(True, passed, check="tests_pass", subject=path, data=data, message=message, visible=tests)


class ProjectEnvironment:
    """The project `project/` beside this file, with a task's changes to its files.

    Args:
        settings: `timeout_s`, the limit for one run of pytest in seconds.
    """

    version = "1"

    def __init__(self, settings: Mapping[str, Any]) -> None:
        for name in settings:
            if name != "timeout_s":
                raise unknown_name("setting of the project environment", name, ["timeout_s"])
        self._tools = ProjectTools(float(settings.get("timeout_s", DEFAULT_TIMEOUT_S)))
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def reset(self, task: Task, seed: int) -> None:
        """Write the project with the task's changes into a new folder."""
        self.restore(starting_state(task, {"files": _project_files()}))

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools, the same for every task."""
        return tools_of(self._tools)

    def observe(self) -> str:
        """Return an empty text: there is nothing to see before the first call."""
        return ""

    def facts(self) -> JsonObject:
        """Return the names of the `files`."""
        return {"files": sorted(self._tools.files)}

    def snapshot(self) -> JsonObject:
        """Return the files with their text."""
        return {"files": copy.copy(self._tools.files)}

    def restore(self, snapshot: JsonObject) -> None:
        """Write the files of a snapshot into a new folder."""
        self.close()
        self._folder = tempfile.TemporaryDirectory(prefix="agentlab-project-", ignore_cleanup_errors=True)
        self._tools.folder = Path(self._folder.name).resolve()
        self._tools.files = dict(snapshot["files"])
        for path, text in self._tools.files.items():
            file = self._tools.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")

    def close(self) -> None:
        """Delete the run's folder."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def _project_files() -> dict[str, str]:
    files = (path for path in sorted(PROJECT.rglob("*")) if path.suffix in (".py", ".ini"))
    return {path.relative_to(PROJECT).as_posix(): path.read_text(encoding="utf-8") for path in files}


def _not_found(path: str) -> ToolResult:
    return ToolResult(False, subject=path, error_kind="not_found", message=f"There is no file {path}.")
