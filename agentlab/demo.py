"""`make demo`: the quickstart experiment with a simulated model, through both notebooks, to a report."""

import sys
import time
from pathlib import Path

from agentlab.errors import AgentLabError
from agentlab.notebooks import execute_notebook
from agentlab.report.page import write_report

NAME = "quickstart"


def main() -> int:
    """Run the demo; print the decision sentence and where the report is."""
    started = time.perf_counter()
    out = Path("results") / NAME
    try:
        execute_notebook(
            "notebooks/10_run_experiment.ipynb",
            out / "10_run_experiment.ipynb",
            {"experiment": f"experiments/{NAME}.yaml", "output": str(out)},
        )
        execute_notebook("notebooks/20_compare.ipynb", out / "20_compare.ipynb", {"results": str(out)})
        report = write_report(str(out))
    except AgentLabError as error:
        print(f"agentlab: {error}", file=sys.stderr)
        return 1
    print(report.sentence)
    print(f"{report.path}  ({time.perf_counter() - started:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
