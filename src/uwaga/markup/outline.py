"""Which elements of XML part its texts, and which stand inside them: a document is not one sentence.

An element that holds words beside its children, such as a paragraph, is a text with all that is in it;
elements around such ones are its outline. A caller may name elements of either kind, or have none but these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import unescape

from uwaga.errors import SettingsError, shown
from uwaga.markup.fragments import Fragment, TextUnit, escaping
from uwaga.markup.inline import Tag
from uwaga.markup.placing import joined
from uwaga.markup.xml import XML_TOKEN, check_xml, xml_parts
from uwaga.settings.options import check_flag

LINES = re.compile(r"(?<![ \t])[ \t]*(?:\r\n|\r|\n)\s*")
TEXT = ""
"""The name of what is no tag."""


@dataclass(frozen=True)
class XmlOutline:
    """How elements part texts.

    ``detect``: by where words stand; if not, only what ``splitting`` names does. ``splitting``: elements that
    always do, with their content apart from what is around them. ``non_splitting``: elements that never do.
    ``lines``: line breaks inside a text end a sentence; if not, they are spaces.

    Raises:
        SettingsError: a value is of another kind, or an element is named as both.
    """

    detect: bool = True
    splitting: frozenset[str] = frozenset()
    non_splitting: frozenset[str] = frozenset()
    lines: bool = True

    def __post_init__(self) -> None:
        """Check the values."""
        check_flag("detect", self.detect)
        check_flag("lines", self.lines)
        for name in ("splitting", "non_splitting"):
            given: object = getattr(self, name)
            if not isinstance(given, frozenset) or not all(isinstance(one, str) for one in given):
                raise SettingsError(
                    f"{name} must be the names of elements in a frozenset, not {shown(given)}"
                )
        both = sorted(self.splitting & self.non_splitting)
        if both:
            raise SettingsError(f"the element {shown(both[0])} cannot both part texts and never part them")

    @classmethod
    def of(
        cls,
        detect: bool = True,
        splitting: Iterable[str] = (),
        non_splitting: Iterable[str] = (),
        lines: bool = True,
    ) -> XmlOutline:
        """From names in any collection.

        Raises:
            SettingsError: as the class.
        """
        return cls(detect, frozenset(splitting), frozenset(non_splitting), lines)


@dataclass
class _Element:
    """An element: its parent's number, and what is in it."""

    name: str
    parent: int
    words: bool = False  # of its own, or of children that never part texts
    some: bool = False  # anywhere inside
    splits: bool = False
    holds_split: bool = False
    mixed: bool = False


@dataclass
class _Tree:
    """The elements of a text in the order of their beginnings; the first is around all of it."""

    elements: list[_Element] = field(default_factory=lambda: [_Element(TEXT, -1)])
    of_part: list[int] = field(default_factory=list)
    """Of each part its element: the tag's own, or what the words are in."""


def read_outlined(text: str, ignored: frozenset[str], outline: XmlOutline) -> Fragment:
    """A string of XML taken apart into the texts of its outline.

    Args:
        text: a document, or the content of an element.
        ignored: names of elements to leave alone, as :func:`uwaga.markup.xml.read_xml` has them.
        outline: which elements part texts.

    Raises:
        DataError: it is not well-formed, or declares a document type or entities.
    """
    check_xml(text)
    parts = xml_parts(text, ignored)
    tree = _grown([raw for raw, _ in parts], [part for _, part in parts])
    _decide(tree, outline)
    done: list[str | Tag | TextUnit] = []
    open_parts: list[tuple[str, str | Tag]] = []
    for (raw, part), at in zip(parts, tree.of_part, strict=True):
        element = tree.elements[at]
        if isinstance(part, Tag) and part.kind != "kept" and _is_element(raw) and element.splits:
            done += _unit(open_parts, outline)
            open_parts = []
            done.append(raw)
        else:
            open_parts.append((raw, part))
    return Fragment((*done, *_unit(open_parts, outline)))


def _is_element(raw: str) -> bool:
    """Whether a tag is an element's, no comment or instruction."""
    return not raw.startswith(("<!", "<?"))


def _name(raw: str) -> str:
    found = XML_TOKEN.match(raw)
    return (found["name"] or "") if found else ""


def _grown(raws: Sequence[str], parts: Sequence[str | Tag]) -> _Tree:
    tree, open_ones = _Tree(), [0]
    for raw, part in zip(raws, parts, strict=True):
        here = open_ones[-1]
        words = isinstance(part, str) and not part.isspace()
        if isinstance(part, Tag) and part.kind in ("open", "void") and _is_element(raw):
            tree.elements.append(_Element(_name(raw), here))
            here = len(tree.elements) - 1
            if part.kind == "open":
                open_ones.append(here)
        elif isinstance(part, Tag) and part.kind == "close":
            open_ones.pop()
        elif isinstance(part, Tag) and part.kind == "kept":
            words = bool(part.text) and not part.text.isspace()
        if words:
            tree.elements[here].words = True
        tree.of_part.append(here)
    return tree


def _decide(tree: _Tree, outline: XmlOutline) -> None:
    """Find out which elements part texts."""
    elements = tree.elements
    for one in reversed(elements[1:]):  # children come behind their parents
        parent = elements[one.parent]
        one.some = one.some or one.words
        parent.some = parent.some or one.some
        if one.some and one.name in outline.non_splitting:
            parent.words = True
    elements[0].mixed = elements[0].words or not outline.detect
    for one in elements[1:]:
        inside = elements[one.parent].mixed
        if one.name in outline.splitting:
            one.splits, one.mixed = True, one.words or not outline.detect
        elif one.name in outline.non_splitting:
            one.mixed = inside or one.words
        else:
            one.splits = outline.detect and not inside
            one.mixed = inside or one.words or not outline.detect
    for one in reversed(elements[1:]):  # what is around an element that parts texts parts them too
        one.splits = one.splits or one.holds_split
        elements[one.parent].holds_split |= one.splits


def _unit(parts: Sequence[tuple[str, str | Tag]], outline: XmlOutline) -> list[str | Tag | TextUnit]:
    """What stands between two elements that part texts: a text, and the white space around it as it is."""
    raws, inline = [raw for raw, _ in parts], [part for _, part in parts]
    if not any(isinstance(part, str) and not part.isspace() for part in inline):
        return list(filter(None, ["".join(raws)]))
    before = after = ""
    if isinstance(inline[0], str):
        bare = raws[0].lstrip()
        before, raws[0] = raws[0][: len(raws[0]) - len(bare)], bare
        inline[0] = unescape(bare)
    if isinstance(inline[-1], str):
        bare = raws[-1].rstrip()
        after, raws[-1] = raws[-1][len(bare) :], bare
        inline[-1] = unescape(bare)
    if not outline.lines:
        inline = [LINES.sub(" ", part) if isinstance(part, str) else part for part in inline]
    words = XML_TOKEN.sub("", "".join(raws))
    made = TextUnit(joined([part for part in inline if part != ""]), escaping(words, unescape))
    return [one for one in (before, made, after) if one != ""]
