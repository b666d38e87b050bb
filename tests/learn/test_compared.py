"""The comparison with other courses: eleven of them, fourteen points, and no claim without its source."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/learn/compared.md").read_text(encoding="utf-8")
OURS = "uwaga"
OTHERS = {
    "Transformer Explainer": "poloclub/transformer-explainer",
    "llm-viz": "bbycroft/llm-viz",
    "BertViz": "jessevig/bertviz",
    "inseq": "inseq-team/inseq",
    "The Annotated Transformer": "harvardnlp/annotated-transformer",
    "d2l.ai": "d2l-ai/d2l-en",
    "The Illustrated Transformer": "jalammar/jalammar.github.io",
    "Hugging Face's course": "huggingface/course",
    "Distill": "distillpub/post--augmented-rnns",
    "JoeyNMT": "joeynmt/joeynmt",
    "YSDA, week 4": "yandexdataschool/nlp_course",
}


def tables():
    """The tables of the page: the names of their columns, and their rows by their course."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", TEXT, re.MULTILINE):
        lines = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in block.splitlines()]
        head, _, *rows = lines
        assert all(len(row) == len(head) for row in rows), head
        assert len({row[0] for row in rows}) == len(rows)
        found.append((head[1:], {row[0]: row[1:] for row in rows}))
    return found


def test_every_course_has_a_cell_at_every_point():
    *compared, _ = tables()
    points = [point for head, _ in compared for point in head]
    assert len(points) == len(set(points)) == 14
    for head, rows in compared:
        assert len(head) < 7
        assert list(rows) == [OURS, *OTHERS]
        for course, cells in rows.items():
            assert all(re.search(r"\w{2}", cell) for cell in cells), course


def test_every_course_has_its_source_and_advice():
    _, rows = tables()[-1]
    assert {course: repository for course, (repository, *_) in rows.items()} == OTHERS
    for course, (_, seen, files) in rows.items():
        assert re.fullmatch(r"[0-9a-f]{7}, \d{4}-\d\d-\d\d", seen), course
        assert len(re.findall(r"`[^`]+`", files)) >= 3
    advice = TEXT.split("## When to choose another")[1].split("## What was read")[0]
    assert re.findall(r"^### (.*)", advice, re.MULTILINE) == list(OTHERS)
    assert len(re.findall(r"^- \*\*", TEXT.split("## Where we are behind")[1], re.MULTILINE)) >= 5


def test_the_page_is_short_and_linked():
    assert len([word for word in TEXT.replace("|", " ").split() if re.search(r"\w", word)]) <= 1800
    assert "(compared.md)" in (ROOT / "docs/learn/index.md").read_text(encoding="utf-8")
