"""The process that executes one notebook; started by `agentlab.notebooks`, which reads its exit code.

Reads a JSON request (path, out, parameters) from standard input; writes the reason of a failure to standard error.
"""

import json
import sys
import tempfile
from pathlib import Path


def main() -> int:
    """Execute the requested notebook; return 0, or 1 after saying why it failed."""
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError
    from traitlets.config import Config

    request = json.load(sys.stdin)
    try:
        with tempfile.TemporaryDirectory(prefix="agentlab-") as sockets:
            # Unix sockets instead of TCP ports: no race for a port, no unencrypted TCP. In a folder of their own:
            # by default every kernel started in one working directory would take the same socket.
            ipc = {"transport": "ipc", "ip": str(Path(sockets) / "kernel")}
            papermill.execute_notebook(
                request["path"],
                request["out"],
                parameters=request["parameters"],
                kernel_name="python3",
                language="python",
                progress_bar=False,
                config=Config({"KernelManager": {} if sys.platform == "win32" else ipc}),
            )
    except PapermillExecutionError as error:
        print(f"cell {error.exec_count} failed: {error.ename}: {error.evalue}", file=sys.stderr)
        return 1
    except DeadKernelError:
        print("the kernel died (out of memory, or killed)", file=sys.stderr)
        return 1
    except CellTimeoutError as error:
        print(f"a cell timed out: {error}", file=sys.stderr)
        return 1
    finally:
        _leave_out_folders(Path(request["out"]))
    return 0


def _leave_out_folders(path: Path) -> None:
    """Keep only the names of the files that papermill notes: the folders of one machine are nobody else's business."""
    if not path.exists():
        return
    notebook = json.loads(path.read_text(encoding="utf-8"))
    notes = notebook["metadata"].get("papermill", {})
    for name in ("input_path", "output_path"):
        if notes.get(name):
            notes[name] = Path(notes[name]).name
    whole = path.with_suffix(".tmp")
    whole.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    whole.replace(path)


if __name__ == "__main__":
    sys.exit(main())
