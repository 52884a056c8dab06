"""Keep the documents true: run the commands they show, and write the parts that follow from the code.

    python scripts/refresh_docs.py            refresh every document
    python scripts/refresh_docs.py --check    change nothing; say which blocks are out of date, and end with 1

What is run, and what a block of which kind means: `doc_commands.py`. What is generated: `doc_blocks.py`.
The commands are run in a temporary folder with copies of `experiments/` and `examples/`.
"""

import argparse
import difflib
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from doc_blocks import with_generated
from doc_commands import ROOT, DocumentProblem, refreshed, run_command

CHECKED = (("README.md", "README.zh-CN.md"), ("docs/schema.md",), ("docs/plans.md",), ("docs/plans.zh-CN.md",))
"""Documents of one group share a folder: a command that both show is run once."""
OTHERS = (("docs/your-own-tools.md",), ("docs/your-own-tools.zh-CN.md",))
"""Refreshed here, checked by the tests."""
FOLDERS = ("experiments", "examples")
MOST_LINES = 12

Outputs = dict[tuple[str, int], str]


def new_text(document: Path, folder: Path, outputs: Outputs) -> str:
    """Return the document as it should be now.

    Args:
        document: its language follows from its name.
        folder: where its commands are run.
        outputs: what commands of earlier documents printed in this folder, by command and how often it had been
            shown before; those of this document are added.

    Raises:
        DocumentProblem: a command does not work as shown, or an output holds a path of this machine.
    """
    language = "zh" if document.name.endswith(".zh-CN.md") else "en"
    text = with_generated(document.read_text(encoding="utf-8"), language)
    text = refreshed(text, folder, _once(outputs))
    for place in (folder, ROOT, Path.home()):
        if f"{place}/" in text:
            raise DocumentProblem(f"an output holds a path of this machine, {place}; show the command differently")
    return text


def _once(outputs: Outputs) -> Callable[[str, Sequence[str], Path], str]:
    """A runner that leaves out what an earlier document has run."""
    shown: Counter[str] = Counter()

    def run(command: str, words: Sequence[str], folder: Path) -> str:
        key = (command, shown[command])
        shown[command] += 1
        if key not in outputs:
            outputs[key] = run_command(command, words, folder)
        return outputs[key]

    return run


def differences(old: str, new: str) -> Iterator[str]:
    """Yield what is out of date: the name of the block, then some of its lines."""
    before, after = old.splitlines(), new.splitlines()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(1):
        changed = next(first for tag, first, *_ in group if tag != "equal")
        lines = [f"-{line}" for tag, i, j, *_ in group if tag != "equal" for line in before[i:j]]
        lines += [f"+{line}" for tag, _, _, i, j in group if tag != "equal" for line in after[i:j]]
        more = [f"... {len(lines) - MOST_LINES} more lines"] if len(lines) > MOST_LINES else []
        yield "\n    ".join([f"  {block_name(before, changed)}:", *lines[:MOST_LINES], *more])


def block_name(lines: Sequence[str], index: int) -> str:
    """Return what stands above a line: the marker of a generated block, a command, or a heading."""
    for position in range(min(index, len(lines) - 1), -1, -1):
        line = lines[position]
        if line.startswith("<!-- generated: "):
            return line.removeprefix("<!-- ").removesuffix(" -->")
        if line.startswith("```sh"):
            return f"output of {lines[position + 1]}"
        if line.startswith("#"):
            return line.lstrip("# ")
    return "the beginning"


def main(arguments: Sequence[str] | None = None) -> int:
    """Refresh or check the documents; return 1 when one does not work, or differs with `--check`."""
    parser = argparse.ArgumentParser(description="Run the commands of the documents, write their generated parts.")
    parser.add_argument("--check", action="store_true", help="change nothing; say which blocks are out of date")
    parser.add_argument("documents", nargs="*", help="documents to work on [default: all]")
    options = parser.parse_args(arguments)
    groups = [(name,) for name in options.documents] or [*CHECKED, *(() if options.check else OTHERS)]
    messages = [message for group in groups for message in _work(group, options.check)]
    for message in messages:
        print(message, file=sys.stderr)
    return 1 if messages else 0


def _work(group: Sequence[str], is_check: bool) -> Iterator[str]:
    """Refresh or compare the documents of a group; yield what is wrong."""
    outputs: Outputs = {}
    with tempfile.TemporaryDirectory(prefix="agentlab-doc-") as place:
        for folder in FOLDERS:
            shutil.copytree(ROOT / folder, Path(place) / folder, ignore=shutil.ignore_patterns("__pycache__"))
        for name in group:
            document = ROOT / name
            old = document.read_text(encoding="utf-8")
            try:
                new = new_text(document, Path(place), outputs)
            except DocumentProblem as problem:
                yield f"{name}: {problem}"
                continue
            if new != old and is_check:
                yield "\n".join([f"{name} is out of date; `make docs` refreshes it.", *differences(old, new)])
            elif new != old:
                document.write_text(new, encoding="utf-8")
                print(f"{name}: refreshed")


if __name__ == "__main__":
    sys.exit(main())
