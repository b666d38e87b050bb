"""Office Open XML: Word (.docx), PowerPoint (.pptx) and Excel (.xlsx).

Parts are found by the content types that the archive declares or, failing that, by their usual names.
Elements are found by their namespaces, so that their prefixes do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from uwaga.errors import DataError
from uwaga.files.zip import Archive
from uwaga.markup.inline import Inline, Tag, join_parts
from uwaga.markup.units import MARKUP, Piece, text_unit, untranslated
from uwaga.markup.xml import (
    Element,
    attribute_pieces,
    attributes,
    content_pieces,
    elements,
    find_child,
    text_elements,
    unescape,
    write_xml,
)
from uwaga_documents.compared import COMPARED_REASON, ComparedTexts
from uwaga_documents.document import DocumentFormat, Reader
from uwaga_documents.encodings import xml_reader
from uwaga_documents.runs import DRAWING, SHEET, WORD, paragraph, paragraphs, with_descriptions

CONTENT_TYPES = "[Content_Types].xml"
RELATIONSHIPS = "_rels/.rels"
TYPE_TAG = re.compile(r"<(?:\w+:)?(?:Override|Default)\s[^<>]*>")
NAMESPACE = re.compile(r"""\sxmlns(?::([\w.-]+))?\s*=\s*["']([^"'<>]*)["']""")
NAMESPACES = {
    "word": ("wordprocessingml/2006/main", "ooxml/wordprocessingml/main"),
    "drawing": ("drawingml/2006/main", "ooxml/drawingml/main"),
    "chart": ("drawingml/2006/chart", "ooxml/drawingml/chart"),
    "sheet": ("spreadsheetml/2006/main", "ooxml/spreadsheetml/main"),
    "slide": ("presentationml/2006/main", "ooxml/presentationml/main"),
    "dc": ("purl.org/dc/elements/1.1/",),
    "core": ("metadata/core-properties",),
}
"""The endings of namespace URIs, in the transitional and in the strict form."""

PieceReader = Callable[[str], Iterator[Piece]]
PartKind = tuple[re.Pattern[str], re.Pattern[str], PieceReader]
"""A kind of part: the pattern of its content types, the pattern of its usual names, and its reader."""


def _prefix(text: str, namespace: str, default: str) -> str:
    """Return the prefix that a part declares for a namespace, with its colon, or ``default`` if
    there is none.
    """
    for declaration in NAMESPACE.finditer(text):
        if declaration[2].endswith(NAMESPACES[namespace]):
            return f"{declaration[1]}:" if declaration[1] else ""
    return default


def find_parts(
    archive: Archive, kinds: Sequence[PartKind], main: str, format_name: str
) -> dict[str, PieceReader]:
    """Return the readers of the parts with text, by the names of the parts.

    Args:
        archive: the document.
        kinds: the kinds of parts.
        main: the prefix of the name of the main part.
        format_name: the name of the format in messages.
    """
    declared_main = _declared_main(archive)
    has_main = any(name.startswith(main) for name in archive.names)
    if CONTENT_TYPES not in archive or not (
        has_main or declared_main.startswith(f"{main.partition('/')[0]}/")
    ):
        raise DataError(f"{archive.path}: not a {format_name}: the archive lacks {CONTENT_TYPES} or {main}")
    types = _content_types(archive)
    parts: dict[str, PieceReader] = {}
    for name in archive.names:
        for type_pattern, name_pattern, read in kinds:
            if type_pattern.search(types.get(name, "")) or name_pattern.fullmatch(name):
                parts[name] = read
                break
    if declared_main in archive and kinds[0][1].fullmatch(f"{main}.xml"):
        parts.setdefault(declared_main, kinds[0][2])
    return parts


def _content_types(archive: Archive) -> dict[str, str]:
    """Return the declared content type of each part by its name."""
    text = archive.read(CONTENT_TYPES).decode("utf-8", "replace")
    defaults: dict[str, str] = {}
    types: dict[str, str] = {}
    for tag in TYPE_TAG.findall(text):
        values = attributes(tag)
        content_type = values.get("ContentType", "")
        if "PartName" in values:
            types[values["PartName"].lstrip("/")] = content_type
        else:
            defaults[values.get("Extension", "").lower()] = content_type
    return {
        name: types.get(name) or defaults.get(name.rpartition(".")[2].lower(), "") for name in archive.names
    }


def _declared_main(archive: Archive) -> str:
    """Return the declared name of the main part, or an empty string if it is not declared."""
    if RELATIONSHIPS not in archive:
        return ""
    text = archive.read(RELATIONSHIPS).decode("utf-8", "replace")
    for tag in re.findall(r"<(?:\w+:)?Relationship\b[^<>]*>", text):
        relationship = attributes(tag)
        if relationship.get("Type", "").endswith("/officeDocument"):
            return relationship.get("Target", "").lstrip("/")
    return ""


NEVER_MATCHING = re.compile(r"(?!)")


def _word_pieces(text: str) -> Iterator[Piece]:
    prefix = _prefix(text, "word", "w:")
    binding = f"<{prefix}dataBinding"
    if binding in text:
        text = _without_bindings(text, prefix)
    return paragraphs(text, WORD if prefix == "w:" else WORD.with_prefix(prefix))


def _without_bindings(text: str, prefix: str) -> str:
    """Return the text without the bindings that connect content controls with data of the document.

    That data is copied, and Word would show it instead of the translation. Bindings to properties of the
    document stay, because the properties are translated.
    """
    parts: list[str] = []
    position = 0
    for element in elements(text, (f"{prefix}dataBinding",)):
        path = attributes(element.tag(text)).get(f"{prefix}xpath", "")
        if "coreProperties" not in path and "/ns0:Properties" not in path:
            parts.append(text[position : element.start])
            position = element.end
    return "".join([*parts, text[position:]])


def _drawing_pieces(text: str) -> Iterator[Piece]:
    prefix = _prefix(text, "drawing", "a:")
    names = DRAWING if prefix == "a:" else DRAWING.with_prefix(prefix)
    comment = f"{_prefix(text, 'slide', 'p:')}text"
    if f"<{comment}>" in text:
        return text_elements(text, (comment,))
    return paragraphs(text, names)


def _chart_pieces(text: str, compared_texts: ComparedTexts | None = None) -> Iterator[Piece]:
    """Yield the pieces of a chart: its titles, and the stored names of its categories and series."""
    drawing, prefix = _prefix(text, "drawing", "a:"), _prefix(text, "chart", "c:")
    names = DRAWING if drawing == "a:" else DRAWING.with_prefix(drawing)
    value = f"{prefix}v"

    def read(element: Element) -> Iterator[Piece]:
        name, raw = element.name, element.content(text)
        if name == names.paragraph:
            yield paragraph(text, element, names)
        elif name == value:
            words = unescape(raw)
            if compared_texts is not None and compared_texts.contains(words):
                yield untranslated(raw, COMPARED_REASON)
            else:
                yield text_unit(raw, (words,), write_xml)
        elif name == f"{prefix}externalData":
            yield untranslated(raw, "in the workbooks of charts", element.tag(text))
        elif name.startswith(f"{prefix}num"):
            yield raw
        else:
            yield from content_pieces(text, (value,), read, element.inner, element.inner_end)

    value_elements = ("strCache", "multiLvlStrCache", "strLit", "numCache", "numLit", "externalData", "v")
    chart_names = (names.paragraph, *(f"{prefix}{name}" for name in value_elements))
    return with_descriptions(content_pieces(text, chart_names, read))


def _property_pieces(text: str) -> Iterator[Piece]:
    """Yield the pieces of the properties of a document, such as its title."""
    dc, core = _prefix(text, "dc", "dc:"), _prefix(text, "core", "cp:")
    names = [f"{dc}{name}" for name in ("title", "subject", "description")]
    return text_elements(text, (*names, *(f"{core}{name}" for name in ("keywords", "category"))))


def _copy_part(text: str) -> Iterator[Piece]:
    """Yield a part without texts, in which only the declared languages are replaced."""
    yield text


PROPERTIES: PartKind = (
    re.compile(r"core-properties\+xml\Z"),
    re.compile(r"docProps/core\.xml"),
    _property_pieces,
)
WORD_PARTS: Sequence[PartKind] = (
    (
        re.compile(
            r"wordprocessingml\.(?:(?:document|template)\.main|header|footer|footnotes|endnotes|comments)\+xml|"
            r"ms-word\.(?:document|template)\.macroEnabled"
        ),
        re.compile(r"word/(?:document\d*|header\d*|footer\d*|footnotes|endnotes|comments)\.xml"),
        _word_pieces,
    ),
    (re.compile(r"drawingml\.chart\+xml"), re.compile(r"word/charts/chart\d+\.xml"), _chart_pieces),
    (
        re.compile(r"drawingml\.(?:chartshapes|diagramData|diagramDrawing)\+xml"),
        re.compile(r"word/diagrams/(?:data|drawing)\d+\.xml"),
        _drawing_pieces,
    ),
    (NEVER_MATCHING, re.compile(r"word/styles\.xml"), _copy_part),
    PROPERTIES,
)


def word_members(archive: Archive) -> Mapping[str, Reader]:
    """Return the readers of the parts of a Word document that contain text."""
    return _readers(find_parts(archive, WORD_PARTS, "word/document", "Word document"))


def _readers(parts: Mapping[str, PieceReader]) -> dict[str, Reader]:
    return {name: xml_reader(read) for name, read in parts.items()}


DOCX = DocumentFormat("docx", (".docx", ".docm", ".dotx"), members=word_members)


def _master_pieces(text: str) -> Iterator[Piece]:
    """Yield the pieces of a slide master or layout, except its placeholders, which slides do not show."""
    shape, placeholder = (f"{_prefix(text, 'slide', 'p:')}{name}" for name in ("sp", "ph"))

    def read(element: Element) -> Iterator[Piece]:
        content = element.content(text)
        return iter([content]) if f"<{placeholder}" in content else _drawing_pieces_in(text, content)

    return content_pieces(text, (shape,), read)


def _drawing_pieces_in(text: str, content: str) -> Iterator[Piece]:
    return paragraphs(content, DRAWING.with_prefix(_prefix(text, "drawing", "a:")))


SLIDE_PARTS: Sequence[PartKind] = (
    (
        re.compile(
            r"presentationml\.(?:slide|notesSlide|comments)\+xml|ms-powerpoint\.comments\+xml|"
            r"drawingml\.(?:chartshapes|diagramData|diagramDrawing)\+xml"
        ),
        re.compile(
            r"ppt/(?:slides/slide\d+|notesSlides/notesSlide\d+|comments/\w+|diagrams/(?:data|drawing)\d+)\.xml"
        ),
        _drawing_pieces,
    ),
    (re.compile(r"drawingml\.chart\+xml"), re.compile(r"ppt/charts/chart\d+\.xml"), _chart_pieces),
    (
        re.compile(r"presentationml\.slide(?:Master|Layout)\+xml"),
        re.compile(r"ppt/slide(?:Masters|Layouts)/\w+\.xml"),
        _master_pieces,
    ),
    PROPERTIES,
)


def presentation_members(archive: Archive) -> Mapping[str, Reader]:
    """Return the readers of the parts of a presentation that contain text."""
    return _readers(find_parts(archive, SLIDE_PARTS, "ppt/presentation", "presentation"))


PPTX = DocumentFormat("pptx", (".pptx", ".pptm", ".ppsx"), members=presentation_members)


WORKSHEET = re.compile(r"spreadsheetml\.worksheet\+xml"), re.compile(r"xl/worksheets/sheet\d*\.xml")
STRINGS = (
    re.compile(r"spreadsheetml\.(?:sharedStrings|comments)\+xml|ms-excel\.threadedcomments\+xml"),
    re.compile(r"xl/sharedStrings\.xml|xl/comments/?\w*\.xml|xl/threadedComments/\w+\.xml"),
)
WORKBOOK = (
    re.compile(r"spreadsheetml\.(?:sheet|template)\.main\+xml|ms-excel\.(?:sheet|template)\.macroEnabled"),
    re.compile(r"xl/workbook\.xml"),
)
TABLE = (
    re.compile(r"spreadsheetml\.(?:table|pivotCacheDefinition)\+xml"),
    re.compile(r"xl/(?:tables/table\d+|pivotCache/pivotCacheDefinition\d+)\.xml"),
)
SHEET_DRAWING = (
    re.compile(r"openxmlformats-officedocument\.drawing\+xml|drawingml\.(?:chartshapes|diagramData)\+xml"),
    re.compile(r"xl/(?:drawings/drawing\d+|diagrams/data\d+)\.xml"),
)
SHEET_CHART = re.compile(r"drawingml\.chart\+xml"), re.compile(r"xl/charts/chart\d+\.xml")
COLUMN_NAME = re.compile(r"""<(?:\w+:)?(?:tableColumn|cacheField)\b[^<>]*?\sname=(?:"([^"<]*)"|'([^'<]*)')""")
FORMULA = re.compile(r"<(?:\w+:)?(formula1|formula2|formula|f|definedName)(?:\s[^<>]*)?>([^<]*)<")
FILTER = re.compile(r"""<(?:\w+:)?(?:filter|customFilter)\s[^<>]*?\bval=(?:"([^"<]*)"|'([^'<]*)')""")
SHEET_TAG = re.compile(r"<(?:\w+:)?sheet\s[^<>]*>")
VALIDATION = re.compile(r"<(?:\w+:)?(?:dataValidation|hyperlink)\s[^<>]*>")
ESCAPED_CHARACTER = re.compile(r"(_x000[ADad]_\n?|_x[\dA-Fa-f]{4}_)")
"""The escape of a character that is invalid in XML, or of an underscore that would begin one (ST_Xstring)."""
VALIDATION_TEXTS = frozenset(("promptTitle", "prompt", "errorTitle", "error", "tooltip"))


def workbook_members(archive: Archive) -> Mapping[str, Reader]:
    """Return the readers of the parts of a workbook that contain text: cells, comments and drawings.

    The names of sheets are copied, as are the header cells of tables and pivot tables, which Excel requires
    to equal the column names, and the texts that formulas, validation lists and filters compare with cells.
    """
    compared_texts = ComparedTexts()

    def read_chart(text: str) -> Iterator[Piece]:
        return _chart_pieces(text, compared_texts)

    kinds: list[PartKind] = [
        (*WORKSHEET, partial(_worksheet_pieces, compared_texts)),
        (*STRINGS, partial(_string_pieces, compared_texts)),
        (*WORKBOOK, _sheet_name_pieces),
        (*TABLE, _copy_part),
        (*SHEET_DRAWING, _drawing_pieces),
        (*SHEET_CHART, read_chart),
        PROPERTIES,
    ]
    parts = find_parts(archive, kinds, "xl/workbook", "workbook")
    for name, read in list(parts.items()):
        if read is _copy_part:
            del parts[name]
            for double_quoted, single_quoted in COLUMN_NAME.findall(
                archive.read(name).decode("utf-8", "replace")
            ):
                compared_texts.names.add(unescape(double_quoted or single_quoted))
        elif read in (kinds[0][2], _sheet_name_pieces):
            _add_compared(compared_texts, archive.read(name))
    return _readers(parts)


def _add_compared(compared_texts: ComparedTexts, content: bytes) -> None:
    """Add the texts that the formulas, lists and filters of a sheet compare with its cells."""
    if b"<f" not in content and b":f" not in content and b"ormula" not in content:
        return
    text = content.decode("utf-8", "replace")
    for kind, formula in FORMULA.findall(text):
        if '"' in formula or "&" in formula:
            compared_texts.add_formula(unescape(formula), kind == "formula1")
    for double_quoted, single_quoted in FILTER.findall(text):
        compared_texts.add(unescape(double_quoted or single_quoted))


def _sheet_name_pieces(text: str) -> Iterator[Piece]:
    position = 0
    for match in SHEET_TAG.finditer(text):
        yield text[position : match.start()]
        yield from attribute_pieces(match[0], ("name",), "names of sheets")
        position = match.end()
    yield text[position:]


def _worksheet_pieces(compared_texts: ComparedTexts, text: str) -> Iterator[Piece]:
    """Yield the pieces of a sheet, whose texts are the cells and the messages of data validations."""
    for piece in _cell_pieces(compared_texts, text):
        position = 0
        if type(piece) is str and ("rompt" in piece or "rror" in piece or "tooltip" in piece):
            for match in VALIDATION.finditer(piece):
                yield piece[position : match.start()]
                yield from attribute_pieces(match[0], VALIDATION_TEXTS)
                position = match.end()
            yield piece[position:]
        else:
            yield piece


def _cell_pieces(compared_texts: ComparedTexts, text: str) -> Iterator[Piece]:
    """Yield the pieces of a sheet, in which headers, footers and the results of formulas are copied."""
    prefix = _prefix(text, "sheet", "")
    has_results = 't="str"' in text
    has_header = f"<{prefix}headerFooter" in text
    if not has_results and not has_header and f"<{prefix}is" not in text and "formula1" not in text:
        yield text
        return
    names = [
        f"{prefix}{name}" for name in ("is", "headerFooter", "formula1", *(("c",) if has_results else ()))
    ]

    def read(element: Element) -> Iterator[Piece]:
        content = element.content(text)
        name = element.name.removeprefix(prefix)
        if name == "is":
            yield from _cell_text_pieces(compared_texts, text, element, prefix)
        elif name == "c" and f"<{prefix}is" in content:
            yield from content_pieces(text, (f"{prefix}is",), read, element.inner, element.inner_end)
        elif name == "c" and 't="str"' not in element.tag(text):
            yield content
        elif name == "c":
            value = find_child(text, element, f"{prefix}v")
            yield untranslated(content, "results of formulas", value.content(text) if value else "")
        elif name == "headerFooter":
            yield untranslated(content, "headers and footers of sheets", _header_words(content))
        else:
            yield untranslated(
                content, COMPARED_REASON, content if content.startswith(('"', "&quot;")) else ""
            )

    yield from content_pieces(text, names, read)


def _header_words(content: str) -> str:
    """Return the words of the headers and footers of a sheet, without codes such as ``&amp;P``."""
    return re.sub(r"&amp;(?:\"[^\"&]*\"|&quot;[^&]*&quot;|[A-Za-z])", "", MARKUP.sub(" ", content))


def _string_pieces(compared_texts: ComparedTexts, text: str) -> Iterator[Piece]:
    """Yield the pieces of a part with shared strings or comments."""
    prefix = _prefix(text, "sheet", "")

    def read(element: Element) -> Iterator[Piece]:
        return _cell_text_pieces(compared_texts, text, element, prefix)

    yield from content_pieces(text, (f"{prefix}si", f"{prefix}text"), read)


def _cell_words(text: str) -> Inline:
    """Return the text of a cell with its escaped characters, such as ``_x000D_``, as tags."""
    parts: list[str | Tag] = []
    for index, part in enumerate(ESCAPED_CHARACTER.split(text)):
        if index % 2 == 0:
            parts.append(part)
            continue
        character = chr(int(part[2:6], 16))
        if character in "\r\n":
            parts.append(Tag("void", part, "\n"))
        elif character.isprintable() and not character.isspace():
            parts.append(Tag("kept", part, character))
        else:
            parts.append(Tag("void", part, " "))
    return join_parts(parts)


def _cell_text_pieces(
    compared_texts: ComparedTexts, text: str, element: Element, prefix: str
) -> Iterator[Piece]:
    raw = element.content(text)
    names = SHEET.with_prefix(prefix) if prefix else SHEET
    first_child = find_child(text, element, names.text)
    if first_child is None:
        yield raw if "<" in raw else text_unit(raw, (unescape(raw),), write_xml)
        return
    is_plain = f"<{names.run}>" not in raw and f"<{names.run} " not in raw
    words = unescape(first_child.content(text))
    if not is_plain:
        texts = elements(text, (names.text,), element.inner, element.inner_end)
        words = "".join(unescape(run.content(text)) for run in texts)
    if words in compared_texts.names:
        yield untranslated(raw, "names of columns", words)
    elif compared_texts.contains(words):
        yield untranslated(raw, COMPARED_REASON, words)
    elif is_plain:
        yield text[element.inner : first_child.inner]
        yield text_unit(first_child.content(text), _cell_words(words), write_xml)
        yield text[first_child.inner_end : element.inner_end]
    else:
        yield paragraph(text, element._replace(name=names.paragraph), names)


XLSX = DocumentFormat("xlsx", (".xlsx", ".xlsm", ".xltx"), members=workbook_members)
