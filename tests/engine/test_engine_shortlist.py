"""Shortlists on the engine: the softmax over each sentence's list, bit-identical in any batch."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from native_models import random_shortlist
from search_inputs import inputs

from uwaga.decoder import Choice, Sampling, Symbols
from uwaga.engine import NativeModel, Shortlist
from uwaga.engine.cpu import available_isas
from uwaga.engine.layout import stored_shapes
from uwaga.engine.packing import pack
from uwaga.errors import ModelError
from uwaga.search import SearchOptions, search
from uwaga.settings import TransformerSettings

SYMBOLS = Symbols(start=2, end=3, pad=0, unknown=1)
VOCABULARY = 131  # not a multiple of the panel size
SHAPE = TransformerSettings(
    encoder_layers=1, decoder_layers=2, width=32, heads=4, feed_forward=48, max_length=40, norm="pre",
    tie="none", output_bias=True,
)  # fmt: skip
GREEDY = SearchOptions(beam=1, max_length=12)
OPTIONS = {
    "greedy": GREEDY,
    "beam": SearchOptions(beam=4, nbest=2, max_length=12),
    "samples": SearchOptions(sample=True, nbest=2, max_length=12, seed=4),
}
PRECISIONS = ["float32", "bfloat16", "int8"]


@cache
def engine(precision="float32", threads=1, isa=None, shape=SHAPE):
    rng = np.random.default_rng(5)
    shapes = stored_shapes(shape, VOCABULARY, VOCABULARY)

    def read(name):
        spread = 2 * shapes[name][-1] ** -0.5 if len(shapes[name]) == 2 else 0.2
        return (rng.normal(0, spread, shapes[name]) + ("norm.weight" in name)).astype(np.float32)

    packed = pack(shape, (VOCABULARY, VOCABULARY), read, precision)
    return NativeModel(shape, SYMBOLS, (VOCABULARY, VOCABULARY), packed, threads, isa)


def sources(count, seed=1, longest=9):
    rng = np.random.default_rng(seed)
    return [(*rng.integers(4, VOCABULARY, rng.integers(0, longest)).tolist(), 3) for _ in range(count)]


def full_list():
    return Shortlist(
        np.arange(VOCABULARY, dtype=np.int32),
        np.zeros(VOCABULARY + 1, dtype=np.int32),
        np.zeros(0, dtype=np.int32),
        VOCABULARY,
    )


SHORTLIST = random_shortlist(VOCABULARY, VOCABULARY)
SOURCES = sources(80)


@cache
def engine_with_shortlist(precision="float32", threads=1, isa=None):
    return engine(precision, threads, isa).with_shortlist(SHORTLIST)


def state_after_tokens(model, texts, beams=1, steps=2, seed=2):
    """Return the decoder state after some tokens, and the tokens of the next step."""
    rng = np.random.default_rng(seed)
    state = model.start(model.encode(texts), beams)
    tokens = np.full(len(texts) * beams, 2)
    for _ in range(steps):
        state = model.step(tokens, state, Choice(1)).state
        tokens = rng.integers(4, VOCABULARY, len(tokens))
    return state, tokens


def logits_of(model, texts, beams=1):
    """Return log-probabilities (rows, vocabulary) without a shortlist: logits plus a constant per row."""
    state, tokens = state_after_tokens(model, texts, beams)
    return model.step(tokens, state, Choice(1, all_tokens=True)).log_probs.astype(np.float64)


def restricted_log_probs(logits, lists):
    """Return the log-softmax over the list of each row, -inf for other tokens."""
    log_probs = np.full_like(logits, -np.inf)
    for row, allowed in enumerate(lists):
        allowed_logits = logits[row, allowed]
        log_probs[row, allowed] = (
            allowed_logits
            - np.log(np.exp(allowed_logits - allowed_logits.max()).sum())
            - allowed_logits.max()
        )
    return log_probs


@pytest.mark.numerical
@pytest.mark.parametrize("isa", available_isas())
@pytest.mark.parametrize("precision", PRECISIONS)
def test_probabilities_are_the_softmax_over_the_shortlist(precision, isa):
    model, texts, beams = engine_with_shortlist(precision, isa=isa), SOURCES[:9], 2
    lists = [model.shortlist.allowed_tokens(text) for text in texts for _ in range(beams)]
    assert all(
        3 in tokens_list and 1 in tokens_list and np.all(np.diff(tokens_list) > 0) for tokens_list in lists
    )
    assert len({len(tokens_list) for tokens_list in lists}) > 3
    expected = restricted_log_probs(logits_of(engine(precision, isa=isa), texts, beams), lists)
    state, tokens = state_after_tokens(model, texts, beams)
    log_probs = model.step(tokens, state, Choice(1, all_tokens=True)).log_probs
    assert np.array_equal(np.isinf(log_probs), np.isinf(expected))
    assert np.allclose(log_probs, expected, atol=2e-5)
    for count in (1, 5, 100, VOCABULARY):
        step = model.step(tokens, state, Choice(count))
        order = np.argsort(-log_probs, axis=1, kind="stable")[:, :count]  # ties: the lower token
        best = np.take_along_axis(log_probs, order, axis=1)
        assert np.array_equal(step.log_probs, best)
        assert np.array_equal(step.tokens[best > -np.inf], order[best > -np.inf])


@pytest.mark.numerical
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("search_kind", sorted(OPTIONS))
def test_shortlist_of_all_tokens_gives_the_same_results_as_no_shortlist(precision, search_kind):
    """Logits and thus tokens are bit-identical. They are summed in another order, so scores agree within the
    tolerance of the log-sum-exp in native/tests."""
    expected = search(engine(precision), inputs(SOURCES), OPTIONS[search_kind])
    results = search(engine(precision).with_shortlist(full_list()), inputs(SOURCES), OPTIONS[search_kind])
    for expected_nbest, nbest in zip(expected, results, strict=True):
        for expected_hypothesis, hypothesis in zip(expected_nbest, nbest, strict=True):
            assert expected_hypothesis.tokens == hypothesis.tokens
            assert np.allclose(
                expected_hypothesis.token_scores, hypothesis.token_scores, rtol=1e-6, atol=1e-5
            )


def random_choice(rng, rows):
    """Return a function that creates a random :class:`Choice` for a range of rows."""
    kind = rng.integers(4)
    banned = rng.integers(0, [rows, VOCABULARY], (rows * 9, 2)) if rng.integers(2) else None
    forced = rng.integers(-1, VOCABULARY, rows) if rng.integers(2) else None
    uniform = rng.random(rows)
    renormalise, top_k = bool(rng.integers(2)), int(rng.integers(0, 5))

    def choice_of_rows(first, last):
        row_bans = banned
        if banned is not None:
            row_bans = banned[(banned[:, 0] >= first) & (banned[:, 0] < last)] - [first, 0]
        return Choice(
            count=1 if kind == 1 else 6,
            banned=row_bans,
            forced=None if forced is None else forced[first:last],
            sampling=Sampling(uniform[first:last], 1.3, top_k, 0.9) if kind == 1 else None,
            attention=True,
            renormalise=renormalise,
            all_tokens=bool(kind == 2),
        )

    return choice_of_rows


@given(st.integers(0, 10**6))
def test_results_of_a_sentence_do_not_depend_on_joins_and_selections(seed):
    """Compare random joins, selections and steps with separate steps of each sentence."""
    rng = np.random.default_rng(seed)
    model, beams = engine_with_shortlist("int8", int(rng.integers(1, 4))), int(rng.integers(1, 3))

    def enter(count):
        texts = [SOURCES[index] for index in rng.integers(0, len(SOURCES), count)]
        return model.start(model.encode(texts), beams), [
            model.start(model.encode([source]), beams) for source in texts
        ]

    state, separate = enter(int(rng.integers(1, 6)))
    for _ in range(int(rng.integers(2, 9))):
        tokens = rng.integers(4, VOCABULARY, len(separate) * beams)
        choice = random_choice(rng, len(tokens))
        joint_step = model.step(tokens, state, choice(0, len(tokens)))
        for index, separate_state in enumerate(separate):
            rows = slice(index * beams, (index + 1) * beams)
            single = model.step(tokens[rows], separate_state, choice(rows.start, rows.stop))
            assert np.array_equal(single.tokens, joint_step.tokens[rows])
            assert np.array_equal(single.log_probs, joint_step.log_probs[rows])
            width = single.attention.shape[1]
            assert np.array_equal(single.attention, joint_step.attention[rows, :width])
            separate[index] = single.state
        state = joint_step.state
        if rng.integers(3) == 0:
            selected = rng.permutation(len(separate))[: int(rng.integers(1, len(separate) + 1))]
            state = state.select(selected)
            separate = [separate[index] for index in selected]
        if rng.integers(3) == 0:
            added_state, added = enter(int(rng.integers(1, 4)))
            state, separate = model.join(state, added_state), separate + added


@pytest.mark.parametrize("precision", PRECISIONS)
def test_forced_tokens_outside_the_shortlist_are_scored(precision):
    model, texts = engine_with_shortlist(precision), SOURCES[:12]
    lists = [model.shortlist.allowed_tokens(text) for text in texts]
    rng = np.random.default_rng(8)
    outside = [int(rng.choice(np.setdiff1d(np.arange(VOCABULARY), tokens_list))) for tokens_list in lists]
    listed = [int(rng.choice(tokens_list)) for tokens_list in lists]
    logits = logits_of(engine(precision), texts)
    state, tokens = state_after_tokens(model, texts)
    for forced in (outside, listed):
        extended = [np.union1d(tokens_list, token) for tokens_list, token in zip(lists, forced, strict=True)]
        expected = restricted_log_probs(logits, extended)[np.arange(12), forced]
        step = model.step(tokens, state, Choice(3, forced=np.array(forced)))
        assert step.tokens[:, 0].tolist() == forced
        assert np.allclose(step.log_probs[:, 0], expected, atol=2e-5)
        assert np.isinf(step.log_probs[:, 1:]).all()
    prefixes = [[token, token] for token in outside]
    for options in (GREEDY, OPTIONS["beam"]):
        for [best, *_], prefix, allowed in zip(
            search(model, inputs(texts, prefixes=prefixes), options), prefixes, lists, strict=True
        ):
            assert list(best.tokens[:2]) == prefix
            assert set(best.tokens[2:]) <= set(allowed.tolist())


def test_steps_with_bans_or_sampling_choose_only_shortlisted_tokens():
    model, text = engine_with_shortlist(), SOURCES[:1]
    allowed = model.shortlist.allowed_tokens(text[0])
    state, tokens = state_after_tokens(model, text)
    log_probs = model.step(tokens, state, Choice(1, all_tokens=True)).log_probs[0]
    banned = allowed[::2]
    pairs = np.stack([np.zeros(len(banned), dtype=np.int64), banned], axis=1)
    allowed_left = np.setdiff1d(allowed, banned)
    plain = model.step(tokens, state, Choice(len(allowed_left), banned=pairs))
    assert sorted(plain.tokens[0].tolist()) == allowed_left.tolist()
    assert np.array_equal(plain.log_probs[0], log_probs[plain.tokens[0]])
    renormalised = model.step(tokens, state, Choice(len(allowed_left), banned=pairs, renormalise=True))
    assert np.isclose(np.exp(renormalised.log_probs.astype(np.float64)).sum(), 1, atol=1e-5)
    all_pairs = np.stack([np.zeros(len(allowed), dtype=np.int64), allowed], axis=1)
    for renormalise in (False, True):
        no_candidates = model.step(tokens, state, Choice(2, banned=all_pairs, renormalise=renormalise))
        assert np.isinf(no_candidates.log_probs).all()
    # The sampled token is the first at which the cumulative descending probability exceeds the draw.
    order = allowed[np.argsort(-log_probs[allowed], kind="stable")]
    cumulative = np.cumsum(np.exp(log_probs[order].astype(np.float64)))
    for uniform in np.random.default_rng(1).random(50):
        if np.abs(cumulative - uniform).min() > 1e-4:
            step = model.step(tokens, state, Choice(1, sampling=Sampling(np.array([uniform]))))
            assert step.tokens[0, 0] == order[np.searchsorted(cumulative, uniform)]


def test_states_with_and_without_a_shortlist_cannot_be_joined():
    full_model, listed = engine("float32", 1, None), engine_with_shortlist()
    full_state, _ = state_after_tokens(full_model, SOURCES[:2], steps=0)
    listed_state, _ = state_after_tokens(listed, SOURCES[:2], steps=0)
    for pair in ((full_state, listed_state), (listed_state, full_state)):
        with pytest.raises(ValueError, match="shortlist"):
            full_model.join(*pair)
    other_model = engine("int8")
    with pytest.raises(ValueError, match="another model"):
        other_model._core.encode(SOURCES[:1], listed._core_shortlist)


def test_invalid_shortlists_are_rejected():
    def arrays(**changes):
        parts = {"common": SHORTLIST.common, "first": SHORTLIST.first, "targets": SHORTLIST.targets} | changes
        return {name: np.array(part, dtype=np.int32) for name, part in parts.items()}

    first, targets = SHORTLIST.first.copy(), SHORTLIST.targets.copy()
    source_token = next(token for token in range(VOCABULARY) if first[token + 1] - first[token] > 1)
    descending = targets.copy()
    descending[first[source_token]], descending[first[source_token] + 1] = (
        targets[first[source_token] + 1],
        targets[first[source_token]],
    )
    too_large, negative = targets.copy(), targets.copy()
    too_large[-1], negative[first[source_token]] = VOCABULARY, -1
    offsets = first.copy()
    offsets[5] = offsets[-1] + 1
    invalid = {
        "no common tokens": arrays(common=[]), "common token too large": arrays(common=[3, VOCABULARY]),
        "negative common token": arrays(common=[-1, 3]), "descending common tokens": arrays(common=[4, 3]),
        "repeated common token": arrays(common=[3, 3]), "descending targets": arrays(targets=descending),
        "target too large": arrays(targets=too_large), "negative target": arrays(targets=negative),
        "descending offsets": arrays(first=offsets), "first offset not 0": arrays(first=[1, *first[1:]]),
        "last offset too small": arrays(first=[*first[:-1], first[-1] - 1]),
        "last offset too large": arrays(first=[*first[:-1], first[-1] + 1]), "no offsets": arrays(first=[]),
    }  # fmt: skip
    for name, arguments in invalid.items():
        with pytest.raises(ModelError):
            pytest.fail(f"{name}: {Shortlist(**arguments, vocabulary=VOCABULARY)}")
        with pytest.raises(ValueError, match=r"common|first|targets|token"):
            pytest.fail(f"{name}: {engine()._core.shortlist(**arguments)}")
    with pytest.raises(ValueError, match="first"):
        engine()._core.shortlist(**arrays(first=first[:-1], targets=targets[: first[-2]]))
    with pytest.raises(ModelError, match="source and"):
        engine().with_shortlist(Shortlist(**arrays(), vocabulary=VOCABULARY + 1))
