import datetime
import time
from pathlib import Path

import pytest
from genai_prices import Usage as PricedUsage
from genai_prices import calc_price
from genai_prices.data_snapshot import get_snapshot

from agentlab.errors import ConfigError
from agentlab.models.prices import price_usd
from agentlab.records import Usage

USAGE = Usage(input_tokens=1000, output_tokens=100, cached_input_tokens=200)


@pytest.fixture
def price_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "prices.yaml"
    monkeypatch.setenv("AGENTLAB_PRICES", str(path))
    return path


def test_a_listed_model() -> None:
    # 800 at 2.50, 200 cached at 1.25 and 100 out at 10 dollars a million (list price of gpt-4o).
    assert price_usd("gpt-4o", USAGE) == pytest.approx(0.00325)


@pytest.mark.parametrize("model", ["qwen-max", "test-model-1", "gpt-4o-mini-2031-01-01", ""])
def test_an_unknown_model_has_no_price(model: str) -> None:
    assert price_usd(model, USAGE) is None


def test_a_dated_name_is_priced_where_the_library_maps_it() -> None:
    assert price_usd("gpt-4o-mini-2024-07-18", USAGE) == price_usd("gpt-4o-mini", USAGE)


@pytest.mark.parametrize("usage", [None, Usage(None, 5), Usage(5, None)])
def test_unknown_tokens_have_no_price(usage: Usage | None) -> None:
    assert price_usd("gpt-4o", usage) is None


def test_a_known_server_has_its_own_prices() -> None:
    assert price_usd("openai/gpt-4o", USAGE) is None
    assert price_usd("openai/gpt-4o", USAGE, base_url="https://openrouter.ai/api/v1") == pytest.approx(0.00325)
    assert price_usd("gpt-4o", USAGE, base_url="https://gateway.example/v1") == pytest.approx(0.00325)
    assert price_usd("gpt-4o", USAGE, base_url="https://api.deepseek.com/v1") is None


def library_price(model: str, usage: Usage, url: str) -> float | None:
    """What genai-prices itself computes; None where it lacks the model or one of its two token prices."""
    counted = PricedUsage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cached_input_tokens,
    )
    try:
        found = calc_price(counted, model, provider_api_url=url)
    except LookupError:
        return None
    prices = found.model_price
    return None if prices.input_mtok is None or prices.output_mtok is None else float(found.total_price)


@pytest.mark.parametrize(
    ("provider", "url"), [("openai", "https://api.openai.com/v1"), ("openrouter", "https://openrouter.ai/api/v1")]
)
def test_every_listed_price_is_the_librarys_own(provider: str, url: str) -> None:
    (models,) = [known.models for known in get_snapshot().providers if known.id == provider]
    for usage in (USAGE, Usage(300_000, 50)):
        expected = {model.id: library_price(model.id, usage, url) for model in models}
        found = {model.id: price_usd(model.id, usage, base_url=url) for model in models}
        assert found == pytest.approx(expected)
        assert any(price is None for price in expected.values())
        assert any(price for price in expected.values())


def test_more_cached_tokens_than_input_never_make_a_negative_price() -> None:
    price = price_usd("gpt-4o", Usage(10, 0, cached_input_tokens=50))
    assert price == pytest.approx(10 * 1.25e-6)


def test_the_users_file_wins(price_file: Path) -> None:
    price_file.write_text(
        "- {model: gpt-4o, input_per_mtok: 1, output_per_mtok: 2, cached_input_per_mtok: 0.5}\n"
        "- {model: qwen-max, input_per_mtok: 1, output_per_mtok: 2}\n"
        "- {model: free, input_per_mtok: 0, output_per_mtok: 0}\n",
        encoding="utf-8",
    )
    assert price_usd("gpt-4o", USAGE) == pytest.approx((800 + 100 + 200) * 1e-6)
    assert price_usd("qwen-max", USAGE) == pytest.approx((1000 + 200) * 1e-6)
    assert price_usd("free", USAGE) == 0.0
    assert price_usd("gpt-4o-mini", USAGE) is not None
    assert price_usd("other", USAGE) is None


def test_the_latest_price_that_has_begun_counts(price_file: Path) -> None:
    tomorrow = datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=2)
    price_file.write_text(
        f"- {{model: m, input_per_mtok: 9, output_per_mtok: 9, from: {tomorrow}}}\n"
        "- {model: m, input_per_mtok: 2, output_per_mtok: 0, from: 2025-06-01}\n"
        "- {model: m, input_per_mtok: 1, output_per_mtok: 0}\n"
        f"- {{model: later, input_per_mtok: 1, output_per_mtok: 1, from: {tomorrow}}}\n",
        encoding="utf-8",
    )
    assert price_usd("m", USAGE) == pytest.approx(0.002)
    assert price_usd("later", USAGE) is None


def test_a_changed_file_is_read_again(price_file: Path) -> None:
    price_file.write_text("- {model: m, input_per_mtok: 1, output_per_mtok: 0}\n", encoding="utf-8")
    assert price_usd("m", USAGE) == pytest.approx(0.001)
    time.sleep(0.02)
    price_file.write_text("- {model: m, input_per_mtok: 3, output_per_mtok: 0}\n", encoding="utf-8")
    assert price_usd("m", USAGE) == pytest.approx(0.003)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: m", "YAML list"),
        ("- [1]", "entry 1: needs a model name"),
        ("- {model: m, input_per_mtok: 1}", "entry 1: 'output_per_mtok' must be a price"),
        ("- {model: m, input_per_mtok: free, output_per_mtok: 1}", "'input_per_mtok' must be a price"),
        ("- {model: m, input_per_mtok: -1, output_per_mtok: 1}", "'input_per_mtok' must be a price"),
        ("- {model: m, input_per_mtok: .nan, output_per_mtok: 1}", "'input_per_mtok' must be a price"),
        ("- {model: m, input_per_mtok: 1, output_per_mtok: 1, since: 2026-01-01}", "unknown key 'since'"),
        ("- {model: m, input_per_mtok: 1, output_per_mtok: 1, from: soon}", "'from' must be a date"),
        ("- {model: m", r"cannot be read: .*Expected is a YAML list.*from: 2026-01-01"),
        (
            "- {model: m, input_per_mtok: 1, output_per_mtok: 1, from: 2026-13-01}",
            r"month must be in 1\.\.12.*YAML list",
        ),
    ],
)
def test_a_wrong_file_is_explained(price_file: Path, text: str, message: str) -> None:
    price_file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message) as raised:
        price_usd("m", USAGE)
    assert str(price_file) in str(raised.value)


def test_a_missing_file_is_explained(price_file: Path) -> None:
    with pytest.raises(ConfigError, match="AGENTLAB_PRICES"):
        price_usd("m", USAGE)


def test_a_folder_is_no_price_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTLAB_PRICES", str(tmp_path))
    with pytest.raises(ConfigError, match=r"is a folder, not a price file\. Expected is a YAML list") as raised:
        price_usd("m", USAGE)
    assert str(tmp_path) in str(raised.value)
