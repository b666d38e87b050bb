"""Test substitution by a glossary: a term must occur in the translation, and the usual word must not.

    python benchmarks/synonyms.py SOURCE.en REFERENCE.de [--model MODEL] [--cases 300]

The files are parallel lines, such as Multi30k's test_2016_flickr. A case is a sentence with one of the words
below, whose reference has its usual translation; the glossary asks for a synonym. At most 12 cases have the
same word. BLEU compares with references in which the synonym replaces the usual word. Beside it stand BLEU
without a glossary (against the unchanged references), and that of these translations with the words replaced
as text.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from pathlib import Path

import sacrebleu

import uwaga

SAME = 12
SYNONYMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "man": ("Herr", ("Mann",)),
    "woman": ("Dame", ("Frau",)),
    "dog": ("Vierbeiner", ("Hund",)),
    "boy": ("Bub", ("Junge", "Jungen")),
    "girl": ("Mädel", ("Mädchen",)),
    "street": ("Allee", ("Straße",)),
    "shirt": ("Oberteil", ("Hemd", "Shirt", "T-Shirt", "Oberteile")),
    "car": ("Wagen", ("Auto",)),
    "bicycle": ("Drahtesel", ("Fahrrad",)),
    "ball": ("Spielball", ("Ball",)),
    "horse": ("Ross", ("Pferd",)),
    "hat": ("Kopfbedeckung", ("Hut", "Mütze")),
    "beach": ("Badestrand", ("Strand",)),
    "player": ("Akteur", ("Spieler", "Spielerin")),
    "building": ("Bauwerk", ("Gebäude",)),
    "jacket": ("Joppe", ("Jacke",)),
    "dress": ("Gewand", ("Kleid",)),
    "field": ("Acker", ("Feld",)),
    "grass": ("Rasen", ("Gras",)),
    "rock": ("Gestein", ("Felsen", "Fels", "Stein")),
    "table": ("Tafel", ("Tisch",)),
    "camera": ("Linse", ("Kamera",)),
    "guitar": ("Klampfe", ("Gitarre",)),
    "crowd": ("Volksmenge", ("Menge", "Menschenmenge")),
    "baby": ("Säugling", ("Baby",)),
    "mountain": ("Gipfel", ("Berg",)),
    "bench": ("Sitzbank", ("Bank",)),
    "river": ("Strom", ("Fluss",)),
    "tree": ("Gewächs", ("Baum",)),
    "child": ("Kleinkind", ("Kind",)),
    "park": ("Stadtpark", ("Park",)),
    "wall": ("Mauer", ("Wand",)),
    "house": ("Eigenheim", ("Haus",)),
    "bus": ("Omnibus", ("Bus",)),
    "road": ("Landstraße", ("Straße",)),
    "boat": ("Kahn", ("Boot",)),
    "kitchen": ("Küchenzeile", ("Küche",)),
    "painter": ("Künstler", ("Maler",)),
    "apple": ("Boskop", ("Apfel",)),
    "worker": ("Handwerker", ("Arbeiter", "Bauarbeiter")),
    "teacher": ("Pädagoge", ("Lehrer", "Lehrerin")),
    "doctor": ("Mediziner", ("Arzt",)),
    "chair": ("Sessel", ("Stuhl",)),
    "train": ("Eisenbahn", ("Zug",)),
}
"""The synonym of each word, and the usual translations that it replaces."""


def count(word: str, text: str) -> int:
    return len(re.findall(rf"(?<!\w){re.escape(word)}(?!\w)", text))


def replace_words(text: str, words: tuple[str, ...], synonym: str) -> str:
    for word in words:
        text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", synonym, text)
    return text


def cases(sources: list[str], references: list[str], limit: int) -> list[tuple[str, str, str]]:
    """Return the source, the reference and the word of each case."""
    selected, times = [], Counter[str]()
    for source, reference in zip(sources, references, strict=True):
        for word, (_, words) in SYNONYMS.items():
            if (
                count(word, source) == 1
                and times[word] < SAME
                and any(count(synonym_form, reference) for synonym_form in words)
            ):
                times[word] += 1
                selected.append((source, reference, word))
                break
    return selected[:limit]


def bleu(texts: list[str], references: list[str]) -> float:
    return float(sacrebleu.corpus_bleu(texts, [references]).score)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--failures", action="store_true", help="print the failed cases")
    arguments = parser.parse_args()
    lines = [
        path.read_text(encoding="utf-8").splitlines() for path in (arguments.source, arguments.reference)
    ]
    selected = cases(*lines, arguments.cases)
    translator = uwaga.load(arguments.model)
    expected = [
        replace_words(reference, SYNONYMS[word][1], SYNONYMS[word][0]) for _, reference, word in selected
    ]
    start = time.process_time()
    plain = [translator.translate(source).text for source, _, _ in selected]
    print(f"{len(selected)} cases; without a glossary {time.process_time() - start:.1f} s, BLEU", end=" ")
    print(f"{bleu(plain, [reference for _, reference, _ in selected]):.2f};", end=" ")
    swapped = [
        replace_words(text, SYNONYMS[word][1], SYNONYMS[word][0])
        for text, (_, _, word) in zip(plain, selected, strict=True)
    ]
    print(f"words replaced as text {bleu(swapped, expected):.2f}")
    for mode in ("forced", "soft"):
        start = time.process_time()
        translations = [
            translator.translate(source, glossary={word: SYNONYMS[word][0]}, glossary_mode=mode).text
            for source, _, word in selected
        ]
        seconds, correct = time.process_time() - start, 0
        for text, (source, _, word) in zip(translations, selected, strict=True):
            synonym, words = SYNONYMS[word]
            if count(synonym, text) == 1 and not any(
                count(synonym_form, text) for synonym_form in words if synonym_form != synonym
            ):
                correct += 1
            elif arguments.failures:
                print(f"  {word} → {synonym}: {source} → {text}")
        print(
            f"{mode}: the term once and the usual word gone in {100 * correct / len(selected):.1f} %, BLEU "
            f"{bleu(translations, expected):.2f}, {seconds:.1f} s"
        )


if __name__ == "__main__":
    main()
