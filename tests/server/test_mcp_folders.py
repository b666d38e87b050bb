"""Folders of MCP servers: paths outside the folders are refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwaga.errors import SettingsError
from uwaga_server.api_errors import ApiError
from uwaga_server.mcp.folders import Folders

PARTS = [
    "..", ".", "", "a", "b.md", "up", "out.md", "ring", "~", "C:", "con", "\\", "..\\", "\0", "\n", "é",
    "x" * 300,
]  # fmt: skip
NAMES = st.lists(st.sampled_from(PARTS) | st.text(max_size=6), max_size=6).map("/".join) | st.text(
    max_size=30
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create two folders with symbolic links to the outside, to the parent, and to themselves."""
    root = tmp_path_factory.mktemp("place")
    (root / "outside.md").write_text("outside")
    for name in ("one", "two"):
        (root / name / "a").mkdir(parents=True)
        (root / name / "b.md").write_text(name)
        (root / name / "up").symlink_to(root)
        (root / name / "out.md").symlink_to(root / "outside.md")
        (root / name / "ring").symlink_to(root / name / "ring")
    return root


@given(NAMES, st.booleans())
def test_paths_outside_the_folders_are_refused(root: Path, name: str, absolute: bool):
    folders = Folders([root / "one", root / "two"])
    name = f"{root}/{name}" if absolute else name
    for find in (lambda: folders.input_path(name, 100, [".md"]), lambda: folders.output_path(name, True)):
        try:
            path = find()
        except ApiError:
            continue
        assert path == path.resolve()
        assert any(path.is_relative_to(root / folder) for folder in ("one", "two"))
        assert folders.folder_of(path) / folders.name_of(path) == path


def test_file_is_taken_from_the_first_folder_that_contains_it(root: Path):
    folders = Folders([root / "two", root / "one", root / "two"])
    assert folders.input_path("b.md", 100, []).read_text() == "two"
    assert folders.input_path(str(root / "one" / "b.md"), 100, []).read_text() == "one"
    assert folders.output_path("c.md", False, root / "one" / "b.md") == root / "one" / "c.md"
    assert folders.output_path("c.md", False) == root / "two" / "c.md"
    assert folders.files([".md"]) == ["b.md"]
    assert folders.without_roots(f"{root}/one/b.md: bad") == "b.md: bad"


def test_file_paths_are_refused_if_no_folders_are_configured(root: Path):
    for find in (
        lambda: Folders([]).input_path("b.md", 1, []),
        lambda: Folders([]).output_path("b.md", True),
    ):
        with pytest.raises(ApiError, match="uwaga mcp --folder DIR"):
            find()
    with pytest.raises(SettingsError, match="there is no such folder"):
        Folders([root / "none"])
