"""Model cards, and the licence and languages stated in their front matter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from uwaga.files.regular import open_regular

CARD, README = "card.md", "README.md"
MAX_BYTES = 1 << 22
"""Maximum number of bytes that are read from a card."""
FRONT_MATTER = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
LICENCE_ROW = re.compile(r"^\|[ \t]*licen[cs]e[^|\n]*\|([^|\n]*)\|", re.IGNORECASE | re.MULTILINE)
UNSTATED_LICENCES = ("", "not stated", "unknown")


@dataclass(frozen=True)
class Card:
    """The text of a model card, with the licence and languages that its front matter states.

    The front matter is parsed on first access, since translation rarely needs it.
    """

    text: str = ""

    @cached_property
    def licence(self) -> str | None:
        """The licence, or None if it is not stated."""
        licence = next(filter(None, map(self.front_matter.get, ("license_name", "license", "licence"))), None)
        if isinstance(licence, list):
            licence = ", ".join(str(name) for name in licence)
        if not isinstance(licence, str) and (row := LICENCE_ROW.search(self.text)):
            licence = row[1]
        is_stated = isinstance(licence, str) and licence.strip().lower() not in UNSTATED_LICENCES
        return licence.strip() if is_stated and isinstance(licence, str) else None

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """The language codes in the front matter."""
        language = self.front_matter.get("language")
        languages = (
            [language] if isinstance(language, str) else language if isinstance(language, list) else []
        )
        # YAML 1.1 reads `no` as false
        return tuple("no" if code is False else str(code) for code in languages)

    @property
    def body(self) -> str:
        """The text after the front matter."""
        return self.text[front_match.end() :] if (front_match := FRONT_MATTER.match(self.text)) else self.text

    @cached_property
    def front_matter(self) -> Mapping[str, object]:
        """The values in the front matter; empty if the card has no front matter or only an invalid one."""
        if not (front_match := FRONT_MATTER.match(self.text)):
            return {}
        from uwaga.settings.yaml_text import load_yaml

        try:
            values = load_yaml(front_match[1])
        except ValueError:
            return {}
        return values if isinstance(values, dict) else {}


def read_card(folder: Path) -> Card:
    """Read the card of a model folder from ``card.md`` or, as on the Hugging Face Hub, ``README.md``.

    The result is empty if neither file can be read. Invalid values count as not stated, since people write
    cards by hand.
    """
    for name in (CARD, README):
        try:
            with open_regular(folder / name) as file:
                return Card(file.read(MAX_BYTES).decode("utf-8", errors="replace"))
        except OSError:
            continue
    return Card()
