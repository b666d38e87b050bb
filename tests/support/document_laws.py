"""What every format of documents owes: nothing changes but the texts, and those are read again as written."""

from pathlib import Path

from uwaga.documents import DocumentOptions, Unit, document_job, find_format, run_document_job
from uwaga.documents.archive import open_document
from uwaga.documents.document import DocumentSource
from uwaga.markup.units import translatable, trimmed, written

SWAPPED = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
)


def unchanged(inlines):
    return list(inlines)


def swapped(inlines):
    """A model whose every letter differs from the source's, and none of whose words is shorter or longer."""
    return [
        tuple(part.translate(SWAPPED) if isinstance(part, str) else part for part in inline)
        for inline in inlines
    ]


def run(tmp_path: Path, name: str, content: bytes, translate, options=None, format=None) -> bytes:
    """The document that becomes of ``content``."""
    source, target = tmp_path / name, tmp_path / f"translated-{name}"
    source.write_bytes(content)
    run_document_job(document_job(source, target, format, options), translate)
    assert not list(tmp_path.glob(".*journal")), "a journal is left"
    return target.read_bytes()


def texts(path_or_name, content: bytes | None = None, options=None, format=None):
    """The texts of a document, in its order: those of a file, or of ``content`` under a name."""
    path = Path(path_or_name)
    found = find_format(path, format)
    options = options or DocumentOptions()
    if found.read is not None:
        content = path.read_bytes() if content is None else content
        return _texts(found.read(DocumentSource(str(path), content, options)).pieces)
    with open_document(path) as archive:
        readers = found.members(archive)
        return [
            one
            for name in archive.members
            if name in readers
            for one in _texts(readers[name](DocumentSource(str(path), archive.read(name), options)).pieces)
        ]


def _texts(pieces):
    return [
        trimmed(inline)[1]
        for unit in pieces
        if isinstance(unit, Unit)
        for inline in unit.inlines
        if translatable(inline)
    ]


def render(name: str, content: bytes, translate, options=None, format=None) -> bytes:
    """As :func:`run`, in memory, for formats that are no archives."""
    reading = find_format(Path(name), format).read(
        DocumentSource(name, content, options or DocumentOptions())
    )
    encoder = reading.encoder()
    made = [
        piece
        if isinstance(piece, str)
        else written(piece, [translate([one])[0] if translatable(one) else one for one in piece.inlines])
        for piece in reading.pieces
    ]
    return reading.mark + encoder.encode("".join(made), True)


def check_laws(name: str, content: bytes, options=None, format=None) -> bytes:
    """Hold both laws on a document: the model that changes nothing, and the one that changes every letter.

    Returns the document of the latter.
    """
    assert render(name, content, unchanged, options, format) == content
    changed = render(name, content, swapped, options, format)
    before = texts(name, content, options, format)
    assert bare(texts(name, changed, options, format)) == bare(swapped(before))
    return changed


def bare(inlines):
    """Texts with the kinds of their tags: a title inside a tag is translated too, and so the tag another."""
    return [tuple(part if isinstance(part, str) else (part.kind,) for part in one) for one in inlines]


def swapped_values(tree):
    """The tree with every text of it swapped, as a document's texts are."""
    if isinstance(tree, dict):
        return {key: swapped_values(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [swapped_values(value) for value in tree]
    return tree.translate(SWAPPED) if isinstance(tree, str) else tree
