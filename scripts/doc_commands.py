"""Run the commands that documents show, and refresh the outputs beside them; with `--check` only compare.

    python scripts/doc_commands.py [--check] DOCUMENT...

A document is worked through from top to bottom in one temporary folder that holds a copy of `examples/`:

    ```sh                    is run; the ```text block that follows directly, if one does, holds its output
    ```sh exit=1             is run and must end with this status (0 without it; the first command that fails ends it)
    ```diff                  is applied to the folder's files (paths as from the folder)
    ```python FILE           must stand in this file word for word; where there is no such file, it is written
"""

import argparse
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(?P<info>\w[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
OUTPUT = re.compile(r"(?P<head>\n\n?```text\n).*?^```$", re.MULTILINE | re.DOTALL)
TIME_LIMIT_S = 300
MOST_LINES = 15
"""Of the output of a command that went wrong: its end."""


class DocumentProblem(Exception):
    """A command, a change or a listing of a document does not work as shown."""


def run_command(command: str, words: Sequence[str], folder: Path) -> str:
    """Run a block's commands in a folder and return what they print, errors included.

    Args:
        command: the block.
        words: what stands behind `sh` in its first line.
        folder: where to run it.

    Raises:
        DocumentProblem: they end with another status than the block says.
    """
    wanted = next((int(word.removeprefix("exit=")) for word in words if word.startswith("exit=")), 0)
    hidden = ("LLM_", "OPENAI_", "AGENTLAB_")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    variables["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), variables.get("PATH", "")])
    done = subprocess.run(
        ["sh", "-e", "-c", command],
        cwd=folder,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=TIME_LIMIT_S,
    )
    if done.returncode != wanted:
        shown = "\n".join(done.stdout.splitlines()[-MOST_LINES:])
        raise DocumentProblem(f"ended with status {done.returncode}, not {wanted}:\n{command}{shown}")
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def refreshed(text: str, folder: Path, run: Callable[[str, Sequence[str], Path], str] = run_command) -> str:
    """Return the document with the outputs that its commands have now, run in `folder`.

    Args:
        text: the document.
        folder: where its commands are run and its files are.
        run: runs the commands of a block.

    Raises:
        DocumentProblem: a command ends with another status, a diff does not fit, or a listing is not in its file.
    """
    parts: list[str] = []
    position = 0
    for block in BLOCK.finditer(text):
        if block.start() < position:
            continue
        kind, *words = block["info"].split()
        shown = None
        if kind == "sh":
            shown = run(block["body"], words, folder)
        elif kind == "diff":
            _apply(block["body"], folder)
        elif kind == "python" and words:
            _compare(block["body"], folder / words[0])
        output = OUTPUT.match(text, block.end())
        if shown is not None and output is not None:
            parts.append(f"{text[position : block.end()]}{output['head']}{shown}```")
            position = output.end()
    return "".join([*parts, text[position:]])


def _apply(change: str, folder: Path) -> None:
    done = subprocess.run(
        ["git", "apply", "-p0", "-"], input=change, cwd=folder, capture_output=True, encoding="utf-8", timeout=60
    )
    if done.returncode:
        raise DocumentProblem(f"the change does not fit: {done.stderr}{change}")


def _compare(listing: str, file: Path) -> None:
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(listing, encoding="utf-8")
    # A listing may stand further to the left than in its file.
    elif textwrap.dedent(listing) not in _dedented(file.read_text(encoding="utf-8"), listing):
        raise DocumentProblem(f"{file.name} does not hold this:\n{listing}")


def _dedented(text: str, listing: str) -> str:
    """The text of a file, moved left as far as the listing's first line is."""
    first = listing.split("\n", 1)[0].strip()
    line = next((line for line in text.split("\n") if line.strip() == first), "")
    indent = line[: len(line) - len(line.lstrip())]
    return "\n".join(line.removeprefix(indent) for line in text.split("\n"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Refresh or check documents; return 1 when one does not work, or differs with `--check`."""
    parser = argparse.ArgumentParser(description="Run the commands that documents show.")
    parser.add_argument("--check", action="store_true", help="change nothing; say whether outputs are up to date")
    parser.add_argument("documents", nargs="+", type=Path)
    options = parser.parse_args(arguments)
    status = 0
    for document in options.documents:
        text = document.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory(prefix="agentlab-doc-") as name:
            folder = Path(name)
            shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
            try:
                new = refreshed(text, folder)
            except DocumentProblem as problem:
                print(f"{document}: {problem}", file=sys.stderr)
                status = 1
                continue
        if new == text:
            continue
        if options.check:
            lines = difflib.unified_diff(text.splitlines(), new.splitlines(), str(document), "now", lineterm="")
            print("\n".join(lines), file=sys.stderr)
            print(f"Refresh it: python scripts/doc_commands.py {document}", file=sys.stderr)
            status = 1
        else:
            document.write_text(new, encoding="utf-8")
            print(f"{document}: refreshed")
    return status


if __name__ == "__main__":
    sys.exit(main())
