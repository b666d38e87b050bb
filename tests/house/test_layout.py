"""The folders of tests/ correspond to the packages of src/uwaga and its companions src/uwaga_*."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def folders(parent: Path) -> set[str]:
    """Return the names of subfolders with Python files."""
    return {path.name for path in parent.iterdir() if path.is_dir() and any(path.glob("*.py"))}


def test_every_package_has_a_test_folder() -> None:
    companions = {name.removeprefix("uwaga_") for name in folders(ROOT / "src") if name != "uwaga"}
    assert folders(ROOT / "tests") - {"house", "support"} == folders(ROOT / "src/uwaga") | companions


def test_test_files_have_unique_names() -> None:
    """pytest imports test and support modules by file name, and a conftest by its folder."""
    names = [path.stem for path in (ROOT / "tests").rglob("*.py") if path.stem != "conftest"]
    assert sorted(names) == sorted(set(names))
    assert not [path.name for path in (ROOT / "tests").glob("test_*.py")]
    assert not [path.name for path in (ROOT / "tests/support").rglob("test_*.py")]
