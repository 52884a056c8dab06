"""A small recogniser of llama.cpp's grammars (GBNF), to check ours without the engine. Backtracks; for short texts."""

import re
from collections.abc import Callable, Iterator
from functools import cache

Match = Callable[[str, int], Iterator[int]]
_TOKEN = re.compile(
    r'\s*(?:(?P<literal>"(?:[^"\\]|\\.)*")|(?P<chars>\[(?:[^\]\\]|\\.)*\])|(?P<name>[a-zA-Z][a-zA-Z0-9-]*)'
    r"|(?P<repeat>\{\d+(?:,\d*)?\})|(?P<sign>[()|?*+]))"
)


class Gbnf:
    """Recognises texts of the rule `root`."""

    def __init__(self, text: str) -> None:
        self.rules: dict[str, Match] = {}
        self._used: set[str] = set()
        for line in text.splitlines():
            name, _, body = line.partition(" ::= ")
            assert re.fullmatch(r"[a-zA-Z][a-zA-Z0-9-]*", name), f"no rule name: {name!r}"
            assert name not in self.rules, f"{name} is defined twice"
            self.rules[name] = self._parse(body)
        unknown = self._used - set(self.rules)
        assert not unknown, f"rules without definition: {unknown}"

    def matches(self, text: str) -> bool:
        return any(end == len(text) for end in self.rules["root"](text, 0))

    def _parse(self, body: str) -> Match:
        tokens, at = [], 0
        while body[at:].strip():
            found = _TOKEN.match(body, at)
            assert found, f"cannot be read: {body[at:]!r}"
            tokens.append((found.lastgroup, found[found.lastgroup or 0]))
            at = found.end()
        match, rest = self._alternatives(tokens)
        assert not rest, f"left over: {rest}"
        return match

    def _alternatives(self, tokens: list) -> tuple[Match, list]:
        options = []
        while True:
            sequence, tokens = self._sequence(tokens)
            options.append(sequence)
            if not tokens or tokens[0] != ("sign", "|"):
                return _any_of(options), tokens
            tokens = tokens[1:]

    def _sequence(self, tokens: list) -> tuple[Match, list]:
        parts: list[Match] = []
        while tokens and tokens[0] not in (("sign", "|"), ("sign", ")")):
            (kind, text), tokens = tokens[0], tokens[1:]
            if (kind, text) == ("sign", "("):
                part, tokens = self._alternatives(tokens)
                assert tokens[0] == ("sign", ")")
                tokens = tokens[1:]
            elif kind == "literal":
                part = _literal(_unescape(text[1:-1]))
            elif kind == "chars":
                part = _chars(text)
            else:
                assert kind == "name", f"unexpected {text}"
                self._used.add(text)
                part = self._rule(text)
            if tokens and (tokens[0][0] == "repeat" or tokens[0][1] in "?*+"):
                part, tokens = _repeated(part, *_bounds(tokens[0][1])), tokens[1:]
            parts.append(part)
        return _in_order(parts), tokens

    def _rule(self, name: str) -> Match:
        return lambda text, at: self.rules[name](text, at)


def _unescape(text: str) -> str:
    escapes = {"n": "\n", "r": "\r", "t": "\t"}
    return re.sub(
        r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|(.))",
        lambda m: chr(int(m[1] or m[2], 16)) if m[1] or m[2] else escapes.get(m[3], m[3]),
        text,
    )


def _literal(wanted: str) -> Match:
    def match(text: str, at: int) -> Iterator[int]:
        if text.startswith(wanted, at):
            yield at + len(wanted)

    return match


@cache
def _chars(text: str) -> Match:
    wanted = re.compile(text, re.DOTALL)  # our classes mean the same in Python

    def match(text: str, at: int) -> Iterator[int]:
        if wanted.match(text, at):
            yield at + 1

    return match


def _any_of(options: list[Match]) -> Match:
    def match(text: str, at: int) -> Iterator[int]:
        for option in options:
            yield from option(text, at)

    return match


def _in_order(parts: list[Match]) -> Match:
    def match(text: str, at: int) -> Iterator[int]:
        ends = [at]
        for part in parts:
            ends = list(dict.fromkeys(end for start in ends for end in part(text, start)))
        yield from ends

    return match


def _repeated(part: Match, least: int, most: int | None) -> Match:
    def match(text: str, at: int) -> Iterator[int]:
        ends, count, found = [at], 0, []
        while ends:
            if count >= least:
                found += [end for end in ends if end not in found]
            if count == most:
                break
            ends = [end for start in ends for end in part(text, start) if end > start]
            ends, count = list(dict.fromkeys(ends)), count + 1
        yield from reversed(found)

    return match


def _bounds(sign: str) -> tuple[int, int | None]:
    if sign in "?*+":
        return {"?": (0, 1), "*": (0, None), "+": (1, None)}[sign]
    least, comma, most = sign[1:-1].partition(",")
    return int(least), (int(most) if most else None) if comma else int(least)
