"""Split paragraphs into sentences, and align the paragraphs of two pages in two languages."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from pathlib import Path

from lxml import etree, html

Pairs = Iterator[tuple[str, str]]

BLOCKS = ("p", "li", "dt", "dd", "h1", "h2", "h3", "h4", "h5", "td", "th", "title", "desc")


def _tag(element: html.HtmlElement) -> str:
    """Return the tag of an element without its namespace; an empty string for a comment."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _blocks(path: Path) -> list[tuple[str, str]]:
    """Return the innermost blocks of text, each with its tag, and its id in LibreOffice's help."""
    try:
        tree = html.fromstring(path.read_bytes())
    except (ValueError, etree.LxmlError):
        return []
    passages = []
    for element in tree.iter():
        tag = _tag(element)
        if tag not in BLOCKS or any(_tag(inner) in BLOCKS for inner in element.iterdescendants()):
            continue
        if (
            any(up.tag in ("pre", "script") for up in element.iterancestors())
            or element.find(".//pre") is not None
        ):
            continue
        text = " ".join("".join(element.itertext()).split())
        if text:
            label = element.get("id") or ""
            passages.append((tag + (":" + label if label.startswith(("par_", "hd_", "bm_")) else ""), text))
    return passages


def _align_blocks(english: list[tuple[str, str]], german: list[tuple[str, str]]) -> Pairs:
    """Yield the pairs of blocks at the same place of the two translations of a page."""
    source_tags, target_tags = [tag for tag, _ in english], [tag for tag, _ in german]
    if any(":" in tag for tag in source_tags):
        by_name = {tag: text for tag, text in german if ":" in tag}
        for tag, text in english:
            if tag in by_name:
                yield text, by_name[tag]
        return
    if source_tags == target_tags:
        spans = [(0, 0, len(source_tags))]
    else:
        matcher = difflib.SequenceMatcher(None, source_tags, target_tags, autojunk=False)
        spans = [m for m in matcher.get_matching_blocks() if m.size >= 3]
    for a, b, size in spans:
        part = list(zip(english[a : a + size], german[b : b + size], strict=True))
        sane = sum(0.5 < len(g[1]) / max(1, len(e[1])) < 2.2 for e, g in part)
        if sane >= 0.8 * len(part):  # else the span has slipped
            yield from ((e[1], g[1]) for e, g in part)


def pages(pairs: list[tuple[Path, Path]]) -> Pairs:
    for english, german in pairs:
        if english.is_file() and german.is_file():
            for source, target in _align_blocks(_blocks(english), _blocks(german)):
                yield from by_sentence(source, target)


_END = re.compile(r"(?<=[.!?])[\"”“)»]?\s+(?=[\"“„«(A-ZÄÖÜ0-9])")
_SHORT = re.compile(r"\b(z\.\s?B|d\.\s?h|e\.g|i\.e|etc|usw|Mr|Mrs|Dr|St|bzw|vs|ca|Nr|No|u\.\s?a|\d)\.$")


def sentences(text: str) -> list[str]:
    parts: list[str] = []
    for part in _END.split(text):
        if parts and _SHORT.search(parts[-1]):
            parts[-1] += " " + part
        else:
            parts.append(part)
    return parts


def by_sentence(source: str, target: str) -> Pairs:
    """Yield the pairs of sentences of a paragraph if both sides have the same number.

    Otherwise, yield the paragraph, if it is not long.
    """
    for source_line, target_line in zip_lines(source, target):
        source_sentences, target_sentences = sentences(source_line), sentences(target_line)
        pairs = list(zip(source_sentences, target_sentences, strict=False))
        if len(source_sentences) == len(target_sentences) > 1 and all(
            0.5 < (len(b) + 8) / (len(a) + 8) < 2.0 for a, b in pairs
        ):
            yield from pairs
            for first, second in zip(pairs[::3], pairs[1::3], strict=False):  # some passages of two sentences
                if len(first[0]) + len(second[0]) < 160:
                    yield first[0] + " " + second[0], first[1] + " " + second[1]
        else:
            yield source_line, target_line


def zip_lines(source: str, target: str) -> Pairs:
    """Yield the pairs of paragraphs if both sides have the same number; otherwise, yield all as one pair."""
    left = [" ".join(x.split()) for x in re.split(r"\n\s*\n|\\n\\n", source) if x.strip()]
    target_parts = [" ".join(x.split()) for x in re.split(r"\n\s*\n|\\n\\n", target) if x.strip()]
    if len(left) == len(target_parts):
        yield from zip(left, target_parts, strict=True)
    else:
        yield " ".join(left), " ".join(target_parts)
