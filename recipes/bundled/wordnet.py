"""English sentences and nouns of WordNet 3.0 (the Debian package wordnet-base); see ``man 5 wndb``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from values import upper
from workplace import existing

FOLDER = "src/wordnet-base/usr/share/wordnet"
# lexicographers' files of what can be seen: animal, artifact, body, food, object, person, plant
VISIBLE = {5, 6, 8, 13, 17, 18, 20}


def _lines(work: Path, part: str) -> Iterator[str]:
    path = existing(work / FOLDER / f"data.{part}", "download.sh unpacks it")
    yield from path.read_text(encoding="utf-8", errors="replace").splitlines()


def glosses(work: Path) -> Iterator[str]:
    """Yield the definition of each set of synonyms, with its examples."""
    for part in ("noun", "verb", "adj", "adv"):
        for line in _lines(work, part):
            yield line.partition("| ")[2]


def examples(work: Path) -> list[str]:
    """Return the example sentences of 4 to 19 words."""
    synsets = []
    for gloss in glosses(work):
        for quoted in re.findall(r'"([^"]+)"', gloss):
            text = quoted.strip(" ;")
            if 3 <= text.count(" ") <= 18 and re.fullmatch(r"[A-Za-z][A-Za-z ,.'!?-]+", text):
                synsets.append(upper(text) + ("" if text[-1] in ".!?" else "."))
    return synsets


def nouns(work: Path, usage: Mapping[str, int]) -> list[str]:
    """Return nouns for visible things whose last word is used at least twice."""
    translations = set()
    for line in _lines(work, "noun"):
        cells = line.split(" ")
        if len(cells) > 5 and cells[1].isdigit() and int(cells[1]) in VISIBLE:
            word = cells[4].replace("_", " ")
            if word.islower() and word.isascii() and usage.get(word.split()[-1], 0) >= 2:
                translations.add(word)
    return sorted(translations)
