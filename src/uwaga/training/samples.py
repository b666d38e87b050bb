"""What of a validation is kept for people: some translations, and BLEU by the length of the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from uwaga.data.corpus import Pair
from uwaga.evaluation import evaluate

KEPT = 5
BOUNDS = (5, 10, 20, 40)
"""Most words of the sources of each group but the last."""


@dataclass(frozen=True)
class Sample:
    """A dev sentence, its translation now, and its first reference."""

    source: str
    translation: str
    reference: str


@dataclass(frozen=True)
class LengthScore:
    """BLEU of the sentences whose sources have ``least`` to ``most`` words (None: any number)."""

    least: int
    most: int | None
    sentences: int
    bleu: float


def choose_samples(pairs: Sequence[Pair], texts: Sequence[str]) -> tuple[Sample, ...]:
    """The translations of :data:`KEPT` sentences spread over a dev set, the same ones at each validation."""
    count = min(KEPT, len(pairs))
    indices = [number * len(pairs) // count for number in range(count)]
    return tuple(Sample(pairs[at].source, texts[at], pairs[at].references[0]) for at in indices)


def scores_by_length(pairs: Sequence[Pair], texts: Sequence[str], tokenize: str) -> tuple[LengthScore, ...]:
    """BLEU of sentences of like length; groups without a sentence are left out."""
    found = []
    for least, most in zip((1, *(bound + 1 for bound in BOUNDS)), (*BOUNDS, None), strict=True):
        chosen = [
            (text, pair.references)
            for pair, text in zip(pairs, texts, strict=True)
            if max(1, len(pair.source.split())) >= least
            and (most is None or max(1, len(pair.source.split())) <= most)
        ]
        if chosen:
            report = evaluate(
                [text for text, _ in chosen], [one for _, one in chosen], ("bleu",), tokenize=tokenize
            )
            found.append(LengthScore(least, most, len(chosen), report["bleu"].value))
    return tuple(found)


def samples_record(samples: Sequence[Sample], lengths: Sequence[LengthScore]) -> dict[str, Any]:
    """What JSON can hold of them."""
    return {
        "samples": [
            {"source": one.source, "translation": one.translation, "reference": one.reference}
            for one in samples
        ],
        "by_length": [
            {"least": one.least, "most": one.most, "sentences": one.sentences, "bleu": one.bleu}
            for one in lengths
        ],
    }
