"""Numbers in the course's prose agree with what stands beside them, and names with the code that is shown."""

import ast
import contextlib
import html
import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEARN = ROOT / "docs" / "learn"
CHAPTERS = sorted(LEARN.glob("[0-9]*.md"))
FENCE = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
FIGURE = re.compile(r"!\[(.*?)\]\((\S+?\.svg)\)", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.,^{])[-−]?\d+\.\d+(?![\w]|\.\d)")
ANY_NUMBER = re.compile(r"(?<![\w.,^])[-−]?\d+(?:\.\d+)?(?![\w]|\.\d)")


def shown_source(fence: str) -> str:
    """Return the code that a ``source`` fence shows."""
    file, _, name = fence.strip().partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    node: ast.AST = ast.parse(text)
    for part in name.split("."):
        node = next(child for child in ast.iter_child_nodes(node) if getattr(child, "name", None) == part)
    return ast.get_source_segment(text, node) or ""


def evidence(text: str) -> str:
    """Return what is computed on a page: outputs, samples, sources, figures, tables and widgets."""
    parts = []
    for _, language, content in FENCE.findall(text):
        parts.append(shown_source(content) if language == "source" else content)
    for alternative, name in FIGURE.findall(text):
        svg = (LEARN / name).read_text(encoding="utf-8")
        parts += [alternative, html.unescape(" ".join(re.findall(r">([^<]+)</(?:text|title)>", svg)))]
    parts += re.findall(r"^ *\|.*\|$", text, re.MULTILINE)
    parts += re.findall(r"<uwaga-\w+[^>]*>.*?</uwaga-\w+>", text, re.DOTALL)
    return "\n".join(parts)


def prose(text: str) -> Iterator[str]:
    """Yield the paragraphs of a page without figures, fences, tables and widgets."""
    text = re.sub(r"<uwaga-\w+[^>]*>.*?</uwaga-\w+>", "", FENCE.sub("", text), flags=re.DOTALL)
    text = re.sub(r"^ *\|.*\|$", "", FIGURE.sub("", text), flags=re.MULTILINE)
    yield from (paragraph for paragraph in text.split("\n\n") if paragraph.strip())


def value(number: str) -> float:
    return float(number.replace("−", "-"))


def is_rounded_from(number: str, numbers: list[str]) -> bool:
    """Return True if one of the numbers rounds to a number, whatever the sign."""
    digits = len(number.partition(".")[2])
    tolerance = 0.5 * 10**-digits * (1 + 1e-9)
    return any(
        len(other.partition(".")[2]) >= digits and abs(abs(value(other)) - abs(value(number))) <= tolerance
        for other in numbers
    )


FUNCTIONS = (
    *(math.exp, math.log, math.log2, math.sqrt, math.tanh, math.cos, math.sin),
    *(lambda x: 1 - x, lambda x: 2**x, lambda x: x / (1 + math.exp(-x)), lambda x: 1 / (1 + math.exp(-x))),
)
STATED = re.compile(r"`(?:experiments|recipes|benchmarks|docs)/[^`]+`|\b(?:19|20)\d\d\b|^Sources:|§")
"""A paragraph that names the script of its numbers, or the paper."""


def results(terms: list[float]) -> Iterator[float]:
    """Yield what a reader can calculate from the numbers of a paragraph: functions, pairs, sums, products."""
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


def as_python(text: str) -> str:
    """Return a text with its formulas as Python writes them."""
    for old, new in {"\\ln": "log", "−": "-", "\\cdot": "*", "·": "*", "^": "**", "{": "(", "}": ")"}.items():
        text = text.replace(old, new)
    return re.sub(r"[$\\;]|e(?=\*\*)", lambda match: "2.718281828" if match[0] == "e" else " ", text)


def calculations(paragraph: str) -> Iterator[tuple[float, str]]:
    """Yield the value of each calculation that a paragraph writes, and its result as written."""
    for statement in re.split(r"[,;:] |\. |\band\b|\n", as_python(paragraph)):
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
    """Return True if a number is a result of the rounded numbers before it, or of a written calculation."""
    tolerance = 0.55 * 10 ** -len(number.partition(".")[2])
    written = [value for value, result in calculations(paragraph) if result == number.replace("−", "-")]
    candidates = itertools.chain(results([*map(value, before)]), written)
    return any(abs(abs(result) - abs(value(number))) <= tolerance for result in candidates)


def unfounded_numbers(text: str) -> list[str]:
    """Return the decimal numbers of a page's prose that nothing on it shows, and no linked page."""
    shown = NUMBER.findall(evidence(text))
    unfounded = []
    for paragraph in prose(text):
        if STATED.search(paragraph):
            continue
        linked = [
            number
            for name in re.findall(r"\]\(([\w./-]+\.md)", paragraph)
            for number in NUMBER.findall((LEARN / name).read_text(encoding="utf-8"))
        ]
        before: list[str] = []
        for number in ANY_NUMBER.findall(paragraph):
            if (
                "." in number
                and not is_rounded_from(number, shown + linked)
                and not is_calculated(number, before, paragraph)
            ):
                unfounded.append(f"{number} in {' '.join(paragraph.split())[:90]!r}")
            before.append(number)
    return unfounded


PACKAGES = {"numpy", "torch", "transformers", "uwaga"}


def unknown_names(text: str) -> list[str]:
    """Return the names in backticks of a page's section on code that no code of the page contains."""
    section = text.partition("\n## In code\n")[2].partition("\n## ")[0]
    code = "\n".join(
        shown_source(content) if language == "source" else content
        for _, language, content in FENCE.findall(text)
    )
    words = set(re.findall(r"\w+", code))
    names = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", FENCE.sub("", section))
    return [
        name
        for name in names
        if re.fullmatch(r"[A-Za-z_][\w.]*(\(\))?", name)
        and not name.endswith((".py", ".md"))
        and not set(re.findall(r"\w+", name)) <= words | PACKAGES
    ]


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)
def test_numbers_in_prose_agree_with_what_stands_beside_them(page):
    assert unfounded_numbers(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)
def test_names_in_prose_occur_in_the_code_shown(page):
    assert unknown_names(page.read_text(encoding="utf-8")) == []


WRONG = [
    ("01", "together 0.4, and", "together 0.41, and"),
    ("01", "0.53 together", "0.54 together"),
    ("12", "it is 0.854 at", "it is 0.860 at"),
    (
        "09",
        "\n## In code\n",
        "\n## In code\n\n`view` cuts the columns into heads, and `of_heads` moves them.\n",
    ),
]
"""Errors of the kinds that a review of the course has found, by chapter."""


@pytest.mark.parametrize(("chapter", "right", "wrong"), WRONG)
def test_errors_are_found(chapter, right, wrong):
    [text] = [page.read_text(encoding="utf-8") for page in CHAPTERS if page.name.startswith(chapter)]
    assert text.count(right) == 1
    changed = text.replace(right, wrong)
    assert unfounded_numbers(changed) or unknown_names(changed)


def test_most_wrong_digits_are_found():
    """A number of two decimals that is wrong by one in its last digit may be right by accident."""
    caught = total = 0
    for page in CHAPTERS:
        text = page.read_text(encoding="utf-8")
        shown = NUMBER.findall(evidence(text))
        for paragraph in prose(text):
            if STATED.search(paragraph):
                continue
            before: list[str] = []
            for match in ANY_NUMBER.finditer(paragraph):
                number, digits = match[0], len(match[0].partition(".")[2])
                if digits >= 2:
                    wrong = f"{abs(value(number)) + 10**-digits:.{digits}f}"
                    changed = paragraph[: match.start()] + wrong + paragraph[match.end() :]
                    total += 1
                    caught += not is_rounded_from(wrong, shown) and not is_calculated(wrong, before, changed)
                before.append(number)
    assert caught >= 0.7 * total > 80
