"""Shortlists on the engine: the softmax over each sentence's own list, the same bits in any batch."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uwaga.decoder import Choice, Sampling, Symbols
from uwaga.engine import NativeModel, Shortlist
from uwaga.engine.cpu import usable
from uwaga.engine.layout import stored_shapes
from uwaga.engine.packing import pack
from uwaga.errors import DataError, ModelError
from uwaga.search import SearchOptions, search
from uwaga.settings import TransformerSettings

SYMBOLS = Symbols(start=2, end=3, pad=0, unknown=1)
VOCABULARY = 131  # no whole number of panels
SHAPE = TransformerSettings(
    encoder_layers=1,
    decoder_layers=2,
    width=32,
    heads=4,
    feed_forward=48,
    max_length=40,
    norm="pre",
    tie="none",
    output_bias=True,
)
GREEDY = SearchOptions(beam=1, max_length=12)
WAYS = {
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

    packed = pack(shape, VOCABULARY, VOCABULARY, read, precision)
    return NativeModel(shape, SYMBOLS, VOCABULARY, VOCABULARY, packed, threads, isa)


def sources(count, seed=1, longest=9):
    rng = np.random.default_rng(seed)
    return [(*rng.integers(4, VOCABULARY, rng.integers(0, longest)).tolist(), 3) for _ in range(count)]


def random_list(seed=0, common=7, most=5):
    rng = np.random.default_rng(seed)
    each = [np.unique(rng.integers(0, VOCABULARY, rng.integers(0, most + 1))) for _ in range(VOCABULARY)]
    first = np.cumsum([0, *map(len, each)])
    chosen = np.unique(rng.integers(0, VOCABULARY, common))
    return Shortlist(*(part.astype(np.int32) for part in (chosen, first, np.concatenate(each))), VOCABULARY)


def every_token():
    return Shortlist(
        np.arange(VOCABULARY, dtype=np.int32),
        np.zeros(VOCABULARY + 1, dtype=np.int32),
        np.zeros(0, dtype=np.int32),
        VOCABULARY,
    )


SHORT = random_list()
SOURCES = sources(80)


@cache
def short(precision="float32", threads=1, isa=None):
    return engine(precision, threads, isa).with_shortlist(SHORT)


def states(model, texts, beams=1, steps=2, seed=2):
    """The state after some tokens, and the next ones."""
    rng = np.random.default_rng(seed)
    state = model.start(model.encode(texts), beams)
    tokens = np.full(len(texts) * beams, 2)
    for _ in range(steps):
        state = model.step(tokens, state, Choice(1)).state
        tokens = rng.integers(4, VOCABULARY, len(tokens))
    return state, tokens


def logits_of(model, texts, beams=1):
    """What the full vocabulary's log-probabilities are, (rows, vocabulary): logits but for a constant."""
    state, tokens = states(model, texts, beams)
    return model.step(tokens, state, Choice(1, all_tokens=True)).log_probs.astype(np.float64)


def restricted(logits, lists):
    """By hand: the log-softmax over each row's own list, -inf elsewhere."""
    found = np.full_like(logits, -np.inf)
    for row, allowed in enumerate(lists):
        inside = logits[row, allowed]
        found[row, allowed] = inside - np.log(np.exp(inside - inside.max()).sum()) - inside.max()
    return found


@pytest.mark.numerical
@pytest.mark.parametrize("isa", usable())
@pytest.mark.parametrize("precision", PRECISIONS)
def test_probabilities_are_the_softmax_over_a_sentences_own_list(precision, isa):
    model, texts, beams = short(precision, isa=isa), SOURCES[:9], 2
    lists = [model.shortlist.of(text) for text in texts for _ in range(beams)]
    assert all(3 in one and 1 in one and np.all(np.diff(one) > 0) for one in lists)
    assert len({len(one) for one in lists}) > 3
    expected = restricted(logits_of(engine(precision, isa=isa), texts, beams), lists)
    state, tokens = states(model, texts, beams)
    whole = model.step(tokens, state, Choice(1, all_tokens=True)).log_probs
    assert np.array_equal(np.isinf(whole), np.isinf(expected))
    assert np.allclose(whole, expected, atol=2e-5)
    for count in (1, 5, 100, VOCABULARY):
        found = model.step(tokens, state, Choice(count))
        order = np.argsort(-whole, axis=1, kind="stable")[:, :count]  # ties: the lower token
        best = np.take_along_axis(whole, order, axis=1)
        assert np.array_equal(found.log_probs, best)
        assert np.array_equal(found.tokens[best > -np.inf], order[best > -np.inf])


@pytest.mark.numerical
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("way", sorted(WAYS))
def test_a_list_of_all_tokens_is_the_full_vocabulary(precision, way):
    """Logits are the same bits, so tokens are too. Their sum is made otherwise: scores agree within what
    native/tests asks of a log-sum-exp."""
    expected = search(engine(precision), SOURCES, WAYS[way])
    found = search(engine(precision).with_shortlist(every_token()), SOURCES, WAYS[way])
    for one, other in zip(expected, found, strict=True):
        for ours, theirs in zip(one, other, strict=True):
            assert ours.tokens == theirs.tokens
            assert np.allclose(ours.token_scores, theirs.token_scores, rtol=1e-6, atol=1e-5)


@cache
def alone(precision, way):
    return [search(short(precision), [source], WAYS[way])[0] for source in SOURCES]


@pytest.mark.parametrize(
    ("way", "precision"),
    [("greedy", "float32"), ("greedy", "int8"), ("beam", "int8"), ("samples", "bfloat16")],
)
def test_results_are_the_same_bits_alone_and_in_any_batch(precision, way):
    """Sentences join and leave, threads share the work: tokens and every score stay the same bits."""
    rng = np.random.default_rng(3)
    for threads, budget in ((1, 4096), (2, 300), (4, 40)):
        order = rng.permutation(len(SOURCES)).tolist()
        options = replace(WAYS[way], batch_tokens=budget)
        found = search(short(precision, threads), [SOURCES[number] for number in order], options)
        assert found == [alone(precision, way)[number] for number in order]


def some_choice(rng, rows):
    """A choice of any kind, and the part of it that is a row's."""
    kind = rng.integers(4)
    banned = rng.integers(0, [rows, VOCABULARY], (rows * 9, 2)) if rng.integers(2) else None
    forced = rng.integers(-1, VOCABULARY, rows) if rng.integers(2) else None
    uniform = rng.random(rows)
    renormalise, top_k = bool(rng.integers(2)), int(rng.integers(0, 5))

    def part(first, last):
        chosen = banned
        if banned is not None:
            chosen = banned[(banned[:, 0] >= first) & (banned[:, 0] < last)] - [first, 0]
        return Choice(
            count=1 if kind == 1 else 6,
            banned=chosen,
            forced=None if forced is None else forced[first:last],
            sampling=Sampling(uniform[first:last], 1.3, top_k, 0.9) if kind == 1 else None,
            attention=True,
            renormalise=renormalise,
            all_tokens=bool(kind == 2),
        )

    return part


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_rows_do_not_depend_on_who_joined_left_or_stands_beside_them(seed):
    """A walk of joins, selections and steps against each sentence stepped alone, all choices alike."""
    rng = np.random.default_rng(seed)
    model, beams = short("int8", int(rng.integers(1, 4))), int(rng.integers(1, 3))

    def enter(count):
        texts = [SOURCES[number] for number in rng.integers(0, len(SOURCES), count)]
        return model.start(model.encode(texts), beams), [
            model.start(model.encode([one]), beams) for one in texts
        ]

    state, apart = enter(int(rng.integers(1, 6)))
    for _ in range(int(rng.integers(2, 9))):
        tokens = rng.integers(4, VOCABULARY, len(apart) * beams)
        choice = some_choice(rng, len(tokens))
        together = model.step(tokens, state, choice(0, len(tokens)))
        for number, one in enumerate(apart):
            rows = slice(number * beams, (number + 1) * beams)
            single = model.step(tokens[rows], one, choice(rows.start, rows.stop))
            assert np.array_equal(single.tokens, together.tokens[rows])
            assert np.array_equal(single.log_probs, together.log_probs[rows])
            width = single.attention.shape[1]
            assert np.array_equal(single.attention, together.attention[rows, :width])
            apart[number] = single.state
        state = together.state
        if rng.integers(3) == 0:
            kept = rng.permutation(len(apart))[: int(rng.integers(1, len(apart) + 1))]
            state, apart = state.select(kept), [apart[one] for one in kept]
        if rng.integers(3) == 0:
            other, more = enter(int(rng.integers(1, 4)))
            state, apart = model.join(state, other), apart + more


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_forced_token_outside_the_list_is_in_it_for_its_step(precision):
    model, texts = short(precision), SOURCES[:12]
    lists = [model.shortlist.of(text) for text in texts]
    rng = np.random.default_rng(8)
    outside = [int(rng.choice(np.setdiff1d(np.arange(VOCABULARY), one))) for one in lists]
    inside = [int(rng.choice(one)) for one in lists]
    logits = logits_of(engine(precision), texts)
    state, tokens = states(model, texts)
    for forced in (outside, inside):
        longer = [np.union1d(one, token) for one, token in zip(lists, forced, strict=True)]
        expected = restricted(logits, longer)[np.arange(12), forced]
        found = model.step(tokens, state, Choice(3, forced=np.array(forced)))
        assert found.tokens[:, 0].tolist() == forced
        assert np.allclose(found.log_probs[:, 0], expected, atol=2e-5)
        assert np.isinf(found.log_probs[:, 1:]).all()
    prefixes = [[token, token] for token in outside]
    for options in (GREEDY, WAYS["beam"]):
        for [best, *_], prefix, allowed in zip(
            search(model, texts, options, prefixes=prefixes), prefixes, lists, strict=True
        ):
            assert list(best.tokens[:2]) == prefix
            assert set(best.tokens[2:]) <= set(allowed.tolist())


def test_bans_and_draws_keep_to_the_list():
    model, text = short(), SOURCES[:1]
    allowed = model.shortlist.of(text[0])
    state, tokens = states(model, text)
    whole = model.step(tokens, state, Choice(1, all_tokens=True)).log_probs[0]
    banned = allowed[::2]
    pairs = np.stack([np.zeros(len(banned), dtype=np.int64), banned], axis=1)
    left = np.setdiff1d(allowed, banned)
    plain = model.step(tokens, state, Choice(len(left), banned=pairs))
    assert sorted(plain.tokens[0].tolist()) == left.tolist()
    assert np.array_equal(plain.log_probs[0], whole[plain.tokens[0]])
    shared = model.step(tokens, state, Choice(len(left), banned=pairs, renormalise=True))
    assert np.isclose(np.exp(shared.log_probs.astype(np.float64)).sum(), 1, atol=1e-5)
    all_pairs = np.stack([np.zeros(len(allowed), dtype=np.int64), allowed], axis=1)
    for renormalise in (False, True):
        none = model.step(tokens, state, Choice(2, banned=all_pairs, renormalise=renormalise))
        assert np.isinf(none.log_probs).all()
    # Draws fall as the probabilities say: the token at which the sum of the falling ones passes the draw.
    order = allowed[np.argsort(-whole[allowed], kind="stable")]
    reached = np.cumsum(np.exp(whole[order].astype(np.float64)))
    for uniform in np.random.default_rng(1).random(50):
        if np.abs(reached - uniform).min() > 1e-4:
            drawn = model.step(tokens, state, Choice(1, sampling=Sampling(np.array([uniform]))))
            assert drawn.tokens[0, 0] == order[np.searchsorted(reached, uniform)]


def test_states_with_and_without_a_shortlist_do_not_mix():
    whole, limited = engine("float32", 1, None), short()
    one, _ = states(whole, SOURCES[:2], steps=0)
    other, _ = states(limited, SOURCES[:2], steps=0)
    for pair in ((one, other), (other, one)):
        with pytest.raises(ValueError, match="shortlist"):
            whole.join(*pair)
    stranger = engine("int8")
    with pytest.raises(DataError, match="another model"):
        _encode_with(stranger, limited)


def _encode_with(model, other):
    try:
        return model._core.encode(SOURCES[:1], other._lists)
    except ValueError as error:
        raise DataError(str(error)) from None


def test_the_core_and_the_class_refuse_what_is_out_of_range_or_order():
    def arrays(**changed):
        parts = {"common": SHORT.common, "first": SHORT.first, "targets": SHORT.targets} | changed
        return {name: np.array(part, dtype=np.int32) for name, part in parts.items()}

    first, targets = SHORT.first.copy(), SHORT.targets.copy()
    long = next(place for place in range(VOCABULARY) if first[place + 1] - first[place] > 1)
    falling = targets.copy()
    falling[first[long]], falling[first[long] + 1] = targets[first[long] + 1], targets[first[long]]
    beyond, below = targets.copy(), targets.copy()
    beyond[-1], below[first[long]] = VOCABULARY, -1
    places = first.copy()
    places[5] = places[-1] + 1
    bad = {
        "no common": arrays(common=[]),
        "common beyond": arrays(common=[3, VOCABULARY]),
        "common below": arrays(common=[-1, 3]),
        "common falls": arrays(common=[4, 3]),
        "common twice": arrays(common=[3, 3]),
        "targets fall": arrays(targets=falling),
        "target beyond": arrays(targets=beyond),
        "target below": arrays(targets=below),
        "offsets fall": arrays(first=places),
        "does not start at 0": arrays(first=[1, *first[1:]]),
        "does not reach the end": arrays(first=[*first[:-1], first[-1] - 1]),
        "goes beyond the end": arrays(first=[*first[:-1], first[-1] + 1]),
        "no places": arrays(first=[]),
    }
    for name, given_ in bad.items():
        with pytest.raises(ModelError):
            pytest.fail(f"{name}: {Shortlist(**given_, vocabulary=VOCABULARY)}")
        with pytest.raises(ValueError, match=r"common|first|targets|token"):
            pytest.fail(f"{name}: {engine()._core.shortlist(**given_)}")
    with pytest.raises(ValueError, match="first"):
        engine()._core.shortlist(**arrays(first=first[:-1], targets=targets[: first[-2]]))
    with pytest.raises(ModelError, match="source and"):
        engine().with_shortlist(Shortlist(**arrays(), vocabulary=VOCABULARY + 1))
