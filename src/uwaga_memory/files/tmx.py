"""Reading of TMX files of versions 1.1 to 1.4b, and writing of version 1.4b.

The languages of the memory determine which variant is the source, because ``srclang`` may be absent,
``*all*`` or wrong, and variants may be in any order. Version 1.1 states language codes in ``lang``. If no
variant has the region of the memory's language, variants of other regions are used. The document type
definition is never fetched, and entities are refused.

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

CODE_KINDS = {"bpt": "open", "ept": "close", "ph": "empty", "it": "empty", "ut": "empty"}
"""Elements that contain native codes, and the kind of placeholder that represents such a code."""
KEY_PROPERTIES = ("unit.prop.x-context", "target.prop.x-context", "unit.prop.id", "target.prop.id")
"""Properties that may contain the key of a text, in order of precedence."""
ORIGIN_PROPERTY = "unit.prop.x-uwaga-origin"
"""Property that contains the origin of a pair."""
DATE_ATTRIBUTES = ("target.changedate", "unit.changedate", "target.creationdate", "unit.creationdate")
"""Attributes that may contain the time of a translation, in order of precedence."""
TMX_DATE = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z")
ISO_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)Z")
ATTRIBUTE_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]*")
"""Valid attribute names; all other names are written as properties."""
MAX_VARIANTS = 1_000
"""Maximum number of variants of a unit."""
MAX_UNIT_LENGTH = 1 << 22
"""Maximum number of characters of a unit."""
MAX_PROPERTIES = 200
"""Maximum number of stored properties of a unit or a variant."""
LEVELS = ("unit", "source", "target")
"""Prefixes of property names: the unit and its source and target variant have properties."""


class _Variant:
    """A variant of a translation unit, or the unit itself, with its properties and text."""

    def __init__(self, attributes: dict[str, str]) -> None:
        self.language = (attributes.get("xml:lang") or attributes.get("lang") or "")[:MAX_CODE_LENGTH]
        self.properties = [
            (name, value) for name, value in attributes.items() if name not in ("xml:lang", "lang")
        ]
        self.text = ""


class TmxUnits(XmlItems[Pair]):
    """Parser that collects the pairs of the translation units of a TMX file."""

    kind = "TMX"
    roots = frozenset({"tmx"})

    def __init__(self, file: TranslationFile) -> None:
        super().__init__(file.path)
        self._translation_file = file
        self._unit_count = 0
        self._pair_count = 0
        self._languages: dict[str, None] = {}
        self._unit: _Variant | None = None
        self._variants: list[_Variant] = []
        self._text: list[str] | None = None  # of a segment, property or note
        self._text_size = self._unit_size = 0
        self._is_too_long = False
        self._property_name = ""
        self._codes: list[tuple[str, dict[str, str], list[str]]] = []
        self._code_formatter = CodeFormatter(file.options.codes)

    def progress(self) -> str:
        return f"after unit {self._unit_count}"

    def damage_error(self, problem: str, line: int) -> DataError:
        return DataError(
            f"{self.file}: not a complete TMX file: {problem} in line {line}, "
            f"{self.progress()}; download or export it again"
        )

    def depth_error(self, problem: str, line: int) -> DataError:
        return DataError(f"{self.file}: not a TMX file: {problem} in line {line}, {self.progress()}")

    def check(self) -> None:
        """Raise a DataError if the file has units but no pair in the memory's languages."""
        if self._unit_count and not self._pair_count:
            language_list = ", ".join(sorted(self._languages)[:MAX_LISTED_LANGUAGES]) or "none"
            source, target = self._translation_file.languages
            raise DataError(
                f"{self.file}: none of its {self._unit_count} units has both {source} and {target}; the file "
                f"contains {language_list}: import it into a memory of two of these languages"
            )

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "tu":
            self._unit, self._variants, self._is_too_long = _Variant(attributes), [], False
            self._unit_size = 0
        elif self._unit is None:
            return
        elif name == "tuv":
            self._variants.append(_Variant(attributes))
            if len(self._variants) > MAX_VARIANTS:
                raise DataError(f"{self.file}: line {self.line}: more than {MAX_VARIANTS} variants in a unit")
        elif name in ("prop", "note", "seg"):
            self._text, self._text_size, self._codes = [], 0, []
            self._property_name = f"prop.{attributes.get('type', '')}" if name == "prop" else name
            self._code_formatter = CodeFormatter(self._translation_file.options.codes)
        elif name in CODE_KINDS and self._text is not None:
            self._codes.append((name, attributes, []))

    def characters(self, text: str) -> None:
        if self._text is None:
            return
        self._text_size += len(text)
        self._unit_size += len(text)
        if self._text_size > MAX_TEXT_LENGTH or self._unit_size > MAX_UNIT_LENGTH:
            self._is_too_long = True
        elif self._codes:
            self._codes[-1][2].append(text)
        else:
            self._text.append(text)

    def end(self, name: str) -> None:
        if name in CODE_KINDS and self._codes:
            self._end_code()
        elif name in ("prop", "note", "seg") and self._text is not None and self._unit is not None:
            text = "".join(self._text)
            element_owner = self._variants[-1] if self._variants else self._unit
            if name == "seg":
                element_owner.text = text
            elif len(element_owner.properties) < MAX_PROPERTIES:
                element_owner.properties.append((self._property_name, text))
            self._text = None
        elif name == "tu" and self._unit is not None:
            self._end_unit(self._unit)
            self._unit = None

    def _end_code(self) -> None:
        element, attributes, content = self._codes.pop()
        if self._codes:  # a code within a subflow of another
            self._codes[-1][2].extend(content)
            return
        kind = CODE_KINDS[element]
        if element == "it":
            kind = {"begin": "open", "end": "close"}.get(attributes.get("pos", ""), kind)
        code_id = attributes.get("i") or attributes.get("x") or ""
        if self._text is not None:
            self._text.append(self._code_formatter.text(kind, code_id, "".join(content)))  # type: ignore[arg-type]

    def _end_unit(self, unit: _Variant) -> None:
        self._unit_count += 1
        self._languages |= dict.fromkeys(
            variant.language for variant in self._variants[:MAX_LISTED_LANGUAGES]
        )
        if self._is_too_long:
            self._translation_file.skipped[f"longer than {MAX_TEXT_LENGTH:,} characters"] += 1
            return
        indexed_languages = [(variant.language, str(index)) for index, variant in enumerate(self._variants)]
        selected_variants = []
        for language in self._translation_file.languages:
            selected_variants.append(
                [self._variants[int(index)] for index in nearest_variants(indexed_languages, language)]
            )
            if not selected_variants[-1]:
                self._translation_file.skipped[f"no text in {language}"] += 1
                return
        source = selected_variants[0][0]
        for target in selected_variants[1]:
            if target is not source:
                self._pair_count += 1
                self.ready.append(self._make_pair(unit, source, target))

    def _make_pair(self, unit: _Variant, source: _Variant, target: _Variant) -> Pair:
        properties = [
            (f"{level}.{name}", value)
            for level, variant in zip(LEVELS, (unit, source, target), strict=True)
            for name, value in variant.properties
        ]
        origin = next(
            (value for name, value in properties if name == ORIGIN_PROPERTY), self._translation_file.origin
        )
        properties = [item for item in properties if item[0] != ORIGIN_PROPERTY]
        derived = _derive_fields(properties)
        return Pair(source.text, target.text, origin, *derived, _remaining_properties(properties, derived))


class _Derived(NamedTuple):
    """Context and time of a pair, as derived from its properties."""

    key: str
    before: str
    after: str
    created: str


WRITTEN_PROPERTIES = ("unit.prop.x-context", "unit.prop.prev", "unit.prop.next", "target.changedate")
"""The property in which each field of :class:`_Derived` is written, unless another property contains it."""


def _derive_fields(properties: Iterable[tuple[str, str]]) -> _Derived:
    values = dict(properties)
    key, text_before, text_after = (
        next((value for name in names if (value := values.get(name))), "")
        for names in (
            KEY_PROPERTIES,
            ("unit.prop.prev", "target.prop.prev"),
            ("unit.prop.next", "target.prop.next"),
        )
    )
    return _Derived(
        key,
        text_before,
        text_after,
        next((date for name in DATE_ATTRIBUTES if (date := _format_date(values.get(name, "")))), ""),
    )


def _remaining_properties(
    properties: Sequence[tuple[str, str]], derived: _Derived
) -> tuple[tuple[str, str], ...]:
    """Return the properties, except those that an export derives again from a pair's context and time."""
    remaining_properties = tuple(properties)
    for index, name in enumerate(WRITTEN_PROPERTIES):
        other_properties = tuple(item for item in remaining_properties if item[0] != name)
        if (
            len(other_properties) == len(remaining_properties) - 1
            and _derive_fields(other_properties)[index] != derived[index]
        ):
            remaining_properties = other_properties
    return remaining_properties


def _format_date(date: str) -> str:
    match = TMX_DATE.fullmatch(date.strip())
    return "" if match is None else "{}-{}-{}T{}:{}:{}Z".format(*match.groups())


def read_tmx(file: TranslationFile) -> Iterator[Pair]:
    """Yield the pairs of a TMX file."""
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
        file.write(_format_unit(pair, source, target).encode())
    file.write(b"  </body>\n</tmx>\n")


def _format_unit(pair: Pair, source: str, target: str) -> str:
    properties = [item for item in pair.properties if item[0].partition(".")[0] in LEVELS]
    derived = _derive_fields(properties)
    for index, value in enumerate((pair.key, pair.before, pair.after, pair.created)):
        if index == len(WRITTEN_PROPERTIES) - 1:
            match = ISO_DATE.fullmatch(value)
            formatted_date = "" if match is None else "{}{}{}T{}{}{}Z".format(*match.groups())
        else:
            formatted_date = value
        if formatted_date and derived[index] != value:
            properties = [item for item in properties if item[0] != WRITTEN_PROPERTIES[index]]
            properties.append((WRITTEN_PROPERTIES[index], formatted_date))
    if pair.origin:
        properties.append((ORIGIN_PROPERTY, pair.origin))
    lines = [
        f"    <tu{_format_attributes(properties, 'unit')}>",
        *_format_children(properties, "unit", "      "),
    ]
    for level, language, text in (("source", source, pair.source), ("target", target, pair.target)):
        lines.append(f'      <tuv xml:lang="{language}"{_format_attributes(properties, level)}>')
        lines += [
            *_format_children(properties, level, "        "),
            f"        <seg>{_escape_xml(text)}</seg>",
            "      </tuv>",
        ]
    return "\n".join([*lines, "    </tu>\n"])


def _format_attributes(properties: Iterable[tuple[str, str]], level: str) -> str:
    values = {name.removeprefix(f"{level}."): value for name, value in properties if name.startswith(level)}
    return "".join(
        f' {name}="{escape_attribute(value)}"' for name, value in values.items() if _is_attribute(name)
    )


def _format_children(properties: Iterable[tuple[str, str]], level: str, space: str) -> Iterator[str]:
    """Yield the notes and properties of one level as lines of XML."""
    for name, value in properties:
        property_level, _, suffix = name.partition(".")
        if property_level != level or _is_attribute(suffix):
            continue
        if suffix == "note":
            yield f"{space}<note>{_escape_xml(value)}</note>"
        else:
            kind = escape_attribute(suffix.removeprefix("prop."))
            yield f'{space}<prop type="{kind}">{_escape_xml(value)}</prop>'


def _is_attribute(name: str) -> bool:
    return name != "note" and ATTRIBUTE_NAME.fullmatch(name) is not None


def _escape_xml(text: str) -> str:
    # XML parsers read a literal carriage return as a line feed.
    return escape(text).replace("\r", "&#13;")
