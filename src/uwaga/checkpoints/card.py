"""The front matter of a model card: licence and languages."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from uwaga.files.regular import open_regular
from uwaga.settings.parsing import load_yaml

CARD, README = "card.md", "README.md"
LARGEST = 1 << 22
"""Bytes that are looked at."""
FRONT = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
ROW = re.compile(r"^\|\s*licen[cs]e[^|]*\|\s*([^|]+?)\s*\|", re.IGNORECASE | re.MULTILINE)
UNSTATED = ("", "not stated", "unknown")


@dataclass(frozen=True)
class Card:
    """Licence and languages as far as they are stated, and all of the text."""

    licence: str | None = None
    languages: tuple[str, ...] = ()
    text: str = field(default="", compare=False)


def read_card(folder: Path) -> Card:
    """Read the card of a model folder: ``card.md``, or Hugging Face's ``README.md`` with front matter.

    Missing or unreadable values count as not stated; a card is written for people.
    """
    for name in (CARD, README):
        try:
            with open_regular(folder / name) as file:
                text = file.read(LARGEST).decode("utf-8", errors="replace")
        except OSError:
            continue
        return _front(text)
    return Card()


def _front(text: str) -> Card:
    values: object = None
    if found := FRONT.match(text):
        try:
            values = load_yaml(found[1])
        except ValueError:
            values = None
    values = values if isinstance(values, dict) else {}
    licence = values.get("license_name") or values.get("license") or values.get("licence")
    if isinstance(licence, list):
        licence = ", ".join(str(one) for one in licence)
    if not isinstance(licence, str) and (row := ROW.search(text)):
        licence = row[1]
    stated = values.get("language")
    languages = [stated] if isinstance(stated, str) else stated if isinstance(stated, list) else []
    codes = tuple("no" if code is False else str(code) for code in languages)  # YAML 1.1 reads `no` as false
    usable = isinstance(licence, str) and licence.strip().lower() not in UNSTATED
    return Card(licence.strip() if usable and isinstance(licence, str) else None, codes, text)
