"""In docs/mechanisms/tutorials.md every mechanism, example and claim has a page, code and a test.

``tests/course/test_tutorials_index.py`` checks the tables above, which go through the tutorials.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/mechanisms/tutorials.md"
ROWS = [
    [cell.strip() for cell in line.strip("| ").split(" | ")]
    for line in PAGE.read_text(encoding="utf-8").partition("## Mechanisms, examples, claims")[2].splitlines()
    if line.startswith("| ") and not line.startswith("| what")
]
LINK = re.compile(r"\[[^\]]+\]\(([^)#]+)(?:#([^)]+))?\)")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page: those that mkdocs derives from headings, and explicit ones."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    names = set(re.findall(r'<a id="([\w-]+)">', text))
    for heading in re.findall(r"^#+ (.*)$", text, flags=re.M):
        plain = re.sub(r"[^\w\s-]", "", heading.encode("ascii", "ignore").decode()).strip().lower()
        names.add(re.sub(r"[-\s]+", "-", plain))
    return names


def test_table_has_a_row_for_each_mechanism_of_the_tutorials() -> None:
    numbers = {match for row in ROWS for match in re.findall(r"^\[([ME]\d+)\]", row[0])}
    assert numbers >= {f"M{number}" for number in (*range(1, 26), 29, 30)} | {
        f"E{number}" for number in range(1, 8)
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_table_rows_name_existing_pages_code_and_tests(row: list[str]) -> None:
    assert len(row) == 4
    assert all(row)
    for target, anchor in LINK.findall(row[0] + row[1]):
        page = (PAGE.parent / target).resolve()
        assert page.is_file(), target
        assert not anchor or anchor in anchors(page), (target, anchor)
    assert LINK.search(row[1])
    assert (ROOT / row[2].strip("`")).is_file()
    path, name = row[3].strip("`").split("::")
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text(encoding="utf-8"), flags=re.M)
