"""Drafts (M42): they change the number of passes of a greedy search, but not its results."""

import copy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from native_models import native_model, random_model, recurrent_settings, sentences, transformer_settings
from precision import EXACT
from prompted_models import decoder_only_settings, prompts, random_decoder
from random_searches import VOCABULARY_SIZE, options, prefixes_for, random_shortlist
from search_inputs import inputs

from uwaga.decoder import Choice, Draft
from uwaga.errors import DataError, SettingsError, UwagaError
from uwaga.models.ensemble import Ensemble
from uwaga.search import SearchOptions, search
from uwaga.search.drafts import MISSING_COST, DraftCursor
from uwaga.settings import DecoderOnlySettings, TransformerSettings

SHAPE = TransformerSettings(
    encoder_layers=1, decoder_layers=2, width=32, heads=4, feed_forward=48, max_length=40, norm="pre"
)
SMALL = DecoderOnlySettings(layers=1, width=32, heads=4, feed_forward=48, max_length=40)
MANY_QUICK_EXAMPLES = settings(
    phases=(Phase.explicit, Phase.generate), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
GREEDY = SearchOptions(beam=1, max_length=24)
SOURCES = sentences(40, seed=5)


def without_draft_use(results):
    """Return search results without their counts of draft usage."""
    return [[replace(hypothesis, draft=None) for hypothesis in nbest] for nbest in results]


def results_or_error(decoder, sources, options, prefixes, drafts=None, drafter=None):
    sentences = inputs(sources, prefixes=prefixes, drafts=drafts)
    try:
        return without_draft_use(search(decoder, sentences, options, drafter=drafter))
    except UwagaError as error:
        return f"{type(error).__name__}: {error}"


@st.composite
def damaged(draw, target):
    """Draw a draft: a target with tokens replaced, removed or inserted, or random tokens."""
    kind = draw(st.sampled_from(["none", "right", "longer", "any", "damaged"]))
    token = st.integers(0, VOCABULARY_SIZE - 1)
    if kind == "none":
        return None
    if kind == "any":
        return Draft(draw(st.lists(token, max_size=40)))
    tokens = list(target)
    if kind == "longer":
        tokens += draw(st.lists(token, max_size=40))
    for _ in range(draw(st.integers(1, 4)) if kind == "damaged" and tokens else 0):
        index = draw(st.integers(0, len(tokens)))
        tokens[index : index + draw(st.integers(0, 2))] = draw(st.lists(token, max_size=2))
    return Draft(tokens)


def check_drafts(data, engine, sources, options, prefixes):
    expected = results_or_error(engine, sources, options, prefixes)
    targets = [()] * len(sources) if isinstance(expected, str) else [nbest[0].tokens for nbest in expected]
    drafts = [data.draw(damaged(target)) for target in targets]
    assert results_or_error(engine, sources, options, prefixes, drafts) == expected
    stepwise = copy.copy(engine)
    stepwise.beam_search = None
    assert results_or_error(stepwise, sources, options, prefixes, drafts) == expected
    if not isinstance(expected, str):  # both searches use the drafts in the same way
        results = [
            search(decoder, inputs(sources, prefixes=prefixes, drafts=drafts), options)
            for decoder in (engine, stepwise)
        ]
        assert results[0] == results[1]


@MANY_QUICK_EXAMPLES
@given(st.data())
def test_M42_drafts_do_not_change_results(data):
    seed, count = data.draw(st.integers(0, 10**6)), data.draw(st.integers(1, 7))
    model = random_model(data.draw(transformer_settings() | recurrent_settings()), seed, spread=2.0)
    engine = native_model(
        model, data.draw(st.sampled_from(["float32", "int8"])), data.draw(st.integers(1, 3))
    )
    if data.draw(st.booleans()):
        engine = engine.with_shortlist(random_shortlist(seed))
    search_options = replace(data.draw(options()), beam=1, nbest=1)
    check_drafts(data, engine, sentences(count, seed), search_options, data.draw(prefixes_for(count)))


@MANY_QUICK_EXAMPLES
@given(st.data())
def test_M42_drafts_do_not_change_continuations(data):
    seed, count = data.draw(st.integers(0, 10**6)), data.draw(st.integers(1, 6))
    engine = native_model(random_decoder(data.draw(decoder_only_settings()), seed, spread=2.0))
    search_options = replace(data.draw(options()), beam=1, nbest=1, max_ratio=float("inf"))
    check_drafts(data, engine, prompts(count, seed), search_options, data.draw(prefixes_for(count)))


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("shared_width", [1, 384])
def test_M42_drafts_do_not_change_results_for_any_thread_count(threads, shared_width):
    engine = native_model(random_model(SHAPE, spread=2.0), "int8", threads, shared_width=shared_width)
    expected = search(engine, inputs(SOURCES), GREEDY)
    drafts = [Draft(nbest[0].tokens) for nbest in expected]
    assert without_draft_use(search(engine, inputs(SOURCES, drafts=drafts), GREEDY)) == expected
    for source, draft, nbest in zip(SOURCES, drafts, expected, strict=True):
        assert without_draft_use(search(engine, inputs([source], drafts=[draft]), GREEDY)) == [nbest]


def test_M42_correct_drafts_need_fewer_passes_than_incorrect_drafts():
    engine = native_model(random_model(SHAPE, spread=2.0))
    expected = search(engine, inputs(SOURCES), GREEDY)
    correct = search(engine, inputs(SOURCES, drafts=[Draft(nbest[0].tokens) for nbest in expected]), GREEDY)
    assert sum(hypothesis.draft is not None for (hypothesis,) in correct) > 30
    for (hypothesis,) in correct:
        if hypothesis.draft is None:  # of an empty target
            continue
        assert hypothesis.draft.proposed == hypothesis.draft.accepted
        assert hypothesis.draft.passes + hypothesis.draft.accepted == len(hypothesis.token_scores)
        assert hypothesis.draft.passes <= 3  # 8 tokens, then 16
    unused = [next(token for token in range(4, 23) if token not in nbest[0].tokens) for nbest in expected]
    incorrect = search(engine, inputs(SOURCES, drafts=[Draft([token] * 40) for token in unused]), GREEDY)
    for (hypothesis,), (expected_hypothesis,) in zip(incorrect, expected, strict=True):
        assert hypothesis.draft.accepted == 0
        assert hypothesis.draft.proposed <= 8 + 4 + 2 + 1
        assert hypothesis.draft.passes == len(expected_hypothesis.token_scores)


def test_M42_streams_yield_each_token_once_in_order():
    engine = native_model(random_model(SHAPE, spread=2.0))
    drafts = [Draft(nbest[0].tokens[::2]) for nbest in search(engine, inputs(SOURCES), GREEDY)]
    for decoder in (engine, copy.copy(engine)):
        if decoder is not engine:
            decoder.beam_search = None
        events = []
        results = search(decoder, inputs(SOURCES, drafts=drafts), GREEDY, on_token=events.append)
        for index, (hypothesis,) in enumerate(results):
            token_events = [event for event in events if event.sentence == index and event.token is not None]
            assert [event.token for event in token_events] == list(hypothesis.tokens)
            assert [event.log_prob for event in token_events] == list(
                hypothesis.token_scores[: len(token_events)]
            )


def test_M42_verification_equals_single_steps():
    engine = native_model(random_model(SHAPE, spread=2.0), "int8")
    state = engine.start(engine.encode(SOURCES[:3]), 1)
    fed = [[2, 5, 6, 7], [2], [2, 9, 9]]
    verified = engine.verify(fed, state, Choice(4, attention=True))
    row = 0
    for index, tokens in enumerate(fed):
        single = state.select(np.array([index]))
        for token in tokens:
            step = engine.step(np.array([token]), single, Choice(4, attention=True))
            assert np.array_equal(step.tokens[0], verified.tokens[row])
            assert np.array_equal(step.log_probs[0], verified.log_probs[row])
            assert np.array_equal(step.attention[0], verified.attention[row, : len(SOURCES[index])])
            single, verified_state = step.state, verified.state.select(np.array([row]))
            log_probs = [
                engine.step(np.array([4]), next_state, Choice(4)).log_probs
                for next_state in (single, verified_state)
            ]
            assert np.array_equal(*log_probs)
            row += 1


@st.composite
def torch_models(draw):
    """Draw a float64 torch model with ``verify``, and sources."""
    seed, count = draw(st.integers(0, 10**6)), draw(st.integers(1, 5))
    kind = draw(st.sampled_from(["transformer", "decoder", "ensemble"]))
    if kind == "decoder":
        model = random_decoder(draw(decoder_only_settings()), seed, spread=2.0).double()
        return model, prompts(count, seed)
    shape = draw(transformer_settings().filter(lambda settings: settings.self_attention == "attention"))
    model = random_model(shape, seed, spread=2.0).double()
    if kind == "ensemble":
        model = Ensemble([model, random_model(shape, seed + 1, spread=2.0).double()])
    return model, sentences(count, seed)


@pytest.mark.numerical
@MANY_QUICK_EXAMPLES
@given(torch_models(), st.data())
def test_M42_torch_verification_equals_single_steps(case, data):
    model, sources = case
    choice = Choice(3, all_tokens=True, attention=True)
    token_ids = st.integers(0, VOCABULARY_SIZE - 1)
    state = model.start(model.encode(sources), 1)
    singles = [model.start(model.encode([source]), 1) for source in sources]
    indices = np.arange(len(sources))
    for _ in range(3):  # sentences continue at different positions
        fed = [data.draw(st.lists(token_ids, min_size=1, max_size=3)) for _ in indices]
        verified, row, selected = model.verify(fed, state, choice), 0, []
        for index, tokens in enumerate(fed):
            candidates = []
            for token in tokens:
                step = model.step(np.array([token]), singles[index], choice)
                np.testing.assert_allclose(verified.log_probs[row], step.log_probs[0], **EXACT)
                if step.attention is not None:
                    length = step.attention.shape[1]
                    np.testing.assert_allclose(verified.attention[row, :length], step.attention[0], atol=1e-6)
                singles[index] = step.state
                candidates.append((row, step.state))
                row += 1
            selected.append(data.draw(st.sampled_from(candidates)))
        singles = [single for _, single in selected]
        state = verified.state.select(np.array([index for index, _ in selected]))
        joint = model.step(np.full(len(indices), 5), state, choice)
        for index, single in enumerate(singles):
            separate = model.step(np.array([5]), single, choice)
            np.testing.assert_allclose(joint.log_probs[index], separate.log_probs[0], **EXACT)
        subset = data.draw(st.lists(st.integers(0, len(indices) - 1), min_size=1, max_size=4))
        state, singles, indices = state.select(np.array(subset)), [singles[index] for index in subset], subset


@pytest.mark.numerical
@MANY_QUICK_EXAMPLES
@given(torch_models(), st.data())
def test_M42_drafts_do_not_change_targets_of_torch_models(case, data):
    model, sources = case
    options = SearchOptions(beam=1, max_length=10, max_ratio=float("inf"))
    expected = search(model, inputs(sources), options)
    drafts = [data.draw(damaged(nbest[0].tokens)) for nbest in expected]
    results = search(model, inputs(sources, drafts=drafts), options)
    for (hypothesis,), (expected_hypothesis,), draft in zip(results, expected, drafts, strict=True):
        assert hypothesis.tokens == expected_hypothesis.tokens
        np.testing.assert_allclose(hypothesis.token_scores, expected_hypothesis.token_scores, **EXACT)
        if draft is not None and len(draft.tokens) > 2 and draft.tokens == expected_hypothesis.tokens:
            assert hypothesis.draft.passes < len(hypothesis.token_scores)


@st.composite
def pairs_of_models(draw):
    """Draw a model, a draft model for it, and sources."""
    seed, count = draw(st.integers(0, 10**6)), draw(st.integers(1, 6))
    use_torch, small_index = draw(st.booleans()), draw(st.integers(0, 1))
    if draw(st.booleans()):
        models = [random_decoder(draw(decoder_only_settings()), seed + i, spread=2.0) for i in range(2)]
        large, small = (model.double() if use_torch else native_model(model) for model in models)
        sources = prompts(count, seed)
    else:
        shape = draw(transformer_settings().filter(lambda settings: settings.self_attention == "attention"))
        models = [random_model(shape, seed + i, spread=2.0) for i in range(2)]
        large, small = (model.double() if use_torch else native_model(model) for model in models)
        sources = sentences(count, seed)
    return large, (large, small)[small_index], sources


@MANY_QUICK_EXAMPLES
@given(pairs_of_models(), st.data())
def test_M42_draft_model_does_not_change_results(models, data):
    large, small, sources = models
    search_options = replace(data.draw(options()), beam=1, nbest=1, sample=False, max_ratio=float("inf"))
    search_options = replace(search_options, max_length=10, min_length=min(search_options.min_length, 5))
    expected = results_or_error(large, sources, search_options, None)
    results = results_or_error(large, sources, search_options, None, drafter=small)
    if isinstance(expected, str):
        assert results == expected
        return
    for (hypothesis,), (expected_hypothesis,), (drafted,) in zip(
        results, expected, search(large, inputs(sources), search_options, drafter=small), strict=True
    ):
        assert hypothesis.tokens == expected_hypothesis.tokens
        if isinstance(large, torch.nn.Module):
            np.testing.assert_allclose(hypothesis.token_scores, expected_hypothesis.token_scores, **EXACT)
        else:
            assert hypothesis == expected_hypothesis
        extra = drafted.draft.passes + drafted.draft.accepted - len(hypothesis.tokens)
        assert extra in (0, 1)  # the end symbol


def test_M42_draft_length_adapts_to_acceptance():
    large = native_model(random_decoder(SMALL, spread=2.0))
    options = SearchOptions(beam=1, max_length=31, max_ratio=float("inf"))
    sources = prompts(3, 1, max_length=5)
    for (hypothesis,) in search(large, inputs(sources), options, drafter=large):
        assert hypothesis.draft.accepted == hypothesis.draft.proposed
        assert hypothesis.draft.passes <= 6  # 4 tokens, 8, then 16
    other = native_model(random_decoder(SMALL, seed=7, spread=2.0))
    for (hypothesis,) in search(large, inputs(sources), options, drafter=other):
        assert hypothesis.draft.proposed < 20


def test_M42_unsuitable_draft_models_and_options_are_rejected():
    large = native_model(random_decoder(SMALL, spread=2.0))
    options = SearchOptions(beam=1, max_length=30, max_ratio=float("inf"))
    sources = prompts(3, 1, max_length=5)
    for drafter, message in (
        (native_model(random_decoder(SMALL, vocabulary=29)), "29 tokens and the model one of 23"),
        (random_model(SHAPE.model_copy(update={"self_attention": "ssru"})), "one token at a time"),
    ):
        with pytest.raises(SettingsError, match=message):
            search(large, inputs(sources), options, drafter=drafter)
    with pytest.raises(SettingsError, match="drafts need greedy search"):
        search(large, inputs(sources), replace(options, beam=2), drafter=large)
    short = native_model(random_decoder(SMALL.model_copy(update={"max_length": 8}), spread=2.0))
    assert without_draft_use(search(large, inputs(sources), options, drafter=short)) == search(
        large, inputs(sources), options
    )


def test_M18_search_for_a_short_prompt_continues_after_a_long_one_finishes():
    model = random_decoder(DecoderOnlySettings(layers=1, width=8, heads=2, feed_forward=8, max_length=24))
    state = model.start(model.encode([(5,) * 20, (6,)]), 1)
    state = model.step(np.array([2, 2]), state, Choice(1)).state.select(np.array([1]))
    for _ in range(20):
        state = model.step(np.array([4]), state, Choice(1)).state
    assert state.furthest == 21


def test_M42_models_that_cannot_verify_tokens_ignore_drafts():
    model = random_model(SHAPE.model_copy(update={"self_attention": "ssru"}), spread=2.0)
    assert model.verify is None
    expected = search(model, inputs(SOURCES[:3]), GREEDY)
    results = search(
        model, inputs(SOURCES[:3], drafts=[Draft(nbest[0].tokens) for nbest in expected]), GREEDY
    )
    assert without_draft_use(results) == expected


@given(st.integers(0, 10**6), st.sampled_from([0.1, 0.3, 0.49]))
def test_M42_bias_prefers_draft_tokens_of_similar_probability(seed, bias):
    engine = native_model(random_model(SHAPE, seed, spread=1.0))
    rng = np.random.default_rng(seed)
    drafts = [Draft(rng.integers(4, VOCABULARY_SIZE, 12).tolist(), bias) for _ in SOURCES[:8]]
    stepwise, single = copy.copy(engine), copy.copy(engine)
    stepwise.beam_search = None
    results = search(engine, inputs(SOURCES[:8], drafts=drafts), GREEDY)
    assert results == search(stepwise, inputs(SOURCES[:8], drafts=drafts), GREEDY)
    for source, draft, (hypothesis,) in zip(SOURCES, drafts, results, strict=False):
        state, last = single.start(single.encode([source]), 1), 2
        for index, token in enumerate(hypothesis.tokens):
            step = single.step(np.array([last]), state, Choice(1, all_tokens=True))
            probs = np.exp(step.log_probs[0].astype(np.float64))
            probs[[0, 2]] = 0  # the start and padding symbols are banned
            if list(hypothesis.tokens[:index]) == list(draft.tokens[:index]) and index < len(draft.tokens):
                probs *= 1 - bias
                probs[draft.tokens[index]] += bias
            assert probs[token] >= probs.max() - 1e-6
            state, last = step.state, token


def test_M42_verifying_tokens_after_a_one_token_prompt_matches_single_steps():
    """The decoder reads no token of a one-token prompt before the first step."""
    model = random_decoder(SMALL, spread=2.0).double()
    state = model.start(model.encode([(5,), (7,)]), 1)
    state = model.step(np.array([5, 7]), state, Choice(4)).state
    verified = model.verify([[3, 4], [6, 8]], state, Choice(4))
    for tokens, rows in (([3, 6], [0, 2]), ([4, 8], [1, 3])):
        step = model.step(np.array(tokens), state, Choice(4))
        np.testing.assert_array_equal(verified.tokens[rows], step.tokens)
        np.testing.assert_allclose(verified.log_probs[rows], step.log_probs, **EXACT)
        state = step.state


def test_M42_invalid_drafts_are_rejected():
    engine = native_model(random_model(SHAPE, spread=2.0))

    def error_message(drafts, options=GREEDY):
        with pytest.raises(SettingsError) as error:
            search(engine, inputs(SOURCES[:1], drafts=drafts), options)
        return str(error.value)

    assert "token 99 of the draft is outside the vocabulary of 23" in error_message([Draft([99])])
    assert "bias must be at least 0 and less than 0.5" in error_message([Draft([5], 0.5)])
    assert "set beam to 1" in error_message([Draft([5])], SearchOptions(beam=2))
    state = engine.start(engine.encode(SOURCES[:1]), 1)
    for tokens in ([[]], [[2], [2]]):
        with pytest.raises(DataError, match="counts"):
            engine.verify(tokens, state, Choice(1))


@given(st.lists(st.integers(0, 5), max_size=30), st.lists(st.integers(0, 5), max_size=60))
def test_M42_draft_cursor_never_accepts_more_tokens_than_it_proposes(draft, decided):
    cursor = DraftCursor(draft)
    for token in decided:
        proposal = cursor.proposal(len(decided))
        accepted = int(bool(proposal) and proposal[0] == token)
        cursor.advance(token)
        cursor.record_pass(len(proposal), accepted)
        assert cursor.accepted <= cursor.proposed


def rejections(cursor, target):
    """Decode a target with a draft; return the number of passes with a rejected token."""
    position = count = 0
    while position < len(target):
        proposal = cursor.proposal(len(target) - position)
        equal = [
            proposed == expected for proposed, expected in zip(proposal, target[position:], strict=False)
        ]
        accepted = (*equal, False).index(False)
        for token in target[position : position + accepted + 1]:
            cursor.advance(token)
        cursor.record_pass(len(proposal), accepted)
        count += accepted < len(proposal)
        position += accepted + 1
    return count


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 4), st.integers(0, 4), st.booleans())
def test_M42_draft_resumes_after_differing_tokens(prefix_length, suffix_length, removed, added, repeats):
    tokens = range(10)
    start = [tokens[i % 10] if repeats else 100 + i for i in range(prefix_length)]
    end = [tokens[i % 10] if repeats else 200 + i for i in range(suffix_length)]
    draft = [*start, *[50] * removed, *end]
    target = [*start, *range(60, 60 + added), *end]
    # Each token that the draft lacks is rejected, and the next one if the number of removed tokens differs.
    assert rejections(DraftCursor(draft), target) <= added + (removed != added)


@given(st.lists(st.integers(0, 3), max_size=8), st.lists(st.integers(0, 3), max_size=8))
def test_M42_draft_cursor_computes_edit_distances(draft, target):
    @cache
    def distance(target_length, draft_length):
        if not target_length or not draft_length:
            return MISSING_COST * target_length + draft_length
        same = target[target_length - 1] == draft[draft_length - 1]
        return min(
            distance(target_length - 1, draft_length - 1) + (0 if same else MISSING_COST),
            distance(target_length - 1, draft_length) + MISSING_COST,
            distance(target_length, draft_length - 1) + 1,
        )

    cursor = DraftCursor(draft)
    for token in target:
        cursor.advance(token)
    assert cursor._distances == [
        distance(len(target), draft_length) for draft_length in range(len(draft) + 1)
    ]
