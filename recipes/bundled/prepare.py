"""Clean the raw pairs, exclude the sentences of the test sets, and mix a training corpus.

    python prepare.py --tatoeba FOLDER --multi30k FOLDER

Reads data/raw.*.tsv (extract.py), data/made.*.tsv (made_up.py) and Tatoeba; writes data/clean.KIND.tsv,
data/mix.tsv.gz (the corpus of the first stage, some parts more than once) and data/report.json.
"""

from __future__ import annotations

import json
import random
import re
import unicodedata
from collections import Counter
from pathlib import Path

import wordnet
from workplace import add_corpora, arguments, held_sentences, key, rows, write_pairs

Pair = tuple[str, str]
# kind: (how often each pair is in the mix, at most this many pairs)
MIX = {
    "tatoeba": (2, None),
    "examples": (1, None),
    "dialogue": (1, None),
    "manuals": (1, 15_000),
    "interface": (1, 8_000),
    "words": (1, 90_000),
    "names": (1, 5_000),
    "copy": (1, 30_000),
    "scenes": (1, 35_000),
}
MANUALS = {
    "installation-guide-amd64", "debian-handbook", "debian-reference", "developers-reference",
    "maint-guide", "gnome-user-docs", "libreoffice-help-de",
}  # fmt: skip
ENGLISH = set(
    "the of and to in is that it for with as was be by on are this have you not or from at which your".split()
)
GERMAN = set(
    """der die das und ist in zu den von nicht mit des auf für im dem ein eine sie es sich wird werden als
    auch bei oder ich du er wir ihr dass wenn""".split()
)
WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
CODE = re.compile(r"[<>{}|\\$%@#=*~^]|\w_\w|--|::|//|\w\(\)|&\w|\.\w{2,4}\b.*\.\w{2,4}\b|\b[A-Z]{2,}_")


def tidy(text: str, interface: bool) -> str:
    text = unicodedata.normalize("NFKC", text.replace("\u00ad", "").replace("\u200b", ""))
    if interface:
        text = re.sub(r"(?<![\w])&(?=\w)|(?<=\w)&(?=\w)|_(?=\w)|~(?=\w)", "", text)
        text = re.sub(r"\s*(\.\.\.|…|:)$", "", text)
    text = re.sub(r"</?[a-z]+/?>", "", text)
    return " ".join(text.split())


def reason(source: str, target: str, kind: str) -> str:
    """Return why a pair is excluded, or an empty string if it is kept."""
    return _shape(source, target) or _content(source, target, kind)


def _shape(source: str, target: str) -> str:
    words, target_words = WORD.findall(source), WORD.findall(target)
    if not words or not target_words:
        return "no words"
    if CODE.search(source) or CODE.search(target):
        return "markup or placeholders"
    if len(words) > 45 or len(target_words) > 45 or max(len(source), len(target)) > 300:
        return "long"
    if max(map(len, words + target_words)) > 40:
        return "long word"
    if not 0.4 < (len(target) + 8) / (len(source) + 8) < 2.5:
        return "length ratio"
    return ""


def _content(source: str, target: str, kind: str) -> str:
    if kind != "names" and key(source) == key(target):
        return "identical"
    if sum(c.isalpha() or c.isspace() for c in source) < 0.75 * len(source):
        return "few letters"
    if any(ord(c) > 0x24F and c.isalpha() for c in source + target):
        return "other script"
    lower = [w.lower() for w in WORD.findall(target)]
    english = sum(w in ENGLISH and w not in GERMAN for w in lower)
    if english > 1 and english > sum(w in GERMAN for w in lower):
        return "target not German"
    if kind in ("dialogue", "manuals", "examples") and source.count(".") > 6:
        return "list"
    if sum(a.isdigit() for a in source) and Counter(re.findall(r"\d+", source)) != Counter(
        re.findall(r"\d+", target)
    ):
        return "other digits"
    return ""


def refine_kind(kind: str, source: str, package: str) -> str:
    if kind == "text":
        return "manuals" if package in MANUALS else "dialogue"
    if kind == "words" and package == "iso-codes":
        return "names"
    if kind == "words" and source[-1] in ".?!" and source.count(" ") >= 2:
        return "examples"
    return kind


class Cleaning:
    """The pairs kept by kind and package, and the numbers of pairs excluded by each rule."""

    def __init__(self, held_out: set[str], tatoeba: list[Pair]) -> None:
        self.held_out = held_out
        self.pairs: dict[str, list[Pair]] = {kind: [] for kind in MIX}
        self.pairs["tatoeba"] = [
            p for p in tatoeba if key(p[0]) not in held_out and key(p[1]) not in held_out
        ]
        self.seen = {(key(s), key(t)) for s, t in self.pairs["tatoeba"]}
        self.sources = Counter(key(s) for s, _ in self.pairs["tatoeba"])
        self.rules: dict[str, Counter[str]] = {}
        self.packages: Counter[str] = Counter()

    def add_package_pair(self, raw: str, source: str, target: str, package: str) -> None:
        """Add a pair of a package, unless a rule excludes it."""
        kind = refine_kind(raw, source, package)
        source, target = tidy(source, raw == "interface"), tidy(target, raw == "interface")
        pair = key(source), key(target)
        fault = reason(source, target, kind) if source and target else "empty"
        fault = fault or self._duplicate_reason(pair, kind)
        self.rules.setdefault(kind, Counter())[fault or "kept"] += 1
        if not fault:
            self.seen.add(pair)
            self.sources[pair[0]] += kind != "words"
            self.packages[package] += 1
            self.pairs[kind].append((source, target))

    def _duplicate_reason(self, pair: Pair, kind: str) -> str:
        if pair in self.seen:
            return "seen before"
        if self.held_out & set(pair):
            return "in a test set"
        return "third translation" if kind != "words" and self.sources[pair[0]] >= 2 else ""

    def add_template_pair(self, kind: str, source: str, target: str) -> None:
        """Add a pair of our own templates, unless a rule excludes it."""
        fault = "in a test set" if self.held_out & {key(source), key(target)} else ""
        self.rules.setdefault(kind, Counter())[fault or "kept"] += 1
        if not fault:
            self.pairs[kind].append((source, target))


def dice(
    source_words: list[str],
    target_words: list[str],
    english: dict[str, set[int]],
    german: dict[str, set[int]],
) -> float:
    """Return Dice's coefficient of the words of two languages: how often they occur in the same pairs."""
    source_rows = (
        set.intersection(*sorted((english.get(w, set()) for w in source_words), key=len))
        if source_words
        else set()
    )
    target_rows = (
        set.intersection(*sorted((german.get(w, set()) for w in target_words), key=len))
        if target_words
        else set()
    )
    return (
        2 * len(source_rows & target_rows) / (len(source_rows) + len(target_rows))
        if source_rows and target_rows
        else 0.0
    )


def useful_words(pairs: dict[str, list[Pair]], work: Path) -> list[Pair]:
    """Return the short entries of the dictionary, those of common English words first.

    Each has the translation that occurs with it in sentences, or else its first translation. The frequency of
    a word is counted in the sentences and in WordNet's definitions.
    """
    usage: Counter[str] = Counter()
    english: dict[str, set[int]] = {}
    german: dict[str, set[int]] = {}
    position = 0
    for kind in ("tatoeba", "examples", "dialogue", "manuals"):
        for source, target in pairs[kind]:
            position += 1
            for word in set(WORD.findall(source.lower())):
                english.setdefault(word, set()).add(position)
                usage[word] += kind != "manuals"
            for word in set(WORD.findall(target)):
                german.setdefault(word, set()).add(position)
    best: dict[str, tuple[float, str, str]] = {}
    for source, target in pairs["words"]:
        score = dice(WORD.findall(source.lower()), WORD.findall(target), english, german)
        before = best.get(key(source))
        if before is None or score > before[0]:
            best[key(source)] = (score, source, target)
    for gloss in wordnet.glosses(work):
        usage.update(w.lower() for w in WORD.findall(gloss))
    common = []
    for _, source, target in best.values():
        words = [w.lower() for w in WORD.findall(source)]
        if len(words) <= 4 and len(target.split()) <= 5:
            common.append((min(usage[w] for w in words), source, target))
    common.sort(key=lambda entry: -entry[0])
    return [(s, t) for _, s, t in common]


def write_mixture(cleaning: Cleaning, data: Path) -> dict[str, dict[str, object]]:
    """Write data/clean.KIND.tsv and data/mix.tsv.gz, and return how much of each kind they contain."""
    rng = random.Random(13)
    mix: list[Pair] = []
    report = {}
    for kind, pairs in cleaning.pairs.items():
        write_pairs(data / f"clean.{kind}.tsv", pairs)
        times, limit = MIX[kind]
        selected = pairs
        if limit is not None and len(pairs) > limit:
            selected = pairs[:limit] if kind == "words" else rng.sample(pairs, limit)
        mix += selected * times
        report[kind] = {
            "pairs": len(pairs),
            "in the mix": len(selected) * times,
            "words in the mix": times * sum(len(t.split()) for _, t in selected),
            "rules": dict(cleaning.rules.get(kind, {})),
        }
    rng.shuffle(mix)
    write_pairs(data / "mix.tsv.gz", mix)
    return report


def main() -> None:
    parser = arguments(__doc__)
    add_corpora(parser)
    options = parser.parse_args()
    data = options.work / "data"
    tatoeba = [
        (c[0], c[1]) for c in rows(options.tatoeba / "train.en-de.tsv.gz", "--tatoeba names its folder")
    ]
    cleaning = Cleaning(held_sentences(options), tatoeba)
    for raw in ("words", "text", "interface"):
        for source, target, package in rows(data / f"raw.{raw}.tsv", "extract.py makes it"):
            cleaning.add_package_pair(raw, source, target, package)
    for kind in ("copy", "scenes"):
        for source, target in rows(data / f"made.{kind}.tsv", "made_up.py makes it"):
            cleaning.add_template_pair(kind, source, target)
    cleaning.pairs["words"] = useful_words(cleaning.pairs, options.work)
    report = write_mixture(cleaning, data)
    for kind in MIX:
        print(kind, report[kind])
    everything = report | {"packages": dict(cleaning.packages)}
    (data / "report.json").write_text(json.dumps(everything, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
