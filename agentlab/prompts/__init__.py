"""The prompt texts, one file per text and language. They are part of the experiment: their hash is a factor of a run.

`task`, `answer_format` and the rules in `task` are shared by all strategies; a strategy adds its method text only.
`task` and `react` are templates for `str.format` (`{instruction}`, `{criteria}`; `{tools}`); all others are
used as they are, so their braces stand for themselves.
"""

import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

from agentlab.errors import unknown_name

LANGUAGES = ("en", "zh")
_FOLDER = Path(__file__).parent


@functools.cache
def load_prompt(name: str, language: str) -> str:
    """Return the text of a prompt without surrounding blank lines.

    Args:
        name: `task`, `answer_format`, or a method or example text (`tool_loop`, `example_react`).
        language: zh or en.

    Raises:
        ConfigError: no such prompt or language; lists those that exist.
    """
    if language not in LANGUAGES:
        raise unknown_name("prompt language", language, LANGUAGES)
    names = {path.name.split(".")[0] for path in _FOLDER.glob(f"*.{language}.md")}
    if name not in names:
        raise unknown_name("prompt", name, names)
    return (_FOLDER / f"{name}.{language}.md").read_text(encoding="utf-8").strip()


def prompt_hash(names: Iterable[str], language: str) -> str:
    """Return 16 hex digits that change when the wording or the order of these prompts changes.

    Raises:
        ConfigError: no such prompt or language.
    """
    parts = [f"{name}\n{load_prompt(name, language)}" for name in names]
    return hashlib.sha256("\0".join([language, *parts]).encode()).hexdigest()[:16]
