"""Every function that scans untrusted text takes linear time for any text."""

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from growth import growth
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
    TextBuilder,
    as_vtt,
)

import uwaga
from uwaga.alignment.words import word_spans
from uwaga.languages.detection import detect_language
from uwaga.markup import Inline, Tag
from uwaga.markup.formats import Format, read_fragment
from uwaga.markup.inline import join_parts
from uwaga.markup.placeholders import resolve_placeholders
from uwaga.markup.units import Piece, write_unit
from uwaga.results.translation import Hypothesis, Translation, WordAlignment
from uwaga.terms import Glossary
from uwaga.translator import Translator, align
from uwaga.translator.checks import script_warning
from uwaga.translator.layers import search as sentence_search
from uwaga.translator.layers import terms as term_layer
from uwaga.translator.layers.messages import Messages
from uwaga.translator.layers.placeholders import Placeholders, with_placeholders
from uwaga.translator.layers.tags import Tags
from uwaga.translator.text import Text
from uwaga_documents import DocumentOptions, DocumentSource, Unit, find_format
from uwaga_documents.formats.odt import _document_pieces as odt_pieces
from uwaga_documents.runs import WORD, paragraphs
from uwaga_server.dialects.deepl.texts import join_lines, restore_formatting

PLACEHOLDERS_ = resolve_placeholders(True)


class CopyingModel:
    """A translation layer without a model, which returns each text as its own translation."""

    def translate(self, texts: Sequence[Text]) -> None:
        for text in texts:
            spans = tuple(word_spans(text.words))
            alignment = WordAlignment(spans, spans, tuple((word, word) for word in range(len(spans))))
            text.translation = Translation(text.words, 0.0, (), (), source=text.words, alignment=alignment)


def process(inline: Inline) -> Inline:
    """Run all steps of a translation on a text except the search, which returns the text itself."""
    assert PLACEHOLDERS_ is not None
    text = Text(with_placeholders(inline, PLACEHOLDERS_), "text")
    Messages(Placeholders(Tags(CopyingModel(), True), True), PLACEHOLDERS_).translate([text])
    return text.spaced_translations()[0].inline


def process_for_document(inline: Inline) -> Inline:
    """Run all steps of a document translation on a text, and change the text so that it is written."""
    tags = {part for part in inline if isinstance(part, Tag)}
    restored = process(inline)
    return join_parts(
        [*(part if isinstance(part, str) or part in tags else part.raw for part in restored), " x"]
    )


def write_all(pieces: Iterator[Piece]) -> None:
    for piece in pieces:
        if isinstance(piece, Unit):
            write_unit(piece, [process_for_document(inline) for inline in piece.inlines])


def read_string(format_: Format) -> Callable[[str], None]:
    def run(text: str) -> None:
        fragment = read_fragment(text, format_)
        fragment.write([process(inline) for inline in fragment.inlines])

    return run


def read_document(name: str, **options: object) -> Callable[[str], None]:
    def run(text: str) -> None:
        document_options = DocumentOptions(target="pl", **options)  # type: ignore[arg-type]
        read = find_format(Path(name)).read
        assert read is not None
        write_all(iter(read(DocumentSource(name, text.encode(), document_options)).pieces))

    return run


@cache
def translator() -> Translator:
    return uwaga.load()


def copying_search(decoder, sentences, options, drafter=None):
    """Return each source sentence as its translation, in place of a search."""
    [model] = translator().models
    texts = [model.source.decode(sentence.ids[:-1]) for sentence in sentences]
    hypotheses = [tuple(model.target.encode(text)) for text in texts]
    return [[Hypothesis(tokens, -1.0, -1.0, (-1.0,) * (len(tokens) + 1))] for tokens in hypotheses]


def diagonal_alignments(decoder, head, pairs, start=None):
    return [
        align.TokenAlignment(np.eye(len(target), len(source), dtype=np.float32)) for source, target in pairs
    ]


@pytest.fixture
def _use_copying_model(monkeypatch):
    monkeypatch.setattr(sentence_search, "search", copying_search)
    monkeypatch.setattr(term_layer, "search", copying_search)
    monkeypatch.setattr(align, "token_alignments", diagonal_alignments)


def translate_with(**options: object) -> Callable[[str], None]:
    def run(text: str) -> None:
        translator().translate(text, **options)

    return run


def check_text(text: str) -> None:
    """Run the checks that the server makes before and after it translates a text."""
    detect_language([text])
    script_warning(text, "ja")
    restore_formatting(text, join_lines(text))
    restore_formatting(text, text)


def read_glossary(text: str) -> None:
    lines = [line.split("\t") for line in text.split("\n") if "\t" in line]
    len(Glossary.from_argument({line[0]: line[1] for line in lines}).find(text))


TERMINOLOGY = {"a": "b", "apple": "Apfel", "a a b": "c", "A. a": "d", "\u6f22": "e", "word": None}
KEYS = ("k.**.b", "x.*", "a.b")
SYNTAXES: dict[str, tuple[Callable[[str], None], list[TextBuilder]]] = {
    "text": (read_string("text"), PLACEHOLDERS),
    "html": (read_string("html"), HTML),
    "xml": (read_string("xml"), XML),
    "markdown": (read_string("markdown"), MARKDOWN),
    ".srt": (read_document("a.srt"), SUBTITLES),
    ".vtt": (read_document("a.vtt"), [as_vtt(make) for make in SUBTITLES[::3]]),
    ".yaml": (read_document("a.yaml", keys=KEYS), YAML),
    ".json": (read_document("a.json", keys=KEYS), JSON),
    ".po": (read_document("a.po"), PO),
    ".csv": (read_document("a.csv", columns=("a",)), CSV),
    ".strings": (read_document("a.strings"), STRINGS),
    ".stringsdict": (read_document("a.stringsdict"), PLIST),
    "strings.xml": (read_document("strings.xml"), ANDROID),
    ".xlf": (read_document("a.xlf"), XLIFF),
    ".txt": (read_document("a.txt"), TXT),
    ".docx": (lambda text: write_all(paragraphs(text, WORD)), DOCX),
    ".odt": (lambda text: write_all(odt_pieces(text)), ODT),
    "sentences": (translate_with(split="sentences"), SENTENCES),
    "whole lines": (translate_with(split="auto", alignment=True), SENTENCES),
    "whole texts": (translate_with(), PLACEHOLDERS),
    "whole html": (translate_with(format="html"), HTML),
    "checks": (check_text, SENTENCES),
    "terms": (translate_with(glossary=TERMINOLOGY), TERMS),
    "glossary": (read_glossary, GLOSSARIES),
}
MAX_GROWTH = 1.5
"""Maximum growth of the time per character if a text is ten times as long."""
MAX_SHORT_GROWTH = 4.0
"""The maximum for short texts, whose times have constant parts; quadratic time would grow tenfold."""
MAX_CHARACTERS = int(os.environ.get("UWAGA_LONGEST", "5000"))
"""Maximum number of characters of the texts in the slow test."""


def check(syntax: str, sizes: tuple[int, ...], max_growth: float, attempts: int = 8) -> None:
    run, makes = SYNTAXES[syntax]
    superlinear = []
    gc.collect()
    gc.disable()
    try:
        for make in makes:
            texts = [make(size) for size in sizes]
            for small, large in pairwise(texts):
                factor = growth(run, small, large, max_growth, attempts)
                if factor > max_growth:
                    superlinear.append(f"{large[:60]!r}: {factor:.2f} from {len(small)} to {len(large)}")
    finally:
        gc.enable()
    assert not superlinear, "\n".join(superlinear)


@pytest.mark.slow
@pytest.mark.usefixtures("_use_copying_model")
@pytest.mark.parametrize("syntax", SYNTAXES)
def test_parsing_and_masking_take_linear_time(syntax):
    sizes = [500]
    while sizes[-1] < MAX_CHARACTERS:
        sizes.append(sizes[-1] * 10)
    check(syntax, tuple(sizes), MAX_GROWTH if MAX_CHARACTERS > 5_000 else MAX_SHORT_GROWTH)
