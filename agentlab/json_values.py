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
import json.encoder
import math
import re
from collections.abc import Callable
from typing import Any, overload

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_PICTURES = {code: chr(0x2400 + code) for code in range(32)} | {127: "\u2421"}


def _encoder(**options: Any) -> Callable[[Any], str]:
    """Return what `json.JSONEncoder(...).encode` is, made ready once: it prepares its C part anew for every value.

    That takes as long as encoding what is usual here, and several values are encoded for every model call.
    """
    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, **options)
    prepare: Any = getattr(json.encoder, "c_make_encoder", None)
    if prepare is None:  # an interpreter whose standard library has no C part
        return encoder.encode
    quote, separators = json.encoder.encode_basestring, (encoder.key_separator, encoder.item_separator)
    pieces = prepare(None, encoder.default, quote, None, *separators, encoder.sort_keys, False, False)
    return lambda value: "".join(pieces(value, 0))


_line = _encoder()
_canonical = _encoder(sort_keys=True, separators=(",", ":"))


class NotJsonable(ValueError):
    """A value that JSON cannot carry; the message names the field."""


def clean_text(text: str) -> str:
    """Return `text` as valid Unicode without control characters (see the module's replacements)."""
    # Neither a control character nor a surrogate is printable, and a line end needs no replacement.
    if text.isprintable() or text.replace("\n", " ").isprintable():
        return text
    text = _SURROGATE.sub("\ufffd", text)
    return _CONTROL.sub(lambda match: _PICTURES[ord(match[0])], text)


def to_json_value(value: Any, path: str = "$") -> Any:
    """Return `value` as dicts, lists, str, int, float, bool and None.

    Raises:
        NotJsonable: a container that contains itself, or an object of another kind; names the path.
    """
    try:
        return _plain(value)
    except (_NotPlain, RecursionError):
        return _converted(value, path, ())


@overload
def copy_json(value: dict[str, Any]) -> dict[str, Any]: ...
@overload
def copy_json(value: Any) -> Any: ...
def copy_json(value: Any) -> Any:
    """Return a copy of a JSON value: its containers are new; several times as fast as `copy.deepcopy`."""
    if isinstance(value, dict):
        return {name: copy_json(item) for name, item in value.items()}
    return [copy_json(item) for item in value] if isinstance(value, list) else value


class _NotPlain(Exception):
    """A value that needs more than a copy."""


def _plain(value: Any) -> Any:
    """A copy of a value that JSON has a form for already, which is most of them; keeps no account of the path."""
    kind = type(value)
    if kind is str:
        return value if value.isprintable() else clean_text(value)
    if kind is int or kind is bool or value is None:
        return value
    if kind is dict:
        return {
            key if type(key) is str and key.isprintable() else _plain_key(key): _plain(item)
            for key, item in value.items()
        }
    if kind is list:
        return [_plain(item) for item in value]
    if kind is float and math.isfinite(value):
        return value
    raise _NotPlain


def _plain_key(key: Any) -> str:
    if type(key) is not str:
        raise _NotPlain
    return clean_text(key)


def _converted(value: Any, path: str, parents: tuple[int, ...]) -> Any:
    """Any value as JSON values, piece by piece, with the path for messages."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean_text(str(value))
    if isinstance(value, enum.Enum):
        return _converted(value.value, path, parents)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _non_finite(value)
    if isinstance(value, dict | list | tuple | set | frozenset):
        return _container(value, path, parents)
    return _other(value, path, parents)


def dumps(value: Any) -> str:
    """Return `value` as one line of strict JSON text, non-ASCII characters kept."""
    return json_line(to_json_value(value))


def json_line(value: Any) -> str:
    """Return what `dumps` returns, of a value that holds clean JSON values already.

    Raises:
        TypeError, ValueError: it holds something else.
    """
    return _line(value)


def canonical(value: Any) -> str:
    """Return the one text that stands for `value` in hashes and comparisons: keys sorted, no spaces."""
    return _canonical(to_json_value(value))


def _non_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _container(value: Any, path: str, parents: tuple[int, ...]) -> Any:
    if id(value) in parents:
        raise NotJsonable(f"{path} contains itself")
    parents = (*parents, id(value))
    if isinstance(value, dict):
        return {_key(k): _converted(v, f"{path}.{k}", parents) for k, v in value.items()}
    items = [_converted(item, f"{path}[{i}]", parents) for i, item in enumerate(value)]
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
        return _converted(value.tolist(), path, parents)
    if hasattr(value, "model_dump"):
        return _converted(value.model_dump(), path, parents)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return _converted(fields, path, parents)
    raise NotJsonable(f"{path} is a {type(value).__name__}, which JSON cannot carry")
