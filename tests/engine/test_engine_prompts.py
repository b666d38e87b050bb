"""Decoders without a source on the engine: torch's numbers and tokens, and the same bits in any company."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from native_models import SYMBOLS, WHOLE, walk
from precision import close_for
from prompted_models import FAMILIES, decoder_only, family, native_decoder, prompts, random_decoder

from uwaga.decoder import Choice
from uwaga.engine import NativeModel, Shortlist, _core
from uwaga.engine.cpu import usable
from uwaga.engine.layout import products
from uwaga.engine.packing import pack
from uwaga.engine.product import weight_name
from uwaga.errors import DataError, ModelError, SettingsError, TextTooLongError
from uwaga.search import SearchOptions, search
from uwaga.settings import DecoderOnlySettings, parse

pytestmark = pytest.mark.numerical

GPT2 = DecoderOnlySettings(
    layers=3,
    width=24,
    heads=3,
    feed_forward=44,
    activation="gelu_tanh",
    norm="pre",
    max_length=40,
    embedding_scale=False,
)
MODEL = random_decoder(GPT2, spread=2.0, vocabulary=97)
MODELS = {"gpt2": MODEL} | {
    name: random_decoder(family(name), spread=1.5, vocabulary=97) for name in FAMILIES
}
PROMPTS = prompts(200, seed=1, longest=28, vocabulary=97)
WAYS = {
    "greedy": SearchOptions(beam=1, max_length=10),
    "beam": SearchOptions(beam=4, nbest=2, max_length=10),
    "samples": SearchOptions(sample=True, nbest=2, max_length=10, top_p=0.9, seed=4),
}
PRECISIONS = ("float32", "bfloat16", "int8")


@cache
def engine(precision="float32", threads=1, shared_width=384, name="gpt2"):
    return native_decoder(MODELS[name], precision, threads, shared_width=shared_width)


def worst(model, other, given, steps=5):
    both = walk(model, other, given, steps, start=None)
    return max(np.abs(a.log_probs - b.log_probs).max() for a, b in both)


def spelt(model, prompt, behind=()):
    """The log-probabilities behind a prompt that is read token by token."""
    state = model.start(model.encode([prompt[:1]]), 1)
    for token in (SYMBOLS.start, *prompt[1:], *behind):
        made = model.step(np.array([token]), state, WHOLE)
        state = made.state
    return made.log_probs[0]


def following(model, given):
    """The log-probabilities of three steps behind prompts, two rows each."""
    state, made = model.start(model.encode(given), 2), []
    for token in (SYMBOLS.start, 4, 5):
        step = model.step(np.full(2 * len(given), token), state, WHOLE)
        state = step.state
        made.append(step.log_probs)
    return np.stack(made, 1)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(decoder_only(), st.integers(0, 1000))
@example(GPT2.model_copy(update={"max_length": 24}), 0)
def test_M18_log_probabilities_are_torchs_for_every_setting(shape, seed):
    model = random_decoder(shape, seed)
    assert worst(model, native_decoder(model), prompts(4, seed)) < 1e-4


@pytest.mark.parametrize("isa", usable())
@pytest.mark.parametrize("name", MODELS)
def test_M18_every_instruction_set_gives_torchs_numbers(name, isa):
    assert worst(MODELS[name], native_decoder(MODELS[name], isa=isa), PROMPTS[:5]) < 1e-4


@pytest.mark.parametrize("way", sorted(WAYS))
def test_M18_tokens_are_torchs(way):
    """Sampled ones too: the draws are the search's."""
    ours, theirs = (search(model, PROMPTS[:40], WAYS[way]) for model in (engine(), MODEL))
    for one, other in zip(ours, theirs, strict=True):
        assert [way.tokens for way in one] == [way.tokens for way in other]
        scores = [way.score for way in other]
        np.testing.assert_allclose([way.score for way in one], scores, **close_for(scores))


def unspread(model):
    """The engine in int8 without spread inputs."""
    state = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    sizes = (model.vocabulary, model.vocabulary)
    packed = pack(model.settings, *sizes, state.__getitem__, "int8")
    matrices = dict(packed.matrices)
    for product in products(model.settings, *sizes):
        whole = np.concatenate([state[weight_name(part)] for part in product.parts])
        arrays = _core.pack_int8(whole, 127)
        matrices[product.name] = replace(matrices[product.name], arrays=arrays, spread=False)
    return NativeModel(model.settings, SYMBOLS, *sizes, replace(packed, matrices=matrices))


def test_a_few_large_inputs_cost_int8_little():
    model = random_decoder(family("llama", width=144, feed_forward=96), vocabulary=97)
    with torch.no_grad():
        for block in model.decoder:
            for norm in (block.attention_norm, block.feed_forward_norm):
                norm.weight[[7, 70]] *= 100
    given = prompts(30, seed=4, longest=20, vocabulary=97)

    def error(rounded):
        both = walk(native_decoder(model), rounded, given, 2, start=None)
        return float(np.mean([np.abs(one.log_probs - other.log_probs).mean() for one, other in both]))

    assert error(native_decoder(model, "int8")) < 0.7 * error(unspread(model))


@pytest.mark.parametrize("name", MODELS)
def test_int8_and_bfloat16_are_near_float32(name):
    shape = GPT2.model_copy(update={"width": 96}) if name == "gpt2" else family(name, width=96)
    model = random_decoder(shape)
    exact = native_decoder(model)
    for precision, bound in (("bfloat16", 0.02), ("int8", 0.03 if name == "gpt2" else 0.05)):
        near = native_decoder(model, precision)
        steps = walk(exact, near, prompts(6), 6, start=None)
        assert 0 < np.mean([np.abs(a.log_probs - b.log_probs).mean() for a, b in steps]) < bound


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("precision", PRECISIONS)
@settings(max_examples=6, deadline=None)
@given(
    st.lists(st.integers(0, 96), min_size=1, max_size=36),
    st.lists(st.integers(0, 96), max_size=3),
    st.integers(1, 3),
)
def test_a_prompt_read_as_a_block_is_read_token_by_token_to_the_bit(name, precision, prompt, behind, threads):
    model = engine(precision, threads, 1, name)
    state = model.start(model.encode([PROMPTS[0], prompt]), 1)
    for token in (SYMBOLS.start, *behind):
        made = model.step(np.array([token, token]), state, WHOLE)
        state = made.state
    assert np.array_equal(made.log_probs[1], spelt(engine(precision, name=name), prompt, behind))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", ["gpt2", "gemma2"])
def test_prompts_of_several_blocks_are_read_alike(name, precision):
    """A thread takes 256 tokens at a time: here prompts begin, go on and end in any of them."""
    shape = MODELS[name].settings.model_copy(update={"max_length": 700, "layers": 2})
    model = random_decoder(shape, vocabulary=97)
    rng = np.random.default_rng(5)
    long = [rng.integers(0, 97, length).tolist() for length in (600, 1, 257, 256, 2, 31, 300)]
    single = native_decoder(model, precision)
    apart = [single.step(np.zeros(1, int), single.start(single.encode([one]), 1), WHOLE) for one in long]
    assert np.array_equal(apart[0].log_probs[0], spelt(single, long[0]))
    for threads in (1, 2, 4):
        several = native_decoder(model, precision, threads)
        found = several.step(np.zeros(7, int), several.start(several.encode(long), 1), WHOLE)
        assert np.array_equal(found.log_probs, np.concatenate([step.log_probs for step in apart]))


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "gemma3"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_prompts_that_begin_alike_are_read_as_alone(name, precision):
    """Beginnings within beginnings, of any length, equal prompts, and prompts that another one goes on."""
    rng = np.random.default_rng(6)
    shape = MODELS[name].settings.model_copy(update={"max_length": 200})
    model = random_decoder(shape, vocabulary=97)
    template = rng.integers(0, 97, 100).tolist()
    texts = [rng.integers(0, 97, length).tolist() for length in (1, 2, 20, 20, 33)]
    for kept in (15, 16, 17, 60, 61, 100):
        texts += [template[:kept] + rng.integers(0, 97, own).tolist() for own in (0, 1, 30)]
    nested = template + rng.integers(0, 97, 40).tolist()
    texts += [[*nested, 5], [*nested, 6, 7], nested, nested, [9]]
    expected = np.concatenate([following(native_decoder(model, precision), [text]) for text in texts])
    for threads in (1, 2, 3):
        order = rng.permutation(len(texts))
        found = following(native_decoder(model, precision, threads), [texts[number] for number in order])
        rows = (2 * order[:, None] + np.arange(2)).ravel()
        assert np.array_equal(found, expected[rows])


def test_a_beginning_outlives_the_sentences_that_share_it():
    """The keys that several prompts share stay until the last of them is done."""
    model = engine("int8", name="gemma3")
    texts = [(*range(1, 31), own) for own in (40, 41, 42)]
    alone = [search(model, [text], WAYS["beam"])[0] for text in texts]
    state = model.start(model.encode(texts), 1)
    state = model.step(np.zeros(3, int), state, Choice(1)).state
    left = state.select(np.array([1]))
    del state
    for _ in range(40):
        assert [search(model, [text], WAYS["beam"])[0] for text in texts] == alone
    expected = model.step(np.zeros(1, int), model.start(model.encode(texts[1:2]), 1), Choice(1)).state
    one, other = (model.step(np.full(1, 7), each, WHOLE).log_probs for each in (left, expected))
    assert np.array_equal(one, other)


TEMPLATES = [np.random.default_rng(7).integers(0, 97, 60).tolist()]
TEMPLATES += [[*TEMPLATES[0][:kept], *range(own)] for kept, own in ((31, 20), (16, 40), (0, 33), (15, 9))]
SHARING = {name: random_decoder(family(name, max_length=120), spread=1.5, vocabulary=97) for name in FAMILIES}


@pytest.mark.parametrize("precision", PRECISIONS)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(sorted(SHARING)),
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
def test_calls_that_share_beginnings_give_the_bits_of_a_model_without_calls(precision, name, calls, threads):
    model = SHARING[name]
    several = native_decoder(model, precision, threads, shared_width=1)
    for call in calls:
        given = [template + text for template, text in call]
        expected = [following(native_decoder(model, precision), [prompt]) for prompt in given]
        assert np.array_equal(following(several, given), np.concatenate(expected))


def test_a_beginning_is_kept_from_the_second_call_on_that_has_it():
    model = native_decoder(SHARING["gemma3"], "int8")
    template, other = TEMPLATES[0], TEMPLATES[3]
    kept = []
    for text in ([70, 1], [71, 2, 3], [72], [73, 4, 4, 4]):
        model.encode([template + text])
        kept.append(model._core.kept_tokens)
    assert kept == [0, 60, 60, 60]
    model.encode([[*other, 5, 6], [*other, 7]])
    assert model._core.kept_tokens == 60 + len(other)
    for first in range(20):
        model.encode([[first, *range(30)]])
    assert model._core.kept_tokens == 0


def test_beginnings_are_kept_up_to_a_limit():
    shape = family("llama", max_length=2600, layers=1)
    model = native_decoder(random_decoder(shape, vocabulary=97))
    for length, kept in ((900, [900, 1800, 1800]), (2500, [2048])):
        for first, tokens in enumerate(kept):
            for last in (4, 5, 6):
                model.encode([[*[first] * length, last]])
            assert model._core.kept_tokens == tokens


def test_threads_share_beginnings():
    model = SHARING["qwen3"]
    together = native_decoder(model, "int8", 2)
    rng = np.random.default_rng(8)
    given = [TEMPLATES[at % 3] + rng.integers(0, 97, 9).tolist() for at in range(40)]
    expected = [following(native_decoder(model, "int8"), [prompt]) for prompt in given]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda prompt: following(together, [prompt]), given))
    assert all(map(np.array_equal, found, expected))


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize("name", ["gpt2", "gemma2"])
def test_M21_results_are_the_same_bits_alone_and_in_any_batch(name, precision, way):
    """Hypotheses hold tokens and every score: equality is of bits."""
    single = engine(precision, name=name)
    expected = [found for one in PROMPTS for found in search(single, [one], WAYS[way])]
    rng = np.random.default_rng(3)
    for threads, budget, shared in ((1, 4096, 384), (2, 700, 1), (3, 40, 384), (4, 2000, 384)):
        order = rng.permutation(len(PROMPTS)).tolist()
        options = replace(WAYS[way], batch_tokens=budget)
        several = engine(precision, threads, shared, name)
        found = search(several, [PROMPTS[number] for number in order], options)
        assert found == [expected[number] for number in order]


def test_M21_a_memory_may_be_started_and_stepped_any_number_of_times():
    model = engine()
    memory = model.encode(PROMPTS[:3])
    assert memory.sentences == 3
    assert memory.lengths.tolist() == [len(prompt) for prompt in PROMPTS[:3]]
    expected = model.step(np.zeros(3, int), model.start(memory, 1), WHOLE).log_probs
    state = model.start(memory, 2)
    for _ in range(9):
        state = model.step(np.full(6, 5), state, Choice(1)).state
    again = model.step(np.full(3, 9), model.start(memory, 1), WHOLE)  # what it is given is not looked at
    assert np.array_equal(again.log_probs, expected)
    assert again.attention is None
    twice = model.step(np.zeros(6, int), model.start(memory, 2), WHOLE).log_probs
    assert np.array_equal(twice, np.repeat(expected, 2, axis=0))


def test_M21_joined_states_step_as_apart():
    model = engine("int8")
    one = model.start(model.encode(PROMPTS[:2]), 2)
    for token in (5, 6, 7):
        one = model.step(np.full(4, token), one, Choice(1)).state
    other = model.start(model.encode(PROMPTS[2:4]), 2)
    joined = model.join(one, other)
    tokens = np.arange(8, 16)
    for _ in range(3):
        together = model.step(tokens, joined, Choice(9))
        apart = [model.step(tokens[:4], one, Choice(9)), model.step(tokens[4:], other, Choice(9))]
        assert np.array_equal(together.log_probs, np.concatenate([step.log_probs for step in apart]))
        joined, one, other = together.state, apart[0].state, apart[1].state


def test_threads_share_a_model():
    model = engine("int8", 2)
    expected = search(engine("int8"), PROMPTS, WAYS["greedy"])
    found = {}

    def work(start):
        found[start] = search(model, PROMPTS[start::4], WAYS["greedy"])

    crowd = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    assert all(found[start] == expected[start::4] for start in range(4))


def test_where_the_positions_end_is_said():
    model = engine()
    with pytest.raises(TextTooLongError, match=r"prompt 2: 41 tokens, .*at most 40"):
        model.encode([[1], [1] * 41])
    state = model.start(model.encode([[1] * 40, [2]]), 1)
    state = model.step(np.zeros(2, int), state, Choice(1)).state
    with pytest.raises(TextTooLongError, match=r"take 41 positions.* has 40: shorten the prompt"):
        model.step(np.zeros(2, int), state, Choice(1))
    options = SearchOptions(beam=1, min_length=5, max_length=6)
    whole, cut = (best for [best] in search(model, [[1] * 35, [1] * 37], options))
    assert len(whole.tokens) in (5, 6) and len(cut.tokens) == 4 and cut.truncated


def test_prompts_that_are_none_are_refused():
    model = engine()
    with pytest.raises(DataError, match="prompt 2: no tokens"):
        model.encode([[1], []])
    for token in (97, -1):
        with pytest.raises(DataError, match=f"prompt 1: token {token} is outside the vocabulary of 97"):
            model.encode([[4, token]])
    assert search(model, [], WAYS["greedy"]) == []


def test_what_a_decoder_only_model_lacks_is_refused_by_name():
    for name, value in (("sinusoids", "halves"), ("decoder_heads", 2), ("output_scale", True)):
        with pytest.raises(SettingsError, match=f"unknown setting '{name}'"):
            parse(DecoderOnlySettings, GPT2.model_dump() | {name: value}, "config.json")
    empty = np.zeros(0, np.int32)
    lists = Shortlist(np.array([3], np.int32), np.zeros(98, np.int32), empty, 97)
    with pytest.raises(ModelError, match="source tokens, but a decoder-only model has none"):
        engine().with_shortlist(lists)


def test_nothing_is_held_for_a_source():
    state = {name: tensor.numpy() for name, tensor in MODEL.state_dict().items()}
    from uwaga.engine.layout import stored_shapes

    wanted = stored_shapes(GPT2, 97, 97)
    assert not [name for name in wanted if "cross" in name or "encoder" in name or "source" in name]
    assert {name: values.shape for name, values in state.items() if name != "embedding.weight"} == wanted
