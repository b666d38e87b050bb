"""ICU messages such as ``{count, plural, one {# file} other {# files}}``; only their branches are translated.

Syntax: https://unicode-org.github.io/icu/userguide/format_parse/messages/. An apostrophe before a brace
quotes up to the next apostrophe, two apostrophes are one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

HEAD = re.compile(r"\{\s*\w+\s*,\s*(plural|select|selectordinal)\s*,\s*(?:offset:\s*\d+\s*)?")
BRANCH = re.compile(r"\s*(?:=\d+|[\w-]+)\s*\{")
END = re.compile(r"\s*\}")
SIGN = re.compile("[{}']")
LONGEST = 100_000
"""Most characters of one branch."""
DEEPEST = 32
"""Most braces inside each other in one branch; what is deeper is not read as a message."""


@dataclass(frozen=True)
class IcuMessage:
    """A parsed message: ``skeleton`` is what surrounds the ``branches``, one part more than these.

    ``counts`` is true if a ``#`` in its branches stands for a number.
    """

    skeleton: tuple[str, ...]
    branches: tuple[str, ...]
    counts: bool

    def with_branches(self, branches: Sequence[str]) -> str:
        """Return the message with other branches."""
        between = [part for pair in zip(self.skeleton, branches, strict=False) for part in pair]
        return "".join([*between, self.skeleton[-1]])


def message_end(text: str, start: int) -> int | None:
    """Return the end of the message that begins at a brace; None if there is none."""
    found = _parsed(text, start)
    return None if found is None else found[1]


def parse_message(text: str) -> IcuMessage | None:
    """Parse a text that is one message with branches; None for any other text."""
    found = _parsed(text, 0)
    return found[0] if found is not None and found[1] == len(text) else None


def _parsed(text: str, start: int) -> tuple[IcuMessage, int] | None:
    head = HEAD.match(text, start)
    if head is None:
        return None
    at, last = head.end(), start
    skeleton: list[str] = []
    branches: list[str] = []
    while branch := BRANCH.match(text, at):
        end = _closing(text, branch.end())
        if end is None:
            return None
        skeleton.append(text[last : branch.end()])
        branches.append(text[branch.end() : end])
        last, at = end, end + 1
    closed = END.match(text, at)
    if closed is None or not branches:
        return None
    skeleton.append(text[last : closed.end()])
    return IcuMessage(tuple(skeleton), tuple(branches), head.group(1) != "select"), closed.end()


def _closing(text: str, start: int) -> int | None:
    """Find the brace that closes a branch which begins at ``start``."""
    depth, quoted = 0, False
    for match in SIGN.finditer(text, start, start + LONGEST):
        at = match.start()
        if match[0] == "'":
            quoted = not quoted if quoted or text[at + 1 : at + 2] in ("{", "}") else quoted
        elif not quoted and match[0] == "{":
            depth += 1
            if depth > DEEPEST:
                return None
        elif not quoted:
            if depth == 0:
                return at
            depth -= 1
    return None
