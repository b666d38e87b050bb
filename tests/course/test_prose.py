"""Numbers in the course's prose agree with its samples and figures, and names with the code shown."""

import ast
import contextlib
import html
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from calculators import BY_HAND, MEASURED, shown_numbers
from claims import claims_without_test, import_test_file, wrong_cosine_statements
from stated_numbers import STATEMENTS, statements, wrong_statements
from statements import (
    calls_that_disable_gradients,
    mechanisms_without_chapter_link,
    messages_without_data_set,
    models_wrongly_described_with_windows,
    outdated_install_sizes,
    paragraphs_in_widgets,
    words_missing_from_picture,
    wrong_reading_times,
    wrong_torch_requirements,
)
from test_compared import wrong_statements_about_uwaga
from test_training_frames import import_recorded_frames, statements_that_contradict_frames

import uwaga
from uwaga.checkpoints.formats.uwaga.names import BUNDLED

ROOT = Path(__file__).resolve().parents[2]
LEARN = ROOT / "docs" / "learn"
CHAPTERS = sorted(LEARN.glob("[0-9]*.md"))
EXERCISES = ROOT / "src" / "uwaga_course"
FENCE = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
FIGURE = re.compile(r"!\[(.*?)\]\((\S+?\.svg)\)", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.,^{])[-−]?\d+\.\d+(?![\w]|\.\d)")
ROW = re.compile(r"^ *\|.*\|$", re.MULTILINE)
WIDGET = re.compile(r"<(uwaga-\w+)((?:[^>']|'[^']*')*)>(.*?)</\1>", re.DOTALL)
UNLABELLED_FIGURES = {f"../figures/learn/{name}.svg" for name in ("c02_gradient", "c08_shift")}
"""Figures that show numbers only as curves, without labels."""
PERCENTAGE = re.compile(r"(?<![\w.,])(\d+(?:\.\d+)?)\s?%")
ANY_NUMBER = re.compile(r"(?<![\w.,^])[-−]?\d+(?:\.\d+)?(?![\w]|\.\d)")


@cache
def shown_source(fence: str) -> str:
    """Return the code that a fenced block of kind ``source`` shows."""
    file, _, name = fence.strip().partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    node: ast.AST = ast.parse(text)
    for part in name.split("."):
        node = next(child for child in ast.iter_child_nodes(node) if getattr(child, "name", None) == part)
    return ast.get_source_segment(text, node) or ""


def page_code(text: str) -> list[str]:
    """Return the contents of a page's fences; fences of the kind ``source`` are replaced by their code."""
    return [
        shown_source(content) if language == "source" else content
        for _, language, content in FENCE.findall(text)
    ]


@cache
def figure_text(figure: str) -> str:
    """Return the labels of a figure and the measurements in its script."""
    path = LEARN / figure
    labels = re.findall(r">([^<]+)</(?:text|title)>", path.read_text(encoding="utf-8"))
    script = path.with_suffix(".py").read_text(encoding="utf-8")
    return "\n".join(
        [
            html.unescape(" ".join(labels)),
            *re.findall(r"^MEASURED = \{.*?^\}", script, re.MULTILINE | re.DOTALL),
        ]
    )


@cache
def computed_text(text: str) -> str:
    """Return the computed text of a page: samples, outputs, figures and known statements."""
    parts = page_code(text) + [figure_text(name) for _, name in FIGURE.findall(text)]
    parts += [match[0] for _, match in statements(text)]
    return "\n".join(parts)


def evidence_text(text: str) -> str:
    """Return the computed text of a page together with its tables, alternative texts and widgets."""
    parts = [alternative for alternative, _ in FIGURE.findall(text)] + ROW.findall(text)
    return "\n".join([computed_text(text), *parts, *(match[0] for match in WIDGET.finditer(text))])


def prose(text: str) -> Iterator[str]:
    """Yield the paragraphs of a page without figures, fences, tables and widgets."""
    text = re.sub(r"<uwaga-\w+[^>]*>.*?</uwaga-\w+>", "", FENCE.sub("", text), flags=re.DOTALL)
    text = re.sub(r"^ *\|.*\|$", "", FIGURE.sub("", text), flags=re.MULTILINE)
    yield from (paragraph for paragraph in text.split("\n\n") if paragraph.strip())


@cache
def load_yaml(text: str) -> Any:
    """Return the content of an exercise file, parsed once; the caller must not change the result."""
    return yaml.load(text, yaml.CSafeLoader)


def value(number: str) -> float:
    return float(number.replace("−", "-"))


def is_rounded_from(number: str, numbers: list[str]) -> bool:
    """Return True if a number is one of the given numbers rounded, ignoring signs."""
    digits = len(number.partition(".")[2])
    tolerance = 0.5 * 10**-digits * (1 + 1e-9)
    return any(
        len(other.partition(".")[2]) >= digits and abs(abs(value(other)) - abs(value(number))) <= tolerance
        for other in numbers
    )


FUNCTIONS = (
    *(math.exp, math.log, math.log2, math.sqrt, math.tanh, math.cos, math.sin),
    *(lambda x: 1 - x, lambda x: 2**x, lambda x: x / (1 + math.exp(-x)), lambda x: 1 / (1 + math.exp(-x))),
    lambda x: math.exp(-x) / (1 + math.exp(-x)) ** 2,
)
SOURCED_PARAGRAPH = re.compile(
    r"`(?:experiments|recipes|benchmarks|docs)/[^`]+`|\b(?:19|20)\d\d\b|^Sources:|§"
)
"""Pattern of paragraphs that name the script or the paper from which their numbers are."""


def derived_numbers(terms: list[float]) -> Iterator[float]:
    """Yield numbers derived from the numbers of a paragraph: functions, pairs, sums and products."""
    for x in terms:
        for function in FUNCTIONS:
            with contextlib.suppress(ValueError, OverflowError):
                yield function(x)
    for x, y in itertools.permutations(terms, 2):
        yield from (x + y, x - y, x * y)
        if y:
            yield x / y
            if y > 0:
                yield x / math.sqrt(y)
    for start in range(len(terms)):
        yield from itertools.accumulate(terms[start:])
        yield from itertools.accumulate(terms[start:], lambda x, y: x * y)


NAMES = {name: getattr(math, name) for name in ("exp", "log", "sqrt", "tanh", "cos", "sin")}
EXPRESSION = re.compile(r"([-+*/(). 0-9]|\b(?:exp|log|sqrt|tanh|cos|sin)\b)+")


def formulas_as_python(text: str) -> str:
    """Return a text whose formulas are rewritten in Python's notation."""
    for old, new in {"\\ln": "log", "−": "-", "\\cdot": "*", "·": "*", "^": "**", "{": "(", "}": ")"}.items():
        text = text.replace(old, new)
    text = re.sub(r"(?<=\d) +\\?(?=(?:exp|log|sqrt|tanh)\()", "*", text)
    return re.sub(r"[$\\;]|e(?=\*\*)", lambda match: "2.718281828" if match[0] == "e" else " ", text)


def calculations(paragraph: str) -> Iterator[tuple[float, str]]:
    """Yield the value of each calculation in a paragraph, and the result that is written after it."""
    for statement in re.split(r"[,;:] |\. |\band\b|\n", formulas_as_python(paragraph)):
        *terms, result = re.split(r"=|≈", statement)
        number = re.match(r"\s*(-?\d+\.\d+)", result)
        for term in terms:
            expression = EXPRESSION.search(term[::-1]) and re.search(EXPRESSION.pattern + r"\s*$", term)
            if number and expression and re.search(r"\d", expression[0]):
                with contextlib.suppress(
                    SyntaxError, ValueError, ZeroDivisionError, TypeError, OverflowError
                ):
                    yield float(eval(expression[0].strip(), {"__builtins__": {}}, NAMES)), number[1]


def is_calculated(number: str, before: list[str], paragraph: str) -> bool:
    """Return True if a number follows from the numbers before it or from a written calculation."""
    tolerance = 0.55 * 10 ** -len(number.partition(".")[2])
    written = [value for value, result in calculations(paragraph) if result == number.replace("−", "-")]
    candidates = itertools.chain(derived_numbers([*map(value, before)]), written)
    return any(abs(abs(result) - abs(value(number))) <= tolerance for result in candidates)


def unverified_in_paragraph(paragraph: str, shown: list[str], before: list[str]) -> list[str]:
    """Return the decimal numbers of a paragraph that are neither shown nor derivable from shown numbers."""
    unverified, before = [], [*before]
    for number in ANY_NUMBER.findall(paragraph):
        if (
            "." in number
            and not is_rounded_from(number, shown)
            and not is_calculated(number, before, paragraph)
        ):
            unverified.append(f"{number} in {' '.join(paragraph.split())[:90]!r}")
        before.append(number)
    return unverified


def unverified_numbers(text: str) -> list[str]:
    """Return the decimal numbers of a page's prose that neither it nor a linked page shows."""
    computed_numbers = NUMBER.findall(evidence_text(text))
    unverified = []
    for paragraph in prose(text):
        if not SOURCED_PARAGRAPH.search(paragraph):
            linked = "\n".join(linked_pages(paragraph))
            unverified += unverified_in_paragraph(paragraph, computed_numbers + NUMBER.findall(linked), [])
    return unverified


STATED_PERCENTAGES = {
    "05-scale.md": {"18", "61"},  # experiments/dot_additive.py
    "16-family.md": {"15", "80", "10"},  # Devlin 2018
}


def unverified_percentages(text: str, path: Path) -> list[str]:
    """Return the percentages of a page's prose that it does not show and that cannot be derived."""
    known = evidence_text(text)
    unverified = []
    for paragraph in prose(text):
        if SOURCED_PARAGRAPH.search(paragraph) or not PERCENTAGE.search(paragraph):
            continue
        shown = "\n".join([known, *linked_pages(paragraph)])
        terms = [*map(value, ANY_NUMBER.findall(paragraph))]
        powers = [x**y for x in terms for y in terms if 0 < x < 1 < y < 100]
        shares = [*map(value, NUMBER.findall(shown)), *(1 / x for x in terms if x), *powers]
        percentages = [*PERCENTAGE.findall(shown), *(f"{100 * share:.8f}" for share in shares)]
        unverified += [
            f"{number}% in {' '.join(paragraph.split())[:90]!r}"
            for number in PERCENTAGE.findall(paragraph)
            if number not in STATED_PERCENTAGES.get(path.name, ())
            and not is_rounded_from(number, percentages)
        ]
    return unverified


def unverified_numbers_in_pictures_and_widgets(text: str) -> list[str]:
    """Return the numbers in alternative texts and widgets that the pictures and widgets do not show."""
    rows = [[*map(value, NUMBER.findall(row))] for row in ROW.findall(text)]
    ratios = [x / y for row in rows for x, y in itertools.pairwise(row) if y]
    shown = NUMBER.findall("\n".join([computed_text(text), *ROW.findall(text)])) + [
        f"{x:.8f}" for x in ratios
    ]
    unverified = []
    for alternative, name in FIGURE.findall(text):
        if name not in UNLABELLED_FIGURES:
            unverified += unverified_in_paragraph(alternative, NUMBER.findall(figure_text(name)), [])
    for _, attributes, content in WIDGET.findall(text):
        inputs = "".join(re.findall(r"data-toy='(.*?)'", attributes, re.DOTALL))
        numbers = shown_numbers(json.loads(html.unescape(inputs or "{}")), content)
        shown_too = [f"{number:.8f}" for number in numbers]
        unverified += unverified_in_paragraph(FIGURE.sub("", content), [*shown, *shown_too], [])
    return unverified


def unverified_table_cells(text: str, path: Path) -> list[str]:
    """Return the decimal numbers in a page's tables that are neither shown nor calculated."""
    chapter = path.name[:2]
    numbers = [*NUMBER.findall(computed_text(text)), *MEASURED.get(chapter, ())]
    known = {abs(value(number)) for number in numbers}
    numbers += [f"{number:.12f}" for number in (*known, *BY_HAND.get(chapter, ()))]
    return [
        f"{number} in {row.strip()!r}"
        for row in ROW.findall(text)
        for number in NUMBER.findall(row)
        if abs(value(number)) not in known
        and not is_rounded_from(number, numbers)
        and not is_calculated(number, [], row)
    ]


def linked_pages(paragraph: str) -> list[str]:
    """Return the texts of the pages to which a paragraph links."""
    names = re.findall(r"\]\(([\w./-]+\.md)", paragraph)
    return [(LEARN / name).read_text(encoding="utf-8") for name in names]


@cache
def measured_numbers(exercise: str) -> list[str]:
    """Return the computed numbers of the bundled model, or of a guide, to which an exercise refers."""
    if exercise in ("0.3", "10.3") and not BUNDLED.exists():
        pytest.skip("this source tree holds no bundled model")
    if exercise == "0.3":
        attention = uwaga.load().translate("I have seen the film.", attention=True).attention
        return [f"{weight:.6f}" for weight in attention.flat]
    if exercise == "9.5":
        return NUMBER.findall((ROOT / "docs/guides/alignment.md").read_text(encoding="utf-8"))
    if exercise == "10.3":
        torch = pytest.importorskip("torch")
        translator = uwaga.load(engine="torch")
        pairs = [("I want to buy a car.", f"Ich möchte ein {word} kaufen.") for word in ("Auto", "Haus")]
        scores = translator.score(pairs)
        translator.decoder.decoder_norm = torch.nn.Identity()
        return [f"{score.log_prob:.6f}" for score in [*scores, *translator.score(pairs)]]
    if exercise == "14.3":
        recorded = import_recorded_frames()
        return [
            f"{weight:.6f}" for weight in recorded.matrices(recorded.run("transformer"), "mean", 0)[0].flat
        ]
    return []


FIELDS_WITHOUT_PROSE = {"answer", "start", "program", "tests", "messages", "number", "kind"}
"""Fields of an exercise that contain no prose."""


def exercise_texts(exercise: object) -> Iterator[str]:
    """Yield the texts of an exercise without its code."""
    if isinstance(exercise, str):
        yield exercise
    elif isinstance(exercise, list):
        for part in exercise:
            yield from exercise_texts(part)
    elif isinstance(exercise, dict):
        for key, part in exercise.items():
            if key not in FIELDS_WITHOUT_PROSE:
                yield from exercise_texts(part)


def unverified_numbers_in_exercises(text: str) -> list[str]:
    """Return the decimal numbers of remarks, hints and solutions that are not in exercise or chapter."""
    unverified = []
    for exercise in load_yaml(text)["exercises"]:
        chapter, question = int(exercise["number"].partition(".")[0]), exercise["question"]
        [page] = [page.read_text(encoding="utf-8") for page in CHAPTERS if int(page.name[:2]) == chapter]
        code = json.dumps([exercise.get(key) for key in ("answer", "start", "program", "tests")])
        code += json.dumps([wrong["answer"] for wrong in exercise.get("wrong", ())])
        stated = f"{question} {exercise.get('answer')} {exercise['hint']}"
        shown = NUMBER.findall("\n".join([page, evidence_text(page), question, code]))
        before = ANY_NUMBER.findall(stated) if exercise["kind"] in ("number", "table") else []
        for part in exercise_texts({key: part for key, part in exercise.items() if key != "question"}):
            for paragraph in part.split("\n\n"):
                unverified += unverified_in_paragraph(
                    paragraph, [*shown, *measured_numbers(exercise["number"]), f"{math.e}"], before
                )
    return unverified


DECIMAL = re.compile(r"(?<![\w.,])\d+\.\d+(?!\.?\d)(?!\s*(?:亿|万|mill?i?o))")
INTEGER = re.compile(r"(?<![\w.,])\d{2,}(?![.,]?\d)(?!\s*(?:亿|万|mill?i?o|月))")
SEPARATOR = re.compile(r"(?<=\d)[,\s](?=\d{3}(?!\d))")
NAME = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
MODEL = re.compile(
    r"BERT|BART|GPT-2|T5|GNMT|ProphetNet|MARGE|Marian|Llama?|Mistral|Qwen|Gemma|\bCho\b|Bahdanau|Luong"
)
NOT_COMPARED = re.compile(r"\]\([^)]*\)|\{#[^}]*\}|^ *\d+\. ", re.MULTILINE)
"""Pattern of text whose numbers are not compared: links, anchors and list numbers."""
CHAPTER = re.compile(r"[Cc]hapter|[Cc]apítulo|[Rr]ozdzia|(?<!文)章")
CHAPTER_NUMBERS = {str(int(page.name[:2])) for page in CHAPTERS}


def numbers_and_names(text: str, digits: int) -> Counter[str]:
    """Return the numbers, names in backticks and models of a text.

    Models, and integers of so many digits, are counted once: words can replace them.
    """
    text = SEPARATOR.sub("", NOT_COMPARED.sub("", text))
    names = [name for name in NAME.findall(text) if re.search(r"[A-Za-z_]", name)]
    models = {name.replace("Llama", "Llam") for name in MODEL.findall(text)}
    integers = {number for number in INTEGER.findall(text) if len(number) >= digits}
    if CHAPTER.search(text):  # a translation may name a chapter once more
        integers -= CHAPTER_NUMBERS
    return Counter([*DECIMAL.findall(text), *names, *integers, *models])


def paragraphs(page: str) -> list[str]:
    return re.split(r"\n\s*\n", FENCE.sub("", page))


def differences_from_english(text: str, path: Path) -> list[str]:
    """Return the numbers and names that a translation contains more or less often than the English text."""
    folder = EXERCISES / "en" if path.suffix == ".yaml" else LEARN
    english = (folder / path.name).read_text(encoding="utf-8")
    if path.suffix == ".yaml":
        exercises = {exercise["number"]: exercise for exercise in load_yaml(english)["exercises"]}
        pairs = [(part, exercises[number]) for number, part in load_yaml(text).items()]
        texts = [
            ("\n".join(exercise_texts(part)), "\n".join(exercise_texts(original))) for part, original in pairs
        ]
    else:
        parts, originals = paragraphs(text), paragraphs(english)
        if len(parts) != len(originals):
            return [f"{len(parts)} paragraphs, {len(originals)} in English"]
        texts = list(zip(parts, originals, strict=True))
    digits = 3 if path.suffix == ".yaml" else 2
    counts = [[numbers_and_names(part, digits) for part in pair] for pair in texts]
    return [name for part, original in counts for name in ((part - original) + (original - part))]


PACKAGES = {"numpy", "torch", "transformers", "uwaga"}


def passages(section: str) -> Iterator[tuple[str, str]]:
    """Yield each passage of prose between fenced blocks, with the code directly before and after it."""
    parts = FENCE.split(section)
    texts, codes = [parts[0]], ["", ""]
    for language, content, text in zip(parts[2::4], parts[3::4], parts[4::4], strict=True):
        codes[-1] += shown_source(content) if language == "source" else content
        if text.strip():
            texts.append(text)
            codes.append("")
    for text, before, after in zip(texts, codes, codes[1:], strict=False):
        yield text, before + after


def unknown_names(text: str) -> list[str]:
    """Return the names in backticks that do not occur in the adjacent code."""
    section = text.partition("\n## In code\n")[2].partition("\n## ")[0]
    unknown = []
    for passage, code in passages(section):
        linked = [content for page in linked_pages(passage) for content in page_code(page)]
        words = set(re.findall(r"\w+", "\n".join([code, *linked])))
        unknown += [
            name
            for name in NAME.findall(passage)
            if re.fullmatch(r"[A-Za-z_][\w.]*(\(\))?", name)
            and not name.endswith((".py", ".md"))
            and not set(re.findall(r"\w+", name)) <= words | PACKAGES
        ]
    return unknown


CHECKS = [
    (unverified_numbers, LEARN.glob("[0-9]*.md")),
    (unverified_table_cells, [page for page in CHAPTERS if page.name[:2] != "14"]),  # test_training_frames
    (unverified_percentages, LEARN.glob("[0-9]*.md")),
    (unverified_numbers_in_pictures_and_widgets, LEARN.glob("[0-9]*.md")),
    (wrong_statements, [*LEARN.glob("[0-9]*.md"), LEARN / "laboratory.md"]),
    (wrong_cosine_statements, [*LEARN.rglob("04*.md"), ROOT / "docs/mechanisms/claims.md"]),
    (wrong_reading_times, [LEARN / "index.md"]),
    (claims_without_test, [ROOT / "docs/mechanisms/tutorials.md"]),
    (unknown_names, LEARN.glob("[0-9]*.md")),
    (unverified_numbers_in_exercises, EXERCISES.glob("en/*.yaml")),
    (differences_from_english,
     [*LEARN.glob("*/*.md"), *EXERCISES.glob("[!e]*/*.yaml"), *EXERCISES.glob("es/*.yaml")]),
    (paragraphs_in_widgets, [*LEARN.rglob("*.md"), ROOT / "docs/index.md"]),
    (calls_that_disable_gradients, LEARN.rglob("*.md")),
    (models_wrongly_described_with_windows,
     [*LEARN.rglob("1[67]*.md"), ROOT / "docs/mechanisms/decoders.md"]),
    (statements_that_contradict_frames, LEARN.glob("14*.md")),
    (wrong_statements_about_uwaga, LEARN.rglob("compared.md")),
    (mechanisms_without_chapter_link,
     [ROOT / f"docs/mechanisms/{name}.md" for name in ("numbers", "tutorials")]),
    (outdated_install_sizes, [ROOT / "docs/guides/install.md"]),
    (wrong_torch_requirements, [ROOT / "docs/guides/attention.md"]),
    (words_missing_from_picture, [ROOT / "docs/guides/confidence.md"]),
    (messages_without_data_set, (ROOT / "page/src/lab/messages").glob("*.ts")),
]  # fmt: skip
"""Functions that return the errors in the text of a file, with the files that each one checks."""
CHECKS_BY_FILE: dict[Path, list] = {}
for check, files in CHECKS:
    for file in sorted(files):
        CHECKS_BY_FILE.setdefault(file, []).append(check)


def errors_in(text: str, path: Path) -> list[str]:
    """Return the errors that all checks of a file find in the given text."""
    return [
        f"{check.__name__}: {fault}"
        for check in CHECKS_BY_FILE[path]
        for fault in (check(text, path) if "path" in check.__annotations__ else check(text))
    ]


@pytest.mark.parametrize("path", CHECKS_BY_FILE, ids=lambda path: str(path.relative_to(ROOT)))
def test_numbers_and_names_match_computed_values_and_code(path):
    assert errors_in(path.read_text(encoding="utf-8"), path) == []


WEIGHTS_TEST = (
    "tests/checkpoints/test_bundled.py::test_M1_word_with_a_low_attention_weight_can_change_the_translation"
)
MASKS_TEST = "tests/models/test_attention.py::test_M1_M8_attention_is_masked_normalised_and_order_independent"
KNOWN_ERRORS = [
    ("E1", "docs/learn/09*.md", "::MultiHeadAttention.queries\n", "::MultiHeadAttention.forward\n"),
    ("E1", "docs/learn/09*.md", "`transpose` moves", "`of_heads` moves"),
    ("E2", "docs/learn/14*.md", "The row *ein* finds", "Some rows never look at their word. It finds"),
    ("E2", "docs/learn/14*.md", "from update 200 to 800", "from update 350 to 450"),
    ("E3", "docs/learn/01*.md", "with 0.28.", "with 0.29."),
    ("E3", "docs/learn/es/01*.md", "con 0.28.", "con 0.29."),
    ("E4", "docs/learn/01*.md", "= 0.55$", "= 0.56$"),
    ("E4", "docs/learn/zh/01*.md", "= 0.55$", "= 0.56$"),
    ("E5", "docs/learn/12*.md", "it is 0.881 at", "it is 0.882 at"),
    ("E5", "docs/learn/pl/12*.md", "0.881", "0.882"),
    ("E6", "src/uwaga_course/en/09.yaml", "would cost 0.51 nats", "would cost 0.47 nats"),
    ("E6", "src/uwaga_course/en/09.yaml", "single losses is 0.51.", "single losses is 0.47."),
    ("E6", "src/uwaga_course/es/09.yaml", "0.51", "0.47"),
    ("E7", "docs/learn/17*.md", "Mistral 7B also limits", "Llama and Mistral 7B also limit"),
    ("E7", "docs/learn/es/17*.md", "Mistral 7B limita además", "Llama y Mistral 7B limitan además"),
    ("E7", "docs/mechanisms/decoders.md", "each block | SwiGLU | |", "each block | SwiGLU | windows |"),
    ("E8", "docs/learn/compared.md", "three small models live", "small calculators, no live model"),
    ("E8", "docs/learn/pl/compared.md", "trzy małe modele działają", "kalkulatory, żaden model nie działa"),
    ("E13", "docs/guides/attention.md", "; `heads` runs it natively", ", as does `heads`"),
    ("E14", "docs/guides/install.md", "the command line | 90 |", "the command line | 105 |"),
    ("E15", "docs/mechanisms/claims.md", "two are proportional only", "two agree only"),
    ("E15", "docs/mechanisms/claims.md", "They are equal only", "They are proportional only"),
    ("E15", "docs/learn/es/04*.md", "No lo es.",
     "El producto y el coseno coinciden si tienen la misma longitud."),
    ("E15", "docs/learn/zh/04*.md", "长度加倍的键，得分也加倍", "长度加倍的键，得分不变"),
    ("E16", "docs/mechanisms/tutorials.md", f"{WEIGHTS_TEST}`", f"{MASKS_TEST}`"),
    ("E17", "docs/guides/confidence.md", "of *großer* only", "of *gut·es* only"),
    ("E18", "docs/mechanisms/numbers.md", "../learn/16-family.md#", "../guides/pretrained.md#"),
    ("E18", "docs/mechanisms/tutorials.md", "../learn/16-family.md#", "../guides/pretrained.md#"),
    ("E19", "docs/learn/02*.md", "with torch.no_grad():\n", "torch.set_grad_enabled(False)\n"),
    ("E20", "docs/learn/laboratory.md", "<br>\nWithout", "\n\nWithout"),
    ("E20", "docs/learn/zh/laboratory.md", "<br>\n", "\n\n"),
    ("E24", "page/src/lab/messages/en.ts", "On average over the dev pairs, a row", "A row"),
    ("picture", "docs/learn/00*.md", "kaufen has 0.73 on", "kaufen has 0.74 on"),
    ("picture", "docs/learn/15*.md", "best with 0.192", "best with 0.190"),
    ("table", "docs/learn/11*.md", "| 4.277 |", "| 4.276 |"),
    ("table", "docs/learn/13*.md", "−1.309", "−1.308"),
    ("calculator", "docs/learn/02*.md", "0.205, 0.219, 0.236", "0.205, 0.219, 0.263"),
    ("calculator", "docs/learn/08*.md", "the product 4.529", "the product 4.528"),
    ("laboratory", "docs/learn/00*.md", "0.07, 0.96, 0.91", "0.07, 0.97, 0.91"),
    ("percentage", "docs/learn/10*.md", "narrowly: 37%", "narrowly: 38%"),
    ("percentage", "docs/learn/pl/15*.md", "90%", "89%"),
    ("size", "docs/learn/12*.md", "bundled model has four encoder blocks",
     "bundled model has six encoder blocks"),
    ("index", "docs/learn/index.md", "probability of a sentence | 45 |", "probability of a sentence | 30 |"),
]  # fmt: skip
"""Errors that a review of the course has found, by their numbers there: where each would stand now.

E9 to E12, E21 to E23 and E25 are faults of programs, which other tests detect. The last are of more kinds.
"""


@pytest.mark.parametrize(("error", "file", "right", "wrong"), KNOWN_ERRORS)
def test_errors_found_by_an_earlier_review_are_detected(error, file, right, wrong):
    [path] = ROOT.glob(file)
    text = path.read_text(encoding="utf-8")
    assert right in text
    assert errors_in(text.replace(right, wrong), path)


def test_test_that_does_not_check_its_claim_is_detected(monkeypatch):
    """Error E16 of the review was a test that checked only that the weights of a row sum to one."""

    def test_rows_of_attention_sum_to_one(translator):
        weights = translator.translate("The man reads the letter.", attention=True).attention
        assert weights.sum(axis=1) == pytest.approx(1, abs=1e-5)

    file, _, name = WEIGHTS_TEST.partition("::")
    monkeypatch.setattr(import_test_file(file), name, test_rows_of_attention_sum_to_one)
    wrong = claims_without_test((ROOT / "docs/mechanisms/tutorials.md").read_text(encoding="utf-8"))
    assert [fault.partition(":")[0] for fault in wrong] == [
        "weights show what was looked at, not what was used"
    ] * 2


def test_known_statements_occur_and_wrong_digits_in_them_are_detected():
    pages = [*CHAPTERS, LEARN / "laboratory.md"]
    matches = dict(match for page in pages for match in statements(page.read_text(encoding="utf-8")))
    assert matches.keys() == STATEMENTS.keys()
    for pattern, match in matches.items():
        for number in NUMBER.findall(" ".join(match.groups())):
            digits = len(number.partition(".")[2])
            wrong = f"{abs(value(number)) + 2 * 10**-digits:.{digits}f}"
            assert wrong_statements(match[0].replace(number.lstrip("−-"), wrong)), pattern


def test_most_wrong_digits_in_chapters_are_detected():
    """A number whose last digit is off by one may match another number by accident."""
    caught = total = 0
    for page in CHAPTERS:
        text = page.read_text(encoding="utf-8")
        computed_numbers = NUMBER.findall(evidence_text(text))
        for paragraph in prose(text):
            if SOURCED_PARAGRAPH.search(paragraph):
                continue
            before: list[str] = []
            for match in ANY_NUMBER.finditer(paragraph):
                number, digits = match[0], len(match[0].partition(".")[2])
                if digits >= 2:
                    wrong = f"{abs(value(number)) + 10**-digits:.{digits}f}"
                    changed = paragraph[: match.start()] + wrong + paragraph[match.end() :]
                    total += 1
                    caught += not is_rounded_from(wrong, computed_numbers) and not is_calculated(
                        wrong, before, changed
                    )
                before.append(number)
    assert caught >= 0.7 * total > 80
