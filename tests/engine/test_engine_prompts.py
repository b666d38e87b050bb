"""Decoder-only models on the engine: agreement with torch, and bit-identical results in any batch."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from native_models import ALL_TOKENS, SYMBOLS, mean_difference, native_model, step_both
from precision import tolerance
from prompted_models import FAMILIES, GPT2, decoder_only_settings, family_settings, prompts, random_decoder
from search_inputs import inputs

from uwaga.decoder import Choice
from uwaga.engine import NativeModel, Shortlist, _core
from uwaga.engine.cpu import available_isas
from uwaga.engine.layout import products
from uwaga.engine.packing import pack
from uwaga.errors import DataError, ModelError, SettingsError, TextTooLongError
from uwaga.search import SearchOptions, search
from uwaga.settings import DecoderOnlySettings, parse

pytestmark = pytest.mark.numerical

MODEL = random_decoder(GPT2, spread=2.0, vocabulary=97)
MODELS = {"gpt2": MODEL} | {
    name: random_decoder(family_settings(name), spread=1.5, vocabulary=97) for name in FAMILIES
}
PROMPTS = prompts(200, seed=1, max_length=28, vocabulary=97)
OPTIONS = {
    "greedy": SearchOptions(beam=1, max_length=10),
    "beam": SearchOptions(beam=4, nbest=2, max_length=10),
    "samples": SearchOptions(sample=True, nbest=2, max_length=10, top_p=0.9, seed=4),
}
PRECISIONS = ("float32", "bfloat16", "int8")


@cache
def engine(precision="float32", threads=1, shared_width=384, name="gpt2"):
    return native_model(MODELS[name], precision, threads, shared_width=shared_width)


def max_difference(model, other, sources, steps=5):
    pairs = step_both(model, other, sources, steps, start=None)
    return max(np.abs(a.log_probs - b.log_probs).max() for a, b in pairs)


def log_probs_token_by_token(model, prompt, continuation=()):
    """Return the log-probabilities after a prompt that is read token by token."""
    state = model.start(model.encode([prompt[:1]]), 1)
    for token in (SYMBOLS.start, *prompt[1:], *continuation):
        step = model.step(np.array([token]), state, ALL_TOKENS)
        state = step.state
    return step.log_probs[0]


def log_probs_of_three_steps(model, sources):
    """Return the log-probabilities of three steps after prompts, with two rows each."""
    state, log_probs = model.start(model.encode(sources), 2), []
    for token in (SYMBOLS.start, 4, 5):
        step = model.step(np.full(2 * len(sources), token), state, ALL_TOKENS)
        state = step.state
        log_probs.append(step.log_probs)
    return np.stack(log_probs, 1)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(decoder_only_settings(), st.integers(0, 1000))
@example(GPT2.model_copy(update={"max_length": 24}), 0)
def test_M18_log_probs_match_torch(shape, seed):
    model = random_decoder(shape, seed)
    assert max_difference(model, native_model(model), prompts(4, seed)) < 1e-4


@pytest.mark.parametrize("isa", available_isas())
@pytest.mark.parametrize("name", MODELS)
def test_M18_log_probs_of_all_instruction_sets_match_torch(name, isa):
    assert max_difference(MODELS[name], native_model(MODELS[name], isa=isa), PROMPTS[:5]) < 1e-4


@pytest.mark.parametrize("search_kind", sorted(OPTIONS))
def test_M18_search_matches_torch(search_kind):
    """Sampled tokens are equal too, since the search draws the random numbers."""
    engine_results, torch_results = (
        search(model, inputs(PROMPTS[:40]), OPTIONS[search_kind]) for model in (engine(), MODEL)
    )
    for nbest, expected_nbest in zip(engine_results, torch_results, strict=True):
        assert [result.tokens for result in nbest] == [result.tokens for result in expected_nbest]
        scores = [hypothesis.score for hypothesis in expected_nbest]
        np.testing.assert_allclose([hypothesis.score for hypothesis in nbest], scores, **tolerance(scores))


def engine_without_spreading(model):
    """Return an int8 engine with the weights of a torch model whose matrices do not spread inputs."""
    state = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    sizes = (model.vocabulary, model.vocabulary)
    packed = pack(model.settings, sizes, state.__getitem__, "int8")
    matrices = dict(packed.matrices)
    for product in products(model.settings, *sizes):
        weight = np.concatenate([state[weight] for weight in product.weights])
        arrays = _core.pack_int8(weight, 127)
        matrices[product.name] = matrices[product.name]._replace(arrays=arrays, spread=False)
    return NativeModel(model.settings, SYMBOLS, sizes, packed._replace(matrices=matrices))


def test_int8_error_is_small_despite_a_few_large_inputs():
    model = random_decoder(family_settings("llama", width=144, feed_forward=96), vocabulary=97)
    with torch.no_grad():
        for block in model.decoder:
            for norm in (block.attention_norm, block.feed_forward_norm):
                norm.weight[[7, 70]] *= 100
    sources = prompts(30, seed=4, max_length=20, vocabulary=97)

    errors = [
        mean_difference(native_model(model), engine, sources, 2, None)
        for engine in (native_model(model, "int8"), engine_without_spreading(model))
    ]
    assert errors[0] < 0.7 * errors[1]


@pytest.mark.parametrize("name", MODELS)
def test_int8_and_bfloat16_results_are_close_to_float32(name):
    shape = GPT2.model_copy(update={"width": 96}) if name == "gpt2" else family_settings(name, width=96)
    model = random_decoder(shape)
    exact = native_model(model)
    for precision, bound in (("bfloat16", 0.02), ("int8", 0.03 if name == "gpt2" else 0.05)):
        assert 0 < mean_difference(exact, native_model(model, precision), prompts(6), start=None) < bound


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("precision", PRECISIONS)
@settings(max_examples=6, deadline=None)
@given(
    st.lists(st.integers(0, 96), min_size=1, max_size=36),
    st.lists(st.integers(0, 96), max_size=3),
    st.integers(1, 3),
)
def test_reading_a_prompt_in_blocks_equals_reading_it_token_by_token(
    name, precision, prompt, continuation, threads
):
    model = engine(precision, threads, 1, name)
    state = model.start(model.encode([PROMPTS[0], prompt]), 1)
    for token in (SYMBOLS.start, *continuation):
        step = model.step(np.array([token, token]), state, ALL_TOKENS)
        state = step.state
    assert np.array_equal(
        step.log_probs[1], log_probs_token_by_token(engine(precision, name=name), prompt, continuation)
    )


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", ["gpt2", "gemma2"])
def test_prompts_of_several_blocks_give_the_same_results_as_separate_prompts(name, precision):
    """A thread processes blocks of 256 tokens; prompts start, continue and end in any of them."""
    shape = MODELS[name].settings.model_copy(update={"max_length": 700, "layers": 2})
    model = random_decoder(shape, vocabulary=97)
    rng = np.random.default_rng(5)
    long_prompts = [rng.integers(0, 97, length).tolist() for length in (600, 1, 257, 256, 2, 31, 300)]
    single = native_model(model, precision)
    separate = [
        single.step(np.zeros(1, int), single.start(single.encode([prompt]), 1), ALL_TOKENS)
        for prompt in long_prompts
    ]
    assert np.array_equal(separate[0].log_probs[0], log_probs_token_by_token(single, long_prompts[0]))
    for threads in (1, 2, 4):
        parallel = native_model(model, precision, threads)
        step = parallel.step(np.zeros(7, int), parallel.start(parallel.encode(long_prompts), 1), ALL_TOKENS)
        assert np.array_equal(step.log_probs, np.concatenate([step.log_probs for step in separate]))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", ["gpt2", "gemma2", "gemma3"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_prompts_with_shared_prefixes_give_the_same_results_as_separate_prompts(name, precision):
    """Prompts may have nested prefixes of any length, be equal, or be prefixes of other prompts."""
    rng = np.random.default_rng(6)
    shape = MODELS[name].settings.model_copy(update={"max_length": 200})
    model = random_decoder(shape, vocabulary=97)
    template = rng.integers(0, 97, 100).tolist()
    texts = [rng.integers(0, 97, length).tolist() for length in (1, 2, 20, 20, 33)]
    for prefix_length in (15, 16, 17, 60, 61, 100):
        texts += [
            template[:prefix_length] + rng.integers(0, 97, suffix_length).tolist()
            for suffix_length in (0, 1, 30)
        ]
    nested = template + rng.integers(0, 97, 40).tolist()
    texts += [[*nested, 5], [*nested, 6, 7], nested, nested, [9]]
    expected = np.concatenate(
        [log_probs_of_three_steps(native_model(model, precision), [text]) for text in texts]
    )
    for threads in (1, 2, 3):
        order = rng.permutation(len(texts))
        log_probs = log_probs_of_three_steps(
            native_model(model, precision, threads), [texts[index] for index in order]
        )
        rows = (2 * order[:, None] + np.arange(2)).ravel()
        assert np.array_equal(log_probs, expected[rows])


def test_shared_prefix_is_stored_until_its_last_prompt_finishes():
    """Keys shared by several prompts are retained until the last of these finishes."""
    model = engine("int8", name="gemma3")
    texts = [(*range(1, 31), last_token) for last_token in (40, 41, 42)]
    expected_results = [search(model, inputs([text]), OPTIONS["beam"])[0] for text in texts]
    state = model.start(model.encode(texts), 1)
    state = model.step(np.zeros(3, int), state, Choice(1)).state
    remaining = state.select(np.array([1]))
    del state
    for _ in range(40):
        assert [search(model, inputs([text]), OPTIONS["beam"])[0] for text in texts] == expected_results
    expected = model.step(np.zeros(1, int), model.start(model.encode(texts[1:2]), 1), Choice(1)).state
    actual_log_probs, expected_log_probs = (
        model.step(np.full(1, 7), state, ALL_TOKENS).log_probs for state in (remaining, expected)
    )
    assert np.array_equal(actual_log_probs, expected_log_probs)


TEMPLATES = [np.random.default_rng(7).integers(0, 97, 60).tolist()]
TEMPLATES += [
    [*TEMPLATES[0][:prefix_length], *range(suffix_length)]
    for prefix_length, suffix_length in ((31, 20), (16, 40), (0, 33), (15, 9))
]
MODELS_WITH_SHARED_PREFIXES = {
    name: random_decoder(family_settings(name, max_length=120), spread=1.5, vocabulary=97)
    for name in FAMILIES
}


@pytest.mark.parametrize("precision", PRECISIONS)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(sorted(MODELS_WITH_SHARED_PREFIXES)),
    st.lists(
        st.lists(
            st.tuples(st.sampled_from(TEMPLATES), st.lists(st.integers(0, 96), min_size=1, max_size=20)),
            min_size=1,
            max_size=3,
        ),
        min_size=2,
        max_size=12,
    ),
    st.integers(1, 2),
)
def test_cached_prefixes_do_not_change_results(precision, name, calls, threads):
    model = MODELS_WITH_SHARED_PREFIXES[name]
    parallel = native_model(model, precision, threads, shared_width=1)
    for call in calls:
        sources = [template + text for template, text in call]
        expected = [log_probs_of_three_steps(native_model(model, precision), [prompt]) for prompt in sources]
        assert np.array_equal(log_probs_of_three_steps(parallel, sources), np.concatenate(expected))


def test_prefix_is_cached_from_the_second_call():
    model = native_model(MODELS_WITH_SHARED_PREFIXES["gemma3"], "int8")
    template, other_template = TEMPLATES[0], TEMPLATES[3]
    kept_tokens = []
    for text in ([70, 1], [71, 2, 3], [72], [73, 4, 4, 4]):
        model.encode([template + text])
        kept_tokens.append(model._core.kept_tokens)
    assert kept_tokens == [0, 60, 60, 60]
    model.encode([[*other_template, 5, 6], [*other_template, 7]])
    assert model._core.kept_tokens == 60 + len(other_template)
    for first in range(20):
        model.encode([[first, *range(30)]])
    assert model._core.kept_tokens == 0


def test_prefix_cache_size_is_limited():
    shape = family_settings("llama", max_length=2600, layers=1)
    model = native_model(random_decoder(shape, vocabulary=97))
    for length, expected_tokens in ((900, [900, 1800, 1800]), (2500, [2048])):
        for first, tokens in enumerate(expected_tokens):
            for last in (4, 5, 6):
                model.encode([[*[first] * length, last]])
            assert model._core.kept_tokens == tokens


def test_threads_that_share_cached_prefixes_give_equal_results():
    model = MODELS_WITH_SHARED_PREFIXES["qwen3"]
    shared = native_model(model, "int8", 2)
    rng = np.random.default_rng(8)
    sources = [TEMPLATES[i % 3] + rng.integers(0, 97, 9).tolist() for i in range(40)]
    expected = [log_probs_of_three_steps(native_model(model, "int8"), [prompt]) for prompt in sources]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda prompt: log_probs_of_three_steps(shared, [prompt]), sources))
    assert all(map(np.array_equal, results, expected))


def test_M21_encoded_prompts_can_be_reused():
    model = engine()
    memory = model.encode(PROMPTS[:3])
    assert memory.sentences == 3
    assert memory.lengths.tolist() == [len(prompt) for prompt in PROMPTS[:3]]
    expected = model.step(np.zeros(3, int), model.start(memory, 1), ALL_TOKENS).log_probs
    state = model.start(memory, 2)
    for _ in range(9):
        state = model.step(np.full(6, 5), state, Choice(1)).state
    repeated = model.step(np.full(3, 9), model.start(memory, 1), ALL_TOKENS)  # the input token is ignored
    assert np.array_equal(repeated.log_probs, expected)
    assert repeated.attention is None
    doubled = model.step(np.zeros(6, int), model.start(memory, 2), ALL_TOKENS).log_probs
    assert np.array_equal(doubled, np.repeat(expected, 2, axis=0))


def test_number_of_positions_limits_prompts_and_continuations():
    model = engine()
    with pytest.raises(TextTooLongError, match=r"prompt 2: 41 tokens, .*at most 40"):
        model.encode([[1], [1] * 41])
    state = model.start(model.encode([[1] * 40, [2]]), 1)
    state = model.step(np.zeros(2, int), state, Choice(1)).state
    with pytest.raises(TextTooLongError, match=r"take 41 positions.* has 40: shorten the prompt"):
        model.step(np.zeros(2, int), state, Choice(1))
    options = SearchOptions(beam=1, min_length=5, max_length=6)
    complete, truncated = (best for [best] in search(model, inputs([[1] * 35, [1] * 37]), options))
    assert len(complete.tokens) in (5, 6) and len(truncated.tokens) == 4 and truncated.truncated


def test_invalid_prompts_are_rejected():
    model = engine()
    with pytest.raises(DataError, match="prompt 2: no tokens"):
        model.encode([[1], []])
    for token in (97, -1):
        with pytest.raises(DataError, match=f"prompt 1: token {token} is outside the vocabulary of 97"):
            model.encode([[4, token]])
    assert search(model, inputs([]), OPTIONS["greedy"]) == []


def test_unsupported_settings_and_shortlists_are_rejected():
    for name, value in (("sinusoids", "halves"), ("decoder_heads", 2), ("output_scale", True)):
        with pytest.raises(SettingsError, match=f"unknown setting '{name}'"):
            parse(DecoderOnlySettings, GPT2.model_dump() | {name: value}, "config.json")
    empty = np.zeros(0, np.int32)
    shortlist = Shortlist(np.array([3], np.int32), np.zeros(98, np.int32), empty, 97)
    with pytest.raises(ModelError, match="source tokens, but a decoder-only model has none"):
        engine().with_shortlist(shortlist)


def test_weight_shapes_of_decoder_only_models_match_torch():
    state = {name: tensor.numpy() for name, tensor in MODEL.state_dict().items()}
    from uwaga.engine.layout import stored_shapes

    expected = stored_shapes(GPT2, 97, 97)
    assert not [name for name in expected if "cross" in name or "encoder" in name or "source" in name]
    assert {name: values.shape for name, values in state.items() if name != "embedding.weight"} == expected
