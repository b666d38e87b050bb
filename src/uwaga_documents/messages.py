"""Messages of user interfaces, as in JSON and YAML: their syntax, the keys to translate, and plural forms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from uwaga.markup import Inline, Tag, plain_text
from uwaga.markup.html import html_pieces
from uwaga.markup.icu import IcuMessage, find_messages
from uwaga.markup.inline import join_parts
from uwaga.markup.placeholders import COMMON_PLACEHOLDERS, QUOTED_CODE, Placeholders
from uwaga.markup.units import (
    ENTITY,
    ONLY_UNTRANSLATED,
    Fragment,
    Piece,
    Unit,
    is_translatable,
    text_unit,
    untranslated,
    untranslated_texts,
    write_pieces,
)
from uwaga.markup.units import MARKUP as TAG
from uwaga.markup.words import is_unspaced
from uwaga_documents.numbering import NUMBERINGS, number_arguments, without_numbers
from uwaga_documents.plurals import plural_categories

PLURAL_CATEGORIES = ("zero", "one", "two", "few", "many", "other")
MEMBER_SEPARATOR = re.compile(r"[\s,]*")
MARKUP = re.compile(rf"</?(?:[A-Za-z][\w:.-]*|\d+)(?:\s[^<>]*)?/?>|{ENTITY.pattern}")


ACCELERATOR = re.compile(r"(?<![\w&_])([^\W\d_]*+)([&_])([^\W_]++)(?![\w&_;])")
"""The mark before the access key of a menu item, as in ``&File`` and ``E_xit``."""
LETTER = re.compile(r"%\S+|\{[^{}]*\}|<[^<>]*>|([^\W\d_])")
"""A letter outside placeholders and tags."""
APOSTROPHE, QUOTING_APOSTROPHE = re.compile("'"), re.compile("'(?=[{}#])")
TRAILING_PUNCTUATION = re.compile(r"(?<![\s.:…])[\s.:…]*+\Z")


@dataclass(frozen=True)
class MessageSyntax:
    """The syntax of messages.

    Attributes:
        names: names of further placeholder syntaxes, in :data:`uwaga.markup.placeholders.SYNTAXES`.
        numbering: the name of the syntax for numbered arguments, which can be reordered, in
            :data:`uwaga_documents.numbering.NUMBERINGS`; empty if arguments must stay in order.
        accelerators: whether a message may mark an access key.
        quotes: whether an apostrophe begins quoted text, as in Java's ``MessageFormat``; two apostrophes
            then stand for one.
    """

    names: tuple[str, ...] = ()
    numbering: str = ""
    accelerators: bool = False
    quotes: bool = False

    @cached_property
    def placeholders(self) -> Placeholders:
        """The placeholders of the messages."""
        return Placeholders(syntaxes=self.names)


COMMON_SYNTAX = MessageSyntax()
APPLICATION_SYNTAX = MessageSyntax(("laravel", "vue", "i18next"))
"""The syntax of message files that are used with many frameworks."""
TEMPLATE = re.compile(
    r"(?<!%)<%[^\n]{0,200}?%>|<\?[^\n]{0,200}?\?>|"
    r"(?<!\d)%(?:\d++\$)?[-+#0\d.]*+<(?!(?:a|b|br|em|i|p|small|span|strong|u)>)\w{1,100}>"
    r"(?>[-+#0\d.]*)(?:[A-Za-z](?:[A-Za-z]{1,3}(?![A-Za-z]))?)?"
)
"""Code of ERB or PHP, which may be inside a tag, or ``%<name>s``; both look like tags but are not."""
CONDITION = r"(?:\[[\d*,-]{1,20}\]|\{\d{1,9}\})\s*+"
"""The numbers for which Laravel displays a branch."""
BRANCHES = re.compile(
    rf"(?P<separator>(?<!\|)\|(?!\|)\s*+(?:{CONDITION})?|\A\s*+{CONDITION}(?=[^|]+\|))|\{{[^{{}}]*+\}}|<[^<>]*+>"
)
"""A separator of plural branches in vue-i18n and Laravel, or a part in which a bar is not a separator."""
STAND_INS = range(0xF0000, 0xFFFFE)
"""Private-use characters that replace parts of a message while it is read."""


def message_unit(
    raw: str,
    text: str,
    write: Callable[[str], str],
    syntax: MessageSyntax = COMMON_SYNTAX,
    tags: Mapping[str, Tag] | None = None,
) -> Piece:
    """Return the unit of a message; a message with tags or entities is read as HTML.

    The branches of ICU messages are separate texts.

    Args:
        raw: the message as it appears in the document.
        text: the message.
        write: returns a message written in the document's format.
        syntax: the syntax of the message.
        tags: the tags that are represented by characters of the message.
    """
    if syntax.accelerators:
        unmarked_syntax = replace(syntax, accelerators=False)
        mark = _find_accelerator(text)
        if mark is not None:
            start, end = mark.span(2)
            if (
                text[start - 1 : start] == "(" and text[end + 1 : end + 2] == ")"
            ):  # a key that does not occur in the text
                unmarked_text = text[: start - 1].rstrip() + text[end + 2 :]
            else:
                unmarked_text = text[:start] + text[end:]
            return message_unit(
                raw,
                unmarked_text,
                lambda translation: write(
                    text if translation == unmarked_text else _with_accelerator(translation, mark)
                ),
                unmarked_syntax,
                tags,
            )
        syntax = unmarked_syntax
    if syntax.quotes and next(find_messages(text), None) is None:
        return message_unit(
            raw,
            text.replace("''", "'"),
            lambda translation: write(translation.replace("'", "''")),
            replace(syntax, quotes=False),
            tags,
        )
    numbering = NUMBERINGS.get(syntax.numbering)
    numbered = number_arguments(text, numbering) if numbering else None
    syntax = syntax if numbered else replace(syntax, numbering="")
    pieces = [
        part if is_separator else _message_piece(part, syntax, tags or {})
        for part, is_separator in _branches(numbered or text, syntax)
    ]
    piece = _join_pieces(pieces, numbered or text) if len(pieces) > 1 else pieces[0]
    if isinstance(piece, str):
        return untranslated(raw, ONLY_UNTRANSLATED, TAG.sub("", text))

    def write_message(inlines: Sequence[Inline]) -> str:
        written_text = piece.write(inlines)
        return write(without_numbers(written_text, numbering) if numbered and numbering else written_text)

    return replace(piece, write=write_message, raw=raw)


def _find_accelerator(text: str) -> re.Match[str] | None:
    """Return the mark of the access key of a message, or None if the message does not have exactly one mark.

    The ``&`` in ``R&D`` is not a mark.
    """
    marks = [
        match
        for match in ACCELERATOR.finditer(text)
        if not match[1] or (match[1].istitle() and match[3][0].islower())
    ]
    return marks[0] if len(marks) == 1 else None


def _branches(text: str, syntax: MessageSyntax) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a message, each with False if it is a branch, or True if it separates branches."""
    position = 0
    for match in BRANCHES.finditer(_without_messages(text)) if "vue" in syntax.names and "|" in text else ():
        if match["separator"]:
            yield text[position : match.start()], False
            yield match[0], True
            position = match.end()
    yield text[position:], False


def _without_messages(text: str) -> str:
    """Return a text with its ICU messages replaced by spaces."""
    position, parts = 0, list[str]()
    for start, end, _ in find_messages(text):
        parts += [text[position:start], " " * (end - start)]
        position = end
    return "".join([*parts, text[position:]])


def inline_message_unit(
    raw: str, inline: Inline, write: Callable[[Inline], str], syntax: MessageSyntax = COMMON_SYNTAX
) -> Piece:
    """Return the unit of a message that is given with its tags."""
    free_characters = _free_characters(plain_text(inline))
    tags = {next(free_characters): part for part in inline if isinstance(part, Tag)}
    characters = iter(tags)
    text = "".join(part if isinstance(part, str) else next(characters) for part in inline)

    def parts(text: str) -> Inline:
        return join_parts(tags.get(part, part) for part in _split_at(text, "".join(tags)))

    return message_unit(raw, text, lambda translation: write(parts(translation)), syntax, tags)


def _free_characters(text: str) -> Iterator[str]:
    used_characters = frozenset(text)
    return (chr(code) for code in STAND_INS if chr(code) not in used_characters)


def _message_piece(
    text: str, syntax: MessageSyntax, tags: Mapping[str, Tag], in_plural: bool = False
) -> Piece:
    """Return the unit of a message, or the message itself if it has no texts."""
    original_text, free_characters, stand_ins = text, _free_characters(text), dict(tags)
    tag_texts = {character: tag.text for character, tag in tags.items()}
    messages: dict[str, IcuMessage] = {}
    outside_parts: list[str] = []
    position = 0
    for start, end, message in find_messages(text):
        character = next(free_characters)
        messages[character] = message
        stand_ins[character] = Tag("kept", character, _replace_characters(text[start:end], tag_texts))
        outside_parts += [text[position:start], character]
        position = end
    text = "".join([*outside_parts, text[position:]])
    templates: dict[str, str] = {}

    def template(match: re.Match[str]) -> str:
        character = next(free_characters)
        templates[character] = match[0]
        stand_ins[character] = Tag("kept", character, match[0])
        return character

    text = TEMPLATE.sub(template, text)
    pieces = [_text_piece(text, syntax, stand_ins, in_plural)]
    for message in messages.values():
        pieces += [
            _branch_piece(branch, syntax, tags, in_plural or message.has_number)
            for branch in message.branches
        ]

    def write(inlines: Sequence[Inline]) -> str:
        written_text = write_pieces(pieces, inlines)
        translation = next(written_text)
        for character, message in messages.items():
            branches = [next(written_text) for _ in message.branches]
            templates[character] = message.with_branches(branches)
        return _replace_characters(translation, templates)

    inlines = tuple(Fragment(tuple(pieces)).inlines)
    copied_texts = tuple(untranslated_texts(pieces))
    return Unit(inlines, write, untranslated=copied_texts) if inlines else original_text


def _split_at(text: str, characters: str) -> list[str]:
    """Return the parts of a text split at the given characters, each of which is a part too."""
    return re.split(f"([{characters}])", text) if characters else [text]


def _replace_characters(text: str, replacements: Mapping[str, str]) -> str:
    return text.translate({ord(character): value for character, value in replacements.items()})


def _branch_piece(text: str, syntax: MessageSyntax, tags: Mapping[str, Tag], in_plural: bool) -> Piece:
    """Return the unit of a branch, in which an apostrophe before a brace begins quoted text."""
    if QUOTING_APOSTROPHE.search(text):
        return _message_piece(text, syntax, tags, in_plural)
    has_doubled_apostrophe = "''" in text
    piece = _message_piece(text.replace("''", "'"), syntax, tags, in_plural)
    if isinstance(piece, str):
        return text
    apostrophe = APOSTROPHE if has_doubled_apostrophe else QUOTING_APOSTROPHE
    return replace(piece, write=lambda inlines: apostrophe.sub("''", piece.write(inlines)), raw=None)


def _text_piece(text: str, syntax: MessageSyntax, stand_ins: Mapping[str, Tag], in_plural: bool) -> Piece:
    """Return the unit of a text without ICU messages, in which the characters of ``stand_ins``
    represent tags.
    """
    placeholders, numbering = syntax.placeholders, NUMBERINGS.get(syntax.numbering)
    if in_plural:
        placeholders = Placeholders(syntaxes=("icu number", *syntax.names))
    marks: dict[Tag, str] = {}
    characters = "".join(stand_ins)

    def mark_tags(inline: Inline) -> Inline:
        return join_parts(
            mark for part in inline for mark in ((part,) if isinstance(part, Tag) else mark_parts(part))
        )

    def mark_parts(text: str) -> Iterator[str | Tag]:
        for segment in _split_at(text, characters):
            stand_in = stand_ins.get(segment)
            tagged = placeholders.split(segment) if stand_in is None else (stand_in,)
            if stand_in is None and numbering is None and tagged == COMMON_PLACEHOLDERS.split(segment):
                yield segment  # the translator finds the same placeholders
                continue
            for part in tagged:
                if isinstance(part, Tag):
                    displayed_text = without_numbers(part.text, numbering) if numbering else part.text
                    mark = Tag(part.kind, segment if stand_in else part.raw, displayed_text)
                    marks[mark] = mark.raw
                    yield mark
                else:
                    yield part

    def remove_marks(inline: Inline) -> Inline:
        return join_parts(part if isinstance(part, str) else marks.get(part, part) for part in inline)

    if "gcc" in syntax.names or MARKUP.search(re.sub(QUOTED_CODE, "", text)) is None:  # %<int%> is not a tag
        if not any(
            is_translatable(placeholders.split(part)) for part in mark_tags((text,)) if isinstance(part, str)
        ):
            return text  # it consists of placeholders
        return text_unit(text, mark_tags((text,)), lambda inline: plain_text(remove_marks(inline)))
    pieces = [
        piece
        if isinstance(piece, str)
        else replace(
            piece,
            inlines=tuple(map(mark_tags, piece.inlines)),
            write=lambda inlines, unit=piece: unit.write(tuple(map(remove_marks, inlines))),  # type: ignore[misc]
            raw=None,
        )
        for piece in html_pieces(text, message=True)
    ]
    return _join_pieces(pieces, text)


def _join_pieces(pieces: Sequence[Piece], text: str) -> Piece:
    """Return the pieces of a text as one unit, or the text itself if no piece is translated."""
    message = Fragment(tuple(pieces))
    copied_texts = tuple(untranslated_texts(pieces))
    return Unit(tuple(message.inlines), message.write, text, copied_texts) if message.inlines else text


def _with_accelerator(text: str, mark: re.Match[str]) -> str:
    """Return a text with a marked access key, given the mark of its source.

    If the source marks its first letter, the first letter of the text is marked. Otherwise the letter that
    the source marks is marked or, if the text does not contain it, the first letter. If all letters of
    the text are of scripts without spaces, as in Chinese, the key of the source is added in parentheses.
    """
    letters = [match.start() for match in LETTER.finditer(text) if match[1]]
    candidates = [position for position in letters if not is_unspaced(text[position])]
    key = mark[3][0]
    if not candidates:
        end = TRAILING_PUNCTUATION.search(text)
        assert end is not None
        return f"{text[: end.start()]}({mark[2]}{key.upper()}){end[0]}"
    key_positions = (
        [position for position in candidates if text[position].lower() == key.lower()]
        if mark.start(2)
        else []
    )
    position = min(
        key_positions, key=lambda candidate: text[candidate - 1 : candidate].isalpha(), default=candidates[0]
    )
    return text[:position] + mark[2] + text[position:]


MAX_NAME_LENGTH = 1024
"""Maximum number of characters of the name of a path."""
OTHER_KEYS = "of other keys"
"""The reason that is given when the values of keys that are not selected are copied."""


class KeyChoice:
    """The keys to translate: those selected by the user, or all keys.

    Args:
        patterns: ``title`` stands for every key of that name, at any depth, with everything below it;
            ``menu.file.*`` is a path from the root, in which ``*`` stands for any key and ``**`` for one or
            more keys.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self.names = frozenset(pattern for pattern in patterns if "." not in pattern and "*" not in pattern)
        self.paths = [pattern.split(".") for pattern in patterns if "." in pattern or "*" in pattern]
        self.root = KeyPath(self, not patterns, {(number, 0) for number in range(len(self.paths))})


class KeyPath:
    """A path in a tree of messages.

    Paths are matched key by key: a path stores how far it has matched each pattern, so that its keys are not
    matched again for its descendants.

    Attributes:
        is_selected: whether the messages at the path are to be translated.
        name: its keys joined by dots, such as ``menu.file.open``; None if that is too long.
    """

    def __init__(
        self,
        choice: KeyChoice,
        is_selected: bool,
        matched_states: set[tuple[int, int]],
        name: str | None = "",
    ) -> None:
        self.selected, self.name = is_selected, name
        self._choice, self._matched = choice, matched_states

    def child(self, key: str) -> KeyPath:
        """Return the path of a key below this path; the key of a list entry may be empty."""
        name = self.name
        if key and name is not None:
            is_long = len(name) + len(key) >= MAX_NAME_LENGTH
            name = None if is_long else f"{name}.{key}" if name else key
        if self.selected:
            return KeyPath(self._choice, True, self._matched, name)
        matched_states = self._matched
        for name in key.split(".") if matched_states else ():
            matched_states = {
                state for number, index in matched_states for state in self._step(number, index, name)
            }
        is_selected = any(index == len(self._choice.paths[number]) for number, index in matched_states)
        return KeyPath(self._choice, is_selected or key in self._choice.names, matched_states, name)

    def _step(self, number: int, index: int, name: str) -> Iterator[tuple[int, int]]:
        path = self._choice.paths[number]
        if index == len(path):  # everything below is also translated
            yield number, index
            return
        if path[index] == "**":
            yield number, index
        if path[index] in ("*", "**", name):
            yield number, index + 1


@dataclass(frozen=True)
class PluralMember:
    """A plural form in a document.

    Attributes:
        category: the plural category, such as ``one``.
        key: start of its key in the document.
        value: start of its value in the document.
        end: end of its value in the document.
        piece: its value as a piece.
    """

    category: str
    key: int
    value: int
    end: int
    piece: Piece


def document_pieces(
    text: str, groups: Iterable[tuple[bool, Sequence[PluralMember]]], target: str | None
) -> Iterator[Piece]:
    """Yield the pieces of a document: a unit for each plural and for each other value.

    Args:
        text: the document.
        groups: groups of one or more adjacent values, each preceded by True if the values may be a plural.
        target: the language whose plural forms are written; None to keep the existing forms.
    """
    position = 0
    for may_be_plural, members in groups:
        plural = plural_unit(text, members, target) if may_be_plural else None
        if plural is not None:
            yield text[position : members[0].key]
            yield plural
            position = members[-1].end
            continue
        for member in members:
            yield text[position : member.value]
            yield member.piece
            position = member.end
    yield text[position:]


def plural_unit(text: str, members: Sequence[PluralMember], target: str | None) -> Piece | None:
    """Return a unit that writes the plural forms of the target language from the forms of the source.

    The forms are in the order of CLDR. A form that the source does not have is translated from ``other``. The
    form ``zero`` is always kept, since it may be meant for the number 0, for which few languages have a form.

    Args:
        text: the document.
        members: the members, in document order.
        target: the target language, if known.

    Returns:
        a unit from the first key to the last value. None if each value is to be translated separately,
        because the members are not a plural, already have the forms of the target language, or are separated
        by something other than white space and commas.
    """
    by_category = {member.category: member for member in members}
    if target is None or len(by_category) < len(members) or not {"one", "other"} <= by_category.keys():
        return None
    separators = [text[member.end : next_member.key] for member, next_member in pairwise(members)]
    categories = {*plural_categories(target), *(("zero",) if "zero" in by_category else ())}
    keys = {
        member.category: _split_at_category(text[member.key : member.value], member.category)
        for member in members
    }
    if (
        categories == by_category.keys()
        or not all(map(MEMBER_SEPARATOR.fullmatch, separators))
        or ("", "") in keys.values()
    ):
        return None
    inlines = tuple(Fragment(tuple(member.piece for member in members)).inlines)
    if not inlines:
        return None

    def write(translations: Sequence[Inline]) -> str:
        values = dict(
            zip(by_category, write_pieces([member.piece for member in members], translations), strict=True)
        )
        forms = []
        for category in PLURAL_CATEGORIES:
            if category in categories:
                source_category = category if category in by_category else "other"
                start, end = keys[source_category]
                forms.append(start + category + end + values[source_category])
        return separators[0].join(forms)

    unit_keys = [member.piece.key for member in members if isinstance(member.piece, Unit)]
    return Unit(inlines, write, key=unit_keys[0])


def _split_at_category(key: str, category: str) -> tuple[str, str]:
    """Return the parts of a raw key before and after its category, or empty strings if the category
    is escaped.
    """
    match = re.search(rf"{category}(?=[\"']?\s*:)", key)
    return ("", "") if match is None else (key[: match.start()], key[match.end() :])
