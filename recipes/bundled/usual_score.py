"""Store in a model's config.json the usual probabilities of its translations of sentences and of words.

    python usual_score.py MODEL --tatoeba FOLDER

A text whose translation is less probable than those of 99 of 100 sources of Tatoeba's dev set is marked as
unlike what the model knows. A single word is copied where at most a fifth of such improbable translations are
right, by the dictionary (data/clean.words.tsv of prepare.py), for words that Tatoeba often has.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

from workplace import WORD, add_corpora, arguments, rows

from uwaga import Translator
from uwaga.checkpoints.score_stats import summarise_scores

FREQUENT, SAMPLE = 30, 1200
"""Minimum number of sentences of Tatoeba that contain a frequent word, and number of such words to translate.
"""
MAX_RIGHT = 0.2
STEP = 0.05


def frequent_words(tatoeba: Path, work: Path) -> dict[str, set[str]]:
    """Return the frequent words, each with the words of its translations in the dictionary."""
    counts: Counter[str] = Counter()
    for source, *_ in rows(tatoeba / "train.en-de.tsv.gz", "--tatoeba names its folder"):
        counts.update({word.lower() for word in WORD.findall(source)})
    words = defaultdict[str, set[str]](set)
    for source, target, *_ in rows(work / "data/clean.words.tsv", "prepare.py makes it"):
        if source.isalpha() and counts[source.lower()] >= FREQUENT:
            words[source.lower()].update(WORD.findall(target.lower()))
    return words


def threshold(model: Translator, words: dict[str, set[str]]) -> float:
    """Return the score below which at most :data:`MAX_RIGHT` of the translations of words are right."""
    sample = random.Random(5).sample(sorted(words), SAMPLE)
    scored = []
    for word, translation in zip(sample, model.translate(sample), strict=True):
        if translation.confidence is not None:
            is_right = translation.text.lower().strip(".") in words[word]
            scored.append((translation.confidence.mean_log_prob, is_right))
    steps = [-STEP * step for step in range(4, 40)]
    for score in steps:
        below = [is_right for mean, is_right in scored if mean < score]
        if sum(below) <= MAX_RIGHT * len(below):
            return round(score, 2)
    return steps[-1]


def main() -> None:
    parser = arguments(__doc__)
    add_corpora(parser)
    parser.add_argument("model", type=Path, help="a model folder")
    options = parser.parse_args()
    sources = [row[0] for row in rows(options.tatoeba / "dev.en-de.tsv.gz", "--tatoeba names its folder")]
    path = options.model / "config.json"
    loaded = Translator.load(options.model, threads=1).model
    model = Translator(replace(loaded, score_stats=None))  # else unknown words would be copied
    stats = summarise_scores(model.translate(sources, split="never"))
    assert stats is not None
    word = threshold(model, frequent_words(options.tatoeba, options.work))
    config = json.loads(path.read_text(encoding="utf-8"))
    config["usual_score"] = stats.model_dump() | {"word": word}
    path.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(config["usual_score"])


if __name__ == "__main__":
    main()
