"""gettext PO: entries without a translation get one; everything else is copied byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from uwaga.documents.document import DocumentFormat, DocumentSource, Reading
from uwaga.documents.encodings import decode, known_encoding, marked_encoding
from uwaga.documents.messages import message_unit
from uwaga.documents.plurals import plural_expression, singular_forms
from uwaga.errors import DataError, SettingsError, shown
from uwaga.markup import Inline
from uwaga.markup.units import Fragment, Piece, Unit, all_written

CHARSET = re.compile(rb"Content-Type:[^\"]{0,200}?charset=([A-Za-z0-9._-]+)", re.IGNORECASE)
KEYWORD = re.compile(r'(msgctxt|msgid_plural|msgid|msgstr)(?:\[(\d{1,2})\])?[ \t]*(?=")')
STRING = re.compile(r'[ \t]*"((?>(?:[^"\\]++|\\.)*))"[ \t]*\r?\n?\Z')
ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|([0-7]{1,3})|(.))", re.DOTALL)
SIGNS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
WIDTH = 76
"""Width of the lines that gettext's tools write."""


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


def _entries(text: str, where: str) -> Iterator[_PoEntry | str]:
    entry, keyword = _PoEntry(), ""
    for number, line in enumerate(re.findall(r"[^\n]*\n|[^\n]+", text), start=1):
        bare = line.strip()
        found = KEYWORD.match(line)
        opens = bare.startswith("#") or (found is not None and found[1] in ("msgctxt", "msgid"))
        if opens and any(key.startswith("msgstr") for key in entry.lines):
            yield entry
            entry, keyword = _PoEntry(), ""
        if found is not None:
            keyword = found[1] + (f"[{found[2]}]" if found[2] else "")
            if keyword in entry.lines:
                raise DataError(f"{where}: line {number}: a second {keyword} in one entry")
            _add(entry, keyword, line, line[found.end() :], f"{where}: line {number}")
        elif bare.startswith('"') and keyword:
            _add(entry, keyword, line, line, f"{where}: line {number}")
        elif bare.startswith("#") and not entry.lines:
            entry.comments.append(line)
        elif not bare or bare.startswith("#"):
            if entry.comments or entry.lines:
                yield entry if "msgid" in entry.texts and "msgstr" in str(entry.lines.keys()) else entry.raw()
            entry, keyword = _PoEntry(), ""
            yield line
        else:
            raise DataError(f"{where}: line {number} does not belong in a PO file: {shown(bare)}")
    if entry.comments or entry.lines:
        yield entry if "msgid" in entry.texts and "msgstr" in str(entry.lines.keys()) else entry.raw()


def _add(entry: _PoEntry, keyword: str, line: str, string: str, where: str) -> None:
    found = STRING.match(string)
    if found is None:
        raise DataError(f"{where}: not a string in quotes: {shown(string.strip())}")
    entry.lines.setdefault(keyword, []).append(line)
    entry.texts[keyword] = entry.texts.get(keyword, "") + _unescape(found[1])


def _unescape(raw: str) -> str:
    def sign(found: re.Match[str]) -> str:
        hexadecimal, octal, character = found.groups()
        if hexadecimal or octal:
            return chr(int(hexadecimal, 16) if hexadecimal else int(octal, 8))
        return SIGNS.get(character, character)

    return ESCAPE.sub(sign, raw) if "\\" in raw else raw


def _header(
    entry: _PoEntry, forms: tuple[bool, ...] | None, target: str | None
) -> tuple[str, tuple[bool, ...] | None]:
    """Return the header and the plural forms: those it declares, or those of the target language."""
    raw = entry.raw()
    stated = re.search(r"Plural-Forms:([^\n]*)", entry.texts.get("msgstr", ""))
    own = singular_forms(stated[1]) if stated else None
    if own is not None:
        return raw, own
    if target is not None:
        wanted = f"Plural-Forms: {plural_expression(target)}\\n"
        if stated:
            raw = re.sub(r"Plural-Forms:[^\"\n]*", lambda _: wanted, raw)
        language = re.escape("Language: ")
        raw = re.sub(rf'"{language}\\n"', lambda _: f'"Language: {target}\\n"', raw)
    return raw, forms


def _unit(entry: _PoEntry, forms: Sequence[bool], retranslate: bool) -> Piece:
    raw = entry.raw()
    there = [value for key, value in entry.texts.items() if key.startswith("msgstr")]
    if all(there) and not entry.fuzzy and not retranslate:
        return raw
    names = ("msgid", "msgid_plural") if "msgid_plural" in entry.texts else ("msgid",)
    pieces = [message_unit(entry.texts[name], entry.texts[name], str, accelerators=True) for name in names]
    inlines = tuple(Fragment(tuple(pieces)).inlines)
    if not inlines:
        return raw
    end = "\r\n" if raw.endswith("\r\n") or "\r\n" in raw else "\n"

    def write(made: Sequence[Inline]) -> str:
        said = list(all_written(pieces, made))
        lines = [line for line in entry.comments if not line.startswith("#|")]
        lines = [kept for line in lines if (kept := _without_fuzzy(line))]
        for key, own in entry.lines.items():
            lines += own if not key.startswith("msgstr") else []
        if len(names) == 1:
            lines.append(_string("msgstr", said[0], end))
        else:
            lines += [
                _string(f"msgstr[{form}]", said[0 if singular else 1], end)
                for form, singular in enumerate(forms)
            ]
        if lines and not lines[-2].endswith("\n"):
            lines[-2] += end
        return "".join(lines) if raw.endswith("\n") else "".join(lines).rstrip("\r\n")

    return Unit(inlines, write)


def _without_fuzzy(line: str) -> str:
    if not line.startswith("#,") or "fuzzy" not in line:
        return line
    flags = [one.strip() for one in line[2:].split(",")]
    kept = [one for one in flags if one and one != "fuzzy"]
    return f"#, {', '.join(kept)}{line[len(line.rstrip()) :]}" if kept else ""


def _string(keyword: str, text: str, end: str) -> str:
    """Write a string as gettext's tools do: broken at line breaks and within the width."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    for letter, sign in SIGNS.items():
        escaped = escaped.replace(sign, f"\\{letter}")
    if len(escaped) + len(keyword) + 3 <= WIDTH + 2 and "\\n" not in escaped.removesuffix("\\n"):
        return f'{keyword} "{escaped}"{end}'
    rows = []
    for line in re.findall(r"(?:[^\\]|\\[^n])*?\\n|(?:[^\\]|\\[^n])+\Z", escaped):
        row = ""
        for word in re.findall(r"[^ ]* |[^ ]+", line):
            if row and len(row) + len(word) > WIDTH:
                rows.append(row)
                row = ""
            row += word
        rows.append(row)
    return "".join([f'{keyword} ""{end}', *(f'"{row}"{end}' for row in rows)])


def read(source: DocumentSource) -> Reading:
    """Read the entries that are untranslated or fuzzy, or all of them if the options say so."""
    mark, encoding = marked_encoding(source.content)
    stated = CHARSET.search(source.content[:16384])
    if encoding is None and source.options.encoding:
        encoding = known_encoding(source.options.encoding, source.name)
    if encoding is None and stated and stated[1] != b"CHARSET":
        try:
            encoding = known_encoding(stated[1].decode("ascii"), source.name)
        except SettingsError:
            encoding = None
    text = decode(source.content[len(mark) :], encoding or "utf-8", source.name)
    return Reading(po_pieces(text, source), encoding or "utf-8", mark=mark)


FORMAT = DocumentFormat("po", (".po", ".pot"), read)
