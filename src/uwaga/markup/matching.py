"""Tags that belong together by their names, where a format's pairs may be broken."""

from __future__ import annotations

import re
from collections.abc import Sequence

from uwaga.markup.inline import Inline, Tag
from uwaga.markup.placing import joined

NAME = re.compile(r"</?\s*([^\s/>]*)")


def matched(parts: Sequence[str | Tag], *, by_name: bool = True) -> Inline:
    """The same, but opens and closes that do not make pairs of one name stand alone.

    A close ends the nearest open of its name; opens between the two are left without an end.

    Args:
        parts: text and tags.
        by_name: whether the names of tags of HTML say which belong together; if not, what begins with ``<``
            is of one kind and all else of another.
    """
    paired: set[int] = set()
    waiting: list[tuple[int, str]] = []
    names: dict[str, int] = {}
    for at, part in enumerate(parts):
        if not isinstance(part, Tag) or part.kind not in ("open", "close"):
            continue
        found = NAME.match(part.raw)
        name = found[1].lower() if found else ""
        name = name if by_name or part.raw.startswith("<") else ""
        if part.kind == "open":
            waiting.append((at, name))
            names[name] = names.get(name, 0) + 1
        elif names.get(name):
            while waiting:
                start, other = waiting.pop()
                names[other] -= 1
                if other == name:
                    paired |= {start, at}
                    break
    return joined(
        [
            Tag("void", part.raw, part.text)
            if isinstance(part, Tag) and part.kind in ("open", "close") and at not in paired
            else part
            for at, part in enumerate(parts)
        ]
    )
