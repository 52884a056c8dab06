import re
from pathlib import Path
from typing import Any

import pytest

from agentlab.errors import ConfigError
from agentlab.report.page import declared_comparison, write_report
from agentlab.report.status import status_text
from agentlab.runner.experiment import run_experiment
from agentlab.runner.spec import Experiment

EXTERNAL = re.compile(r"""(?:src|href)\s*=\s*["'](?!data:)|@import|url\(""")


def an_experiment(**fields: Any) -> Experiment:
    defaults: dict[str, Any] = {
        "name": "shown",
        "question": "Which one <b>now</b>?",
        "suites": ["orders"],
        "repeats": 1,
    }
    defaults |= {
        "repeats": 1,
        "strategies": ["react", "tool_loop"],
        "models": ["simulated:context_decay"],
        "temperature": 0.7,
    }
    return Experiment.model_validate(defaults | fields)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("results")
    run_experiment(an_experiment(margin=0.1), out=path, is_quiet=True)
    return path


@pytest.mark.parametrize(
    ("language", "words"), [("en", "follows from the assumptions"), ("zh", "由模拟模型的假设决定")]
)
def test_the_page_is_one_offline_file_that_says_simulated_first(folder: Path, language: str, words: str) -> None:
    written = write_report(folder, language=language, out=folder / f"{language}.html")
    page = written.path.read_text(encoding="utf-8")
    assert not EXTERNAL.search(page)
    assert "<script" not in page
    assert page.count("data:image/png;base64,") == 5
    assert page.count('alt=""') == 0
    assert page.index("SIMULATED") < page.index(written.sentence.replace("'", "&#39;")[:60])
    assert words in page
    assert "Which one &lt;b&gt;now&lt;/b&gt;?" in page
    assert written.sentence.startswith("SIMULATED - not evidence about any model:")
    assert not re.search(r"\buse\b|recommend|建议使用|推荐", written.sentence)


def test_every_table_cell_is_a_number_or_says_missing(folder: Path) -> None:
    page = write_report(folder).path.read_text(encoding="utf-8")
    assert not re.search(r">\s*(nan|NaN)\b", page)
    assert "&lt;NA&gt;" not in page
    for name in ("always passed", "always failed", "always incomplete", "tool_loop", "react"):
        assert f"<td>{name}</td>" in page


def test_the_declaration_decides_margin_and_baseline(folder: Path) -> None:
    assert declared_comparison(folder) == (0.1, "react")
    assert "lower than that of react" in write_report(folder).sentence


def test_models_are_never_pooled(tmp_path: Path) -> None:
    run_experiment(
        an_experiment(suites=["toy"], models=["simulated:careless", "simulated:perfect"]), out=tmp_path, is_quiet=True
    )
    page = write_report(tmp_path).path.read_text(encoding="utf-8")
    assert page.count("<h2>Model: ") == 2
    assert page.count('class="decision"') == 2


def test_an_experiment_that_has_only_been_planned_shows_no_data(tmp_path: Path) -> None:
    from agentlab.runner.build import ModelPool, plan_runs
    from agentlab.store import Store

    experiment = an_experiment()
    store = Store(tmp_path, create=True)
    store.claim_folder(experiment.name, experiment.seed, experiment.model_dump(mode="json"))
    with pytest.raises(ConfigError, match="has no runs yet"):
        write_report(tmp_path)
    store.plan({**run.row, "planned_order": i} for i, run in enumerate(plan_runs(experiment, ModelPool())))
    store.close()
    page = write_report(tmp_path).path.read_text(encoding="utf-8")
    assert "0 / 61" in page
    assert "0 of 122 runs finished" in status_text(tmp_path)


def test_a_missing_folder_says_what_makes_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="agentlab run SPEC --out"):
        write_report(tmp_path / "nowhere")


def test_a_place_that_cannot_be_written_is_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"file/r\.html cannot be written: .* Name another place"):
        write_report(folder, out=tmp_path / "file" / "r.html")
