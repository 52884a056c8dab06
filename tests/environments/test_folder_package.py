import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentlab.environments.folder_package import (
    digest_of,
    import_from_folder,
    place_of,
    shown_path,
    source_files,
)


def folder(place: Path, **files: str) -> Path:
    place.mkdir(parents=True)
    for name, text in files.items():
        (place / f"{name}.py").write_text(text, encoding="utf-8")
    return place


def test_two_folders_with_the_same_file_names_keep_apart(tmp_path: Path) -> None:
    one = folder(tmp_path / "a" / "same", main="from .part import WORD", part="WORD = 'one'")
    two = folder(tmp_path / "b" / "same", main="from .part import WORD", part="WORD = 'two'")
    before = list(sys.path)
    words = [import_from_folder(place, "main")[0].WORD for place in (one, two, one)]
    assert words == ["one", "two", "one"]
    assert sys.path == before
    assert "part" not in sys.modules


def test_the_same_content_is_imported_once_and_an_edit_afresh(tmp_path: Path) -> None:
    place = folder(tmp_path / "suite", main="from .part import WORD", part="WORD = 'old'")
    first, digest = import_from_folder(place, "main")
    assert import_from_folder(place, "main") == (first, digest)
    (place / "part.py").write_text("WORD = 'new'", encoding="utf-8")
    second, changed = import_from_folder(place, "main")
    assert (first.WORD, second.WORD) == ("old", "new")
    assert changed != digest


def test_an_import_inside_a_function_works_later_and_from_a_subfolder(tmp_path: Path) -> None:
    place = folder(
        tmp_path / "suite", __init__="NAME = 'mine'", main="def late():\n    from .deep.part import W\n    return W"
    )
    folder(place / "deep", part="from .. import NAME\nW = NAME")
    assert import_from_folder(place, "main")[0].late() == "mine"


def test_an_edit_that_keeps_time_and_size_is_seen_by_the_next_process(tmp_path: Path) -> None:
    """Python's own import would run the bytecode of the old text here."""
    place = folder(tmp_path / "suite", main="WORD = 'aaa'")
    code = f"""
from pathlib import Path
from agentlab.environments.folder_package import import_from_folder
print(import_from_folder(Path({str(place)!r}), "main")[0].WORD)
"""

    def shown() -> str:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.strip()

    os.utime(place / "main.py", (1_000_000_000, 1_000_000_000))
    assert shown() == "aaa"
    (place / "main.py").write_text("WORD = 'bbb'", encoding="utf-8")
    os.utime(place / "main.py", (1_000_000_000, 1_000_000_000))
    assert shown() == "bbb"
    assert [path.name for path in place.iterdir()] == ["main.py"]


def test_the_digest_follows_names_and_contents_of_the_folders_own_python_files(tmp_path: Path) -> None:
    place = folder(tmp_path / "suite", main="A = 1")
    digests = [digest_of(source_files(place), place)]
    folder(place / "part", inner="B = 2")
    digests.append(digest_of(source_files(place), place))
    (place / "part" / "inner.py").rename(place / "part" / "other.py")
    digests.append(digest_of(source_files(place), place))
    assert len(set(digests)) == 3
    for foreign in (".hidden", "__pycache__"):
        folder(place / foreign, x="C = 3")
    folder(place / "venv" / "lib", x="C = 3")
    (place / "venv" / "pyvenv.cfg").touch()
    (place / "README.md").write_text("words")
    assert digest_of(source_files(place), place) == digests[-1]


def test_an_error_is_placed_in_the_folders_own_line(tmp_path: Path) -> None:
    place = folder(tmp_path / "suite", main="import json\n\ndef load():\n    return json.loads('{')\n", bad="x = (\n")
    module, _ = import_from_folder(place, "main")
    with pytest.raises(ValueError, match="Expecting") as caught:
        module.load()
    assert str(place_of(caught.value, place)).endswith("main.py, line 4 (`return json.loads('{')`)")
    with pytest.raises(SyntaxError) as broken:
        import_from_folder(place, "bad")
    assert str(place_of(broken.value, place)).endswith("bad.py, line 1 (`x = (`)")
    assert place_of(RuntimeError("elsewhere"), place) is None


def test_a_path_is_shown_as_one_would_write_it_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here" / "below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    assert shown_path(tmp_path / "here" / "below") == "below"
    assert shown_path(tmp_path / "beside") == "../beside"
    assert Path(shown_path(tmp_path.parent.parent)).is_absolute()
