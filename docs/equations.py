"""Equations as MathML, with words in one element, and places where a long equation may break."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import cache
from xml.etree import ElementTree

from latex2mathml.converter import convert

RELATIONS = set("=≈≤≥<>∝∼≠→⇒≡")
OPERATORS = set("+−-±")
OPENING, CLOSING = set("([{⌊⌈"), set(")]}⌋⌉")
SCRIPTS = {"msub", "msup", "msubsup", "munder", "mover", "munderover"}
LONG = 16
"""Number of symbols up to which an equation, or a part between two relations, stays on one line."""


@cache  # the chapters have the same equations in all languages
def mathml(source: str, display: str) -> str:
    """Return a LaTeX equation as MathML: one element for each part that stays on a line.

    An equation breaks before its relations, and a long part of it also before a sum's terms and after commas.

    Raises:
        ValueError: a command is unknown.
    """
    markup = convert(source, display=display)
    if unknown := re.search(r"\\[a-zA-Z]+", markup):
        raise ValueError(f"{unknown[0]} in the equation {source!r} is unknown")
    markup = re.sub(r' xmlns="[^"]*"', "", markup)
    row = ElementTree.fromstring(markup)[0]  # noqa: S314 (the converter's)
    for element in list(row.iter()):
        _mend(element)
    for element in list(row.iter()):
        _set_signs(element)
        _space_words(element)
    parts = _parts(row)
    style = ' displaystyle="true"' if display == "block" else ""
    text = f' alttext="{html.escape(source, quote=True)}"' if len(parts) == 1 else ""
    return "".join(
        f"<math{style}{text}><mrow>{''.join(_markup(element) for element in part)}</mrow></math>"
        for part in parts
    )


def display_equations(source: str) -> str:
    r"""Return the equations of a fence ``math``, one per line; ``\qquad`` separates them."""
    equations = filter(
        None, (equation.strip(" ,\n") for equation in re.split(r"\\qquad|(?<=,) *\\quad", source))
    )
    lines = "".join(f"<div>{mathml(equation, 'block')}</div>" for equation in equations if equation)
    return f'<div class="equation">{lines}</div>'


def _markup(element: ElementTree.Element) -> str:
    return ElementTree.tostring(element, encoding="unicode")


def _mend(element: ElementTree.Element) -> None:
    """Write words, primes, stars and semicolons as TeX sets them."""
    text = element.text or ""
    if element.tag == "mo" and text.isalpha() and len(text) > 1:
        element.tag = "mi"
    if element.tag == "mi" and text == ";":
        element.tag = "mo"
    if element.tag == "msup" and len(element[1]) == 0 and element[1].text == "′":
        element.tag = "mrow"  # the sign is a raised one
        element[1].tag = "mo"
        element[1].attrib.update(lspace="0", rspace="0")
    if element.tag in SCRIPTS:
        for script in element[1:]:
            for inner in script.iter():
                inner.text = "∗" if inner.text == "*" else inner.text
                if inner.tag == "mo" and inner.get("stretchy") != "true":
                    inner.attrib.update(lspace="0", rspace="0")
    # The converter writes a word letter by letter.
    is_word = len(element) > 1 and all(
        child.tag == "mi" and child.get("mathvariant") == "normal" and (child.text or "").isalpha()
        for child in element
    )
    if element.tag == "mrow" and is_word:
        word = "".join(child.text or "" for child in element)
        element[:] = []
        element.tag, element.text = "mi", word


def _set_signs(element: ElementTree.Element) -> None:
    """Mark the signs and bars that stand before or after one term rather than between two terms."""
    if element.tag not in {"mrow", "mstyle"}:
        return
    children = [child for child in element if child.tag != "mspace"]
    for before, child in zip([None, *children], children, strict=False):
        text = (child.text or "").strip() if child.tag == "mo" else ""
        opens = before is None or (before.tag == "mo" and (before.text or "") not in CLOSING | set("|′"))
        if text in OPERATORS and opens:
            child.attrib.update(form="prefix", lspace="0", rspace="0.05em")
        if text in {",", ";"}:
            child.attrib.update(lspace="0", rspace="0.2em")
        if text == "/":
            child.attrib.update(lspace="0.06em", rspace="0.06em")
    for bars in _bars(children):
        if len(bars) % 2 == 0:
            for index, bar in enumerate(bars):
                bar.attrib.update(lspace="0", rspace="0", form="postfix" if index % 2 else "prefix")


def _bars(children: list[ElementTree.Element]) -> list[list[ElementTree.Element]]:
    """Return the vertical bars of each pair of parentheses, and of what is outside: two enclose a term."""
    groups: list[list[ElementTree.Element]] = [[]]
    stack = [groups[0]]
    for child in children:
        text = (child.text or "").strip() if child.tag == "mo" else ""
        if text in OPENING:
            groups.append([])
            stack.append(groups[-1])
        elif text in CLOSING and len(stack) > 1:
            stack.pop()
        elif text in {"|", "∣"}:
            stack[-1].append(child)
    return groups


def _space_words(element: ElementTree.Element) -> None:
    """Set a thin space between a word, such as ``log``, and the symbols beside it."""
    if element.tag != "mrow":
        return
    spaced: list[ElementTree.Element] = []
    for child in element:
        if spaced and child.tag != "mspace" and spaced[-1].tag != "mspace":
            before, after = spaced[-1], child
            closing = before.tag == "mo" and (before.text or "") in CLOSING
            if (_is_word(before) and not _is_operator(after)) or (
                _is_word(after) and (closing or not _is_operator(before))
            ):
                spaced.append(ElementTree.Element("mspace", width="0.2em"))
        spaced.append(child)
    element[:] = spaced


def _is_word(element: ElementTree.Element) -> bool:
    if element.tag in {"msub", "msup", "msubsup", "munder", "mover"} and len(element):
        element = element[0]
    return element.tag == "mi" and len(element.text or "") > 1


def _is_operator(element: ElementTree.Element) -> bool:
    """Return True if an element brings its own space: an operator, or a part in parentheses."""
    return element.tag == "mo" or (
        element.tag == "mrow" and len(element) > 0 and (element[0].tag == "mo" or element[0].tag == "mrow")
    )


def _size(elements: list[ElementTree.Element]) -> int:
    """Return the number of symbols of a part; for a fraction, that of its longer side."""

    def size(element: ElementTree.Element) -> int:
        if element.tag == "mfrac":
            return max(map(size, element))
        if element.tag in {"munderover", "munder", "mover"}:
            return max(map(size, element))
        return len((element.text or "").strip()) + sum(map(size, element))

    return sum(map(size, elements))


def _parts(row: ElementTree.Element) -> list[list[ElementTree.Element]]:
    """Split the elements of an equation where it may break."""
    children = list(row)
    if _size(children) <= LONG:
        return [children]
    parts = []
    for part in _split(children, RELATIONS, after=set()):
        terms = [part] if _size(part) <= LONG else list(_split(part, OPERATORS, after={",", ";"}))
        for term in terms:
            parts += [term] if _size(term) <= 2 * LONG else _split(term, set(), after={",", ";"}, depth=-1)
    return parts


def _split(
    elements: list[ElementTree.Element], before: set[str], after: set[str], depth: int = 0
) -> Iterator[list[ElementTree.Element]]:
    """Split elements before and after operators outside parentheses; with depth -1, inside one pair."""
    part: list[ElementTree.Element] = []
    for element in elements:
        text = (element.text or "").strip() if element.tag == "mo" else ""
        if depth == 0 and text in before and part and _ends_term(part):
            yield part
            part = []
            element.set("form", "infix")
        part.append(element)
        if text in after and depth == 0:
            yield part
            part = []
        depth += (text in OPENING) - (text in CLOSING)
    if part:
        yield part


def _ends_term(part: list[ElementTree.Element]) -> bool:
    """Return whether a part is more than an operator and spaces, so that a sign after it joins two terms."""
    inner = [element for element in part if element.tag != "mspace"]
    return len(inner) > 1 or (len(inner) == 1 and inner[0].tag != "mo")
