"""tests/ mirrors the packages of src/uwaga."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def folders(place: Path) -> set[str]:
    """The folders of a place that hold Python files."""
    return {path.name for path in place.iterdir() if path.is_dir() and any(path.glob("*.py"))}


def test_every_package_has_its_folder_of_tests() -> None:
    assert folders(ROOT / "tests") - {"house", "support"} == folders(ROOT / "src/uwaga")


def test_tests_stand_in_folders_and_their_names_differ() -> None:
    """pytest imports them by their names alone, and what stands in support/ too; a conftest by its folder."""
    names = [path.stem for path in (ROOT / "tests").rglob("*.py") if path.stem != "conftest"]
    assert sorted(names) == sorted(set(names))
    assert not [path.name for path in (ROOT / "tests").glob("test_*.py")]
    assert not [path.name for path in (ROOT / "tests/support").rglob("test_*.py")]
