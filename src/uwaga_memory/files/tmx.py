"""TMX, of versions 1.1 to 1.4b.

The languages of the memory decide which variant is the source: ``srclang`` may be absent, ``*all*`` or wrong,
and variants may be in any order. Language codes of version 1.1 are in ``lang``. Variants of other regions are
used if there are none of the memory's. The document type is never fetched, and entities are refused.

Tools store the context as properties: ``x-context`` (translate-toolkit, Weblate), and ``id``, ``prev`` and
``next`` (OmegaT). All other properties, notes and attributes are stored with the pair and written on export.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import IO, NamedTuple

from uwaga import __version__
from uwaga.data.tmx import MAX_CODE_LENGTH, MAX_LISTED_LANGUAGES, XmlItems, nearest_variants
from uwaga.errors import DataError
from uwaga.markup.xml import escape, escape_attribute
from uwaga_memory.files.file import CodeFormatter, TranslationFile
from uwaga_memory.store import MAX_TEXT_LENGTH, Pair

CODES = {"bpt": "open", "ept": "close", "ph": "empty", "it": "empty", "ut": "empty"}
"""Elements with native codes, and how they are written as placeholders."""
KEYS = ("unit.prop.x-context", "target.prop.x-context", "unit.prop.id", "target.prop.id")
"""Properties with the key of a text."""
ORIGIN = "unit.prop.x-uwaga-origin"
"""Property with the origin of a pair."""
DATES = ("target.changedate", "unit.changedate", "target.creationdate", "unit.creationdate")
"""Attributes with the time of a translation, the most specific first."""
DATE = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z")
ISO_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)Z")
ATTRIBUTE = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]*")
"""Valid names of attributes; others are written as properties."""
MAX_VARIANTS = 1_000
MAX_UNIT_LENGTH = 1 << 22
"""Maximum characters of a unit."""
MAX_PROPERTIES = 200
LEVELS = ("unit", "source", "target")
"""Elements that have attributes, properties and notes: the unit and its two variants."""


class _Variant:
    """A variant of a unit, or the unit itself: its properties and its text."""

    def __init__(self, attributes: dict[str, str]) -> None:
        self.language = (attributes.get("xml:lang") or attributes.get("lang") or "")[:MAX_CODE_LENGTH]
        self.properties = [
            (name, value) for name, value in attributes.items() if name not in ("xml:lang", "lang")
        ]
        self.text = ""


class TmxUnits(XmlItems[Pair]):
    """Reads the pairs of translation units."""

    kind = "TMX"
    roots = frozenset({"tmx"})

    def __init__(self, file: TranslationFile) -> None:
        super().__init__(file.path)
        self._source = file
        self._count = 0
        self._pairs = 0
        self._languages: dict[str, None] = {}
        self._unit: _Variant | None = None
        self._variants: list[_Variant] = []
        self._text: list[str] | None = None  # of a segment, property or note
        self._size = self._unit_size = 0
        self._too_long = False
        self._property = ""
        self._codes: list[tuple[str, dict[str, str], list[str]]] = []
        self._code_formatter = CodeFormatter(file.options.codes)

    def progress(self) -> str:
        return f"after unit {self._count}"

    def damage_error(self, problem: str, line: int) -> DataError:
        return DataError(
            f"{self.file}: not a complete TMX file: {problem} in line {line}, "
            f"{self.progress()}; fetch it again"
        )

    def depth_error(self, problem: str, line: int) -> DataError:
        return DataError(f"{self.file}: not a TMX file: {problem} in line {line}, {self.progress()}")

    def check(self) -> None:
        """Check that the file had a pair of the memory's languages."""
        if self._count and not self._pairs:
            language_list = ", ".join(sorted(self._languages)[:MAX_LISTED_LANGUAGES]) or "none"
            source, target = self._source.languages
            raise DataError(
                f"{self.file}: none of its {self._count} units has both {source} and {target}; its languages "
                f"are {language_list}: import it into a memory of two of them"
            )

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "tu":
            self._unit, self._variants, self._too_long = _Variant(attributes), [], False
            self._unit_size = 0
        elif self._unit is None:
            return
        elif name == "tuv":
            self._variants.append(_Variant(attributes))
            if len(self._variants) > MAX_VARIANTS:
                raise DataError(f"{self.file}: line {self.line}: more than {MAX_VARIANTS} variants in a unit")
        elif name in ("prop", "note", "seg"):
            self._text, self._size, self._codes = [], 0, []
            self._property = f"prop.{attributes.get('type', '')}" if name == "prop" else name
            self._code_formatter = CodeFormatter(self._source.options.codes)
        elif name in CODES and self._text is not None:
            self._codes.append((name, attributes, []))

    def characters(self, text: str) -> None:
        if self._text is None:
            return
        self._size += len(text)
        self._unit_size += len(text)
        if self._size > MAX_TEXT_LENGTH or self._unit_size > MAX_UNIT_LENGTH:
            self._too_long = True
        elif self._codes:
            self._codes[-1][2].append(text)
        else:
            self._text.append(text)

    def end(self, name: str) -> None:
        if name in CODES and self._codes:
            self._end_code()
        elif name in ("prop", "note", "seg") and self._text is not None and self._unit is not None:
            text = "".join(self._text)
            holder = self._variants[-1] if self._variants else self._unit
            if name == "seg":
                holder.text = text
            elif len(holder.properties) < MAX_PROPERTIES:
                holder.properties.append((self._property, text))
            self._text = None
        elif name == "tu" and self._unit is not None:
            self._end_unit(self._unit)
            self._unit = None

    def _end_code(self) -> None:
        element, attributes, content = self._codes.pop()
        if self._codes:  # a code within a subflow of another
            self._codes[-1][2].extend(content)
            return
        kind = CODES[element]
        if element == "it":
            kind = {"begin": "open", "end": "close"}.get(attributes.get("pos", ""), kind)
        number = attributes.get("i") or attributes.get("x") or ""
        if self._text is not None:
            self._text.append(self._code_formatter.text(kind, number, "".join(content)))  # type: ignore[arg-type]

    def _end_unit(self, unit: _Variant) -> None:
        self._count += 1
        self._languages |= dict.fromkeys(
            variant.language for variant in self._variants[:MAX_LISTED_LANGUAGES]
        )
        if self._too_long:
            self._source.skipped[f"longer than {MAX_TEXT_LENGTH:,} characters"] += 1
            return
        numbers = [(variant.language, str(number)) for number, variant in enumerate(self._variants)]
        selected = []
        for language in self._source.languages:
            selected.append([self._variants[int(number)] for number in nearest_variants(numbers, language)])
            if not selected[-1]:
                self._source.skipped[f"no text in {language}"] += 1
                return
        source = selected[0][0]
        for target in selected[1]:
            if target is not source:
                self._pairs += 1
                self.ready.append(self._pair(unit, source, target))

    def _pair(self, unit: _Variant, source: _Variant, target: _Variant) -> Pair:
        properties = [
            (f"{level}.{name}", value)
            for level, variant in zip(LEVELS, (unit, source, target), strict=True)
            for name, value in variant.properties
        ]
        origin = next((value for name, value in properties if name == ORIGIN), self._source.origin)
        properties = [item for item in properties if item[0] != ORIGIN]
        derived = _derive(properties)
        return Pair(source.text, target.text, origin, *derived, _remaining_properties(properties, derived))


class _Derived(NamedTuple):
    """Context and time of a pair, according to its properties."""

    key: str
    before: str
    after: str
    created: str


WRITTEN_PROPERTIES = ("unit.prop.x-context", "unit.prop.prev", "unit.prop.next", "target.changedate")
"""The property in which each of these is written, unless another property states it."""


def _derive(properties: Iterable[tuple[str, str]]) -> _Derived:
    values = dict(properties)
    key, before, after = (
        next((value for name in names if (value := values.get(name))), "")
        for names in (KEYS, ("unit.prop.prev", "target.prop.prev"), ("unit.prop.next", "target.prop.next"))
    )
    return _Derived(
        key, before, after, next((date for name in DATES if (date := _format_date(values.get(name, "")))), "")
    )


def _remaining_properties(
    properties: Sequence[tuple[str, str]], derived: _Derived
) -> tuple[tuple[str, str], ...]:
    """Return the properties without those that follow from the context and time of a pair."""
    remaining = tuple(properties)
    for index, name in enumerate(WRITTEN_PROPERTIES):
        others = tuple(item for item in remaining if item[0] != name)
        if len(others) == len(remaining) - 1 and _derive(others)[index] != derived[index]:
            remaining = others
    return remaining


def _format_date(date: str) -> str:
    match = DATE.fullmatch(date.strip())
    return "" if match is None else "{}-{}-{}T{}:{}:{}Z".format(*match.groups())


def read_tmx(file: TranslationFile) -> Iterator[Pair]:
    """Yield the pairs of a file."""
    units = TmxUnits(file)
    for pair in units.read():
        file.position = units.parsed_bytes
        yield pair
    units.check()


def write_tmx(file: IO[bytes], pairs: Iterable[Pair], languages: tuple[str, str]) -> None:
    """Write pairs as TMX 1.4b."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    source, target = (escape_attribute(language) for language in languages)
    file.write(
        '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">\n'
        f'  <header creationtool="uwaga" creationtoolversion="{__version__}" segtype="sentence" '
        f'o-tmf="uwaga" adminlang="en" srclang="{source}" datatype="plaintext" '
        f'creationdate="{now}"/>\n  <body>\n'.encode()
    )
    for pair in pairs:
        file.write(_unit(pair, source, target).encode())
    file.write(b"  </body>\n</tmx>\n")


def _unit(pair: Pair, source: str, target: str) -> str:
    properties = [item for item in pair.properties if item[0].partition(".")[0] in LEVELS]
    derived = _derive(properties)
    for index, value in enumerate((pair.key, pair.before, pair.after, pair.created)):
        if index == len(WRITTEN_PROPERTIES) - 1:
            match = ISO_DATE.fullmatch(value)
            written = "" if match is None else "{}{}{}T{}{}{}Z".format(*match.groups())
        else:
            written = value
        if written and derived[index] != value:
            properties = [item for item in properties if item[0] != WRITTEN_PROPERTIES[index]]
            properties.append((WRITTEN_PROPERTIES[index], written))
    if pair.origin:
        properties.append((ORIGIN, pair.origin))
    lines = [f"    <tu{_attributes(properties, 'unit')}>", *_children(properties, "unit", "      ")]
    for level, language, text in (("source", source, pair.source), ("target", target, pair.target)):
        lines.append(f'      <tuv xml:lang="{language}"{_attributes(properties, level)}>')
        lines += [
            *_children(properties, level, "        "),
            f"        <seg>{_escape_xml(text)}</seg>",
            "      </tuv>",
        ]
    return "\n".join([*lines, "    </tu>\n"])


def _attributes(properties: Iterable[tuple[str, str]], level: str) -> str:
    values = {name.removeprefix(f"{level}."): value for name, value in properties if name.startswith(level)}
    return "".join(
        f' {name}="{escape_attribute(value)}"' for name, value in values.items() if _is_attribute(name)
    )


def _children(properties: Iterable[tuple[str, str]], level: str, space: str) -> Iterator[str]:
    """Yield the notes and properties."""
    for name, value in properties:
        of, _, suffix = name.partition(".")
        if of != level or _is_attribute(suffix):
            continue
        if suffix == "note":
            yield f"{space}<note>{_escape_xml(value)}</note>"
        else:
            kind = escape_attribute(suffix.removeprefix("prop."))
            yield f'{space}<prop type="{kind}">{_escape_xml(value)}</prop>'


def _is_attribute(name: str) -> bool:
    return name != "note" and ATTRIBUTE.fullmatch(name) is not None


def _escape_xml(text: str) -> str:
    # A carriage return in a file of XML is read as a line feed.
    return escape(text).replace("\r", "&#13;")
