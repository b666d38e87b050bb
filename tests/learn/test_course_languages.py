"""The course in other languages: the pages, exercises and labels of the English course, in the same shape."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from uwaga.errors import SettingsError
from uwaga.learn.check import check
from uwaga.learn.exercises import FOLDER, Exercise, all_exercises
from uwaga.learn.translations import read_texts, translate

ROOT = Path(__file__).resolve().parents[2]
LEARN = ROOT / "docs/learn"
FIGURES = ROOT / "docs/figures/learn"
LANGUAGES = sorted({path.parent.name for path in LEARN.glob("*/*.md")})
ENGLISH_ONLY = {"compared.md", "glossary.md"}
"""The comparison with other courses, most of which are in English, and the page of all languages at once."""
PAGES = [page for language in LANGUAGES for page in sorted((LEARN / language).glob("*.md"))]
CHAPTERS = [path for language in LANGUAGES for path in sorted((LEARN / language).glob("exercises/*.yaml"))]
FENCE = re.compile(r"^ *(```+|~~~+).*?^ *\1 *$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"(?<![\\$\w])\$(?!\s)([^$\n]+?)(?<![\s\\])\$(?![\w$])")


def name(path):
    return str(path.relative_to(LEARN))


@pytest.fixture
def languages(monkeypatch):
    """The hooks of the documentation that show the languages."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import languages

    return languages


def anchors(text):
    """The anchors of the headings: those that are written, else those that their texts make."""
    from markdown.extensions.toc import slugify, unique

    found: set[str] = set()
    made = []
    for title in re.findall(r"^##+ (.*)$", FENCE.sub("", text), re.MULTILINE):
        written = re.search(r"\{#([\w-]+)\}$", title)
        slug = written[1] if written else unique(slugify(re.sub(r"[*`]", "", title), "-"), found)
        found.add(slug)
        made.append(slug)
    return made


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_has_the_shape_of_the_english_one(page):
    own = page.read_text(encoding="utf-8")
    english = (LEARN / page.name).read_text(encoding="utf-8")
    assert [found[0] for found in FENCE.finditer(own)] == [found[0] for found in FENCE.finditer(english)]
    assert re.findall(r"</?uwaga-[^>]*>", own) == re.findall(r"</?uwaga-[^>]*>", english)
    own, english = FENCE.sub("", own), FENCE.sub("", english)
    levels = r"^#+(?= )"
    assert re.findall(levels, own, re.MULTILINE) == re.findall(levels, english, re.MULTILINE)
    assert anchors(own) == anchors(english)
    boxes = r"^ *(?:!!!|\?\?\?)\+? \w+"
    assert re.findall(boxes, own, re.MULTILINE) == re.findall(boxes, english, re.MULTILINE)
    language = page.parent.name
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", english)
    wanted = [re.sub(r"(figures/learn/\w+)\.svg", rf"\1.{language}.svg", f"../{one}") for one in pictures]
    assert re.findall(r"!\[[^\]]*\]\(([^)]*)\)", own) == wanted
    links = [re.sub(r"^\.\./", "../../", one) for one in re.findall(r"(?<!!)\[[^\]]*\]\(([^)]*)\)", english)]
    assert sorted(re.findall(r"(?<!!)\[[^\]]*\]\(([^)]*)\)", own)) == sorted(links)
    assert own.count("\n|") == english.count("\n|")
    assert sorted(INLINE.findall(own)) == sorted(INLINE.findall(english))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_picture_has_a_text_and_the_prose_is_translated(page):
    own = page.read_text(encoding="utf-8")
    for text in re.findall(r"!\[([^\]]*)\]\(", own):
        assert len(text.split()) >= 8 or (page.parent.name == "zh" and len(text) >= 16), text
    english = (LEARN / page.name).read_text(encoding="utf-8")
    prose = [one.strip() for one in FENCE.sub("", english).split("\n\n")]
    long = {one for one in prose if len(re.findall(r"\b[A-Za-z]{2,}\b", INLINE.sub("", one))) > 15}
    assert [one for one in FENCE.sub("", own).split("\n\n") if one.strip() in long] == []


@pytest.mark.parametrize("path", CHAPTERS, ids=name)
def test_exercises_are_the_english_ones_in_other_words(path):
    texts = read_texts(path)
    chapter = str(int(path.stem))
    numbers = [number for number in all_exercises() if number.partition(".")[0] == chapter]
    assert list(texts.by_number) == numbers
    for number in numbers:
        english = all_exercises()[number]
        same_answers(english, translate(english, texts))
        code = r"```.*?```"
        for key in ("question", "hint", "solution"):
            one, other = getattr(english, key), getattr(texts.by_number[number], key)
            assert re.findall(code, one, re.DOTALL) == re.findall(code, other, re.DOTALL), number
            assert INLINE.findall(one) == INLINE.findall(other) or set(INLINE.findall(one)) == set(
                INLINE.findall(other)
            ), number


def same_answers(english: Exercise, other: Exercise) -> None:
    """Answers get the verdict that they get in English."""
    assert (other.kind, other.number) == (english.kind, english.number)
    if english.kind == "number":
        answers = [[str(one)] for one in (english.answer, *(wrong.answer for wrong in english.wrong))]
    elif english.kind == "table":
        tables = [english.answer, *(wrong.answer for wrong in english.wrong)]
        answers = [[str(cell) for row in table for cell in row] for table in tables]
    elif english.kind == "choice":
        answers = [[str(at)] for at in range(1, len(english.options) + 1)]
    elif english.kind == "order":
        places = dict(zip(english.items, other.items, strict=True))
        for one, translated in zip(english.wrong, other.wrong, strict=True):
            assert [places[item] for item in one.answer] == translated.answer
        assert len(set(other.items)) == len(other.items)
        return
    else:
        assert (other.start, other.program, other.tests) == (english.start, english.program, english.tests)
        return
    for answer in answers:
        assert check(other, answer).right == check(english, answer).right


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_label_of_every_figure_has_a_translation(languages, language):
    assert (LEARN / language / "figures.yaml").exists()
    made = dict(languages.translated_figures(language))
    assert {Path(one).name for one in made} == {
        f"{one.stem}.{language}.svg" for one in FIGURES.glob("c*.svg")
    }
    for path, svg in made.items():
        english = (ROOT / "docs" / path.replace(f".{language}.svg", ".svg")).read_text(encoding="utf-8")
        text = r">[^<]*</(?:text|title)>"
        assert re.sub(text, "", svg) == re.sub(text, "", english)


def test_a_label_without_a_translation_is_named(languages, monkeypatch, tmp_path):
    known = languages.Labels(labels={"weight & sum": "peso y suma"}, same=["Katze"])
    svg = (
        '<title>weight &amp; sum</title><text x="1">Katze</text><text class="code small">dot</text>'
        '<text class="soft">query</text><text>h = 2</text>'
    )
    made, lacking = languages.translated_figure(svg, known)
    assert lacking == ["query"]
    assert made == svg.replace("weight &amp; sum", "peso y suma")
    (tmp_path / "learn/es").mkdir(parents=True)
    (tmp_path / "figures/learn").mkdir(parents=True)
    (tmp_path / "figures/learn/c01_one.svg").write_text(svg, encoding="utf-8")
    monkeypatch.setattr(languages, "DOCS", tmp_path)
    assert list(languages.translated_figures("es")) == [("figures/learn/c01_one.es.svg", svg)]
    (tmp_path / "learn/es/figures.yaml").write_text(
        'labels: {"weight & sum": peso}\nsame: []\n', encoding="utf-8"
    )
    with pytest.raises(
        SettingsError, match=r"figures\.yaml: no translation of 'Katze' \(c01_one\.svg\); 'query'"
    ):
        list(languages.translated_figures("es"))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"remarks": ["a"]}, r"03\.yaml: 3\.1: remarks has 1 entries, \d in English"),
        ({"otherwise": None}, r"03\.yaml: 3\.1; otherwise is missing"),
        ({"items": ["a"]}, r"03\.yaml: 3\.1; items does not belong there"),
        ({"hint": ""}, r"03\.yaml: 3\.1: hint"),
        ({"hints": "a"}, r"03\.yaml: 3\.1: unknown setting 'hints'; did you mean 'hint'"),
    ],
)
def test_texts_of_another_shape_are_refused(tmp_path, changes, complaint):
    english = all_exercises()["3.1"]
    texts = {
        "question": "q",
        "remarks": ["r"] * len(english.wrong),
        "otherwise": "o",
        "hint": "h",
        "solution": "s",
    }
    path = tmp_path / "03.yaml"
    texts = {key: text for key, text in (texts | changes).items() if text is not None}
    path.write_text("'3.1': " + repr(texts) + "\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=complaint):
        translate(english, read_texts(path))


def test_a_file_without_the_exercise_is_named(tmp_path):
    path = tmp_path / "03.yaml"
    path.write_text("{}\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"03\.yaml: 3\.1 is missing"):
        translate(all_exercises()["3.1"], read_texts(path))


def test_every_language_is_complete():
    missing = [
        f"{language}/{part}"
        for language in LANGUAGES
        for part in (
            *(page.name for page in LEARN.glob("*.md") if page.name not in ENGLISH_ONLY),
            *(f"exercises/{path.name}" for path in FOLDER.glob("*.yaml")),
            "figures.yaml",
        )
        if not (LEARN / language / part).exists()
    ]
    assert not missing


def test_the_glossary_has_every_term_in_every_language():
    lines = (LEARN / "glossary.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    assert len(rows[0]) == 3 + 2 * len(LANGUAGES)
    assert rows[0][3::2] == LANGUAGES
    for row in rows:
        assert len(row) == len(rows[0]) and row[0] and all(row[3::2]), row
    terms = [row[0] for row in rows]
    assert len(set(terms)) == len(terms)
