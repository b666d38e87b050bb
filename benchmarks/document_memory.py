"""Measure the chrF of untranslated entries of catalogues, with the translated entries as the memory.

python benchmarks/document_memory.py --model FOLDER --pydocs FOLDER --catalogues 12

A catalogue contains a page of Python's documentation: the texts of version 3.12 are translated, those added
in 3.13 are not. The catalogues with the most additions are used, except for the news. In the last column, the
model's translations are added to the memory, eight at a time.
"""

from __future__ import annotations

import argparse
import gzip
import io
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import sacrebleu

import uwaga
from uwaga.markup.inline import Inline, written_text
from uwaga.translator import Request
from uwaga_documents import document_job, inline_translator, run_document_job
from uwaga_documents.formats.po import PoEntry, po_entries
from uwaga_memory import Memory, Pair
from uwaga_memory.files import open_memory
from uwaga_memory.files.po import write_po

LANGUAGES = ("en", "pt")
BLOCK = 8


def pairs_by_page(path: Path) -> dict[str, list[Pair]]:
    """Return the pairs of a table with the columns page, source and target, by page."""
    pages = defaultdict[str, list[Pair]](list)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            page, source, target = line.rstrip("\n").split("\t")
            pages[page].append(Pair(source, target, page))
    return pages


def complete_catalogue(
    translator: uwaga.Translator, path: Path, memory: Memory | None, adds: bool
) -> dict[str, str]:
    """Translate a catalogue; return the translations of its texts.

    Args:
        translator: the translator.
        path: the catalogue.
        memory: a memory.
        adds: whether to add the translations to the memory.
    """
    output = path.with_stem("completed")
    translate = inline_translator(translator, Request("", memory=memory))

    def translate_and_add(texts: Sequence[Inline]) -> list[Inline]:
        translations = translate(texts)
        if memory is not None and adds:
            memory.add(map(Pair, map(written_text, texts), map(written_text, translations)))
        return translations

    job = replace(document_job(path, output), batch=BLOCK)
    run_document_job(job, translate_and_add)
    entries = po_entries(output.read_text(encoding="utf-8"), str(output))
    return {entry.texts["msgid"]: entry.translations[0] for entry in entries if isinstance(entry, PoEntry)}


def main() -> None:
    """Print a row for each catalogue, and the mean over all texts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--pydocs", type=Path, required=True)
    parser.add_argument("--catalogues", type=int, default=12)
    options = parser.parse_args()
    translator = uwaga.load(options.model)
    known = pairs_by_page(options.pydocs / "memory-3.12.en-pt.tsv.gz")
    new = pairs_by_page(options.pydocs / "new-3.13.en-pt.tsv.gz")
    pages = [page for page in new if known[page] and not page.startswith("whatsnew/")]
    pages.sort(key=lambda page: -len(new[page]))
    rows: list[tuple[str, list[float]]] = []
    changed: list[list[float]] = []
    for page in pages[: options.catalogues]:
        with TemporaryDirectory() as folder:
            path = Path(folder, "catalogue.po")
            content = io.BytesIO()
            untranslated = (Pair(pair.source, "") for pair in new[page])
            write_po(content, [*known[page], *untranslated], LANGUAGES)
            path.write_bytes(content.getvalue())
            systems = [complete_catalogue(translator, path, None, adds=False)]
            for adds in (False, True):
                systems.append(complete_catalogue(translator, path, open_memory(path, LANGUAGES), adds))
        for pair in new[page]:
            outputs = [system[pair.source] for system in systems]
            if not outputs[0]:  # no words
                continue
            scores = [sacrebleu.sentence_chrf(output, [pair.target]).score for output in outputs]
            rows.append((page, scores))
            if outputs[0] != outputs[1]:
                changed.append(scores)
        show(page, [scores for name, scores in rows if name == page])
    show("all", [scores for _, scores in rows])
    show("changed by the memory", changed)


def show(name: str, scores: list[list[float]]) -> None:
    """Print the mean scores without a memory, with it, and with the model's translations added to it."""
    means = [sum(column) / len(scores) for column in zip(*scores, strict=True)]
    print(f"{name:45}{len(scores):5} texts", *(f"{mean:6.1f}" for mean in means), flush=True)


if __name__ == "__main__":
    main()
