"""The tables of docs/mechanisms/tutorials.md: every paragraph of the five tutorials is taught somewhere."""

import re
from pathlib import Path

import pytest
from markdown.extensions.toc import slugify

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/mechanisms/tutorials.md"
INDEX = PAGE.read_text(encoding="utf-8").partition("## Mechanisms, examples, claims")[0]
TABLES = {
    title: [
        [cell.strip() for cell in line.strip("| ").split(" | ")]
        for line in table.splitlines()
        if line.startswith("| ") and not line.startswith("| the tutorial says")
    ]
    for title, table in re.findall(r"^## (\d{3}): .*?$(.*?)(?=^## |\Z)", INDEX, re.MULTILINE | re.DOTALL)
}
ROWS = [pytest.param(row, id=f"{title}-{row[0][:50]}") for title, rows in TABLES.items() for row in rows]
LINK = re.compile(r"\[[^\]]+\]\(([^)#]+)#([^)]+)\)")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, and those of the terms in the glossary."""
    if page.name == "glossary.md":
        terms = page.with_suffix(".tsv").read_text(encoding="utf-8").splitlines()[1:]
        return {slugify(term.partition("\t")[0], "-") for term in terms}
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^##+ (.*)$", text, re.MULTILINE)
    return {slugify(re.sub(r"[*`]", "", title), "-") for title in titles}


def test_index_lists_all_tutorials():
    assert {title: len(rows) for title, rows in TABLES.items()} == {
        "000": 14, "001": 12, "002": 26, "003": 10, "004": 6,
    }  # fmt: skip
    assert not re.search("[✗◐]", INDEX)


@pytest.mark.parametrize("row", ROWS)
def test_index_rows_link_to_existing_sections(row):
    assert len(row) == 3 and all(row)
    links = LINK.findall(row[1])
    assert links and re.sub(LINK, "", row[1]).strip(", ") == ""
    for target, anchor in [*links, *LINK.findall(row[2])]:
        page = (PAGE.parent / target).resolve()
        assert page.is_file(), target
        assert anchor in anchors(page), (target, anchor)


def test_appendix_is_linked_from_the_course():
    index = (ROOT / "docs/learn/index.md").read_text(encoding="utf-8")
    for page in ("tutorials.md", "walk.md", "claims.md"):
        assert f"(../mechanisms/{page})" in index
