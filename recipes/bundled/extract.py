"""Extract English and German sentence pairs from the unpacked Debian packages (download.sh).

    python extract.py

Writes data/raw.KIND.tsv (source, target, package), KIND being ``text`` (sentences of dialogues, books and
help), ``words`` (dictionary entries and names) and ``interface`` (strings of programs).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import lists
import manuals
from catalogues import catalogue
from paragraphs import Pairs, by_sentence
from workplace import arguments, existing

PROSE = {"widelands-data", "freeciv-data", "unknown-horizons"}  # told in sentences, as Wesnoth is


def translated_pairs(folder: Path, split: bool) -> Pairs:
    """Yield the pairs of all German .mo files of a package, split into sentences if ``split``."""
    for path in sorted(folder.rglob("*.mo")):
        if "de" in path.parts:
            for source, target in catalogue(path):
                if split:
                    yield from by_sentence(source, target)
                else:
                    yield source, target


def packages(src: Path) -> Iterator[tuple[str, str, Pairs]]:
    """Yield the kind, the name and the pairs of each package."""
    for name, pairs in (*manuals.read(src), *lists.read_text(src)):
        yield "text", name, pairs
    for name, pairs in lists.read_words(src):
        yield "words", name, pairs
    for folder in sorted(src.iterdir()):
        if folder.name == "iso-codes":
            yield "words", folder.name, translated_pairs(folder, split=False)
        elif folder.name in PROSE or folder.name.startswith("wesnoth"):
            yield "text", folder.name, translated_pairs(folder, split=True)
        elif any(folder.rglob("*.mo")):
            yield "interface", folder.name, translated_pairs(folder, split=True)


def main() -> None:
    work = arguments(__doc__).parse_args().work
    src = existing(work / "src", "download.sh makes it")
    (work / "data").mkdir(exist_ok=True)
    files = {
        kind: (work / f"data/raw.{kind}.tsv").open("w", encoding="utf-8")
        for kind in ("text", "words", "interface")
    }
    for kind, package, pairs in packages(src):
        count = 0
        for pair in pairs:
            source, target = (" ".join(side.split()) for side in pair)
            if source and target:
                files[kind].write(f"{source}\t{target}\t{package}\n")
                count += 1
        print(kind, package, count, file=sys.stderr)
    for file in files.values():
        file.close()


if __name__ == "__main__":
    main()
