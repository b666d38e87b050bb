"""The word links that training is guided by: files that the settings name, or links of our own aligner."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from uwaga.alignment import align_corpus
from uwaga.alignment.words import split_words
from uwaga.data.corpus import read_corpus
from uwaga.data.links import LinkFile
from uwaga.files.streams import identify
from uwaga.settings import CorpusSettings, GuidedAlignmentSettings
from uwaga.training.disk import replace_text


def corpus_links(
    corpus: CorpusSettings, guided: GuidedAlignmentSettings, place: Path, say: Callable[[str], None]
) -> LinkFile:
    """The links of a corpus: its own file, or one that the aligner writes to ``place`` unless it is there.

    The aligner holds the words of the whole corpus in memory.

    Raises:
        DataError: the corpus is at fault.
        OSError: the file cannot be written.
    """
    if corpus.alignment:
        return LinkFile(corpus.alignment, guided.words)
    reader = read_corpus(corpus)
    said = corpus.model_dump(mode="json", include={"columns", "languages", "bad_lines"})
    made_from = {"files": [identify(file) for file in reader.files], **said}
    facts = place.with_name(f"{place.name}.json")
    found = LinkFile(str(place), "words")
    if place.is_file() and _read(facts) == made_from:
        return found
    say(f"aligning the words of {corpus.name}")
    rows, sources, targets = list[int](), list[list[str]](), list[list[str]]()
    for pair in reader:
        rows.append(reader.report.read)
        sources.append(split_words(pair.source))
        targets.append(split_words(pair.references[0]))
    lines = [""] * reader.report.read
    for row, links in zip(rows, align_corpus(sources, targets), strict=True):
        lines[row - 1] = " ".join(f"{source}-{target}" for source, target in sorted(links))
    place.parent.mkdir(parents=True, exist_ok=True)
    facts.unlink(missing_ok=True)
    replace_text(place, "".join(f"{line}\n" for line in lines))
    replace_text(facts, json.dumps(made_from))
    return found


def _read(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
