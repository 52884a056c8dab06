"""Fonts that can draw the charts' texts, Chinese included; without one the charts speak English.

The search: the file named by `AGENTLAB_FONT`, an installed family, the file of the `cjk` extra. A font counts by
what its character map covers, not by its name. DejaVu Sans stays first: it has the minus sign and the symbols,
and matplotlib takes each missing glyph from the next family.
"""

import importlib
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

from agentlab.errors import ConfigError

SAMPLE = "单规误败"
"""Simplified characters that Japanese fonts lack."""
LATIN = "DejaVu Sans"
FAMILIES = (
    "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Source Han Sans CN", "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei", "Microsoft YaHei", "PingFang SC", "Hiragino Sans GB", "Heiti SC", "SimHei",
    "Noto Sans CJK JP", "Arial Unicode MS",
)  # fmt: skip
EXTRA_PACKAGE = "pylopdf_fonts_zh_cn"
VARIABLE = "AGENTLAB_FONT"


@dataclass(frozen=True, slots=True)
class Fonts:
    """The families of a chart and what they can draw."""

    families: tuple[str, ...]
    covered: frozenset[int]
    """Code points that one of the families has."""

    @property
    def has_chinese(self) -> bool:
        """True when Chinese labels can be drawn."""
        return all(ord(character) in self.covered for character in SAMPLE)

    def can_draw(self, text: str) -> bool:
        """Return whether every visible character of the text has a glyph."""
        return all(character.isspace() or ord(character) in self.covered for character in text)

    def drawable(self, text: str) -> str:
        """Return the text with '?' for each character that no family has; a box would say nothing."""
        return "".join(c if c.isspace() or ord(c) in self.covered else "?" for c in text)


def chart_fonts() -> Fonts:
    """Return the fonts of the charts.

    Raises:
        ConfigError: `AGENTLAB_FONT` names no font file, or one without the simplified Chinese sample.
    """
    return _fonts(os.environ.get(VARIABLE, ""), FAMILIES)


@cache
def _fonts(named: str, families: Sequence[str]) -> Fonts:
    latin = _covered(Path(font_manager.findfont(LATIN)), 0)
    found = _named(named) if named else _installed(families) or _from_extra()
    if found is None:
        return Fonts((LATIN,), latin)
    family, covered = found
    return Fonts((LATIN, family), latin | covered)


def warn_without_chinese() -> None:
    """Warn, once in a process, that labels are drawn in English because no font has Chinese characters."""
    _warn(os.getpid())


@cache
def _warn(process: int) -> None:
    warnings.warn(
        "No font with Chinese characters found: charts are labelled in English. Install the extra (pip install "
        f"'agentlab-compare[cjk]') or a system font (fonts-wqy-microhei), or set {VARIABLE} to a font file.",
        UserWarning,
        stacklevel=2,
    )


def _named(path: str) -> tuple[str, frozenset[int]]:
    try:
        covered = _covered(Path(path), 0)
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"{VARIABLE}={path} is no readable font file: {error}") from error
    if not _has_sample(covered):
        raise ConfigError(
            f"{VARIABLE}={path} lacks the simplified Chinese characters {SAMPLE}; name another font file."
        )
    return _register(Path(path)), covered


def _installed(families: Sequence[str]) -> tuple[str, frozenset[int]] | None:
    entries = {entry.name: entry for entry in reversed(font_manager.fontManager.ttflist)}
    for family in families:
        if family in entries:
            covered = _covered(Path(entries[family].fname), entries[family].index)
            if _has_sample(covered):
                return family, covered
    return None


def _from_extra() -> tuple[str, frozenset[int]] | None:
    try:
        path = Path(importlib.import_module(EXTRA_PACKAGE).sans_path())
    except ImportError:
        return None
    return _register(path), _covered(path, 0)


def _register(path: Path) -> str:
    font_manager.fontManager.addfont(path)
    return str(FT2Font(str(path)).family_name)


def _covered(path: Path, face_index: int) -> frozenset[int]:
    return frozenset(FT2Font(str(path), face_index=face_index).get_charmap())


def _has_sample(covered: frozenset[int]) -> bool:
    return all(ord(character) in covered for character in SAMPLE)
