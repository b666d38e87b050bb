"""XLIFF 1.2 and 2: units, or their segments, that have a translation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, Literal

from uwaga.data.tmx import XmlItems
from uwaga.errors import DataError
from uwaga.markup.xml import escape, escape_attribute
from uwaga_memory.files.file import CodeFormatter, TranslationFile
from uwaga_memory.store import MAX_TEXT_LENGTH, Pair

UNTRANSLATED = frozenset(("new", "needs-translation", "initial"))
"""States of targets that are not yet translated."""
NATIVE = {"bpt": "open", "ept": "close", "ph": "empty", "it": "empty", "ut": "empty"}
"""Elements of version 1 that contain a native code."""
PAIRED = frozenset(("g", "pc"))
EMPTY = {"x": "empty", "bx": "open", "ex": "close", "sc": "open", "ec": "close"}
HINTS = frozenset(("alt-trans", "matches", "glossary", "metadata"))
"""Elements whose texts are proposals, not translations."""
CONTEXT = "x-gettext-msgctxt"
MAX_DATA = 1_000
"""Maximum number of native codes of a unit of version 2."""


class _Segment:
    """A segment: its texts by the name of their element, and whether it is marked as translated."""

    def __init__(self, state: str = "") -> None:
        self.texts: dict[str, list[str]] = {}
        self.state = state


class XliffUnits(XmlItems[Pair]):
    """Reads the pairs of units."""

    kind = "XLIFF"
    roots = frozenset({"xliff"})

    def __init__(self, file: TranslationFile) -> None:
        super().__init__(file.path)
        self._source = file
        self._count = 0
        self._hints = 0
        self._key = self._context = ""
        self._untranslatable: list[bool] = []
        self._segments: list[_Segment] = []
        self._parts: dict[str, dict[str, list[str]]] = {}
        self._text: list[str] | None = None
        self._size = 0
        self._element = ""
        self._codes: list[tuple[str, dict[str, str], list[str]]] = []
        self._paired: list[str] = []
        self._marks: list[bool] = []
        self._data: dict[str, str] = {}
        self._code_formatter = CodeFormatter(file.options.codes)

    def progress(self) -> str:
        return f"after unit {self._count}"

    def damage_error(self, problem: str, line: int) -> DataError:
        return DataError(
            f"{self.file}: not a complete XLIFF file: {problem} in line {line}, "
            f"{self.progress()}; fetch it again"
        )

    def depth_error(self, problem: str, line: int) -> DataError:
        return DataError(f"{self.file}: not an XLIFF file: {problem} in line {line}, {self.progress()}")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name in HINTS:
            self._hints += 1
        if self._hints:
            return
        if name in ("xliff", "file", "group", "unit", "trans-unit"):
            self._start_container(name, attributes)
        elif name == "segment":
            self._segments.append(_Segment(attributes.get("state", "")))
        elif name == "data" and len(self._data) < MAX_DATA:
            self._open_text("data " + attributes.get("id", ""))
        elif name == "context" and attributes.get("context-type") == CONTEXT:
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
                self._source.check_language(attributes.get(language, ""), index, f"line {self.line}")
        is_inherited = bool(self._untranslatable) and self._untranslatable[-1]
        translate = attributes.get("translate", "")
        self._untranslatable.append(translate == "no" or (is_inherited and translate != "yes"))
        if name in ("unit", "trans-unit"):
            self._key, self._context = attributes.get("resname") or attributes.get("name", ""), ""
            self._segments = [_Segment()] if name == "trans-unit" else []
            self._parts, self._data, self._size = {}, {}, 0
            self._code_formatter = CodeFormatter(self._source.options.codes)

    def _open_text(self, element: str) -> None:
        self._text, self._element, self._codes, self._paired, self._marks = [], element, [], [], []

    def _start_inline(self, name: str, attributes: dict[str, str]) -> None:
        number = attributes.get("id") or attributes.get("rid") or attributes.get("startRef", "")
        data = self._data.get(attributes.get("dataRef", ""), "")
        if name in NATIVE and not data:
            self._codes.append((name, attributes, []))
        elif name in EMPTY or name in NATIVE:
            self._add_code(EMPTY.get(name, "empty"), number, data, name)
        elif name in PAIRED:
            self._paired.append(self._data.get(attributes.get("dataRefEnd", ""), ""))
            self._add_code("open", number, self._data.get(attributes.get("dataRefStart", ""), ""), name)
            self._paired.append(number)
        elif name == "mrk":
            is_segment = attributes.get("mtype") == "seg" and self._text is not None
            self._marks.append(is_segment)
            if is_segment:
                self._parts.setdefault(self._element, {})[attributes.get("mid", "")] = self._text = []

    def _add_code(self, kind: str, number: str, native: str, name: str) -> None:
        target = self._codes[-1][2] if self._codes else self._text
        if target is not None:
            if not native and self._source.options.codes == "keep":
                identity = f' id="{number}"' if number and kind != "close" else ""
                native = {
                    "open": f"<{name}{identity}>" if name in PAIRED else f"<{name}{identity}/>",
                    "close": f"</{name}>" if name in PAIRED else f"<{name}{identity}/>",
                    "empty": f"<{name}{identity}/>",
                }[kind]
            target.append(self._code_formatter.text(_kind(kind), number, native))

    def characters(self, text: str) -> None:
        if self._text is None or self._hints:
            return
        self._size += len(text)
        if self._size <= 2 * MAX_TEXT_LENGTH:
            (self._codes[-1][2] if self._codes else self._text).append(text)

    def end(self, name: str) -> None:
        if name in HINTS:
            self._hints -= 1
        elif self._hints:
            return
        elif self._text is not None:
            self._end_text(name)
        elif name in ("xliff", "file", "group", "unit", "trans-unit"):
            if name in ("unit", "trans-unit"):
                self._end_unit(self._untranslatable[-1])
            self._untranslatable.pop()

    def _end_text(self, name: str) -> None:
        if name in NATIVE and self._codes and self._codes[-1][0] == name:
            element, attributes, content = self._codes.pop()
            kind = NATIVE[element]
            if element == "it":
                kind = {"open": "open", "close": "close"}.get(attributes.get("pos", ""), kind)
            self._add_code(kind, attributes.get("rid") or attributes.get("id", ""), "".join(content), element)
        elif name in PAIRED and len(self._paired) > 1:
            number, native = self._paired.pop(), self._paired.pop()
            self._add_code("close", number, native, name)
        elif name == "mrk" and self._marks:
            if self._marks.pop():
                self._text = []  # text between segments
        elif name in ("source", "seg-source", "target") and name == self._element:
            self._segments[-1].texts[name] = self._text or []
            self._text = None
        elif name in ("data", "context"):
            words = "".join(self._text or ())
            if name == "context":
                self._context = words
            else:
                self._data[self._element.removeprefix("data ")] = words
            self._text = None

    def _end_unit(self, is_untranslatable: bool) -> None:
        self._count += 1
        skipped = self._source.skipped
        if is_untranslatable:
            skipped["not to be translated"] += 1
            return
        if self._size > 2 * MAX_TEXT_LENGTH:
            skipped[f"longer than {MAX_TEXT_LENGTH:,} characters"] += 1
            return
        parts, translated = (self._parts.get(name, {}) for name in ("seg-source", "target"))
        state = self._segments[0].state if self._segments else ""
        if parts and translated:
            texts = [
                ("".join(part), "".join(translated.get(mark_id, [])), state)
                for mark_id, part in parts.items()
            ]
        else:
            texts = [
                ("".join(part.texts.get("source", [])), "".join(part.texts.get("target", [])), part.state)
                for part in self._segments
            ]
        for source, target, state in texts:
            if not target.strip() or state in UNTRANSLATED:
                skipped["not translated"] += 1
            else:
                key = self._context or (self._key if len(texts) == 1 else "")
                self.ready.append(Pair(source, target, self._source.origin, key))


def _kind(name: str) -> Literal["open", "close", "empty"]:
    return "open" if name == "open" else "close" if name == "close" else "empty"


def read_xliff(file: TranslationFile) -> Iterator[Pair]:
    """Yield the pairs of a file."""
    units = XliffUnits(file)
    for pair in units.read():
        file.position = units.parsed_bytes
        yield pair


def write_xliff(file: IO[bytes], pairs: Iterable[Pair], languages: tuple[str, str]) -> None:
    """Write pairs as XLIFF 1.2, with keys as the names of units."""
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
