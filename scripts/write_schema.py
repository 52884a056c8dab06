"""Write `docs/schema.md` from `agentlab.columns`; with `--check` only say whether it is up to date."""

import sys
from pathlib import Path

from agentlab.columns import FRAMES

TARGET = Path(__file__).parent.parent / "docs" / "schema.md"
HEAD = """# Columns of the frames

Written by `scripts/write_schema.py` from `agentlab/columns.py`. `load_runs`, `load_steps` and `load_calls` return
these columns with these dtypes, also for an empty store. A missing value is missing, never 0; times are UTC.
"""
GRAINS = {
    "runs": 'One row per run (the attempt that counts), or per attempt with `attempts="all"`.',
    "steps": "One row per tool call.",
    "calls": "One row per model call.",
}


def schema_text() -> str:
    """Return the document."""
    parts = [HEAD]
    for name, columns in FRAMES.items():
        parts.append(f"\n## {name}\n{GRAINS[name]}\n\n| column | dtype | meaning |\n| --- | --- | --- |")
        for column in columns:
            levels = f" Levels: {', '.join(column.levels)}." if column.levels else ""
            parts.append(f"| `{column.name}` | {column.dtype} | {column.meaning}{levels} |")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(
            0 if TARGET.read_text(encoding="utf-8") == schema_text() else "docs/schema.md is out of date: run make docs"
        )
    TARGET.write_text(schema_text(), encoding="utf-8")
