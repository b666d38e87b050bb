"""Reading of the translated units and segments of XLIFF 1.2 and 2 files, and writing of XLIFF 1.2."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, Literal

from uwaga.data.tmx import XmlItems
from uwaga.errors import DataError
from uwaga.markup.xml import escape, escape_attribute
from uwaga_memory.files.file import CodeFormatter, TranslationFile
from uwaga_memory.store import MAX_TEXT_LENGTH, Pair

UNTRANSLATED_STATES = frozenset(("new", "needs-translation", "initial"))
"""Values of ``state`` that mark a target as not yet translated."""
NATIVE_CODE_KINDS = {"bpt": "open", "ept": "close", "ph": "empty", "it": "empty", "ut": "empty"}
"""Elements of version 1 that contain a native code, and the kind of each code."""
PAIRED_CODES = frozenset(("g", "pc"))
EMPTY_CODE_KINDS = {"x": "empty", "bx": "open", "ex": "close", "sc": "open", "ec": "close"}
IGNORED_ELEMENTS = frozenset(("alt-trans", "matches", "glossary", "metadata"))
"""Elements whose texts are ignored, since they are proposals or metadata."""
CONTEXT_TYPE = "x-gettext-msgctxt"
MAX_NATIVE_CODES = 1_000
"""Maximum number of native codes (``data`` elements) of a unit of version 2."""


class _Segment:
    """A segment, with the pieces of its texts by element name, and its translation state."""

    def __init__(self, state: str = "") -> None:
        self.texts: dict[str, list[str]] = {}
        self.state = state


class XliffUnits(XmlItems[Pair]):
    """Parser that collects the pairs of the units of an XLIFF file."""

    kind = "XLIFF"
    roots = frozenset({"xliff"})

    def __init__(self, file: TranslationFile) -> None:
        super().__init__(file.path)
        self._translation_file = file
        self._unit_count = 0
        self._ignored_depth = 0
        self._key = self._context = ""
        self._untranslatable: list[bool] = []
        self._segments: list[_Segment] = []
        self._marked_texts: dict[str, dict[str, list[str]]] = {}
        self._text: list[str] | None = None
        self._size = 0
        self._element = ""
        self._codes: list[tuple[str, dict[str, str], list[str]]] = []
        self._open_pairs: list[str] = []
        self._mark_is_segment: list[bool] = []
        self._native_codes: dict[str, str] = {}
        self._code_formatter = CodeFormatter(file.options.codes)

    def progress(self) -> str:
        return f"after unit {self._unit_count}"

    def damage_error(self, problem: str, line: int) -> DataError:
        return DataError(
            f"{self.file}: not a complete XLIFF file: {problem} in line {line}, "
            f"{self.progress()}; download or export it again"
        )

    def depth_error(self, problem: str, line: int) -> DataError:
        return DataError(f"{self.file}: not an XLIFF file: {problem} in line {line}, {self.progress()}")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name in IGNORED_ELEMENTS:
            self._ignored_depth += 1
        if self._ignored_depth:
            return
        if name in ("xliff", "file", "group", "unit", "trans-unit"):
            self._start_container(name, attributes)
        elif name == "segment":
            self._segments.append(_Segment(attributes.get("state", "")))
        elif name == "data" and len(self._native_codes) < MAX_NATIVE_CODES:
            self._open_text("data " + attributes.get("id", ""))
        elif name == "context" and attributes.get("context-type") == CONTEXT_TYPE:
            self._open_text("context")
        elif name in ("source", "seg-source", "target") and self._segments:
            if name == "target" and "state" in attributes:
                self._segments[-1].state = attributes["state"]
            self._open_text(name)
        elif self._text is not None:
            self._start_inline(name, attributes)

    def _start_container(self, name: str, attributes: dict[str, str]) -> None:
        for index, names in enumerate((("source-language", "srcLang"), ("target-language", "trgLang"))):
            for language in names:
                self._translation_file.check_language(
                    attributes.get(language, ""), index, f"line {self.line}"
                )
        is_inherited = bool(self._untranslatable) and self._untranslatable[-1]
        translate = attributes.get("translate", "")
        self._untranslatable.append(translate == "no" or (is_inherited and translate != "yes"))
        if name in ("unit", "trans-unit"):
            self._key, self._context = attributes.get("resname") or attributes.get("name", ""), ""
            self._segments = [_Segment()] if name == "trans-unit" else []
            self._marked_texts, self._native_codes, self._size = {}, {}, 0
            self._code_formatter = CodeFormatter(self._translation_file.options.codes)

    def _open_text(self, element: str) -> None:
        self._text, self._element, self._codes, self._open_pairs, self._mark_is_segment = (
            [],
            element,
            [],
            [],
            [],
        )

    def _start_inline(self, name: str, attributes: dict[str, str]) -> None:
        code_id = attributes.get("id") or attributes.get("rid") or attributes.get("startRef", "")
        data = self._native_codes.get(attributes.get("dataRef", ""), "")
        if name in NATIVE_CODE_KINDS and not data:
            self._codes.append((name, attributes, []))
        elif name in EMPTY_CODE_KINDS or name in NATIVE_CODE_KINDS:
            self._add_code(EMPTY_CODE_KINDS.get(name, "empty"), code_id, data, name)
        elif name in PAIRED_CODES:
            self._open_pairs.append(self._native_codes.get(attributes.get("dataRefEnd", ""), ""))
            self._add_code(
                "open", code_id, self._native_codes.get(attributes.get("dataRefStart", ""), ""), name
            )
            self._open_pairs.append(code_id)
        elif name == "mrk":
            is_segment = attributes.get("mtype") == "seg" and self._text is not None
            self._mark_is_segment.append(is_segment)
            if is_segment:
                self._marked_texts.setdefault(self._element, {})[attributes.get("mid", "")] = self._text = []

    def _add_code(self, kind: str, code_id: str, native_code: str, name: str) -> None:
        target = self._codes[-1][2] if self._codes else self._text
        if target is not None:
            if not native_code and self._translation_file.options.codes == "keep":
                identity = f' id="{code_id}"' if code_id and kind != "close" else ""
                native_code = {
                    "open": f"<{name}{identity}>" if name in PAIRED_CODES else f"<{name}{identity}/>",
                    "close": f"</{name}>" if name in PAIRED_CODES else f"<{name}{identity}/>",
                    "empty": f"<{name}{identity}/>",
                }[kind]
            target.append(self._code_formatter.text(_kind(kind), code_id, native_code))

    def characters(self, text: str) -> None:
        if self._text is None or self._ignored_depth:
            return
        self._size += len(text)
        if self._size <= 2 * MAX_TEXT_LENGTH:
            (self._codes[-1][2] if self._codes else self._text).append(text)

    def end(self, name: str) -> None:
        if name in IGNORED_ELEMENTS:
            self._ignored_depth -= 1
        elif self._ignored_depth:
            return
        elif self._text is not None:
            self._end_text(name)
        elif name in ("xliff", "file", "group", "unit", "trans-unit"):
            if name in ("unit", "trans-unit"):
                self._end_unit(self._untranslatable[-1])
            self._untranslatable.pop()

    def _end_text(self, name: str) -> None:
        if name in NATIVE_CODE_KINDS and self._codes and self._codes[-1][0] == name:
            element, attributes, content = self._codes.pop()
            kind = NATIVE_CODE_KINDS[element]
            if element == "it":
                kind = {"open": "open", "close": "close"}.get(attributes.get("pos", ""), kind)
            self._add_code(kind, attributes.get("rid") or attributes.get("id", ""), "".join(content), element)
        elif name in PAIRED_CODES and len(self._open_pairs) > 1:
            code_id, native_code = self._open_pairs.pop(), self._open_pairs.pop()
            self._add_code("close", code_id, native_code, name)
        elif name == "mrk" and self._mark_is_segment:
            if self._mark_is_segment.pop():
                self._text = []  # text between segments
        elif name in ("source", "seg-source", "target") and name == self._element:
            self._segments[-1].texts[name] = self._text or []
            self._text = None
        elif name in ("data", "context"):
            words = "".join(self._text or ())
            if name == "context":
                self._context = words
            else:
                self._native_codes[self._element.removeprefix("data ")] = words
            self._text = None

    def _end_unit(self, is_untranslatable: bool) -> None:
        self._unit_count += 1
        skipped = self._translation_file.skipped
        if is_untranslatable:
            skipped["not to be translated"] += 1
            return
        if self._size > 2 * MAX_TEXT_LENGTH:
            skipped[f"longer than {MAX_TEXT_LENGTH:,} characters"] += 1
            return
        parts, translated_parts = (self._marked_texts.get(name, {}) for name in ("seg-source", "target"))
        state = self._segments[0].state if self._segments else ""
        if parts and translated_parts:
            texts = [
                ("".join(part), "".join(translated_parts.get(mark_id, [])), state)
                for mark_id, part in parts.items()
            ]
        else:
            texts = [
                ("".join(part.texts.get("source", [])), "".join(part.texts.get("target", [])), part.state)
                for part in self._segments
            ]
        for source, target, state in texts:
            if not target.strip() or state in UNTRANSLATED_STATES:
                skipped["not translated"] += 1
            else:
                key = self._context or (self._key if len(texts) == 1 else "")
                self.ready.append(Pair(source, target, self._translation_file.origin, key))


def _kind(name: str) -> Literal["open", "close", "empty"]:
    return "open" if name == "open" else "close" if name == "close" else "empty"


def read_xliff(file: TranslationFile) -> Iterator[Pair]:
    """Yield the pairs of an XLIFF file."""
    units = XliffUnits(file)
    for pair in units.read():
        file.position = units.parsed_bytes
        yield pair


def write_xliff(file: IO[bytes], pairs: Iterable[Pair], languages: tuple[str, str]) -> None:
    """Write pairs as XLIFF 1.2, with the key of each pair as the resource name of its unit."""
    source, target = (escape_attribute(language) for language in languages)
    file.write(
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">\n'
        f'  <file original="memory" datatype="plaintext" source-language="{source}" '
        f'target-language="{target}">\n'
        "    <body>\n".encode()
    )
    for number, pair in enumerate(pairs, start=1):
        name = f' resname="{escape_attribute(pair.key)}"' if pair.key else ""
        file.write(
            f'      <trans-unit id="{number}"{name} xml:space="preserve">\n'
            f"        <source>{_escape_xml(pair.source)}</source>\n"
            f'        <target state="translated">{_escape_xml(pair.target)}</target>\n'
            "      </trans-unit>\n".encode()
        )
    file.write(b"    </body>\n  </file>\n</xliff>\n")


def _escape_xml(text: str) -> str:
    return escape(text).replace("\r", "&#13;")
