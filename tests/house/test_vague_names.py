"""Names are nouns of the field: at most 0.5 % of the names of a package are vague.

The list has words that were used in the place of nouns. Some uses are good English or names of another
program's fields, so a small share is allowed.
"""

import ast
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_SHARE = 0.005
MAX_IN_SMALL_PACKAGES = 2
MIN_NAMES = 400
"""Packages with fewer names are counted together with their parent folder."""
VAGUE = frozenset(
    (  # noqa: SIM905 (a list takes fifty lines)
        "one at found made own wanted asked given begun alone alike some rest leg legs offer offers visit "
        "way ways told gate door doors lake place places ours theirs mine whole kept chosen shown seen drawn "
        "taken said what where here there every many the turned led fed "
    ).split()
)
VAGUE_PARTS = frozenset({"found", "made", "own", "wanted", "begun", "told"})
"""Words that are vague in compounds too, such as ``own_names``."""
NAMED_NODES = {
    **{ast.Name: "id", ast.Attribute: "attr", ast.arg: "arg", ast.alias: "asname"},
    **{ast.FunctionDef: "name", ast.AsyncFunctionDef: "name", ast.ClassDef: "name"},
    **{ast.ExceptHandler: "name", ast.MatchAs: "name", ast.MatchStar: "name"},
}
"""The attribute with the name that a syntax node defines, by type of node."""
NOT_CODE = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`", re.DOTALL
)
NAME = re.compile(r"(?<![.\w$])[A-Za-z_]\w*")


def is_vague(name: str) -> bool:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).strip("_").lower().split("_")
    return words[0] in VAGUE if len(words) == 1 else not VAGUE_PARTS.isdisjoint(words)


def python_names(text: str) -> Iterator[str]:
    """Yield the names of variables, parameters, attributes, functions and classes that a file defines."""
    for node in ast.walk(ast.parse(text)):
        name = getattr(node, NAMED_NODES.get(type(node), ""), None)
        if name and type(getattr(node, "ctx", None)) not in (ast.Load, ast.Del):
            yield name


def other_names(text: str) -> Iterator[str]:
    """Yield each name in a C++ or TypeScript file once, except members of other objects."""
    yield from set(NAME.findall(NOT_CODE.sub(" ", text)))


def folder_of(path: Path) -> str:
    """Return the package in which the names of a file are counted."""
    return "/".join(path.parts[: 3 if path.parts[0] == "src" else 2][: len(path.parts) - 1])


def names_by_folder() -> dict[str, Counter[str]]:
    files = subprocess.run(
        ["git", "ls-files", "*.py", "*.ts", "*.cpp", "*.h", "*.inl"], cwd=ROOT, capture_output=True,
        text=True, check=True,
    ).stdout.split()  # fmt: skip
    names: dict[str, Counter[str]] = defaultdict(Counter)
    for file in map(Path, files):
        read = python_names if file.suffix == ".py" else other_names
        names[folder_of(file)].update(read((ROOT / file).read_text(encoding="utf-8")))
    merged: dict[str, Counter[str]] = defaultdict(Counter)
    for folder, counts in names.items():
        key = folder if sum(counts.values()) >= MIN_NAMES else folder.partition("/")[0]
        merged[key].update(counts)
    return merged


@pytest.mark.slow
def test_share_of_vague_names_is_limited() -> None:
    problems = {}
    for folder, counts in names_by_folder().items():
        vague = Counter({name: times for name, times in counts.items() if is_vague(name)})
        share = sum(vague.values()) / sum(counts.values())
        if share > MAX_SHARE and sum(vague.values()) > MAX_IN_SMALL_PACKAGES:
            problems[folder] = f"{share:.1%} of the names are vague: {vague.most_common()}"
    assert problems == {}


def test_vague_names_are_recognised() -> None:
    assert all(map(is_vague, ("one", "_found", "own_names", "ownNames", "MADE", "the")))
    assert not any(map(is_vague, ("zone", "token", "placeholder", "attended", "index")))
