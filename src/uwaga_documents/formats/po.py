"""gettext PO: missing translations are added; everything else is copied byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from uwaga.errors import DataError, SettingsError, quoted
from uwaga.markup import Inline
from uwaga.markup.units import Fragment, Piece, Unit, untranslated, write_pieces
from uwaga_documents.document import DocumentFormat, DocumentSource, Reading
from uwaga_documents.encodings import decode, marked_encoding, normalise_encoding
from uwaga_documents.messages import message_unit
from uwaga_documents.plurals import plural_expression, singular_forms

CHARSET = re.compile(rb"Content-Type:[^\"]{0,200}?charset=([A-Za-z0-9._-]+)", re.IGNORECASE)
KEYWORD = re.compile(r'(msgctxt|msgid_plural|msgid|msgstr)(?:\[(\d{1,2})\])?[ \t]*(?=")')
STRING = re.compile(r'[ \t]*"((?>(?:[^"\\]++|\\.)*))"[ \t]*\r?\n?\Z')
ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|([0-7]{1,3})|(.))", re.DOTALL)
ESCAPED_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
WIDTH = 76
"""Line width of gettext's tools."""


@dataclass
class _PoEntry:
    """An entry: its comments, and for each keyword (with its number) its lines and its text."""

    comments: list[str] = field(default_factory=list)
    lines: dict[str, list[str]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def fuzzy(self) -> bool:
        return any(line.startswith("#,") and "fuzzy" in line for line in self.comments)

    def raw(self) -> str:
        return "".join([*self.comments, *(line for lines in self.lines.values() for line in lines)])


def po_pieces(text: str, source: DocumentSource) -> Iterator[Piece]:
    """Yield the pieces of a catalogue."""
    forms = singular_forms(plural_expression(source.options.target or "en"))
    for entry in _entries(text, source.name):
        if isinstance(entry, str):
            yield entry
        elif entry.texts.get("msgid") == "" and "msgctxt" not in entry.texts:
            header, forms = _header(entry, forms, source.options.target)
            yield header
        else:
            yield _unit(entry, forms or (True, False), source.options.retranslate)


def _entries(text: str, location: str) -> Iterator[_PoEntry | str]:
    entry, keyword = _PoEntry(), ""
    for number, line in enumerate(re.findall(r"[^\n]*\n|[^\n]+", text), start=1):
        stripped = line.strip()
        match = KEYWORD.match(line)
        starts_entry = stripped.startswith("#") or (match is not None and match[1] in ("msgctxt", "msgid"))
        if starts_entry and any(key.startswith("msgstr") for key in entry.lines):
            yield entry
            entry, keyword = _PoEntry(), ""
        if match is not None:
            keyword = match[1] + (f"[{match[2]}]" if match[2] else "")
            if keyword in entry.lines:
                raise DataError(f"{location}: line {number}: a second {keyword} in one entry")
            _add_string(entry, keyword, line, line[match.end() :], f"{location}: line {number}")
        elif stripped.startswith('"') and keyword:
            _add_string(entry, keyword, line, line, f"{location}: line {number}")
        elif stripped.startswith("#") and not entry.lines:
            entry.comments.append(line)
        elif not stripped or stripped.startswith("#"):
            if entry.comments or entry.lines:
                yield entry if "msgid" in entry.texts and "msgstr" in str(entry.lines.keys()) else entry.raw()
            entry, keyword = _PoEntry(), ""
            yield line
        else:
            raise DataError(f"{location}: line {number} does not belong in a PO file: {quoted(stripped)}")
    if entry.comments or entry.lines:
        yield entry if "msgid" in entry.texts and "msgstr" in str(entry.lines.keys()) else entry.raw()


def _add_string(entry: _PoEntry, keyword: str, line: str, string: str, location: str) -> None:
    match = STRING.match(string)
    if match is None:
        raise DataError(f"{location}: not a string in quotes: {quoted(string.strip())}")
    entry.lines.setdefault(keyword, []).append(line)
    entry.texts[keyword] = entry.texts.get(keyword, "") + _unescape(match[1])


def _unescape(raw: str) -> str:
    def character_of(match: re.Match[str]) -> str:
        hexadecimal, octal, character = match.groups()
        if hexadecimal or octal:
            return chr(int(hexadecimal, 16) if hexadecimal else int(octal, 8))
        return ESCAPED_CHARACTERS.get(character, character)

    return ESCAPE.sub(character_of, raw) if "\\" in raw else raw


def _header(
    entry: _PoEntry, forms: tuple[bool, ...] | None, target: str | None
) -> tuple[str, tuple[bool, ...] | None]:
    """Return the header and its plural forms, by default those of the target language."""
    raw = entry.raw()
    declared = re.search(r"Plural-Forms:([^\n]*)", entry.texts.get("msgstr", ""))
    declared_forms = singular_forms(declared[1]) if declared else None
    if declared_forms is not None:
        return raw, declared_forms
    if target is not None:
        plural_forms = f"Plural-Forms: {plural_expression(target)}\\n"
        if declared:
            raw = re.sub(r"Plural-Forms:[^\"\n]*", lambda _: plural_forms, raw)
        language = re.escape("Language: ")
        raw = re.sub(rf'"{language}\\n"', lambda _: f'"Language: {target}\\n"', raw)
    return raw, forms


def _unit(entry: _PoEntry, forms: Sequence[bool], retranslate: bool) -> Piece:
    raw = entry.raw()
    translations = [value for key, value in entry.texts.items() if key.startswith("msgstr")]
    if all(translations) and not entry.fuzzy and not retranslate:
        return untranslated(raw, "already translated", entry.texts["msgid"])
    names = ("msgid", "msgid_plural") if "msgid_plural" in entry.texts else ("msgid",)
    pieces = [message_unit(entry.texts[name], entry.texts[name], str, accelerators=True) for name in names]
    inlines = tuple(Fragment(tuple(pieces)).inlines)
    if not inlines:
        return raw
    line_end = "\r\n" if raw.endswith("\r\n") or "\r\n" in raw else "\n"

    def write(translated: Sequence[Inline]) -> str:
        texts = list(write_pieces(pieces, translated))
        lines = [line for line in entry.comments if not line.startswith("#|")]
        lines = [comment for line in lines if (comment := _without_fuzzy(line))]
        for key, key_lines in entry.lines.items():
            lines += key_lines if not key.startswith("msgstr") else []
        if len(names) == 1:
            lines.append(_string("msgstr", texts[0], line_end))
        else:
            lines += [
                _string(f"msgstr[{form}]", texts[0 if singular else 1], line_end)
                for form, singular in enumerate(forms)
            ]
        if lines and not lines[-2].endswith("\n"):
            lines[-2] += line_end
        return "".join(lines) if raw.endswith("\n") else "".join(lines).rstrip("\r\n")

    return Unit(inlines, write)


def _without_fuzzy(line: str) -> str:
    if not line.startswith("#,") or "fuzzy" not in line:
        return line
    flags = [flag.strip() for flag in line[2:].split(",")]
    remaining = [flag for flag in flags if flag and flag != "fuzzy"]
    return f"#, {', '.join(remaining)}{line[len(line.rstrip()) :]}" if remaining else ""


def _string(keyword: str, text: str, line_end: str) -> str:
    """Write a string like gettext's tools, wrapped at line breaks and to the line width."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    for letter, character in ESCAPED_CHARACTERS.items():
        escaped = escaped.replace(character, f"\\{letter}")
    if len(escaped) + len(keyword) + 3 <= WIDTH + 2 and "\\n" not in escaped.removesuffix("\\n"):
        return f'{keyword} "{escaped}"{line_end}'
    rows = []
    for line in re.findall(r"(?:[^\\]|\\[^n])*?\\n|(?:[^\\]|\\[^n])+\Z", escaped):
        row = ""
        for word in re.findall(r"[^ ]* |[^ ]+", line):
            if row and len(row) + len(word) > WIDTH:
                rows.append(row)
                row = ""
            row += word
        rows.append(row)
    return "".join([f'{keyword} ""{line_end}', *(f'"{row}"{line_end}' for row in rows)])


def read(source: DocumentSource) -> Reading:
    """Read the untranslated and fuzzy entries, or all entries if the options require it."""
    mark, encoding = marked_encoding(source.content)
    declared = CHARSET.search(source.content[:16384])
    if encoding is None and source.options.encoding:
        encoding = normalise_encoding(source.options.encoding, source.name)
    if encoding is None and declared and declared[1] != b"CHARSET":
        try:
            encoding = normalise_encoding(declared[1].decode("ascii"), source.name)
        except SettingsError:
            encoding = None
    text = decode(source.content[len(mark) :], encoding or "utf-8", source.name)
    return Reading(po_pieces(text, source), encoding or "utf-8", mark=mark)


FORMAT = DocumentFormat("po", (".po", ".pot"), read)
