"""Code shared by the scripts: the work folder, corpora, the sentences of test sets, and a dictionary."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
import unicodedata
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, TextIO, cast

WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")


def arguments(about: str | None) -> ArgumentParser:
    """Return a parser with the options of all scripts."""
    parser = ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument(
        "--work",
        type=Path,
        default=Path(os.environ.get("BUNDLED_WORK", ".")),
        help="the work folder: data/ and src/ are in it; $BUNDLED_WORK or the current folder if not given",
    )
    return parser


def add_corpora(parser: ArgumentParser) -> None:
    """Add the options of a script that reads Tatoeba and Multi30k."""
    parser.add_argument(
        "--tatoeba", type=Path, default=Path("tatoeba"), help="folder of {train,dev,test}.en-de.tsv.gz"
    )
    parser.add_argument(
        "--multi30k",
        type=Path,
        default=Path("multi30k"),
        help="folder of Multi30k's .en.gz and .de.gz; nothing of it is trained on",
    )


def existing(path: Path, instruction: str) -> Path:
    """Return a path if it exists; otherwise exit with an instruction for making it."""
    if not path.exists():
        sys.exit(f"error: {path} is not there; {instruction}")
    return path


def open_text(path: Path, mode: Literal["rt", "wt"]) -> TextIO:
    """Open a text file, compressed by gzip if its name ends in .gz."""
    if path.suffix == ".gz":
        return cast("TextIO", gzip.open(path, mode, encoding="utf-8", compresslevel=4))
    return cast("TextIO", path.open(mode, encoding="utf-8"))


def rows(path: Path, instruction: str = "see the README of recipes/bundled") -> Iterator[list[str]]:
    """Yield the cells of each line of a TSV file, which may be compressed by gzip."""
    existing(path, instruction)
    with open_text(path, "rt") as file:
        for line in file:
            yield line.rstrip("\n").split("\t")


def write_pairs(path: Path, pairs: Iterable[tuple[str, str]]) -> None:
    """Write pairs to a TSV file, compressed by gzip if its name ends in .gz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_text(path, "wt") as file:
        file.writelines(f"{source}\t{target}\n" for source, target in pairs)


def key(text: str) -> str:
    """Return the letters and digits of a text in lower case; sentences with equal keys count as the same."""
    return re.sub(r"[\W_]+", " ", unicodedata.normalize("NFKC", text).lower()).strip()


def held_sentences(options: Namespace) -> set[str]:
    """Return the keys of all sentences of Tatoeba's dev and test sets and of Multi30k, in both languages."""
    keys: set[str] = set()
    for part in ("dev", "test"):
        for cells in rows(options.tatoeba / f"{part}.en-de.tsv.gz", "--tatoeba names its folder"):
            keys.update(map(key, cells))
    paths = [path for language in ("en", "de") for path in sorted(options.multi30k.glob(f"*.{language}.gz"))]
    if not paths:
        sys.exit(
            f"error: {options.multi30k} holds no .en.gz and .de.gz of Multi30k "
            "(github.com/multi30k/dataset); its sentences are kept out of the training data, and "
            "--multi30k names its folder"
        )
    for path in paths:
        keys.update(key(cells[0]) for cells in rows(path))
    return keys


def unknown_words(work: Path, words: Iterable[str]) -> list[str]:
    """Return the words that the German dictionary of the package hunspell-de-de lacks, in order."""
    folder = work / "src/hunspell-de-de/usr/share/hunspell"
    existing(folder / "de_DE.dic", "download.sh unpacks it")
    command = ["hunspell", "-d", str(folder / "de_DE"), "-i", "utf-8", "-l"]
    try:
        output = subprocess.run(
            command, input="\n".join(words), capture_output=True, text=True, encoding="utf-8", check=True
        )
    except FileNotFoundError:
        sys.exit("error: there is no program hunspell; apt-get install hunspell")
    return output.stdout.split("\n")[:-1]


def of_known_words(work: Path, pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the pairs whose German words are known to hunspell or also occur on the English side."""
    unknown = set(unknown_words(work, sorted({word for _, t in pairs for word in WORD.findall(t)})))
    return [(s, t) for s, t in pairs if not (set(WORD.findall(t)) & unknown) - set(WORD.findall(s))]
