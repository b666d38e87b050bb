"""Translations of the course: pages, exercises and labels have the structure of the English ones."""

import re
from pathlib import Path

import pytest

from uwaga.errors import SettingsError
from uwaga_course.check import check
from uwaga_course.exercises import FOLDER, Exercise, all_exercises
from uwaga_course.messages import LANGUAGES as SPOKEN
from uwaga_course.messages import MESSAGES
from uwaga_course.translations import read_texts, translate, untriggered_messages

ROOT = Path(__file__).resolve().parents[2]
LEARN = ROOT / "docs/learn"
FIGURES = ROOT / "docs/figures/learn"
LANGUAGES = sorted({path.parent.name for path in LEARN.glob("*/*.md")})
ENGLISH_ONLY = {"glossary.md"}
"""Pages that exist only in English: the glossary, which serves all languages."""
PAGES = [page for language in LANGUAGES for page in sorted((LEARN / language).glob("*.md"))]
CHAPTERS = [path for language in LANGUAGES for path in sorted((FOLDER.parent / language).glob("*.yaml"))]
FENCE = re.compile(r"^ *(```+|~~~+).*?^ *\1 *$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"(?<![\\$\w])\$(?!\s)([^$\n]+?)(?<![\s\\])\$(?![\w$])")


def name(path):
    return f"{path.parent.name}/{path.name}"


def fences(text):
    """Return the fenced blocks of a page; those of kind ``predict`` without the texts of their options."""
    blocks = [match[0] for match in FENCE.finditer(text)]
    options = re.compile(r"^( *[-+]) .*$", re.MULTILINE)
    return [
        options.sub(r"\1", fence) if fence.lstrip("`~ ").startswith("predict") else fence for fence in blocks
    ]


@pytest.fixture
def languages(monkeypatch):
    """Return the module with the documentation's hooks for languages."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import languages

    return languages


def anchors(text):
    """Return the anchors of all headings, which are explicit or derived from their texts."""
    from markdown.extensions.toc import slugify, unique

    slugs: set[str] = set()
    result = []
    for title in re.findall(r"^##+ (.*)$", FENCE.sub("", text), re.MULTILINE):
        explicit = re.search(r"\{#([\w-]+)\}$", title)
        slug = explicit[1] if explicit else unique(slugify(re.sub(r"[*`]", "", title), "-"), slugs)
        slugs.add(slug)
        result.append(slug)
    return result


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_translated_page_has_the_structure_of_its_english_page(page):
    text = page.read_text(encoding="utf-8")
    english = (LEARN / page.name).read_text(encoding="utf-8")
    assert fences(text) == fences(english)
    assert re.findall(r"</?uwaga-[^>]*>", text) == re.findall(r"</?uwaga-[^>]*>", english)
    text, english = FENCE.sub("", text), FENCE.sub("", english)
    levels = r"^#+(?= )"
    assert re.findall(levels, text, re.MULTILINE) == re.findall(levels, english, re.MULTILINE)
    assert anchors(text) == anchors(english)
    boxes = r"^ *(?:!!!|\?\?\?)\+? \w+"
    assert re.findall(boxes, text, re.MULTILINE) == re.findall(boxes, english, re.MULTILINE)
    language = page.parent.name
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", english)
    expected = [
        re.sub(r"(figures/learn/\w+)\.svg", rf"\1.{language}.svg", f"../{picture}") for picture in pictures
    ]
    assert re.findall(r"!\[[^\]]*\]\(([^)]*)\)", text) == expected
    links = [
        re.sub(r"^\.\./", "../../", link) for link in re.findall(r"(?<!!)\[[^\]]*\]\(([^)]*)\)", english)
    ]
    assert sorted(re.findall(r"(?<!!)\[[^\]]*\]\(([^)]*)\)", text)) == sorted(links)
    assert text.count("\n|") == english.count("\n|")
    assert sorted(INLINE.findall(text)) == sorted(INLINE.findall(english))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_pictures_have_alternative_text_and_prose_is_translated(page):
    translation = page.read_text(encoding="utf-8")
    for text in re.findall(r"!\[([^\]]*)\]\(", translation):
        assert len(text.split()) >= 8 or (page.parent.name == "zh" and len(text) >= 16), text
    english = (LEARN / page.name).read_text(encoding="utf-8")
    prose = [paragraph.strip() for paragraph in FENCE.sub("", english).split("\n\n")]
    long = {
        paragraph
        for paragraph in prose
        if len(re.findall(r"\b[A-Za-z]{2,}\b", INLINE.sub("", paragraph))) > 15
    }
    assert [
        paragraph for paragraph in FENCE.sub("", translation).split("\n\n") if paragraph.strip() in long
    ] == []


@pytest.mark.parametrize("path", CHAPTERS, ids=name)
def test_translated_exercises_correspond_to_english_exercises(path):
    texts = read_texts(path)
    chapter = str(int(path.stem))
    numbers = [number for number in all_exercises() if number.partition(".")[0] == chapter]
    assert list(texts.by_number) == numbers
    for number in numbers:
        english = all_exercises()[number]
        check_same_verdicts(english, translate(english, texts))
        code = r"```.*?```"
        for key in ("question", "hint", "solution"):
            english_text, translated_text = getattr(english, key), getattr(texts.by_number[number], key)
            assert re.findall(code, english_text, re.DOTALL) == re.findall(
                code, translated_text, re.DOTALL
            ), number
            assert INLINE.findall(english_text) == INLINE.findall(translated_text) or set(
                INLINE.findall(english_text)
            ) == set(INLINE.findall(translated_text)), number


def check_same_verdicts(english: Exercise, translated_exercise: Exercise) -> None:
    """Check that a translated exercise gives the same verdicts on answers as the English one."""
    assert (translated_exercise.kind, translated_exercise.number) == (english.kind, english.number)
    if english.kind == "number":
        answers = [[str(number)] for number in (english.answer, *(wrong.answer for wrong in english.wrong))]
    elif english.kind == "table":
        tables = [english.answer, *(wrong.answer for wrong in english.wrong)]
        answers = [[str(cell) for row in table for cell in row] for table in tables]
    elif english.kind == "choice":
        answers = [[str(number)] for number in range(1, len(english.options) + 1)]
    elif english.kind == "order":
        translated_items = dict(zip(english.items, translated_exercise.items, strict=True))
        for mistake, translated_mistake in zip(english.wrong, translated_exercise.wrong, strict=True):
            assert [translated_items[item] for item in mistake.answer] == translated_mistake.answer
        assert len(set(translated_exercise.items)) == len(translated_exercise.items)
        return
    else:
        assert (translated_exercise.start, translated_exercise.program, translated_exercise.tests) == (
            english.start,
            english.program,
            english.tests,
        )
        assert translated_exercise.messages.keys() == {mistake.remark for mistake in english.wrong} | set(
            untriggered_messages(english)
        )
        return
    for answer in answers:
        assert check(translated_exercise, answer).right == check(english, answer).right


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_figure_labels_are_translated(languages, language):
    assert (LEARN / language / "figures.yaml").exists()
    figures = dict(languages.translated_figures(language))
    assert {Path(path).name for path in figures} == {
        f"{path.stem}.{language}.svg" for path in FIGURES.glob("c*.svg")
    }
    for path, svg in figures.items():
        english = (ROOT / "docs" / path.replace(f".{language}.svg", ".svg")).read_text(encoding="utf-8")
        text = r">[^<]*</(?:text|title)>"
        assert re.sub(text, "", svg) == re.sub(text, "", english)


def test_missing_label_translation_is_reported(languages, monkeypatch, tmp_path):
    labels = languages.Labels(labels={"weight & sum": "peso y suma"}, same=["Katze"])
    svg = (
        '<title>weight &amp; sum</title><text x="1">Katze</text><text class="code small">dot</text>'
        '<text class="soft">query</text><text>h = 2</text>'
    )
    translated, missing = languages.translated_figure(svg, labels)
    assert missing == ["query"]
    assert translated == svg.replace("weight &amp; sum", "peso y suma")
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
    ("changes", "message"),
    [
        ({"remarks": ["a"]}, r"03\.yaml: 3\.1: remarks has 1 entries, but the English exercise has \d"),
        ({"otherwise": None}, r"03\.yaml: 3\.1; otherwise is missing"),
        ({"items": ["a"]}, r"03\.yaml: 3\.1; items does not belong there"),
        ({"hint": ""}, r"03\.yaml: 3\.1: hint"),
        ({"hints": "a"}, r"03\.yaml: 3\.1: unknown setting 'hints'; did you mean 'hint'"),
    ],
)
def test_exercise_translations_with_wrong_fields_are_rejected(tmp_path, changes, message):
    english = all_exercises()["3.1"]
    texts = {
        "question": "q", "remarks": ["r"] * len(english.wrong), "otherwise": "o", "hint": "h",
        "solution": "s", "because": "b",
    }  # fmt: skip
    path = tmp_path / "03.yaml"
    texts = {key: text for key, text in (texts | changes).items() if text is not None}
    path.write_text("'3.1': " + repr(texts) + "\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=message):
        translate(english, read_texts(path))


def test_missing_exercise_translation_is_reported(tmp_path):
    path = tmp_path / "03.yaml"
    path.write_text("{}\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"03\.yaml: 3\.1 is missing"):
        translate(all_exercises()["3.1"], read_texts(path))


def test_each_language_has_all_pages_exercises_and_figures():
    missing = [
        f"{language}/{part}"
        for language in LANGUAGES
        for part in (
            *(page.name for page in LEARN.glob("*.md") if page.name not in ENGLISH_ONLY),
            "figures.yaml",
        )
        if not (LEARN / language / part).exists()
    ]
    chapters = {path.name for path in FOLDER.glob("*.yaml")}
    missing += [
        f"{language}: {chapters ^ translated}"
        for language in LANGUAGES
        if (translated := {path.name for path in (FOLDER.parent / language).glob("*.yaml")}) != chapters
    ]
    assert not missing


def test_learn_command_messages_have_the_same_placeholders_in_all_languages():
    assert ["en", *LANGUAGES] == list(SPOKEN) == list(MESSAGES)
    placeholder = re.compile(r"\{(\w+)")
    for language in LANGUAGES:
        assert MESSAGES[language].keys() == MESSAGES["en"].keys()
        for key, text in MESSAGES["en"].items():
            assert sorted(placeholder.findall(MESSAGES[language][key])) == sorted(
                placeholder.findall(text)
            ), key


def test_course_glossary_translates_every_term_into_all_languages():
    lines = (LEARN / "glossary.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    assert len(rows[0]) == 3 + 2 * len(LANGUAGES)
    assert rows[0][3::2] == LANGUAGES
    for row in rows:
        assert len(row) == len(rows[0]) and row[0] and all(row[3::2]), row
    terms = [row[0] for row in rows]
    assert len(set(terms)) == len(terms)
