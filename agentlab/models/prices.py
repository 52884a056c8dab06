"""What a reply cost, in US dollars: from the user's own price file, else from the list prices of genai-prices.

Nothing is fetched: genai-prices brings its data along. An unknown model has no price (None), never 0; a price of 0
is one that the user wrote down. The file that `AGENTLAB_PRICES` names holds a YAML list:

    - model: qwen-max            # as requested, or as the server returns it
      input_per_mtok: 1.6        # US dollars for a million tokens
      output_per_mtok: 6.4
      cached_input_per_mtok: 0.4 # optional; without it cached tokens cost as much as others
      from: 2026-01-01           # optional; of several entries the latest that has begun counts
"""

import datetime
import functools
import os
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from agentlab.errors import ConfigError
from agentlab.records import Usage

PRICES_VARIABLE = "AGENTLAB_PRICES"
_KEYS = ("model", "input_per_mtok", "output_per_mtok", "cached_input_per_mtok", "from")
_MTOK = 1_000_000
_EXPECTED = (
    f"Expected is a YAML list of entries with the keys {', '.join(_KEYS)}, such as: "
    "- {model: qwen-max, input_per_mtok: 1.6, output_per_mtok: 6.4, from: 2026-01-01}"
)


class Rates(NamedTuple):
    """US dollars for a million tokens."""

    input: float
    output: float
    cached_input: float


class _Entry(NamedTuple):
    begins: datetime.date
    rates: Rates


def price_usd(model: str, usage: Usage | None, *, base_url: str | None = None) -> float | None:
    """Return the price of a reply in US dollars; None when the model's price or the tokens are unknown.

    Args:
        model: the model's name, without `openai:`.
        usage: tokens of the reply; cached input is priced at its own rate.
        base_url: the server's address. A provider that genai-prices knows by its address is priced as that provider;
            any other server at the list price of whoever makes the model.

    Raises:
        ConfigError: the user's price file cannot be used.
    """
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    rates = _own_rates(model)
    if rates is None:
        listed = _listed(model, base_url)
        if listed is None:
            return None
        rates = _plain_rates(listed)
        if rates is None:
            return _listed_price(listed, usage)
    cached = min(usage.cached_input_tokens or 0, usage.input_tokens)
    uncached = usage.input_tokens - cached
    return (uncached * rates.input + cached * rates.cached_input + usage.output_tokens * rates.output) / _MTOK


def _own_rates(model: str) -> Rates | None:
    """The user's rates for a model today; None without a file or an entry that has begun."""
    path = os.environ.get(PRICES_VARIABLE)
    if not path:
        return None
    try:
        changed_ns = Path(path).stat().st_mtime_ns
    except OSError as error:
        raise ConfigError(
            f"{PRICES_VARIABLE}={path}: the price file cannot be read ({error.strerror}). {_EXPECTED}"
        ) from error
    entries = _read_prices(path, changed_ns).get(model, ())
    today = datetime.datetime.now(datetime.UTC).date()
    begun = [entry for entry in entries if entry.begins <= today]
    return max(begun, key=lambda entry: entry.begins).rates if begun else None


@functools.lru_cache(maxsize=8)
def _read_prices(path: str, changed_ns: int) -> dict[str, list[_Entry]]:
    """The entries of a price file by model; read once for each state of the file."""
    import yaml

    if Path(path).is_dir():
        raise ConfigError(f"{PRICES_VARIABLE}={path} is a folder, not a price file. {_EXPECTED}")
    try:
        lines = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    # A date that is none, such as 2026-13-01, is a ValueError of the YAML reader.
    except (yaml.YAMLError, OSError, ValueError, RecursionError) as error:
        words = " ".join(str(error).split()).rstrip(".")
        raise ConfigError(
            f"{path} (from {PRICES_VARIABLE}): the price file cannot be read: {words}. {_EXPECTED}"
        ) from error
    if not isinstance(lines, list):
        raise ConfigError(f"{path} (from {PRICES_VARIABLE}): the price file holds no list. {_EXPECTED}")
    prices: dict[str, list[_Entry]] = {}
    for number, line in enumerate(lines, 1):
        model, entry = _entry(line, f"{path}, entry {number}")
        prices.setdefault(model, []).append(entry)
    return prices


def _entry(line: Any, where: str) -> tuple[str, _Entry]:
    if not isinstance(line, dict) or not isinstance(line.get("model"), str):
        raise ConfigError(f"{where}: needs a model name under 'model'. Keys: {', '.join(_KEYS)}.")
    if unknown := sorted(set(map(str, line)) - set(_KEYS)):
        raise ConfigError(f"{where}: unknown key {unknown[0]!r}. Valid: {', '.join(_KEYS)}.")
    begins = line.get("from", datetime.date.min)
    if type(begins) is not datetime.date:
        raise ConfigError(f"{where}: 'from' must be a date like 2026-01-01, not {begins!r}.")
    per_input = _rate(line, "input_per_mtok", where)
    per_output = _rate(line, "output_per_mtok", where)
    per_cached = _rate(line, "cached_input_per_mtok", where) if "cached_input_per_mtok" in line else per_input
    return line["model"], _Entry(begins, Rates(per_input, per_output, per_cached))


def _rate(line: dict[str, Any], key: str, where: str) -> float:
    value = line.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MTOK:
        raise ConfigError(f"{where}: {key!r} must be a price in US dollars for a million tokens, not {value!r}.")
    return float(value)


class _Listed(NamedTuple):
    """A model and its provider in genai-prices."""

    model: Any
    provider: Any


@functools.lru_cache(maxsize=256)
def _listed(model: str, base_url: str | None) -> _Listed | None:
    """The library's entry for a model; None when it has none. Looked up once, which takes most of the time."""
    from genai_prices import Usage as PricedUsage
    from genai_prices import calc_price
    from genai_prices.data_snapshot import get_snapshot

    known_url = None
    if base_url is not None:
        try:
            get_snapshot().find_provider(None, None, base_url)
            known_url = base_url
        except LookupError:
            pass
    try:
        found = calc_price(PricedUsage(), model, provider_api_url=known_url)
    except LookupError:
        return None
    prices = found.model_price
    # The library counts a missing price as nothing; here it is unknown.
    if prices.input_mtok is None or prices.output_mtok is None:
        return None
    return _Listed(found.model, found.provider)


def _plain_rates(listed: _Listed) -> Rates | None:
    """The rates that hold now; None for prices by tier or by request, which the library computes itself."""
    prices = listed.model.get_prices(datetime.datetime.now(datetime.UTC))
    cached = prices.cache_read_mtok if prices.cache_read_mtok is not None else prices.input_mtok
    values = (prices.input_mtok, prices.output_mtok, cached)
    if prices.requests_kcount is not None or not all(isinstance(value, Decimal) for value in values):
        return None
    return Rates(*map(float, values))


def _listed_price(listed: _Listed, usage: Usage) -> float:
    from genai_prices import Usage as PricedUsage

    counted = PricedUsage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=min(usage.cached_input_tokens or 0, usage.input_tokens or 0) or None,
    )
    return float(listed.model.calc_price(counted, listed.provider).total_price)
