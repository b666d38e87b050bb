"""The search equals a reference written from the definitions, and is independent of the batch."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_inputs import inputs
from toy_decoders import RecurrentToy, ToyState, log_softmax

from uwaga.search import SearchOptions, search

VOCABULARY = 9
END = 2


@dataclasses.dataclass
class ReferenceHypothesis:
    """A running or finished hypothesis of the reference search."""

    tokens: list[int]
    log_probs: list[float]
    rank: float
    hidden: np.ndarray
    score: float = 0.0
    truncated: bool = False


def divisor(options: SearchOptions, length: int) -> float:
    length = max(length, 1)
    if options.length_formula == "none":
        return 1.0
    base = float(length) if options.length_formula == "average" else (5.0 + length) / 6.0
    return base**options.length_penalty


def banned(options: SearchOptions, tokens: list[int]) -> set[int]:
    banned_ids = {0, 1, *options.banned} | ({3} if not options.unknown else set())
    if len(tokens) < options.min_length:
        banned_ids.add(END)
    size = options.no_repeat_ngram
    if size:
        suffix = tokens[len(tokens) - size + 1 :] if size > 1 else []
        for i in range(len(tokens) - size + 1):
            if tokens[i : i + size - 1] == suffix:
                banned_ids.add(tokens[i + size - 1])
    return banned_ids


def reference_search(decoder, source, options, prefix, limit):
    """Search one sentence with a beam, one row at a time (M24); return the hypotheses, best first."""
    memory = decoder.encode([source])
    uncounted = len(prefix) if options.score_forced is False else 0
    running = [ReferenceHypothesis([], [], 0.0, np.zeros((1, decoder.width)))]
    finished: list[ReferenceHypothesis] = []
    for step in range(1, limit + 1):
        continuations = []
        for beam, hypothesis in enumerate(running):
            last = hypothesis.tokens[-1] if hypothesis.tokens else decoder.symbols.start
            state = ToyState(memory, 1, hypothesis.hidden)
            logits, hidden, _ = decoder.logits(np.array([last]), state)
            log_probs = log_softmax(logits)[0].astype(np.float32).astype(np.float64)
            forced = prefix[step - 1] if step <= len(prefix) else None
            if forced is None and step == 1 and options.first is not None:
                forced = options.first
            if options.force_end and step == limit:
                forced = END
            if forced is not None:
                tokens = [forced]
            else:
                tokens = [t for t in range(VOCABULARY) if t not in banned(options, hypothesis.tokens)]
            order = sorted(tokens, key=lambda t: (-logits[0, t], t))
            for rank, token in enumerate(order):
                gain = log_probs[token] if forced is None or options.score_forced is True else 0.0
                extended = ReferenceHypothesis(
                    [*hypothesis.tokens, token],
                    [*hypothesis.log_probs, log_probs[token]],
                    hypothesis.rank + gain,
                    hidden,
                )
                continuations.append((-extended.rank, beam, rank, extended))
        continuations.sort(key=lambda entry: entry[:3])
        best = [entry[3] for entry in continuations[: 2 * options.beam]]
        continued = []
        for rank, extended in enumerate(best):
            if extended.tokens[-1] == END or step == limit:
                if rank < options.beam:
                    extended.score = extended.rank / divisor(options, step - uncounted)
                    extended.truncated = extended.tokens[-1] != END or (options.force_end and step == limit)
                    finished.append(extended)
            else:
                continued.append(extended)
        if not best and not finished:
            for hypothesis in running:
                hypothesis.score = hypothesis.rank / divisor(options, step - 1 - uncounted)
                hypothesis.truncated = True
                finished.append(hypothesis)
        finished = sorted(finished, key=lambda hypothesis: -hypothesis.score)[: options.beam]
        running = continued[: options.beam]
        if not running:
            break
        if len(finished) == options.beam:
            if options.early_stopping is True or options.beam == 1:
                break
            if options.early_stopping == "estimate":
                score = running[0].rank / divisor(options, step - uncounted)
                if score <= finished[-1].score:
                    break
    return finished[: options.nbest]


@st.composite
def searches(draw):
    beam = draw(st.integers(1, 5))
    prefixes = st.lists(st.integers(3, VOCABULARY - 1), max_size=2)
    return (
        SearchOptions(
            beam=beam, nbest=draw(st.integers(1, beam)),
            length_penalty=draw(st.sampled_from([-0.5, 0.0, 0.6, 1.0, 2.0])),
            length_formula=draw(st.sampled_from(["average", "gnmt", "none"])),
            score_forced=draw(st.sampled_from([True, False, "length"])),
            early_stopping=draw(st.sampled_from([True, False, "estimate"])),
            min_length=draw(st.integers(0, 4)), max_length=draw(st.integers(4, 12)),
            max_ratio=draw(st.sampled_from([1.0, 2.0, math.inf])), max_extra=draw(st.integers(0, 4)),
            force_end=draw(st.booleans()), no_repeat_ngram=draw(st.integers(0, 3)),
            first=draw(st.sampled_from([None, 3, 4])), banned=draw(st.sampled_from([(), (5,), (5, 6)])),
            unknown=draw(st.booleans()), batch_tokens=draw(st.sampled_from([1, 30, 4096])),
        ),
        RecurrentToy(
            VOCABULARY, seed=draw(st.integers(0, 10_000)), end_bias=draw(st.sampled_from([-1.0, 0.5, 2.0])),
            max_target=draw(st.sampled_from([None, 9])),
        ),
        draw(
            st.lists(
                st.tuples(st.lists(st.integers(4, 49), max_size=6).map(lambda ids: [*ids, END]), prefixes),
                min_size=1,
                max_size=5,
            )
        ),
    )  # fmt: skip


def summary(hypotheses):
    return [
        (
            hypothesis.tokens, hypothesis.token_scores, hypothesis.score, hypothesis.log_prob,
            hypothesis.truncated,
        )
        for hypothesis in hypotheses
    ]  # fmt: skip


@given(searches())
def test_M24_search_matches_the_reference_implementation(case):
    options, decoder, sentences = case
    results = search(
        decoder,
        inputs([source for source, _ in sentences], prefixes=[prefix for _, prefix in sentences]),
        options,
    )
    for (source, prefix), hypotheses in zip(sentences, results, strict=True):
        if prefix and options.first is not None and prefix[0] != options.first:
            prefix = [options.first, *prefix]
        limit = min(options.max_length, decoder.max_target or 99)
        if options.max_ratio < math.inf:
            needed = max(options.min_length, len(prefix)) + 1
            limit = min(limit, max(needed, int(options.max_ratio * len(source)) + options.max_extra))
        expected = reference_search(decoder, source, options, prefix, limit)
        assert len(hypotheses) == len(expected)
        for hypothesis, reference in zip(hypotheses, expected, strict=True):
            tokens = (
                reference.tokens[:-1]
                if reference.tokens and reference.tokens[-1] == END
                else reference.tokens
            )
            scores = reference.log_probs[: len(tokens)] if reference.truncated else reference.log_probs
            assert list(hypothesis.tokens) == tokens
            assert hypothesis.token_scores == pytest.approx(scores, abs=1e-6)
            assert hypothesis.log_prob == pytest.approx(sum(scores), abs=1e-5)
            assert hypothesis.score == pytest.approx(reference.score, abs=1e-6)
            assert hypothesis.truncated is reference.truncated


@given(searches(), st.randoms(use_true_random=False), st.booleans())
def test_results_do_not_depend_on_the_batch(case, random, sample):
    """The n-best list of a sentence is bit-identical in any batch and in any order."""
    options, decoder, sentences = case
    if sample:
        options = dataclasses.replace(options, sample=True, temperature=0.8, top_k=6, top_p=0.9, seed=3)
    separate = [summary(search(decoder, inputs([s], prefixes=[p]), options)[0]) for s, p in sentences]
    shuffled = list(range(len(sentences)))
    random.shuffle(shuffled)
    for budget in (1, 40, 10_000):
        joint = search(
            decoder,
            inputs(
                [sentences[index][0] for index in shuffled],
                prefixes=[sentences[index][1] for index in shuffled],
            ),
            dataclasses.replace(options, batch_tokens=budget),
        )
        assert [summary(nbest) for nbest in joint] == [separate[index] for index in shuffled]
