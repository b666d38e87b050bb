"""Prepare the data of stages 2 to 5: a model's own translations that contain only German words.

    python own.py MODEL data/own.tsv --seed 17 --copies data/more.copy.tsv
    python own.py MODEL data/own2.tsv --seed 29 --sentences 76000
    python own.py MODEL data/own3.tsv --seed 41 --sentences 60000

English sentences (Tatoeba's, our scenes, WordNet's examples, scenes with WordNet's nouns) and of the
model's eight best translations by beam search, among those without a word that hunspell does not know
(words of the source that begin with a capital apart), the one nearest the reference by sentence BLEU, or
without a reference the best. A sentence none of whose translations is free of such words is left out. No
sentence of a test set is among them. ``--copies`` writes other values of made_up.py's training templates
too.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from pathlib import Path

import wordnet
from templates import COPY, fill
from values import Values, training_names, upper
from workplace import (
    WORD,
    add_corpora,
    arguments,
    existing,
    held_sentences,
    key,
    rows,
    unknown_words,
    write_pairs,
)

from uwaga import Translator
from uwaga.search.mbr import utilities

CHUNK_SIZE, BEAM = 4096, 8
HARD = re.compile(r"\{(phone|clock|price|mail|url|address|full|code|thousands|year)")
FRAMES = """\
A man with a {n}.
A woman is holding a {n}.
Two people are standing next to a {n}.
A {n} and a {m} on a table.
A young man is looking at a {n}.
A {n} is lying on the grass.
A girl is carrying a {n} through the park.
People are sitting around a {n}.
A {n} in front of a {m}.
A child is playing with a {n}.
A group of people is walking past a {n}.
An old man is repairing a {n} in the street.
A boy in a red shirt is jumping over a {n}.
A dog is running with a {n} in its mouth.
A woman in a white dress is cleaning the {n}.
Several people are watching a {n}.
A {n} is working on a {m}.
A {n} wearing a blue {m}.
""".splitlines()


def more_copies(rng: random.Random) -> list[tuple[str, str]]:
    """Return pairs from the training templates of made_up.py, with those that are hard to copy more often."""
    values = Values(rng, training_names())
    hard = [template for template in COPY if HARD.search(template)]
    templates = (t for n in range(70_000) for t in (COPY[n % len(COPY)], hard[n % len(hard)]))
    return sorted({fill(template, values) for template in templates})


def frame_nouns(nouns: list[str], rng: random.Random) -> list[str]:
    """Return four scenes for each noun."""
    examples = []
    for noun in nouns:
        for frame in rng.sample(FRAMES, 4):
            text = frame.format(n=noun, m=rng.choice(nouns))
            examples.append(upper(re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)))
    return examples


def sentences(work: Path, rng: random.Random, tatoeba: int) -> list[tuple[str, str]]:
    """Return English sentences in random order, each with its reference or an empty string."""
    usage: dict[str, int] = {}
    pairs: dict[str, list[tuple[str, str]]] = {}
    for kind in ("tatoeba", "scenes", "examples", "dialogue"):
        instruction = "prepare.py makes it"
        pairs[kind] = [(row[0], row[1]) for row in rows(work / f"data/clean.{kind}.tsv", instruction)]
        for source, _ in pairs[kind]:
            for word in set(WORD.findall(source.lower())):
                usage[word] = usage.get(word, 0) + 1
    examples = wordnet.examples(work)
    nouns = wordnet.nouns(work, {w: 5 for t in examples for w in WORD.findall(t.lower())} | usage)
    scenes = frame_nouns(nouns, rng)
    sources = rng.sample(pairs["tatoeba"], min(tatoeba, len(pairs["tatoeba"])))
    sources += rng.sample(pairs["scenes"], min(14_000, len(pairs["scenes"])))
    sources += [(text, "") for text in rng.sample(examples, min(20_000, len(examples)))]
    sources += [(text, "") for text in rng.sample(scenes, min(34_000, len(scenes)))]
    rng.shuffle(sources)
    return sources


def nearest(source: str, reference: str, texts: list[str], unknown: set[str]) -> str | None:
    """Return the translation to learn from, or None if there is none."""
    names = {word for word in WORD.findall(source[1:]) if word[0].isupper()}
    clean = [text for text in texts if not (set(WORD.findall(text)) & unknown) - names]
    if not clean or len(clean[0]) > 3 * len(source) + 20:
        return None
    if not reference:
        return clean[0]
    scores = utilities(clean, [reference], "bleu")[:, 0]
    return clean[int(scores.argmax())]


def translate_sentences(
    model: Translator, work: Path, todo: list[tuple[str, str]], beam: int
) -> Iterable[tuple[str, str]]:
    """Yield each sentence that has a translation of known words, with this translation."""
    count = first = 0
    for start in range(0, len(todo), CHUNK_SIZE):
        part = todo[start : start + CHUNK_SIZE]
        answers = model.translate([source for source, _ in part], beam=beam, nbest=beam, split="never")
        lists = [[hypothesis.text for hypothesis in (answer, *answer.alternatives)] for answer in answers]
        words = sorted({word for texts in lists for text in texts for word in WORD.findall(text)})
        unknown = set(unknown_words(work, words))
        for (source, reference), texts in zip(part, lists, strict=True):
            best = nearest(source, reference, texts, unknown)
            if best:
                count += 1
                first += best == texts[0]
                yield source, best
        completed = start + len(part)
        print(
            f"{completed} of {len(todo)} sentences, {count} kept, {first} of them the model's best",
            flush=True,
        )


def main() -> None:
    parser = arguments(__doc__)
    add_corpora(parser)
    parser.add_argument("model", type=Path, help="a model folder")
    parser.add_argument("output", type=Path, help="the TSV file to write")
    parser.add_argument("--seed", type=int, default=17, help="seed for choosing sentences")
    parser.add_argument("--sentences", type=int, default=104_000, help="maximum number of sentences")
    parser.add_argument(
        "--tatoeba-sentences",
        type=int,
        default=36_000,
        help="number of these sentences that are from Tatoeba",
    )
    parser.add_argument("--copies", type=Path, help="write other values to copy here")
    options = parser.parse_args()
    model = Translator.load(existing(options.model, "uwaga average makes it"), threads=1, dtype="int8")
    held_out = held_sentences(options)
    rng = random.Random(options.seed)
    copies = more_copies(rng)
    if options.copies:
        tests = rows(options.work / "data/test.copy.tsv", "made_up.py makes it")
        out = held_out | {key(row[0]) for row in tests}
        write_pairs(options.copies, ((s, t) for s, t in copies if key(s) not in out))
    todo = [
        pair
        for pair in sentences(options.work, rng, options.tatoeba_sentences)
        if key(pair[0]) not in held_out
    ]
    write_pairs(options.output, translate_sentences(model, options.work, todo[: options.sentences], BEAM))


if __name__ == "__main__":
    main()
