"""The process that executes one notebook; started by `agentlab.notebooks`, which reads its exit code.

Reads a JSON request (path, out, parameters) from standard input; writes the reason of a failure to standard error.
"""

import json
import sys


def main() -> int:
    """Execute the requested notebook; return 0, or 1 after saying why it failed."""
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError
    from traitlets.config import Config

    request = json.load(sys.stdin)
    # Unix sockets instead of TCP ports: no races for a port, and no unencrypted TCP.
    transport = {} if sys.platform == "win32" else {"config": Config({"KernelManager": {"transport": "ipc"}})}
    try:
        papermill.execute_notebook(
            request["path"],
            request["out"],
            parameters=request["parameters"],
            kernel_name="python3",
            language="python",
            progress_bar=False,
            **transport,
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
    return 0


if __name__ == "__main__":
    sys.exit(main())
