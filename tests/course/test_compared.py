"""The page that compares this course with fifteen other courses on fourteen points, with sources."""

import json
import re
from pathlib import Path

from uwaga_course import all_exercises

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/learn/compared.md").read_text(encoding="utf-8")
UWAGA = "uwaga"
OTHER_COURSES = {
    "Transformer Explainer": "poloclub/transformer-explainer", "llm-viz": "bbycroft/llm-viz",
    "BertViz": "jessevig/bertviz", "inseq": "inseq-team/inseq",
    "The Annotated Transformer": "harvardnlp/annotated-transformer", "d2l.ai": "d2l-ai/d2l-en",
    "The Illustrated Transformer": "jalammar/jalammar.github.io",
    "Hugging Face's course": "huggingface/course", "Distill": "distillpub/post--augmented-rnns",
    "JoeyNMT": "joeynmt/joeynmt", "YSDA, week 4": "yandexdataschool/nlp_course", "3Blue1Brown": "3b1b/videos",
    "Karpathy's lectures": "karpathy/nn-zero-to-hero",
    "TransformerLens": "TransformerLensOrg/TransformerLens", "penzai": "google-deepmind/penzai",
}  # fmt: skip


def tables(text=TEXT):
    """Return the tables of the page as pairs: the column names, and the rows by course."""
    parsed = []
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        lines = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in block.splitlines()]
        head, _, *rows = lines
        assert all(len(row) == len(head) for row in rows), head
        assert len({row[0] for row in rows}) == len(rows)
        parsed.append((head[1:], {row[0]: row[1:] for row in rows}))
    return parsed


def test_comparison_tables_are_complete():
    *comparisons, _ = tables()
    points = [point for head, _ in comparisons for point in head]
    assert len(points) == len(set(points)) == 14
    for head, rows in comparisons:
        assert len(head) < 7
        assert list(rows) == [UWAGA, *OTHER_COURSES]
        for course, cells in rows.items():
            assert all(re.search(r"\w{2}", cell) for cell in cells), course


COUNTS = {3: "three|tres|trzy|三", 5: "five|cinco|pięciu|五"}
LIVE = r"\blive\b|en vivo|działają|可运行"


def wrong_statements_about_uwaga(text):
    """Return the statements about this course in a page, in any language, that the repository contradicts."""
    *comparisons, _ = tables(text)
    cells = [cell for _, rows in comparisons for cell in rows[UWAGA]]
    learn = ROOT / "docs/learn"
    models = json.loads((learn / "models/models.json").read_text(encoding="utf-8"))
    recurrent = [model for model in models if model["name"] != "transformer"]
    by_hand = [
        int(page.name[:2]) for page in learn.glob("[0-9]*.md") if "\n## By hand\n" in page.read_text("utf-8")
    ]
    kinds = {exercise.kind for exercise in all_exercises().values()}
    expected = {  # column: what its cell has to contain
        1: rf"(?:{COUNTS[len(recurrent)]})(?=.*(?:{LIVE}))|(?:{LIVE}).*(?:{COUNTS[len(recurrent)]})",
        4: rf"\b{min(by_hand)}\b\D+\b{max(by_hand)}\b",
        5: COUNTS[len(kinds)],
    }
    return [cells[column] for column, words in expected.items() if not re.search(words, cells[column])]


def test_rows_about_uwaga_agree_with_the_repository():
    assert wrong_statements_about_uwaga(TEXT) == []


def test_comparison_gives_sources_and_advice_for_each_course():
    _, rows = tables()[-1]
    assert {course: repository for course, (repository, *_) in rows.items()} == OTHER_COURSES
    for course, (_, version, files) in rows.items():
        assert re.fullmatch(r"[0-9a-f]{7}, \d{4}-\d\d-\d\d", version), course
        assert len(re.findall(r"`[^`]+`", files)) >= 3
    advice = TEXT.split("## When to choose another")[1].split("## What was read")[0]
    assert re.findall(r"^### (.*)", advice, re.MULTILINE) == list(OTHER_COURSES)
    assert len(re.findall(r"^- \*\*", TEXT.split("## Where we are behind")[1], re.MULTILINE)) >= 5


def test_comparison_page_is_short_and_linked_from_the_index():
    assert len([word for word in TEXT.replace("|", " ").split() if re.search(r"\w", word)]) <= 2200
    assert "(compared.md)" in (ROOT / "docs/learn/index.md").read_text(encoding="utf-8")
