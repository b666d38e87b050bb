"""Prepare the data of stage 6: interface texts on which sources agree, everyday phrases, special characters.

    python interface_stage.py test      interface_test.tsv, once: it is kept in the repository
    python interface_stage.py           data/{interface,interface_single,commonest,symbols,everyday}.tsv

Of an English text the translation is learned that most sources have, those of interface_words.tsv (written
by hand) before them; it stands in data/interface.tsv the more often the more sources it has, in the cases and
with the ends that texts of programs have. What one source alone has goes into interface_single.tsv, if
hunspell knows its words. The commonest, of interface_words.tsv or of eight sources, are in commonest.tsv too.
Whatever everyday_test.tsv and the held-out half of interface_test.tsv hold is taken out of every file, also
of the earlier stages', which are written as data/stage6.*.gz.
"""

from __future__ import annotations

import random
import re
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from workplace import add_corpora, arguments, held_sentences, key, of_known_words, rows, write_pairs

RECIPE = Path(__file__).parent
Pair = tuple[str, str]
FAMILIAR = re.compile(
    r"\b(?:du|dich|dir|dein(?:e[mnrs]?)?|hast|bist|kannst|möchtest|willst|ihr|euch|eure[nrms]?)\b",
    re.IGNORECASE,
)
QUESTION = re.compile(
    r"(?:are|do|does|is|would|should|can|could|will|have|what|which|where|how|who|why|when)\b", re.IGNORECASE
)
MOST, WRITTEN_VOTES, COMMON = 16, 60, 8
EARLIER = (
    "known.tsv.gz",
    "known.tatoeba.tsv.gz",
    "own4.tsv",
    "own5.tsv",
    "captions.tsv",
    "twice.copy.tsv",
    "final.copy.tsv",
)
EMOJI = "😀 😂 😊 😍 😎 😢 😡 👍 👎 👋 🙏 🎉 ❤️ ✅ ❌ ⚠️ ⭐ 🔥 🚀 💡 📧 📞 🔒 🏠 🛒 ☀️ ✓ ★ ♥ ©".split()
PRICES = """\
It costs {}.	Es kostet {}.
It costs {} a month.	Es kostet {} im Monat.
The price is {}.	Der Preis beträgt {}.
Total: {}	Gesamt: {}
Price: {}	Preis: {}
{} per month	{} pro Monat
{} per year	{} pro Jahr
only {}	nur {}
from {}	ab {}
Free shipping from {}	Kostenloser Versand ab {}
I paid {} for it.	Ich habe {} dafür bezahlt.
A ticket costs {}.	Eine Fahrkarte kostet {}.
You owe me {}.	Du schuldest mir {}.
""".splitlines()


def groups(work: Path) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """Yield each English text, and its translations with the number of sources that have them."""
    source = ""
    translations: list[tuple[str, int]] = []
    for text, target, votes, _, _ in rows(work / "data/interfaces.tsv", "interfaces.py makes it"):
        if text != source and source:
            yield source, translations
            translations = []
        source = text
        translations.append((target, int(votes)))
    yield source, translations


def upper_first(text: str) -> str:
    return text[:1].upper() + text[1:]


def best(source: str, translations: list[tuple[str, int]]) -> tuple[str, int]:
    """Return the translation of most sources, and their number; the case of its first letter is ignored."""
    votes: Counter[str] = Counter()
    for target, count in translations:
        votes[upper_first(target) if source[0].isupper() else target] += count
    target, count = max(
        votes.items(), key=lambda item: (item[1] - 0.5 * bool(FAMILIAR.search(item[0])), -len(item[0]))
    )
    return target, count


def make_test(options: Namespace) -> None:
    """Write 150 of the most common texts, which are training data, and 150 rarer ones, which are not."""
    rng = random.Random(6)
    written = {key(row[0]) for row in rows(RECIPE / "interface_words.tsv")} | {
        key(row[0]) for row in rows(RECIPE / "phrases.tsv")
    }
    known, rare = [], []
    for source, translations in groups(options.work):
        total = sum(count for _, count in translations)
        target, count = best(source, translations)
        if key(source) == key(target) or count < 0.4 * total or source != source.strip() or len(source) < 3:
            continue
        accepted = {
            upper_first(t) if source[0].isupper() else t for t, n in translations if n >= max(2, total / 20)
        }
        line = "\t".join([source, target, *sorted(accepted - {target})])
        if count >= 25:
            known.append(line)
        elif (
            3 <= count <= 8
            and key(source) not in written
            and 2 <= len(source.split()) <= 7
            and source[0].isupper()
        ):
            rare.append(line)
    with (RECIPE / "interface_test.tsv").open("w", encoding="utf-8") as file:
        for name, lines in (("known", known), ("held out", rare)):
            print(name, len(lines))
            file.writelines(f"{name}\t{line}\n" for line in rng.sample(lines, 150))


def spellings(source: str, target: str, rng: random.Random) -> Pair:
    """Return a pair with case and punctuation as a program may show it."""
    words = source.split()
    draw = rng.random()
    if draw < 0.1 and len(words) <= 6:
        source = source.title() if "'" not in source else source
    elif draw < 0.3 and source[0].isupper() and not source.isupper():
        source = source[0] + re.sub(r"\b[A-Z](?=[a-z])", lambda match: match[0].lower(), source[1:])
    elif draw < 0.4:
        source = source.lower()
    elif draw < 0.43 and len(words) == 1:
        source = source.upper()
    if source[-1].isalnum() and target[-1].isalnum() and len(words) <= 6:
        draw = rng.random()
        if draw < 0.06 and QUESTION.match(source) is None:
            return source + "…", target + "…"
        if draw < 0.12:
            return source + ":", target + ":"
        if draw < 0.15:
            return source + "!", target + "!"
        if draw < 0.18:
            return source + ".", target + "."
        if draw < 0.2:
            return source + "?", target + "?"
    return source, target


def symbols(pairs: list[Pair], phrases: list[Pair], rng: random.Random) -> Iterator[Pair]:
    """Yield texts with quotes, arrows, symbols and prices."""
    sentences = [pair for pair in phrases if pair[0][-1] in ".!?"]
    for _ in range(1500):
        source, target = rng.choice(sentences)
        yield f"“{source}”", f"„{target}“"
    for _ in range(2000):
        source, target = rng.choice(sentences + pairs[:3000])
        emoji = rng.choice(EMOJI)
        yield (
            (f"{source} {emoji}", f"{target} {emoji}")
            if rng.random() < 0.7
            else (f"{emoji} {source}", f"{emoji} {target}")
        )
    for _ in range(2500):
        mark = rng.choice(("→", "→", ">", "|", "/", "·", "–", "×", "•", "&", "+"))
        labels = rng.sample(pairs[:3000], rng.choice((2, 2, 3)))
        if all(len(source.split()) <= 3 for source, _ in labels):
            german = "und" if mark == "&" else mark
            yield f" {mark} ".join(s for s, _ in labels), f" {german} ".join(t for _, t in labels)
    for _ in range(5000):
        template, german = rng.choice(PRICES).split("\t")
        sign = rng.choice("€€$$£")
        euros = rng.choice((rng.randint(1, 99), rng.randint(1, 999)))
        cents = rng.choice(("", f".{rng.randint(0, 99):02}", ".99", ".50"))
        price = rng.choice((f"{sign}{euros}{cents}",) * 3 + (f"{euros}{cents} {sign}",))
        yield template.format(price), german.format(f"{euros}{cents.replace('.', ',')} {sign}")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("what", nargs="?", choices=("test",))
    add_corpora(parser)
    options = parser.parse_args()
    if options.what == "test":
        make_test(options)
        return
    data: Path = options.work / "data"
    rng = random.Random(61)
    tested = held_sentences(options) | {key(row[0]) for row in rows(data / "test.copy.tsv")}
    kept_out = {key(row[1]) for row in rows(RECIPE / "interface_test.tsv") if row[0] == "held out"}
    kept_out |= {key(cell) for row in rows(RECIPE / "everyday_test.tsv") for cell in row}

    written = [(row[0], row[1]) for row in rows(RECIPE / "interface_words.tsv")]
    written_keys = {key(source) for source, _ in written}
    several = [(source, target, WRITTEN_VOTES) for source, target in written]
    single = []
    for source, translations in groups(options.work):
        target, votes = best(source, translations)
        if key(source) in written_keys or not key(source) or key(source) in kept_out or key(source) in tested:
            continue
        if votes > 1:
            several.append((source, target, votes))
        elif not FAMILIAR.search(target) and source[0].isupper() and key(source) != key(target):
            single.append((source, target))
    several.sort(key=lambda row: -row[2])
    single = of_known_words(options.work, single)
    write_pairs(data / "interface_single.tsv", single)

    lines: list[Pair] = []
    for source, target, votes in several:
        lines.append((source, target))
        lines += [spellings(source, target, rng) for _ in range(min(MOST, round(votes**0.6)))]
    rng.shuffle(lines)
    write_pairs(data / "interface.tsv", lines)

    common = [
        (s, t)
        for s, t, votes in several
        if votes >= COMMON and key(s) not in written_keys and key(s) != key(t)
    ]
    common += written * 2 + [spellings(source, target, rng) for source, target in written]
    write_pairs(data / "commonest.tsv", common)

    phrases = [(row[0], row[1]) for row in rows(RECIPE / "phrases.tsv")]
    phrases = [(s, t) for s, t in phrases if not {key(s), key(t)} & (tested | kept_out)]
    write_pairs(data / "everyday.tsv", phrases)
    pairs = [(source, target) for source, target, _ in several if target[-1].isalnum()]
    write_pairs(data / "symbols.tsv", symbols(pairs, phrases, rng))
    for name in EARLIER:
        selected = ((s, t) for s, t, *_ in rows(data / name) if not {key(s), key(t)} & kept_out)
        write_pairs(data / f"stage6.{name.removesuffix('.gz')}.gz", selected)
    print(f"{len(several)} texts of several sources on {len(lines)} lines, {len(single)} of one")


if __name__ == "__main__":
    main()
