"""The READMEs say what is true: links, commands, names, variables, and both languages the same."""

import re
import tomllib
from pathlib import Path

import doc_blocks
import doc_commands
import pytest
import refresh_docs
import typer
import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token
from PIL import Image

from agentlab.cli.app import app
from agentlab.columns import OUTCOMES
from agentlab.models.base import PROVIDERS
from agentlab.models.prices import price_usd
from agentlab.records import Usage
from agentlab.report.decision import KINDS
from agentlab.report.page_texts import TEXTS
from agentlab.runner.spec import Experiment
from agentlab.strategies.base import STRATEGIES, build_strategy

ROOT = Path(__file__).parents[1]
READMES = ("README.md", "README.zh-CN.md")
VARIABLE = re.compile(r"\b(?:LLM|OPENAI|AGENTLAB)_[A-Z][A-Z_]*\b")
FOLDERS = ("agentlab/", "notebooks/", "experiments/", "examples/", "tests/", "docs/", "scripts/")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def tokens(name: str) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(read(name))


def fences(name: str, *kinds: str) -> list[Token]:
    return [token for token in tokens(name) if token.type == "fence" and token.info.split()[:1] in [[k] for k in kinds]]


def rows(name: str, first: str) -> list[list[str]]:
    """The cells of the table one of whose cells in the first column is `first`."""
    tables = re.findall(r"(?:^\|.*\n)+", read(name), re.MULTILINE)
    split = [[[cell.strip() for cell in line.strip("|\n").split("|")] for line in t.splitlines()] for t in tables]
    (found,) = [table for table in split if first in [line[0] for line in table]]
    return found


@pytest.mark.parametrize("name", READMES)
def test_links_and_paths_lead_somewhere(name: str) -> None:
    text = read(name)
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if not link.startswith("http")]
    assert len(links) >= 8
    shown = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    paths = [code for code in shown if code.startswith(FOLDERS) and "NAME" not in code]
    assert len(paths) >= 20
    missing = [path for path in [*links, *paths] if not (ROOT / path).exists()]
    assert [path for path in missing if path != "experiments/overnight.yaml"] == []


@pytest.mark.parametrize("name", READMES)
def test_every_runnable_block_is_run_and_shows_its_output(name: str) -> None:
    run = [block for block in doc_commands.BLOCK.finditer(read(name)) if block["info"] == "sh"]
    # A Markdown reader of its own must see the same blocks as the script that runs them.
    assert [block["body"] for block in run] == [fence.content for fence in fences(name, "sh")]
    outputs = [doc_commands.OUTPUT.match(read(name), block.end()) for block in run]
    assert [bool(output and output.group().count("\n") > 3) for output in outputs] == [True] * len(run)
    assert len(run) >= 7
    assert {fence.info.split()[0] for fence in tokens(name) if fence.type == "fence"} <= {
        "sh", "text", "bash", "powershell", "yaml", "python",
    }  # fmt: skip


def test_both_languages_have_the_same_structure_and_the_same_code() -> None:
    def headings(name: str) -> list[str]:
        return [token.tag for token in tokens(name) if token.type == "heading_open"]

    def code(name: str) -> list[str]:
        kinds = ("sh", "bash", "powershell", "yaml", "python")
        return [f"{fence.info}\n{fence.content}".replace(" --lang zh", "") for fence in fences(name, *kinds)]

    def generated(name: str) -> list[str]:
        return [found["name"] for found in doc_blocks.MARKED.finditer(read(name))]

    english, chinese = READMES
    assert headings(english) == headings(chinese)
    assert code(english) == code(chinese)
    assert generated(english) == generated(chinese)
    tables = [re.findall(r"^\|(?: --- \|)+$", read(name), re.MULTILINE) for name in READMES]
    assert tables[0] == tables[1]


@pytest.mark.parametrize("name", READMES)
def test_the_variables_are_those_that_the_code_reads(name: str) -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "agentlab").rglob("*.py"))
    table = " ".join(cell for row in rows(name, "`LLM_API_KEY`") for cell in row[:1])
    assert set(VARIABLE.findall(table)) == set(VARIABLE.findall(code))
    assert set(VARIABLE.findall(read(name))) <= set(VARIABLE.findall(code))


@pytest.mark.parametrize("name", READMES)
def test_the_tables_name_what_there_is(name: str) -> None:
    language = "en" if name == "README.md" else "zh"
    head, *aspects = rows(name, {"en": "actors", "zh": "角色"}[language])
    assert [title.strip("`") for title in head[1:]] == list(STRATEGIES)
    answer_by = next(row for row in aspects if row[0] in ("answer written by", "答案由谁写"))
    assert answer_by[1:] == [TEXTS[language].answer_by[build_strategy(strategy).answer_by] for strategy in STRATEGIES]
    assert {row[0].strip("`:") for row in rows(name, "`openai:`")[2:]} == set(PROVIDERS)
    assert {row[0].strip("`") for row in rows(name, "`found`")[2:]} == set(OUTCOMES)
    assert {row[0].strip("`") for row in rows(name, "`better`")[2:]} == set(KINDS)
    extras = tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]
    assert set(re.findall(r"`(\w+)`", " ".join(row[0] for row in rows(name, "`cjk`")))) == set(extras)
    notebooks = {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert set(re.findall(r"notebooks/(\w+\.ipynb)", read(name))) == notebooks


@pytest.mark.parametrize("name", READMES)
def test_every_command_has_its_help(name: str) -> None:
    def commands(group: object, path: tuple[str, ...] = ()) -> list[str]:
        inner = getattr(group, "commands", None)
        if inner is None:
            return [" ".join(path)]
        return [found for word, command in inner.items() for found in commands(command, (*path, word))]

    shown = re.findall(r"^Usage: agentlab ([a-z ]*[a-z]) \[", read(name), re.MULTILINE)
    assert sorted(shown) == sorted(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("name", READMES)
def test_the_shown_files_are_accepted(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prices, experiment = fences(name, "yaml")
    assert Experiment.model_validate(yaml.safe_load(experiment.content)).name == "overnight"
    file = tmp_path / "prices.yaml"
    file.write_text(prices.content, encoding="utf-8")
    monkeypatch.setenv("AGENTLAB_PRICES", str(file))
    assert price_usd("your-model", Usage(1_000_000, 1_000_000)) == pytest.approx(8.0)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_picture_is_a_small_real_picture(language: str) -> None:
    path = ROOT / "docs" / "images" / f"report.{language}.png"
    assert path.stat().st_size <= 400_000
    with Image.open(path) as image:
        assert image.format == "PNG"
        assert image.width >= 1000
        assert len(image.convert("RGB").getcolors(100_000)) > 50


def refresh(document: Path, *options: str) -> int:
    return refresh_docs.main([*options, str(document)])


def test_a_block_that_is_out_of_date_is_named_and_refreshed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = tmp_path / "d.md"
    old = "# A\n<!-- generated: help -->\nold\n<!-- end of help -->\n## B\n```sh\necho new\n```\n\n```text\nold\n```\n"
    document.write_text(old, encoding="utf-8")
    assert refresh(document, "--check") == 1
    said = capsys.readouterr().err
    assert "generated: help:" in said
    assert "output of echo new:\n    -old\n    +new" in said
    assert "more lines" in said
    assert document.read_text(encoding="utf-8") == old
    assert refresh(document) == 0
    new = document.read_text(encoding="utf-8")
    assert "Usage: agentlab status" in new
    assert new.endswith("```text\nnew\n```\n")
    assert refresh(document, "--check") == 0


def test_chinese_documents_get_chinese_tables(tmp_path: Path) -> None:
    for name, words in (("d.md", "| field | value |"), ("d.zh-CN.md", "| 字段 | 取值 |")):
        document = tmp_path / name
        document.write_text(
            "<!-- generated: experiment-fields -->\n<!-- end of experiment-fields -->\n", encoding="utf-8"
        )
        assert refresh(document) == 0
        text = document.read_text(encoding="utf-8")
        assert words in text
        assert set(Experiment.model_fields) <= set(re.findall(r"^\| `(\w+)` ", text, re.MULTILINE))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<!-- generated: nonsense -->\n<!-- end of nonsense -->\n", "nothing makes the block 'nonsense'"),
        ("```sh\npwd -P; echo $PWD/x\n```\n\n```text\n```\n", "an output holds a path of this machine"),
        ("```sh\nfalse\n```\n", "ended with status 1"),
    ],
)
def test_a_document_that_cannot_be_refreshed_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    document = tmp_path / "d.md"
    document.write_text(text, encoding="utf-8")
    assert refresh(document) == 1
    assert words in capsys.readouterr().err
    assert document.read_text(encoding="utf-8") == text
