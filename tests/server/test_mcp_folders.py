"""The law of the folders: whatever a client names, the file is in a folder, or the name is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwaga.errors import SettingsError
from uwaga.server.api_errors import ApiError
from uwaga.server.mcp.folders import Folders

PARTS = [
    "..",
    ".",
    "",
    "a",
    "b.md",
    "up",
    "out.md",
    "ring",
    "~",
    "C:",
    "con",
    "\\",
    "..\\",
    "\0",
    "\n",
    "é",
    "x" * 300,
]
NAMES = st.lists(st.sampled_from(PARTS) | st.text(max_size=6), max_size=6).map("/".join) | st.text(
    max_size=30
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two folders, with links inside that lead out, up and around."""
    place = tmp_path_factory.mktemp("place")
    (place / "outside.md").write_text("outside")
    for name in ("one", "two"):
        (place / name / "a").mkdir(parents=True)
        (place / name / "b.md").write_text(name)
        (place / name / "up").symlink_to(place)
        (place / name / "out.md").symlink_to(place / "outside.md")
        (place / name / "ring").symlink_to(place / name / "ring")
    return place


@given(NAMES, st.booleans())
def test_a_file_is_in_a_folder_or_refused(place: Path, name: str, absolute: bool):
    folders = Folders([place / "one", place / "two"])
    name = f"{place}/{name}" if absolute else name
    for found in (lambda: folders.existing(name, 100, [".md"]), lambda: folders.new(name, True)):
        try:
            path = found()
        except ApiError:
            continue
        assert path == path.resolve()
        assert any(path.is_relative_to(place / root) for root in ("one", "two"))
        assert folders.folder_of(path) / folders.name_of(path) == path


def test_the_first_folder_that_has_a_file_is_used(place: Path):
    folders = Folders([place / "two", place / "one", place / "two"])
    assert folders.existing("b.md", 100, []).read_text() == "two"
    assert folders.existing(str(place / "one" / "b.md"), 100, []).read_text() == "one"
    assert folders.new("c.md", False, place / "one" / "b.md") == place / "one" / "c.md"
    assert folders.new("c.md", False) == place / "two" / "c.md"
    assert folders.files([".md"]) == ["b.md"]
    assert folders.without_roots(f"{place}/one/b.md: bad") == "b.md: bad"


def test_without_folders_no_file_is_used(place: Path):
    for found in (lambda: Folders([]).existing("b.md", 1, []), lambda: Folders([]).new("b.md", True)):
        with pytest.raises(ApiError, match="uwaga mcp --folder DIR"):
            found()
    with pytest.raises(SettingsError, match="there is no such folder"):
        Folders([place / "none"])
