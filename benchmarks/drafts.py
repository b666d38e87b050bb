"""Measure drafts at batch size 1: the time of a search with drafts over that of a search without them (M42).

    python benchmarks/drafts.py            # a random int8 model of the size of OPUS-MT
    python benchmarks/drafts.py --sentences 500 --json drafts.json

The drafts are correct, 80 % correct (each token is replaced with a probability of 0.2), all wrong, or the
greedy target with a shortlist. The results are compared bit for bit. Each sentence is searched with every
kind of draft before the next sentence; a figure is the ratio of total processor times.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--tokens", type=int, default=30, help="number of target tokens of each sentence")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    import torch
    from native_models import native_model, random_model

    from uwaga.decoder import Draft
    from uwaga.engine import Shortlist
    from uwaga.search import SearchInput, SearchOptions, search
    from uwaga.settings import TransformerSettings

    vocabulary = 58101
    shape = TransformerSettings(
        encoder_layers=6,
        decoder_layers=6,
        width=512,
        heads=8,
        feed_forward=2048,
        max_length=512,
        norm="post",
        tie="none",
    )
    model = random_model(shape, spread=2.0, source=vocabulary, target=vocabulary)
    with torch.no_grad():  # a random decoder repeats one token; small sublayers without biases make others
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
            elif name.startswith("decoder.") and parameter.dim() == 2:
                parameter.mul_(0.1)
    engine = native_model(model, "int8", threads=1)
    rng = np.random.default_rng(1)
    sources = [[*rng.integers(4, vocabulary, 25).tolist(), 3] for _ in range(arguments.sentences)]
    options = SearchOptions(beam=1, min_length=arguments.tokens, max_length=arguments.tokens + 1)

    def time_search(source, draft=None, decoder=engine):
        started = time.process_time()
        [nbest] = search(decoder, [SearchInput(source, draft=draft)], options)
        return time.process_time() - started, nbest

    plain = [time_search(source)[1] for source in sources]
    targets = [list(nbest[0].tokens) for nbest in plain]
    drafts = {"none": [None] * len(targets), "right": [Draft(target) for target in targets]}
    mixed = [
        [token if rng.random() < 0.8 else int(rng.integers(4, vocabulary)) for token in target]
        for target in targets
    ]
    drafts["80 % right"] = [Draft(draft) for draft in mixed]
    drafts["all wrong"] = [Draft(rng.integers(4, vocabulary, len(target)).tolist()) for target in targets]
    common = np.unique([token for target in targets for token in target] + list(range(1000))).astype(np.int32)
    empty = np.zeros(0, dtype=np.int32)
    short = engine.with_shortlist(
        Shortlist(common, np.zeros(vocabulary + 1, dtype=np.int32), empty, vocabulary)
    )
    seconds = dict.fromkeys([*drafts, "shortlist"], 0.0)
    for _ in range(3):
        for index, source in enumerate(sources):
            times = {}
            for name, kind_drafts in drafts.items():
                spent, times[name] = time_search(source, kind_drafts[index])
                seconds[name] += spent
            spent, limited = time_search(source, decoder=short)
            more, times["shortlist"] = time_search(source, Draft(limited[0].tokens))
            seconds["shortlist"] += spent + more
            for name, nbest in times.items():
                assert [replace(hypothesis, draft=None) for hypothesis in nbest] == plain[index], name
    ratios = {name: seconds["none"] / spent for name, spent in seconds.items()}
    for name, ratio in ratios.items():
        print(
            f"{name:12} {ratio:5.2f} x   {1000 * seconds[name] / 3 / arguments.sentences:7.1f} ms a sentence"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(ratios))


if __name__ == "__main__":
    main()
