"""Measure how near a remembered decoder state must be to be useful, by the likelihood of pairs given the
others.

    python benchmarks/memory_radius.py --model FOLDER --pairs FILE.tsv.gz --columns 1 2
    python benchmarks/memory_radius.py --pairs train.en-de.tsv.gz

For each token of a sample of pairs, its nearest states are looked up among those of the other pairs (M44). A
first table has, by their squared distance in variances of the features, how often the same token followed and
the model's probability of it; a second one the mean log-probability of tokens in the mixture, by radius.
"""

from __future__ import annotations

import argparse
import gzip
import random
from pathlib import Path

import numpy as np

import uwaga
from uwaga.decoder import Choice, Datastore
from uwaga.search.retrieval import forced_features, nearest
from uwaga.translator.states import TEMPERATURE_SHARE

RADII = (0.0, 0.1, 0.3, 0.5, 0.7, 1.0, 1.5)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument(
        "--pairs", type=Path, required=True, help="a table of sources and translations, gzipped"
    )
    parser.add_argument("--columns", type=int, nargs=2, default=(0, 1))
    parser.add_argument("--count", type=int, default=150)
    options = parser.parse_args()
    translator = uwaga.load(options.model) if options.model else uwaga.load()
    decoder = translator.decoder
    with gzip.open(options.pairs, "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    drawn = random.Random(0).sample(
        [row for row in rows if len(row[options.columns[0]]) < 400], options.count
    )
    pairs = translator.pair_ids([tuple(row[column] for column in options.columns) for row in drawn])
    start = decoder.symbols.start
    features = forced_features(
        decoder, [pair.source for pair in pairs], [pair.target for pair in pairs], start
    )
    probabilities = np.concatenate([forced_probabilities(decoder, pair, start) for pair in pairs])
    tokens = np.concatenate([pair.target for pair in pairs])
    owner = np.repeat(np.arange(len(pairs)), [len(pair.target) for pair in pairs])
    states = np.concatenate(features)
    variance = float(states.astype(np.float64).var(axis=0).sum())
    print(f"{len(states):,} states, variance {variance:.4g}")

    def datastore_for(index: int, radius: float) -> tuple[Datastore, np.ndarray]:
        others = owner != owner[index]
        radius *= variance
        datastore = Datastore(
            states[others].astype(np.float16), tokens[others], radius, TEMPERATURE_SHARE * radius
        )
        return datastore, tokens[others]

    sample = random.Random(1).sample(range(len(states)), min(600, len(states)))
    distances, same = [], []
    for index in sample:
        datastore, values = datastore_for(index, 100.0)
        entry = nearest(datastore, states[index]).entries[0]
        distances.append(
            float(np.square(datastore.keys[entry].astype(np.float64) - states[index]).sum()) / variance
        )
        same.append(bool(values[entry] == tokens[index]))
    order = np.argsort(distances)
    print("distance   same token   model")
    for part in np.array_split(order, 8):
        chosen = [sample[index] for index in part]
        print(
            f"{np.mean([distances[index] for index in part]):8.2f} "
            f"{np.mean([same[index] for index in part]):12.2f} "
            f"{np.mean(probabilities[chosen]):7.2f}"
        )
    print("radius   mean log-probability")
    for radius in RADII:
        total = 0.0
        for index in sample:
            share, weight = 0.0, 0.0
            if radius:
                datastore, values = datastore_for(index, radius)
                neighbours = nearest(datastore, states[index])
                weight = neighbours.weight
                share = float(neighbours.shares[values[neighbours.entries] == tokens[index]].sum())
            total += float(np.log((1 - weight) * probabilities[index] + weight * share + 1e-12))
        print(f"{radius:6.1f} {total / len(sample):10.3f}")


def forced_probabilities(decoder: object, pair: object, start: int) -> np.ndarray:
    """Return the model's probability of each token of a target."""
    state, token = decoder.start(decoder.encode([pair.source]), 1), start
    values = []
    for following in pair.target:
        step = decoder.step(np.array([token]), state, Choice(1, forced=np.array([following])))
        values.append(np.exp(step.log_probs[0, 0]))
        state, token = step.state, following
    return np.array(values)


if __name__ == "__main__":
    main()
