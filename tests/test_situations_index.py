import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_test_that_the_index_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "situations.md").read_text(encoding="utf-8")))
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    defined = {name for source in sources for name in re.findall(r"def (test_\w+)", source)}
    prefixes = {name for name in named if re.fullmatch(r"test_[a-f]\d\d", name)}
    assert named - prefixes <= defined
    for prefix in prefixes:
        assert any(name.startswith(prefix) for name in defined), prefix
