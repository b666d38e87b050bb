"""ICU messages such as ``{count, plural, one {# file} other {# files}}``; only their branches are translated.

Syntax: https://unicode-org.github.io/icu/userguide/format_parse/messages/. An apostrophe before a brace
quotes the text up to the next apostrophe; two apostrophes stand for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

MESSAGE_HEAD = re.compile(r"\{\s*\w+\s*,\s*(plural|select|selectordinal)\s*,\s*(?:offset:\s*\d+\s*)?")
BRANCH_START = re.compile(r"\s*(?:=\d+|[\w-]+)\s*\{")
MESSAGE_END = re.compile(r"\s*\}")
SYNTAX_CHARACTER = re.compile("[{}']")
MAX_BROKEN_MESSAGES = 16
"""Maximum number of unclosed messages in a text; after them, no more messages are searched for."""
MAX_BRANCH_CHARACTERS = 100_000
"""Maximum number of characters of a branch."""
MAX_BRACE_DEPTH = 32
"""Maximum depth of nested braces in a branch; deeper text is not read as a message."""


class IcuMessage(NamedTuple):
    """A parsed message.

    Attributes:
        skeleton: the parts before, between and after the branches.
        branches: the texts of the branches.
        has_number: whether ``#`` in the branches stands for a number.
    """

    skeleton: tuple[str, ...]
    branches: tuple[str, ...]
    has_number: bool

    def with_branches(self, branches: Sequence[str]) -> str:
        """Return the text of the message with its branches replaced."""
        between = [part for pair in zip(self.skeleton, branches, strict=False) for part in pair]
        return "".join([*between, self.skeleton[-1]])


def message_end(text: str, start: int) -> int | None:
    """Return the end of the message that begins at ``start``, or None if no message begins there."""
    parsed_message = _parse_at(text, start)
    return None if parsed_message is None else parsed_message[1]


def find_messages(text: str) -> Iterator[tuple[int, int, IcuMessage]]:
    """Yield the start, the end and the content of each message in a text."""
    position = broken_count = 0
    while (head := MESSAGE_HEAD.search(text, position)) and broken_count < MAX_BROKEN_MESSAGES:
        parsed_message = _parse_at(text, head.start())
        if parsed_message is None:
            position, broken_count = head.start() + 1, broken_count + 1
        else:
            yield head.start(), parsed_message[1], parsed_message[0]
            position = parsed_message[1]


def parse_message(text: str) -> IcuMessage | None:
    """Parse a text that is a single message with branches; return None for any other text."""
    parsed_message = _parse_at(text, 0)
    return parsed_message[0] if parsed_message is not None and parsed_message[1] == len(text) else None


def _parse_at(text: str, start: int) -> tuple[IcuMessage, int] | None:
    head = MESSAGE_HEAD.match(text, start)
    if head is None:
        return None
    position, previous_end = head.end(), start
    skeleton: list[str] = []
    branches: list[str] = []
    while branch := BRANCH_START.match(text, position):
        end = _find_closing_brace(text, branch.end())
        if end is None:
            return None
        skeleton.append(text[previous_end : branch.end()])
        branches.append(text[branch.end() : end])
        previous_end, position = end, end + 1
    closing = MESSAGE_END.match(text, position)
    if closing is None or not branches:
        return None
    skeleton.append(text[previous_end : closing.end()])
    return IcuMessage(tuple(skeleton), tuple(branches), head.group(1) != "select"), closing.end()


def _find_closing_brace(text: str, start: int) -> int | None:
    """Return the position of the brace that closes the branch starting at ``start``, or None if unclosed."""
    depth, is_quoted = 0, False
    for match in SYNTAX_CHARACTER.finditer(text, start, start + MAX_BRANCH_CHARACTERS):
        position = match.start()
        if match[0] == "'":
            is_quoted = (
                not is_quoted if is_quoted or text[position + 1 : position + 2] in ("{", "}") else is_quoted
            )
        elif not is_quoted and match[0] == "{":
            depth += 1
            if depth > MAX_BRACE_DEPTH:
                return None
        elif not is_quoted:
            if depth == 0:
                return position
            depth -= 1
    return None
