"""The documents about one's own tools do what they show: every command is run, every output is compared."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("docs/your-own-tools.md", "docs/your-own-tools.zh-CN.md")


def doc_commands(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "scripts/doc_commands.py", *arguments],
        cwd=ROOT, capture_output=True, encoding="utf-8", timeout=280, check=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_works_and_brings_what_is_shown(document: str) -> None:
    done = doc_commands("--check", document)
    assert done.returncode == 0, done.stderr


def test_both_languages_show_the_same_commands() -> None:
    english, chinese = ((ROOT / name).read_text(encoding="utf-8") for name in DOCUMENTS)

    def shown(text: str) -> list[str]:
        return [
            block.replace(" --lang zh", "") for block in text.split("```") if block.startswith(("sh", "diff", "python"))
        ]

    assert shown(english) == shown(chinese)
    assert len(shown(english)) >= 10


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("```sh\necho new\n```\n\n```text\nold\n```\n", "+new"),
        ("```sh\nexit 3\n```\n", "ended with status 3, not 0"),
        ("```sh exit=1\ntrue\n```\n", "ended with status 0, not 1"),
        ("```python examples/pytest_suite/suite.py\nnothing_like_this()\n```\n", "suite.py does not hold this"),
        ("```diff\n--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-old\n+new\n```\n", "the change does not fit"),
    ],
)
def test_a_document_that_is_out_of_date_is_found(tmp_path: Path, text: str, words: str) -> None:
    document = tmp_path / "d.md"
    document.write_text(text, encoding="utf-8")
    done = doc_commands("--check", str(document))
    assert done.returncode == 1
    assert words in done.stderr
    assert document.read_text(encoding="utf-8") == text


def test_outputs_are_refreshed_and_the_rest_is_left_alone(tmp_path: Path) -> None:
    document = tmp_path / "d.md"
    text = (
        "# Words\n```sh\necho one > file; cat file\n```\n\n```text\nold\n```\nmore\n"
        "```python m.py\nX = 1\n```\n```sh\ncat m.py\n```\n```text\n```\nend\n"
    )
    document.write_text(text, encoding="utf-8")
    assert doc_commands(str(document)).returncode == 0
    assert document.read_text(encoding="utf-8") == text.replace("old\n", "one\n").replace(
        "```text\n```", "```text\nX = 1\n```"
    )
    assert doc_commands("--check", str(document)).returncode == 0
