"""Make any Python value strictly valid JSON, the same text for the same value every time.

Documented replacements: Decimal -> its digits as text, date and time -> ISO 8601, bytes -> `base64:...`,
NaN and infinities -> the words NaN, Infinity, -Infinity as text, sets -> sorted lists, tuples -> lists,
numpy scalars and arrays -> numbers and lists, dataclasses and pydantic models -> objects,
control characters except tab and line ends -> their Unicode pictures (NUL -> U+2400), lone surrogates -> U+FFFD.
"""

import base64
import dataclasses
import datetime
import decimal
import enum
import json
import math
import re
from typing import Any

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_PICTURES = {code: chr(0x2400 + code) for code in range(32)} | {127: "\u2421"}


class NotJsonable(ValueError):
    """A value that JSON cannot carry; the message names the field."""


def clean_text(text: str) -> str:
    """Return `text` as valid Unicode without control characters (see the module's replacements)."""
    if text.isascii() and text.isprintable():
        return text
    text = _SURROGATE.sub("\ufffd", text)
    return _CONTROL.sub(lambda match: _PICTURES[ord(match[0])], text)


def to_json_value(value: Any, path: str = "$", _parents: tuple[int, ...] = ()) -> Any:
    """Return `value` as dicts, lists, str, int, float, bool and None.

    Raises:
        NotJsonable: a container that contains itself, or an object of another kind; names the path.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean_text(str(value))
    if isinstance(value, enum.Enum):
        return to_json_value(value.value, path, _parents)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _non_finite(value)
    if isinstance(value, dict | list | tuple | set | frozenset):
        return _container(value, path, _parents)
    return _other(value, path, _parents)


def dumps(value: Any) -> str:
    """Return `value` as one line of strict JSON text, non-ASCII characters kept."""
    return json.dumps(to_json_value(value), ensure_ascii=False, allow_nan=False)


def canonical(value: Any) -> str:
    """Return the one text that stands for `value` in hashes and comparisons: keys sorted, no spaces."""
    return json.dumps(to_json_value(value), ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def _non_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _container(value: Any, path: str, parents: tuple[int, ...]) -> Any:
    if id(value) in parents:
        raise NotJsonable(f"{path} contains itself")
    parents = (*parents, id(value))
    if isinstance(value, dict):
        return {_key(k): to_json_value(v, f"{path}.{k}", parents) for k, v in value.items()}
    items = [to_json_value(item, f"{path}[{i}]", parents) for i, item in enumerate(value)]
    if isinstance(value, set | frozenset):
        items.sort(key=lambda item: json.dumps(item, ensure_ascii=False, sort_keys=True))
    return items


def _key(key: Any) -> str:
    return clean_text(key) if isinstance(key, str) else str(to_json_value(key))


def _other(value: Any, path: str, parents: tuple[int, ...]) -> Any:
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return "base64:" + base64.b64encode(bytes(value)).decode("ascii")
    if hasattr(value, "tolist"):  # numpy scalars and arrays, without importing numpy
        return to_json_value(value.tolist(), path, parents)
    if hasattr(value, "model_dump"):
        return to_json_value(value.model_dump(), path, parents)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return to_json_value(fields, path, parents)
    raise NotJsonable(f"{path} is a {type(value).__name__}, which JSON cannot carry")
