"""Laws of document formats: only texts change, and written texts are read back unchanged."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

from uwaga.markup.units import is_translatable, trim, untranslated_texts, write_unit
from uwaga_documents import DocumentOptions, Unit, document_job, find_format, run_document_job
from uwaga_documents.archive import open_document
from uwaga_documents.document import DocumentSource
from uwaga_documents.messages import APPLICATION_SYNTAX

SWAP_CASE = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
)


def has_no_placeholders(text):
    """Return True if a text of a JSON or YAML file contains no placeholders."""
    return APPLICATION_SYNTAX.placeholders.split(text) in ((), (text,))


def identity(inlines):
    return list(inlines)


def swap_case(inlines):
    """Return texts with the case of all letters swapped, as a translation that keeps word lengths."""
    return [
        tuple(part.translate(SWAP_CASE) if isinstance(part, str) else part for part in inline)
        for inline in inlines
    ]


def run(tmp_path: Path, name: str, content: bytes, translate, options=None, format=None) -> bytes:
    """Return the translated document."""
    source, target = tmp_path / name, tmp_path / f"translated-{name}"
    source.write_bytes(content)
    options = replace(options or DocumentOptions(), format=format)
    run_document_job(document_job(source, target, options), translate)
    assert not list(tmp_path.glob(".*journal")), "a journal is left"
    return target.read_bytes()


def texts(path_or_name, content: bytes | None = None, options=None, format=None):
    """Return the texts of a document in order, from a file or from ``content``."""
    return _texts(pieces(path_or_name, content, options, format))


def _texts(pieces):
    return [
        trim(inline)[1]
        for unit in pieces
        if isinstance(unit, Unit)
        for inline in unit.inlines
        if is_translatable(inline)
    ]


def pieces(path_or_name, content: bytes | None = None, options=None, format=None):
    """Return the pieces of a document, from a file or from ``content``."""
    path = Path(path_or_name)
    document_format = find_format(path, format)
    options = options or DocumentOptions()
    if document_format.read is not None:
        content = path.read_bytes() if content is None else content
        return list(document_format.read(DocumentSource(str(path), content, options)).pieces)
    with open_document(path) as archive:
        readers = document_format.members(archive)
        return [
            piece
            for name in archive.members
            if name in readers
            for piece in readers[name](DocumentSource(str(path), archive.read(name), options)).pieces
        ]


def reasons(path_or_name, content: bytes | None = None, options=None, format=None):
    """Return the number of untranslated texts by reason."""
    copied = untranslated_texts(pieces(path_or_name, content, options, format))
    return dict(Counter(text.reason for text in copied))


def render(name: str, content: bytes, translate, options=None, format=None) -> bytes:
    """Translate in memory, like :func:`run`, for formats that are not archives."""
    document = find_format(Path(name), format).read(
        DocumentSource(name, content, options or DocumentOptions())
    )
    encoder = document.encoder()
    pieces = [
        piece
        if isinstance(piece, str)
        else write_unit(
            piece, [translate([inline])[0] if is_translatable(inline) else inline for inline in piece.inlines]
        )
        for piece in document.pieces
    ]
    return document.bom + encoder.encode("".join(pieces), True)


def check_laws(name: str, content: bytes, options=None, format=None) -> bytes:
    """Check both laws on a document, with :func:`identity` and :func:`swap_case`.

    Returns the document of the latter.
    """
    assert render(name, content, identity, options, format) == content
    translated = render(name, content, swap_case, options, format)
    source_texts = texts(name, content, options, format)
    assert with_tag_kinds(texts(name, translated, options, format)) == with_tag_kinds(swap_case(source_texts))
    return translated


def with_tag_kinds(inlines):
    """Return texts with only the kinds of their tags, since attributes of tags may be translated."""
    return [tuple(part if isinstance(part, str) else (part.kind,) for part in inline) for inline in inlines]


def swap_case_in_tree(tree):
    """Return a JSON tree with the case of all its texts swapped."""
    if isinstance(tree, dict):
        return {key: swap_case_in_tree(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [swap_case_in_tree(value) for value in tree]
    return tree.translate(SWAP_CASE) if isinstance(tree, str) else tree
