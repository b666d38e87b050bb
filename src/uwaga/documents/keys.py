"""Which values of a tree of messages are translated, by their keys."""

from __future__ import annotations

import re
from collections.abc import Sequence


class KeyChoice:
    """Those that the user names, or all.

    Args:
        patterns: ``title`` is every key of that name, at any depth, with all below it; ``menu.file.*`` a
            path from the root, where ``*`` is any one key and ``**`` any number.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._names = frozenset(one for one in patterns if "." not in one and "*" not in one)
        self._paths = [
            re.compile(r"\Z|".join([_as_expression(one), _as_expression(one) + r"\..*"]) + r"\Z", re.DOTALL)
            for one in patterns
            if "." in one or "*" in one
        ]
        self._all = not patterns

    def __call__(self, path: Sequence[str]) -> bool:
        """Whether what stands at this path is translated."""
        if self._all or not self._names.isdisjoint(path):
            return True
        return any(one.match(".".join(path)) for one in self._paths)


def _as_expression(pattern: str) -> str:
    parts = (re.escape(one) for one in pattern.split("."))
    return r"\.".join({r"\*\*": ".*", r"\*": r"[^.]*"}.get(part, part) for part in parts)
