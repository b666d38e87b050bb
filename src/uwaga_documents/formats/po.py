"""gettext PO files: missing translations are added, and everything else is copied byte for byte."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from uwaga.errors import DataError, SettingsError, quoted
from uwaga.languages.codes import base_language
from uwaga.markup import Inline
from uwaga.markup.placeholders import CONVERSION
from uwaga.markup.units import Fragment, Piece, Unit, pair_texts, untranslated, write_pieces
from uwaga_documents.document import DocumentFormat, DocumentSource, ParsedDocument
from uwaga_documents.encodings import DecodedText, byte_order_mark, decode, normalise_encoding
from uwaga_documents.language import format_code
from uwaga_documents.messages import MessageSyntax, message_unit
from uwaga_documents.plurals import plural_expression, repeats_singular, singular_forms

PRINTF = MessageSyntax(("printf",), accelerators=True)
NUMBERED_PRINTF = replace(PRINTF, numbering="printf")
BRACES = MessageSyntax(accelerators=True)
SYNTAXES: Mapping[str, MessageSyntax] = {
    **dict.fromkeys(
        ("c", "php", "perl", "java-printf", "javascript", "ruby", "awk", "tcl", "elisp", "librep", "d"),
        NUMBERED_PRINTF,
    ),
    **dict.fromkeys(("python", "lua"), PRINTF),
    **dict.fromkeys(("python-brace", "c++", "rust"), replace(BRACES, numbering="braces")),
    **dict.fromkeys(("perl-brace", "csharp", "sh"), BRACES),
    "java": replace(BRACES, quotes=True),
    "objc": replace(NUMBERED_PRINTF, names=("objc",)),
    "boost": replace(PRINTF, names=("boost",), numbering="boost"),
    "gcc-internal": replace(PRINTF, names=("gcc", "printf"), numbering="gcc"),
    "gfc-internal": replace(PRINTF, names=("gcc", "printf")),
    "go": replace(PRINTF, names=("go",), numbering="go"),
    "object-pascal": replace(PRINTF, names=("pascal",), numbering="pascal"),
    **dict.fromkeys(("qt", "qt-plural"), replace(PRINTF, names=("qt",))),
    **dict.fromkeys(("kde", "kde-kuit", "smalltalk", "ycp"), replace(PRINTF, names=("kde",))),
    **dict.fromkeys(("scheme", "lisp"), replace(PRINTF, names=("lisp",))),
}
"""The message syntax of each flag, such as ``c`` for ``c-format``."""
ANY_SYNTAX = MessageSyntax(("drupal", "laravel"), accelerators=True)
"""The message syntax of entries without a format flag, as in Drupal."""
CHARSET = re.compile(rb"Content-Type:[^\"]{0,200}?charset=([A-Za-z0-9._-]+)", re.IGNORECASE)
KEYWORD = re.compile(r'(msgctxt|msgid_plural|msgid|msgstr)(?:\[(\d{1,2})\])?[ \t]*(?=")')
STRING = re.compile(r'[ \t]*"((?>(?:[^"\\]++|\\.)*))"[ \t]*\r?\n?\Z')
ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|([0-7]{1,3})|(.))", re.DOTALL)
ESCAPED_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
SPACED_CONVERSION = re.compile(
    r"%%|(?P<spaced>%(?:\([^()]*\)|\d++\$)?[-+#0']*+ [-+#0' ]*+(?>(?:\d++|\*)?)(?>(?:\.(?:\d++|\*)?)?)"
    r"[hlLqjzt]*[aAcCdeEfFgGimnoprsSuxX%])"
)
"""A conversion with the flag for a space, as gettext reads ``50% off`` and ``%(length) characters``."""
ARGUMENT = re.compile(rf"%%|{CONVERSION}|\{{[^{{}}]*\}}")
REPLACED_FIELDS = frozenset(("Language", "Content-Type", "Plural-Forms"))
SPACE_FLAG_SYNTAXES = frozenset(("printf", "objc", "boost"))
"""The syntaxes in which a conversion may have the flag for a space."""
LINE_WIDTH = 76
"""Maximum line width of gettext's tools, in characters."""


@dataclass
class PoEntry:
    """An entry of a catalogue.

    Attributes:
        comments: the lines of its comments.
        lines: the lines of each keyword, such as ``msgstr[0]``.
        texts: the text of each keyword.
    """

    comments: list[str] = field(default_factory=list)
    lines: dict[str, list[str]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def flags(self) -> list[str]:
        lines = [line[2:] for line in self.comments if line.startswith("#,")]
        return [flag.strip() for line in lines for flag in line.split(",")]

    @property
    def fuzzy(self) -> bool:
        return "fuzzy" in self.flags

    @property
    def is_header(self) -> bool:
        return self.texts.get("msgid") == "" and "msgctxt" not in self.texts

    @property
    def translations(self) -> list[str]:
        return [text for key, text in self.texts.items() if key.startswith("msgstr")]

    @property
    def is_translated(self) -> bool:
        return all(self.translations) and not self.fuzzy

    @property
    def repeats_source(self) -> bool:
        """True if the translations equal the texts, as in a catalogue of the source language."""
        return set(self.translations) <= {self.texts["msgid"], self.texts.get("msgid_plural", "")}

    @property
    def has_spaced_conversion(self) -> bool:
        """True if gettext reads a percent sign, a space and a letter of a text as a conversion."""
        if SPACE_FLAG_SYNTAXES.isdisjoint(self.syntax.names):
            return False
        texts = [text for key, text in self.texts.items() if key.startswith("msgid")]
        return any(match["spaced"] for text in texts for match in SPACED_CONVERSION.finditer(text))

    @property
    def quotes_argument(self) -> bool:
        """True if an apostrophe quotes an argument of a text, so that the argument is displayed as
        written.
        """
        if not self.syntax.quotes:
            return False
        texts = [text.replace("''", "") for key, text in self.texts.items() if key.startswith("msgid")]
        return any("{" in part for text in texts for part in text.split("'")[1::2])

    def texts_with_translations(self) -> Iterator[tuple[str, str]]:
        """Yield the text and its translation; for a plural, yield the singular with the first of several
        forms, and the plural with the last form.
        """
        translations = self.translations
        plural = self.texts.get("msgid_plural")
        if len(translations) > 1 or plural is None:
            yield self.texts["msgid"], translations[0]
        if plural is not None:
            yield plural, translations[-1]

    @property
    def is_formatted(self) -> bool:
        return any(flag.endswith("-format") and not flag.startswith("no-") for flag in self.flags)

    def arguments(self, keyword: str) -> Counter[str]:
        """Return the number of occurrences of each argument in the text of a keyword."""
        arguments = (match[0] for match in ARGUMENT.finditer(self.texts.get(keyword, "")))
        return Counter(argument for argument in arguments if argument != "%%")

    @property
    def syntax(self) -> MessageSyntax:
        names = (flag.removesuffix("-format") for flag in self.flags)
        return next((SYNTAXES[name] for name in names if name in SYNTAXES), ANY_SYNTAX)

    def raw(self) -> str:
        return "".join([*self.comments, *(line for lines in self.lines.values() for line in lines)])


@dataclass(frozen=True)
class _PluralForms:
    """The plural forms of the target language.

    Attributes:
        are_singular: for each form, whether it is the singular.
        is_repeated: whether the singular is also the form of the number 21, as in Russian.
    """

    are_singular: Sequence[bool]
    is_repeated: bool

    def text_indices(self, entry: PoEntry) -> list[int]:
        """Return, for each form of an entry, the index of its text: 0 for ``msgid``, 1 for ``msgid_plural``.

        A singular text that does not contain the number, such as "one file", is not used if the form is also
        used for 21, or if Python would not accept the text.
        """
        missing_arguments = entry.arguments("msgid_plural") - entry.arguments("msgid")
        is_positional = "python-format" in entry.flags and not all(
            "(" in argument for argument in missing_arguments
        )
        is_plural = bool(missing_arguments) and (self.is_repeated or is_positional)
        return [int(is_plural or not is_singular) for is_singular in self.are_singular]


def po_pieces(text: str, source: DocumentSource, charset: str = "UTF-8") -> Iterator[Piece]:
    """Yield the pieces of a catalogue.

    Args:
        text: the catalogue.
        source: the file of the catalogue.
        charset: the encoding to write into a header that does not declare one.
    """
    target, retranslate = source.options.target, source.options.retranslate
    parts = list(po_entries(text, source.name))
    entries = [entry for entry in parts if isinstance(entry, PoEntry)]
    header = next((entry for entry in entries if entry.is_header), None)
    messages = [entry for entry in entries if not entry.is_header]
    expression = plural_expression(target or "en")
    forms = singular_forms(expression) or (True, False)
    if header is not None:
        fields = header.texts.get("msgstr", "")
        is_other_language = _is_other_language(fields, target)
        remaining_entries = [entry for entry in messages if entry.is_translated and not retranslate]
        if is_other_language and not all(entry.repeats_source for entry in remaining_entries):
            raise DataError(
                f"{source.name}: its header says Language: {_field(fields, 'Language')}, and it has "
                f"translations; translate its template to {target}, or all of its entries (--retranslate)"
            )
        retranslate = retranslate or is_other_language
        declared_expression = _field(fields, "Plural-Forms")
        declared = singular_forms(declared_expression)
        has_plurals = any("msgid_plural" in entry.texts for entry in remaining_entries)
        is_target_language = bool(_field(fields, "Language")) and not is_other_language
        if declared and (target is None or is_target_language or (has_plurals and not is_other_language)):
            forms, expression = declared, declared_expression
        if target is not None:
            declares_forms = declared is not None and len(declared) == len(forms) and not is_other_language
            _complete_header(header, target, charset, is_other_language, declares_forms)
    elif target is not None and messages:
        header = PoEntry(lines={"msgid": ['msgid ""\n']}, texts={"msgid": "", "msgstr": ""})
        _complete_header(header, target, charset, False, False)
        yield header.raw() + "\n"
    plural_forms = _PluralForms(forms, repeats_singular(expression))
    for part in parts:
        if isinstance(part, str):
            yield part
        else:
            yield part.raw() if part.is_header else _unit(part, plural_forms, retranslate)


def _field(header: str, name: str) -> str:
    """Return the value of a field of a header, or an empty string if the field is missing."""
    fields = (line.partition(":") for line in header.split("\n"))
    return next((value.strip() for field, _, value in fields if field.lower() == name.lower()), "")


def _is_other_language(header: str, target: str | None) -> bool:
    declared = _field(header, "Language")
    return bool(declared and target) and base_language(declared) != base_language(target or "")


def _complete_header(
    header: PoEntry, target: str, charset: str, is_other_language: bool, declares_forms: bool
) -> None:
    """Add to a header the fields that a translation needs: encoding, language and plural forms.

    Args:
        header: the header.
        target: the target language.
        charset: the encoding.
        is_other_language: whether the header declares another language, which is replaced.
        declares_forms: whether the header already declares the plural forms that are written.
    """
    fields = {
        "Language": format_code(target, "_"),
        "MIME-Version": "1.0",
        "Content-Type": f"text/plain; charset={charset}",
        "Content-Transfer-Encoding": "8bit",
        "Plural-Forms": plural_expression(target),
    }
    text = header.texts.get("msgstr", "")
    if text:
        del fields["MIME-Version"], fields["Content-Transfer-Encoding"]
    if _field(text, "Language") and not is_other_language:
        del fields["Language"]
    if declares_forms:
        del fields["Plural-Forms"]
    if _field(text, "Content-Type") and "charset=CHARSET" not in text:
        del fields["Content-Type"]
    lines: list[str] = []
    for line in text.removesuffix("\n").split("\n") if text else ():
        field = line.partition(":")[0].lower()
        name = next((name for name in fields if name.lower() == field), "")
        value = fields.pop(name, "")
        lines.append(f"{name}: {value}" if name in REPLACED_FIELDS else line)
    lines += [f"{name}: {value}" for name, value in fields.items()]
    completed_text = "".join(f"{line}\n" for line in lines)
    if completed_text == text:
        return
    line_end = "\r\n" if header.raw().endswith("\r\n") else "\n"
    rows = [line.replace("\\", "\\\\").replace('"', '\\"') for line in lines]
    header.lines["msgstr"] = [f'msgstr ""{line_end}', *(f'"{row}\\n"{line_end}' for row in rows)]
    header.comments = [comment for line in header.comments if (comment := _without_fuzzy(line))]


def po_entries(text: str, location: str) -> Iterator[PoEntry | str]:
    """Yield the entries of a catalogue, and the text between them."""
    entry, keyword = PoEntry(), ""
    for line_number, line in enumerate(re.findall(r"[^\n]*\n|[^\n]+", text), start=1):
        stripped_line = line.strip()
        match = KEYWORD.match(line)
        starts_entry = stripped_line.startswith("#") or (
            match is not None and match[1] in ("msgctxt", "msgid")
        )
        if starts_entry and any(key.startswith("msgstr") for key in entry.lines):
            yield entry
            entry, keyword = PoEntry(), ""
        if match is not None:
            keyword = match[1] + (f"[{match[2]}]" if match[2] else "")
            if keyword in entry.lines:
                raise DataError(f"{location}: line {line_number}: the entry already has {keyword}")
            _add_string(entry, keyword, line, line[match.end() :], f"{location}: line {line_number}")
        elif stripped_line.startswith('"') and keyword:
            _add_string(entry, keyword, line, line, f"{location}: line {line_number}")
        elif stripped_line.startswith("#") and not entry.lines:
            entry.comments.append(line)
        elif not stripped_line or stripped_line.startswith("#"):
            if entry.comments or entry.lines:
                yield entry if "msgid" in entry.texts and "msgstr" in str(entry.lines.keys()) else entry.raw()
            entry, keyword = PoEntry(), ""
            yield line
        else:
            raise DataError(
                f"{location}: line {line_number} does not belong in a PO file: {quoted(stripped_line)}"
            )
    if entry.comments or entry.lines:
        yield entry if "msgid" in entry.texts and "msgstr" in str(entry.lines.keys()) else entry.raw()


def _add_string(entry: PoEntry, keyword: str, line: str, string: str, location: str) -> None:
    match = STRING.match(string)
    if match is None:
        raise DataError(f"{location}: not a string in quotes: {quoted(string.strip())}")
    entry.lines.setdefault(keyword, []).append(line)
    entry.texts[keyword] = entry.texts.get(keyword, "") + _unescape(match[1])


def _unescape(raw: str) -> str:
    def unescape_match(match: re.Match[str]) -> str:
        hexadecimal, octal, character = match.groups()
        if hexadecimal or octal:
            return chr(int(hexadecimal, 16) if hexadecimal else int(octal, 8))
        return ESCAPED_CHARACTERS.get(character, character)

    return ESCAPE.sub(unescape_match, raw) if "\\" in raw else raw


def _unit(entry: PoEntry, forms: _PluralForms, retranslate: bool) -> Piece:
    raw = entry.raw()
    if entry.is_translated and not retranslate:
        return untranslated(raw, "already translated", entry.texts["msgid"], partial(_translations, entry))
    if entry.has_spaced_conversion:
        return untranslated(raw, "with a percent sign before a word of a format string", entry.texts["msgid"])
    if entry.quotes_argument:
        return untranslated(raw, "with an apostrophe that quotes a placeholder", entry.texts["msgid"])
    names = ("msgid", "msgid_plural") if "msgid_plural" in entry.texts else ("msgid",)
    if len(names) > 1 and entry.is_formatted and entry.arguments("msgid") - entry.arguments("msgid_plural"):
        reason = "with placeholders of the singular that the plural lacks"
        return untranslated(raw, reason, entry.texts["msgid"])
    pieces = [message_unit(entry.texts[name], entry.texts[name], str, entry.syntax) for name in names]
    inlines = tuple(Fragment(tuple(pieces)).inlines)
    if not inlines:
        return raw
    line_end = "\r\n" if raw.endswith("\r\n") or "\r\n" in raw else "\n"

    def write(translations: Sequence[Inline]) -> str:
        texts = list(write_pieces(pieces, translations))
        lines = [line for line in entry.comments if not line.startswith("#|")]
        lines = [comment for line in lines if (comment := _without_fuzzy(line))]
        for key, key_lines in entry.lines.items():
            lines += key_lines if not key.startswith("msgstr") else []
        if len(names) == 1:
            lines.append(_string("msgstr", texts[0], line_end))
        else:
            lines += [
                _string(f"msgstr[{form}]", texts[number], line_end)
                for form, number in enumerate(forms.text_indices(entry))
            ]
        if lines and not lines[-2].endswith("\n"):
            lines[-2] += line_end
        return "".join(lines) if raw.endswith("\n") else "".join(lines).rstrip("\r\n")

    return Unit(inlines, write, key=entry.texts.get("msgctxt", ""))


def _translations(entry: PoEntry) -> Iterator[tuple[Inline, Inline]]:
    """Yield the texts of a translated entry with their translations."""
    for texts in entry.texts_with_translations():
        yield from pair_texts(*(message_unit(text, text, str, entry.syntax) for text in texts))


def _without_fuzzy(line: str) -> str:
    if not line.startswith("#,") or "fuzzy" not in line:
        return line
    flags = [flag.strip() for flag in line[2:].split(",")]
    remaining_flags = [flag for flag in flags if flag and flag != "fuzzy"]
    return f"#, {', '.join(remaining_flags)}{line[len(line.rstrip()) :]}" if remaining_flags else ""


def _string(keyword: str, text: str, line_end: str) -> str:
    """Return a keyword with its string as gettext's tools write them, wrapped at line breaks and to
    the line width.
    """
    escaped_text = text.replace("\\", "\\\\").replace('"', '\\"')
    for letter, character in ESCAPED_CHARACTERS.items():
        escaped_text = escaped_text.replace(character, f"\\{letter}")
    if len(escaped_text) + len(keyword) + 3 <= LINE_WIDTH + 2 and "\\n" not in escaped_text.removesuffix(
        "\\n"
    ):
        return f'{keyword} "{escaped_text}"{line_end}'
    rows = []
    for line in re.findall(r"(?:[^\\]|\\[^n])*?\\n|(?:[^\\]|\\[^n])+\Z", escaped_text):
        row = ""
        for word in re.findall(r"[^ ]* |[^ ]+", line):
            if row and len(row) + len(word) > LINE_WIDTH:
                rows.append(row)
                row = ""
            row += word
        rows.append(row)
    return "".join([f'{keyword} ""{line_end}', *(f'"{row}"{line_end}' for row in rows)])


def read(source: DocumentSource) -> ParsedDocument:
    """Read a catalogue, whose texts are the untranslated and fuzzy entries, or all entries if
    options require it.
    """
    decoded = po_text(source)
    return decoded.parsed(po_pieces(decoded.text, source, decoded.encoding.upper()))


def po_text(source: DocumentSource) -> DecodedText:
    """Decode a catalogue as :func:`decode_text` does, but use the encoding in its header as the default."""
    bom, encoding = byte_order_mark(source.content)
    declared = CHARSET.search(source.content[:16384])
    if encoding is None and source.options.encoding:
        encoding = normalise_encoding(source.options.encoding, source.name)
    if encoding is None and declared and declared[1] != b"CHARSET":
        try:
            encoding = normalise_encoding(declared[1].decode("ascii"), source.name)
        except SettingsError:
            encoding = None
    encoding = encoding or "utf-8"
    return DecodedText(decode(source.content[len(bom) :], encoding, source.name), encoding, bom)


FORMAT = DocumentFormat("po", (".po", ".pot"), read)
