"""Every scanner of untrusted text takes time linear in its length, whatever the text is."""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hostile_texts import (
    ANDROID,
    CSV,
    DOCX,
    GLOSSARIES,
    HTML,
    JSON,
    MARKDOWN,
    ODT,
    PLACEHOLDERS,
    PLIST,
    PO,
    SENTENCES,
    STRINGS,
    SUBTITLES,
    TERMS,
    TXT,
    XLIFF,
    XML,
    YAML,
    Make,
    as_vtt,
)

import uwaga
from uwaga.alignment.words import word_spans
from uwaga.documents import DocumentOptions, DocumentSource, Unit, find_format
from uwaga.documents.formats.odt import _pieces as odt_pieces
from uwaga.documents.runs import WORD, paragraphs
from uwaga.errors import UwagaError
from uwaga.languages.detection import detect_language
from uwaga.markup import Inline, Tag, plain_text
from uwaga.markup.formats import Format, read_fragment
from uwaga.markup.inline import joined
from uwaga.markup.insert_tags import insert_tags
from uwaga.markup.placeholders import kept_placeholders
from uwaga.markup.strip_tags import strip_tags
from uwaga.markup.symbols import choose_symbols, missing, realign, restore, substitute
from uwaga.markup.units import Piece, written
from uwaga.results.translation import Hypothesis, WordAlignment
from uwaga.server.dialects.deepl.texts import in_one_line, preserved
from uwaga.terms import Glossary
from uwaga.translator import Translator, align, search_sentences
from uwaga.translator import substitute as substitution
from uwaga.translator.checks import unlike_language
from uwaga.translator.read import Messages, with_placeholders

USUAL = kept_placeholders(True)


def carried(inline: Inline) -> Inline:
    """Take a text through all that is done with it but searching: the translation is the text itself."""
    [inline] = with_placeholders([inline], USUAL)
    inline = Messages(USUAL).take_apart(inline, "text")
    with_symbols, symbols = substitute(inline, choose_symbols(inline, 0))
    stripped = strip_tags(with_symbols)
    spans = tuple(word_spans(stripped.text))
    alignment = WordAlignment(spans, spans, tuple((at, at) for at in range(len(spans))))
    missing(symbols, stripped.text)
    placed = insert_tags(stripped, stripped.text, alignment, [symbol.text for symbol in symbols])
    made = restore(placed, symbols)
    texts = stripped.text, plain_text(made)
    realign(alignment, (stripped.text, plain_text(inline)), texts, symbols, [])
    return made


def translated(inline: Inline) -> Inline:
    """As documents do: placeholders are text again, and the text is another, so that it is written."""
    tags = {part for part in inline if isinstance(part, Tag)}
    made = carried(inline)
    return joined([*(part if isinstance(part, str) or part in tags else part.raw for part in made), " x"])


def write_all(pieces: Iterator[Piece]) -> None:
    for piece in pieces:
        if isinstance(piece, Unit):
            written(piece, [translated(inline) for inline in piece.inlines])


def string(format_: Format) -> Callable[[str], None]:
    def run(text: str) -> None:
        fragment = read_fragment(text, format_)
        fragment.written([carried(inline) for inline in fragment.inlines])

    return run


def document(name: str, **options: object) -> Callable[[str], None]:
    def run(text: str) -> None:
        how = DocumentOptions(target="pl", **options)  # type: ignore[arg-type]
        found = find_format(Path(name)).read
        assert found is not None
        write_all(iter(found(DocumentSource(name, text.encode(), how)).pieces))

    return run


@cache
def translator() -> Translator:
    return uwaga.load()


def searched(decoder, sources, options, prefixes=None, phrases=None, drafts=None):
    """The translation of every sentence is the sentence."""
    [model] = translator().models
    found = [tuple(model.target.encode(model.source.decode(source[:-1]))) for source in sources]
    return [[Hypothesis(tokens, -1.0, -1.0, (-1.0,) * (len(tokens) + 1))] for tokens in found]


def diagonals(decoder, head, sources, targets, start=None):
    return [
        (np.eye(len(target), len(source), dtype=np.float32), None)
        for source, target in zip(sources, targets, strict=True)
    ]


def aligned(decoder, head, sources, lists, start=None):
    found = []
    for source, ways in zip(sources, lists, strict=True):
        rows = diagonals(decoder, head, [source] * len(ways), [one.tokens for one in ways])
        found.append([replace(one, alignment=row) for one, (row, _) in zip(ways, rows, strict=True)])
    return found


@pytest.fixture
def _copying(monkeypatch):
    monkeypatch.setattr(search_sentences, "search", searched)
    monkeypatch.setattr(align, "with_alignments", aligned)
    monkeypatch.setattr(substitution, "search", searched)
    monkeypatch.setattr(align, "token_alignments", diagonals)


def whole(**options: object) -> Callable[[str], None]:
    def run(text: str) -> None:
        translator().translate(text, **options)

    return run


def checked(text: str) -> None:
    """What a server does with a text before and after its translation."""
    detect_language([text])
    unlike_language(text, "ja")
    preserved(text, in_one_line(text))
    preserved(text, text)


def read_glossary(text: str) -> None:
    lines = [line.split("\t") for line in text.split("\n") if "\t" in line]
    len(Glossary.of({line[0]: line[1] for line in lines}).find(text))


TERM = {"a": "b", "apple": "Apfel", "a a b": "c", "A. a": "d", "\u6f22": "e", "word": None}
KEYS = ("k.**.b", "x.*", "a.b")
SYNTAXES: dict[str, tuple[Callable[[str], None], list[Make]]] = {
    "text": (string("text"), PLACEHOLDERS),
    "html": (string("html"), HTML),
    "xml": (string("xml"), XML),
    "markdown": (string("markdown"), MARKDOWN),
    ".srt": (document("a.srt"), SUBTITLES),
    ".vtt": (document("a.vtt"), [as_vtt(make) for make in SUBTITLES[::3]]),
    ".yaml": (document("a.yaml", keys=KEYS), YAML),
    ".json": (document("a.json", keys=KEYS), JSON),
    ".po": (document("a.po"), PO),
    ".csv": (document("a.csv", columns=("a",)), CSV),
    ".strings": (document("a.strings"), STRINGS),
    ".stringsdict": (document("a.stringsdict"), PLIST),
    "strings.xml": (document("strings.xml"), ANDROID),
    ".xlf": (document("a.xlf"), XLIFF),
    ".txt": (document("a.txt"), TXT),
    ".docx": (lambda text: write_all(paragraphs(text, WORD)), DOCX),
    ".odt": (lambda text: write_all(odt_pieces(text)), ODT),
    "sentences": (whole(split="sentences"), SENTENCES),
    "whole lines": (whole(split="auto", alignment=True), SENTENCES),
    "whole texts": (whole(), PLACEHOLDERS),
    "whole html": (whole(format="html"), HTML),
    "checks": (checked, SENTENCES),
    "terms": (whole(glossary=TERM), TERMS),
    "glossary": (read_glossary, GLOSSARIES),
}
ENOUGH = 0.005
"""Seconds of processor time that a measurement takes at least, so that the clock does not matter."""


def seconds(run: Callable[[str], None], text: str) -> float:
    """Processor time per character, of one run or of as many as are enough."""
    times, spent, started = 0, 0.0, time.process_time()
    while spent < ENOUGH and times < 500:
        with contextlib.suppress(UwagaError):  # a text that is refused must be refused in linear time
            run(text)
        times += 1
        spent = time.process_time() - started
    return spent / (times * len(text))


def growth(run: Callable[[str], None], small: str, large: str, enough: float, attempts: int) -> float:
    """By how much the time per character grows: of each size the least of several measurements, in turn."""
    short, long = seconds(run, small), float("inf")
    for _ in range(attempts):
        long = min(long, seconds(run, large))
        short = min(short, seconds(run, small))
        if long <= enough * short:
            break
    return long / max(short, 1e-12)


MOST = 1.5
"""Growth of the time per character from a text to one ten times as long."""
MOST_OF_SHORT = 4.0
"""The same of texts so short that their fixed parts count; ten where the time is quadratic."""
LONGEST = int(os.environ.get("UWAGA_LONGEST", "10000"))
"""Characters of the longest texts of the slow test."""


def check(syntax: str, sizes: tuple[int, ...], most: float, attempts: int = 8) -> None:
    run, makes = SYNTAXES[syntax]
    superlinear = []
    gc.collect()
    gc.disable()
    try:
        for make in makes:
            texts = [make(size) for size in sizes]
            for small, large in pairwise(texts):
                grown = growth(run, small, large, most, attempts)
                if grown > most:
                    superlinear.append(f"{large[:60]!r}: {grown:.2f} from {len(small)} to {len(large)}")
    finally:
        gc.enable()
    assert not superlinear, "\n".join(superlinear)


@pytest.mark.usefixtures("_copying")
@pytest.mark.parametrize("syntax", SYNTAXES)
def test_time_per_character_does_not_grow(syntax):
    check(syntax, (400, 4_000), MOST_OF_SHORT)


@pytest.mark.slow
@pytest.mark.usefixtures("_copying")
@pytest.mark.parametrize("syntax", SYNTAXES)
def test_time_per_character_does_not_grow_with_longer_texts(syntax):
    sizes = [1_000]
    while sizes[-1] < LONGEST:
        sizes.append(sizes[-1] * 10)
    check(syntax, tuple(sizes), MOST if LONGEST > 10_000 else MOST_OF_SHORT)
