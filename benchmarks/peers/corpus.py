"""The corpus of the benchmark, and the batches that all systems train on, made by uwaga's own pipeline."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from uwaga.settings import Settings, parse, read_yaml
from uwaga.training.corpus import prepare_corpora

PAIRS = 29_000
DEV_PAIRS = 50
VOWELS, CONSONANTS = "aeiou", "bcdfghklmnprstvwz"


@dataclass(frozen=True)
class PreparedCorpus:
    """A corpus on disk with its settings, and the numbers of its first batches."""

    name: str
    settings: Settings
    file: Path  # settings, YAML
    batches: Path
    vocabulary: int
    symbols: dict[str, int]
    tokens: list[int]  # per update, target tokens with end symbols
    facts: dict[str, float]


def prepare(
    folder: Path, recipe: Path, corpus: tuple[Path, Path] | None, updates: int, changes: dict[str, int]
) -> PreparedCorpus:
    """Tokenise the corpus, or a generated one if None is given, and cut the first batches of its first epoch.

    ``changes`` are made to the training settings of the recipe. Results that take long are kept in
    ``folder``.
    """
    key = json.dumps([recipe.read_text(), [str(path.resolve()) for path in corpus or []]])
    corpus_path = folder / f"corpus-{hashlib.sha256(key.encode()).hexdigest()[:10]}"
    corpus_path.mkdir(parents=True, exist_ok=True)
    values = read_yaml(recipe)
    files = corpus or _synthetic(corpus_path)
    values["run"] = str(corpus_path)
    values["data"]["train"] = [str(path.resolve()) for path in files]
    values["data"]["dev"] = [str(path) for path in _dev(corpus_path)]
    values["training"] |= changes
    settings = parse(Settings, values, str(recipe))
    file = corpus_path / "settings.yaml"
    file.write_text(yaml.safe_dump(settings.model_dump(mode="json")), encoding="utf-8")
    corpora = prepare_corpora(settings, print)
    count, accumulate = corpora.train.count(0), settings.training.accumulate
    batches = updates * accumulate
    if count < batches:
        raise SystemExit(
            f"the corpus gives {count} batches of {settings.training.batch_tokens} tokens and {batches} are "
            "needed; take a larger corpus, fewer --updates or a smaller --batch-tokens"
        )
    cut = [corpora.train.batch(0, index) for index in range(batches)]
    source = [row[: n - 1] for b in cut for row, n in zip(b.source, b.source_lengths, strict=True)]
    target = [row[: n - 1] for b in cut for row, n in zip(b.target_out, b.target_lengths, strict=True)]
    path = corpus_path / "batches.npz"
    np.savez(
        path,
        source=np.concatenate(source),
        source_lengths=[len(row) for row in source],
        target=np.concatenate(target),
        target_lengths=[len(row) for row in target],
        sentences=[b.sentences for b in cut],
    )
    symbols = corpora.target.symbols
    real = sum(int(b.source_lengths.sum()) + b.tokens for b in cut)
    return PreparedCorpus(
        name=" + ".join(path.name for path in files),
        settings=settings,
        file=file,
        batches=path,
        vocabulary=corpora.target.size,
        symbols={name: int(getattr(symbols, name)) for name in ("start", "end", "pad", "unknown")},
        tokens=[sum(b.tokens for b in cut[i : i + accumulate]) for i in range(0, batches, accumulate)],
        facts={
            "mean_source": float(np.mean([len(row) for row in source])),
            "mean_target": float(np.mean([len(row) for row in target])),
            "sentences_per_batch": float(np.mean([b.sentences for b in cut])),
            "padding": 1 - real / sum(b.source.size + b.target_out.size for b in cut),
        },
    )


def _synthetic(folder: Path) -> tuple[Path, Path]:
    """Return two aligned files with the statistics of Multi30k: pairs, word types, Zipf's law and lengths.

    A model can learn nothing but the frequencies from them, which does not affect the training speed.
    """
    paths = folder / "synthetic.src", folder / "synthetic.tgt"
    if not all(path.exists() for path in paths):
        generator = np.random.default_rng(30_000)
        # Log-lengths in words of the two sides of Multi30k: means, deviations and correlation.
        spread, correlation = np.array([0.30, 0.33]), 0.85
        covariance = np.outer(spread, spread) * np.array([[1, correlation], [correlation, 1]])
        lengths = np.exp(generator.multivariate_normal([2.51, 2.46], covariance, PAIRS))  # (pairs, 2)
        for side, (path, types) in enumerate(zip(paths, (10_000, 18_000), strict=True)):
            words = np.array(list(_words(generator, types)))
            shares = 1 / (np.arange(types) + 3.0)
            counts = np.clip(np.rint(lengths[:, side]), 3, 45).astype(int)  # (pairs,)
            sample = generator.choice(words, size=int(counts.sum()), p=shares / shares.sum())
            lines = (" ".join(row) for row in np.split(sample, np.cumsum(counts)[:-1]))
            partial = path.with_suffix(".partial")
            partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
            partial.replace(path)
    return paths


def _words(generator: np.random.Generator, count: int) -> Iterator[str]:
    """Yield different words of one to five syllables; frequent words come first and are short."""
    words_seen: set[str] = set()
    while len(words_seen) < count:
        max_length = 2 + int(3 * len(words_seen) / count)
        syllables = int(generator.integers(1, max_length + 1))
        letters = [
            (generator.choice(list(CONSONANTS)), generator.choice(list(VOWELS))) for _ in range(syllables)
        ]
        word = "".join(part for pair in letters for part in pair)
        if word not in words_seen:
            words_seen.add(word)
            yield word


def _dev(folder: Path) -> tuple[Path, Path]:
    """Return a small development corpus, which the trainer requires and this benchmark does not use."""
    paths = folder / "dev.src", folder / "dev.tgt"
    for path in paths:
        path.write_text("ba be bi bo bu\n" * DEV_PAIRS, encoding="utf-8")
    return paths
