"""M42: a draft changes how many passes a greedy search takes, and no token, score or bit of its result."""

import copy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from drawn_searches import VOCABULARY, options, prefixes_for, random_list
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from native_models import native, random_model, recurrent_shapes, sentences, shapes
from precision import EXACT
from prompted_models import decoder_only, native_decoder, prompts, random_decoder

from uwaga.decoder import Choice, Draft
from uwaga.errors import DataError, SettingsError, UwagaError
from uwaga.models.ensemble import Ensemble
from uwaga.search import SearchOptions, search
from uwaga.search.drafts import MISSING, DraftCursor
from uwaga.settings import DecoderOnlySettings, TransformerSettings

SHAPE = TransformerSettings(
    encoder_layers=1, decoder_layers=2, width=32, heads=4, feed_forward=48, max_length=40, norm="pre"
)
SMALL = DecoderOnlySettings(layers=1, width=32, heads=4, feed_forward=48, max_length=40)
QUIET = settings(
    phases=(Phase.explicit, Phase.generate),
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
GREEDY = SearchOptions(beam=1, max_length=24)
SOURCES = sentences(40, seed=5)


def plain(found):
    """The results without the use of drafts."""
    return [[replace(one, draft=None) for one in nbest] for nbest in found]


def tried(decoder, sources, wanted, prefixes, drafts=None):
    try:
        return plain(search(decoder, sources, wanted, prefixes=prefixes, drafts=drafts))
    except UwagaError as error:
        return f"{type(error).__name__}: {error}"


@st.composite
def damaged(draw, target):
    """A target of which some tokens are replaced, left out, or follow added ones; or any tokens."""
    kind = draw(st.sampled_from(["none", "right", "longer", "any", "damaged"]))
    token = st.integers(0, VOCABULARY - 1)
    if kind == "none":
        return None
    if kind == "any":
        return Draft(draw(st.lists(token, max_size=40)))
    tokens = list(target)
    if kind == "longer":
        tokens += draw(st.lists(token, max_size=40))
    for _ in range(draw(st.integers(1, 4)) if kind == "damaged" and tokens else 0):
        at = draw(st.integers(0, len(tokens)))
        tokens[at : at + draw(st.integers(0, 2))] = draw(st.lists(token, max_size=2))
    return Draft(tokens)


def check(data, engine, sources, wanted, prefixes):
    expected = tried(engine, sources, wanted, prefixes)
    targets = [()] * len(sources) if isinstance(expected, str) else [nbest[0].tokens for nbest in expected]
    drafts = [data.draw(damaged(target)) for target in targets]
    assert tried(engine, sources, wanted, prefixes, drafts) == expected
    by_steps = copy.copy(engine)
    by_steps.beam_search = None
    assert tried(by_steps, sources, wanted, prefixes, drafts) == expected
    if not isinstance(expected, str):  # both searches use the drafts alike
        both = [
            search(each, sources, wanted, prefixes=prefixes, drafts=drafts) for each in (engine, by_steps)
        ]
        assert both[0] == both[1]


@QUIET
@given(st.data())
def test_M42_any_draft_gives_the_bits_of_no_draft(data):
    seed, count = data.draw(st.integers(0, 10**6)), data.draw(st.integers(1, 7))
    model = random_model(data.draw(shapes() | recurrent_shapes()), seed, spread=2.0)
    engine = native(model, data.draw(st.sampled_from(["float32", "int8"])), data.draw(st.integers(1, 3)))
    if data.draw(st.booleans()):
        engine = engine.with_shortlist(random_list(seed))
    wanted = replace(data.draw(options()), beam=1, nbest=1)
    check(data, engine, sentences(count, seed), wanted, data.draw(prefixes_for(count)))


@settings(QUIET, max_examples=30)
@given(st.data())
def test_M42_any_draft_of_a_continuation_gives_the_bits_of_no_draft(data):
    seed, count = data.draw(st.integers(0, 10**6)), data.draw(st.integers(1, 6))
    engine = native_decoder(random_decoder(data.draw(decoder_only()), seed, spread=2.0))
    wanted = replace(data.draw(options()), beam=1, nbest=1, max_ratio=float("inf"))
    check(data, engine, prompts(count, seed), wanted, data.draw(prefixes_for(count)))


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("shared_width", [1, 384])
def test_M42_threads_that_share_a_pass_give_the_same_bits(threads, shared_width):
    engine = native(random_model(SHAPE, spread=2.0), "int8", threads, shared_width=shared_width)
    expected = search(engine, SOURCES, GREEDY)
    drafts = [Draft(nbest[0].tokens) for nbest in expected]
    assert plain(search(engine, SOURCES, GREEDY, drafts=drafts)) == expected
    for source, draft, nbest in zip(SOURCES, drafts, expected, strict=True):
        assert plain(search(engine, [source], GREEDY, drafts=[draft])) == [nbest]


def test_M42_a_right_draft_takes_few_passes_and_a_wrong_one_few_more_rows():
    engine = native(random_model(SHAPE, spread=2.0))
    expected = search(engine, SOURCES, GREEDY)
    right = search(engine, SOURCES, GREEDY, drafts=[Draft(nbest[0].tokens) for nbest in expected])
    assert sum(one.draft is not None for (one,) in right) > 30
    for (one,) in right:
        if one.draft is None:  # of an empty target
            continue
        assert one.draft.proposed == one.draft.accepted
        assert one.draft.passes + one.draft.accepted == len(one.token_scores)
        assert one.draft.passes <= 3  # 8 tokens, then 16
    unused = [next(token for token in range(4, 23) if token not in nbest[0].tokens) for nbest in expected]
    wrong = search(engine, SOURCES, GREEDY, drafts=[Draft([token] * 40) for token in unused])
    for (one,), (without,) in zip(wrong, expected, strict=True):
        assert one.draft.accepted == 0
        assert one.draft.proposed <= 8 + 4 + 2 + 1
        assert one.draft.passes == len(without.token_scores)


def test_M42_streams_tell_each_token_once_and_in_order():
    engine = native(random_model(SHAPE, spread=2.0))
    drafts = [Draft(nbest[0].tokens[::2]) for nbest in search(engine, SOURCES, GREEDY)]
    for decoder in (engine, copy.copy(engine)):
        if decoder is not engine:
            decoder.beam_search = None
        events = []
        found = search(decoder, SOURCES, GREEDY, drafts=drafts, on_token=events.append)
        for number, (one,) in enumerate(found):
            told = [each for each in events if each.sentence == number and each.token is not None]
            assert [each.token for each in told] == list(one.tokens)
            assert [each.log_prob for each in told] == list(one.token_scores[: len(told)])


def test_M42_a_pass_over_several_tokens_is_that_of_steps():
    engine = native(random_model(SHAPE, spread=2.0), "int8")
    state = engine.start(engine.encode(SOURCES[:3]), 1)
    fed = [[2, 5, 6, 7], [2], [2, 9, 9]]
    made = engine.verify(fed, state, Choice(4, attention=True))
    row = 0
    for at, tokens in enumerate(fed):
        single = state.select(np.array([at]))
        for token in tokens:
            step = engine.step(np.array([token]), single, Choice(4, attention=True))
            assert np.array_equal(step.tokens[0], made.tokens[row])
            assert np.array_equal(step.log_probs[0], made.log_probs[row])
            assert np.array_equal(step.attention[0], made.attention[row, : len(SOURCES[at])])
            single, after = step.state, made.state.select(np.array([row]))
            both = [engine.step(np.array([4]), each, Choice(4)).log_probs for each in (single, after)]
            assert np.array_equal(*both)
            row += 1


@st.composite
def torch_models(draw):
    """A torch model of float64 that verifies, and a few sources for it."""
    seed, count = draw(st.integers(0, 10**6)), draw(st.integers(1, 5))
    kind = draw(st.sampled_from(["transformer", "decoder", "ensemble"]))
    if kind == "decoder":
        model = random_decoder(draw(decoder_only()), seed, spread=2.0).double()
        return model, prompts(count, seed)
    shape = draw(shapes().filter(lambda each: each.self_attention == "attention"))
    model = random_model(shape, seed, spread=2.0).double()
    if kind == "ensemble":
        model = Ensemble([model, random_model(shape, seed + 1, spread=2.0).double()])
    return model, sentences(count, seed)


@pytest.mark.numerical
@settings(QUIET, max_examples=20)
@given(torch_models(), st.data())
def test_M42_a_torch_pass_over_several_tokens_is_that_of_steps(given_model, data):
    model, sources = given_model
    choice = Choice(3, all_tokens=True, attention=True)
    token = st.integers(0, VOCABULARY - 1)
    state = model.start(model.encode(sources), 1)
    singles = [model.start(model.encode([source]), 1) for source in sources]
    kept = np.arange(len(sources))
    for _ in range(3):  # sentences go on at different positions
        fed = [data.draw(st.lists(token, min_size=1, max_size=3)) for _ in kept]
        made, row, chosen = model.verify(fed, state, choice), 0, []
        for at, tokens in enumerate(fed):
            ways = []
            for token_fed in tokens:
                step = model.step(np.array([token_fed]), singles[at], choice)
                np.testing.assert_allclose(made.log_probs[row], step.log_probs[0], **EXACT)
                if step.attention is not None:
                    used = step.attention.shape[1]
                    np.testing.assert_allclose(made.attention[row, :used], step.attention[0], atol=1e-6)
                singles[at] = step.state
                ways.append((row, step.state))
                row += 1
            chosen.append(data.draw(st.sampled_from(ways)))
        singles = [single for _, single in chosen]
        state = made.state.select(np.array([at for at, _ in chosen]))
        plain = model.step(np.full(len(kept), 5), state, choice)
        for at, single in enumerate(singles):
            alone = model.step(np.array([5]), single, choice)
            np.testing.assert_allclose(plain.log_probs[at], alone.log_probs[0], **EXACT)
        some = data.draw(st.lists(st.integers(0, len(kept) - 1), min_size=1, max_size=4))
        state, singles, kept = state.select(np.array(some)), [singles[at] for at in some], some


@pytest.mark.numerical
@settings(QUIET, max_examples=20)
@given(torch_models(), st.data())
def test_M42_any_draft_gives_the_target_of_a_torch_model_without_one(given_model, data):
    model, sources = given_model
    wanted = SearchOptions(beam=1, max_length=10, max_ratio=float("inf"))
    expected = search(model, sources, wanted)
    drafts = [data.draw(damaged(nbest[0].tokens)) for nbest in expected]
    found = search(model, sources, wanted, drafts=drafts)
    for (one,), (plain_one,), draft in zip(found, expected, drafts, strict=True):
        assert one.tokens == plain_one.tokens
        np.testing.assert_allclose(one.token_scores, plain_one.token_scores, **EXACT)
        if draft is not None and len(draft.tokens) > 2 and draft.tokens == plain_one.tokens:
            assert one.draft.passes < len(one.token_scores)


@st.composite
def pairs_of_models(draw):
    """A model, one that drafts for it, and sources."""
    seed, count = draw(st.integers(0, 10**6)), draw(st.integers(1, 6))
    of_torch, apart = draw(st.booleans()), draw(st.integers(0, 1))
    if draw(st.booleans()):
        made = [random_decoder(draw(decoder_only()), seed + at, spread=2.0) for at in range(2)]
        large, small = (one.double() if of_torch else native_decoder(one) for one in made)
        sources = prompts(count, seed)
    else:
        shape = draw(shapes().filter(lambda each: each.self_attention == "attention"))
        made = [random_model(shape, seed + at, spread=2.0) for at in range(2)]
        large, small = (one.double() if of_torch else native(one) for one in made)
        sources = sentences(count, seed)
    return large, (large, small)[apart], sources


@settings(QUIET, max_examples=30)
@given(pairs_of_models(), st.data())
def test_M42_a_smaller_model_that_drafts_blocks_changes_nothing(models, data):
    large, small, sources = models
    wanted = replace(data.draw(options()), beam=1, nbest=1, sample=False, max_ratio=float("inf"))
    wanted = replace(wanted, max_length=10, min_length=min(wanted.min_length, 5))
    expected, found = tried(large, sources, wanted, None), tried(large, sources, wanted, None, small)
    if isinstance(expected, str):
        assert found == expected
        return
    for (one,), (plain_one,), (told,) in zip(
        found, expected, search(large, sources, wanted, drafts=small), strict=True
    ):
        assert one.tokens == plain_one.tokens
        if isinstance(large, torch.nn.Module):
            np.testing.assert_allclose(one.token_scores, plain_one.token_scores, **EXACT)
        else:
            assert one == plain_one
        assert told.draft.passes + told.draft.accepted - len(one.tokens) in (0, 1)  # the end symbol


def test_M42_blocks_of_the_same_model_are_all_accepted_and_bad_ones_soon_rest():
    large = native_decoder(random_decoder(SMALL, spread=2.0))
    wanted = SearchOptions(beam=1, max_length=31, max_ratio=float("inf"))
    sources = prompts(3, 1, longest=5)
    for (one,) in search(large, sources, wanted, drafts=large):
        assert one.draft.accepted == one.draft.proposed
        assert one.draft.passes <= 6  # 4 tokens, 8, then 16
    other = native_decoder(random_decoder(SMALL, seed=7, spread=2.0))
    for (one,) in search(large, sources, wanted, drafts=other):
        assert one.draft.proposed < 20


def test_M42_models_that_cannot_draft_blocks_are_refused_and_short_ones_stop():
    large = native_decoder(random_decoder(SMALL, spread=2.0))
    wanted = SearchOptions(beam=1, max_length=30, max_ratio=float("inf"))
    sources = prompts(3, 1, longest=5)
    for drafter, said in (
        (native_decoder(random_decoder(SMALL, vocabulary=29)), "29 tokens and the model 23"),
        (random_model(SHAPE.model_copy(update={"self_attention": "ssru"})), "one token at a time"),
    ):
        with pytest.raises(SettingsError, match=said):
            search(large, sources, wanted, drafts=drafter)
    with pytest.raises(SettingsError, match="drafts need greedy search"):
        search(large, sources, replace(wanted, beam=2), drafts=large)
    short = native_decoder(random_decoder(SMALL.model_copy(update={"max_length": 8}), spread=2.0))
    assert plain(search(large, sources, wanted, drafts=short)) == search(large, sources, wanted)


def test_M18_a_short_prompt_goes_on_after_a_long_one_is_finished():
    model = random_decoder(DecoderOnlySettings(layers=1, width=8, heads=2, feed_forward=8, max_length=24))
    state = model.start(model.encode([(5,) * 20, (6,)]), 1)
    state = model.step(np.array([2, 2]), state, Choice(1)).state.select(np.array([1]))
    for _ in range(20):
        state = model.step(np.array([4]), state, Choice(1)).state
    assert state.furthest == 21


def test_M42_a_torch_model_of_running_states_ignores_drafts():
    model = random_model(SHAPE.model_copy(update={"self_attention": "ssru"}), spread=2.0)
    assert model.verify is None
    expected = search(model, SOURCES[:3], GREEDY)
    found = search(model, SOURCES[:3], GREEDY, drafts=[Draft(nbest[0].tokens) for nbest in expected])
    assert plain(found) == expected


@given(st.integers(0, 10**6), st.sampled_from([0.1, 0.3, 0.49]))
@settings(max_examples=20, deadline=None)
def test_M42_a_bias_keeps_the_draft_where_its_tokens_are_nearly_as_probable(seed, bias):
    engine = native(random_model(SHAPE, seed, spread=1.0))
    rng = np.random.default_rng(seed)
    drafts = [Draft(rng.integers(4, VOCABULARY, 12).tolist(), bias) for _ in SOURCES[:8]]
    by_steps, stepwise = copy.copy(engine), copy.copy(engine)
    by_steps.beam_search = None
    found = search(engine, SOURCES[:8], GREEDY, drafts=drafts)
    assert found == search(by_steps, SOURCES[:8], GREEDY, drafts=drafts)
    for source, draft, (one,) in zip(SOURCES, drafts, found, strict=False):
        state, last = stepwise.start(stepwise.encode([source]), 1), 2
        for at, token in enumerate(one.tokens):
            step = stepwise.step(np.array([last]), state, Choice(1, all_tokens=True))
            probs = np.exp(step.log_probs[0].astype(np.float64))
            probs[[0, 2]] = 0  # the start symbol and the padding are never produced
            if list(one.tokens[:at]) == list(draft.tokens[:at]) and at < len(draft.tokens):
                probs *= 1 - bias
                probs[draft.tokens[at]] += bias
            assert probs[token] >= probs.max() - 1e-6
            state, last = step.state, token


def test_M42_drafts_that_cannot_be_are_refused_by_name():
    engine = native(random_model(SHAPE, spread=2.0))

    def refused(drafts, wanted=GREEDY):
        with pytest.raises(SettingsError) as error:
            search(engine, SOURCES[:1], wanted, drafts=drafts)
        return str(error.value)

    assert "token 99 of the draft is outside the vocabulary of 23" in refused([Draft([99])])
    assert "bias must be from 0 to below 0.5" in refused([Draft([5], 0.5)])
    assert "2 drafts for 1 sentences" in refused([Draft([5]), None])
    assert "set beam to 1" in refused([Draft([5])], SearchOptions(beam=2))
    state = engine.start(engine.encode(SOURCES[:1]), 1)
    for fed in ([[]], [[2], [2]]):
        with pytest.raises(DataError, match="fed"):
            engine.verify(fed, state, Choice(1))


@given(st.lists(st.integers(0, 5), max_size=30), st.lists(st.integers(0, 5), max_size=60))
def test_M42_a_cursor_never_leaves_its_draft(draft, decided):
    cursor = DraftCursor(draft)
    for token in decided:
        proposal = cursor.proposal(len(decided))
        accepted = int(bool(proposal) and proposal[0] == token)
        cursor.take(token)
        cursor.count(len(proposal), accepted)
        assert cursor.accepted <= cursor.proposed


def rejections(cursor, target):
    """Decode a target whose draft is checked; return how often a proposed token was rejected."""
    at = rejected = 0
    while at < len(target):
        proposal = cursor.proposal(len(target) - at)
        equal = [one == other for one, other in zip(proposal, target[at:], strict=False)]
        accepted = (*equal, False).index(False)
        for token in target[at : at + accepted + 1]:
            cursor.take(token)
        cursor.count(len(proposal), accepted)
        rejected += accepted < len(proposal)
        at += accepted + 1
    return rejected


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 4), st.integers(0, 4), st.booleans())
def test_M42_a_draft_is_resumed_after_tokens_that_differ(before, after, left_out, added, repeats):
    around = range(10)
    start = [around[at % 10] if repeats else 100 + at for at in range(before)]
    end = [around[at % 10] if repeats else 200 + at for at in range(after)]
    draft = [*start, *[50] * left_out, *end]
    target = [*start, *range(60, 60 + added), *end]
    # Each token that the draft lacks is rejected, and the next one where another number was left out.
    assert rejections(DraftCursor(draft), target) <= added + (left_out != added)


@given(st.lists(st.integers(0, 3), max_size=8), st.lists(st.integers(0, 3), max_size=8))
def test_M42_a_draft_is_resumed_by_the_edit_distance(draft, target):
    @cache
    def distance(read, drafted):
        if not read or not drafted:
            return MISSING * read + drafted
        same = target[read - 1] == draft[drafted - 1]
        return min(
            distance(read - 1, drafted - 1) + (0 if same else MISSING),
            distance(read - 1, drafted) + MISSING,
            distance(read, drafted - 1) + 1,
        )

    cursor = DraftCursor(draft)
    for token in target:
        cursor.take(token)
    assert cursor._distances == [distance(len(target), drafted) for drafted in range(len(draft) + 1)]
