"""Attention interventions on the engine: agreement with torch, and in steps, batches and recordings."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from native_models import SYMBOLS, native_model, random_model, sentences, transformer_settings
from precision import tolerance
from prompted_models import prompts, random_decoder
from search_inputs import inputs

from uwaga.decoder import Choice
from uwaga.engine.interventions import ATTENTION_KINDS, REPLACEMENTS, Heads, Positions
from uwaga.errors import SettingsError
from uwaga.models.interventions import with_interventions
from uwaga.search import SearchOptions, search
from uwaga.settings import DecoderOnlySettings, TransformerSettings
from uwaga.translator.score import parallel_scorer, step_scorer
from uwaga.translator.text import TokenPair

pytestmark = pytest.mark.numerical

BASE = TransformerSettings(
    encoder_layers=3, decoder_layers=2, width=24, heads=2, feed_forward=36, max_length=24, dropout=0.0
)
MODEL = random_model(BASE, spread=2.0)
SOURCES, TARGETS = sentences(5, seed=3), sentences(5, seed=4)
PAIRS = list(map(TokenPair, SOURCES, TARGETS))


def decoder_inputs(targets):
    return [[SYMBOLS.start, *target[:-1]] for target in targets]


def random_interventions(settings: TransformerSettings, source: int, target: int, rng: np.random.Generator):
    """Return one to three random interventions for a sentence pair with the given lengths."""
    kinds = [kind for kind in ATTENTION_KINDS if kind != "decoder" or settings.self_attention == "attention"]
    interventions = []
    for _ in range(rng.integers(1, 4)):
        kind = kinds[rng.integers(len(kinds))]
        encoder = kind == "encoder"
        layers = settings.encoder_layers if encoder else settings.decoder_layers
        heads = settings.heads if encoder else settings.decoder_heads or settings.heads
        rows, columns = {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}[
            kind
        ]
        head = None if rng.random() < 0.3 else int(rng.integers(1, heads + 1))
        visible = np.tril(np.ones((rows, columns))) if kind == "decoder" else np.ones((rows, columns))
        table = rng.random((heads if head is None else 1, rows, columns)) * visible
        choices = [
            None,
            table,
            table[0],
            *(replacement for replacement in REPLACEMENTS if replacement != "alone" or head),
        ]
        interventions.append(
            Heads(
                kind,
                None if rng.random() < 0.3 else int(rng.integers(1, layers + 1)),
                head,
                choices[rng.integers(len(choices))],
                rng.random((rows, columns)) < 0.7 if rng.random() < 0.4 else None,
                float(rng.uniform(0.0, 2.0)) if rng.random() < 0.3 else None,
            )
        )
    if settings.positions != "relative" and rng.random() < 0.4:
        side = "source" if rng.random() < 0.5 else "target"
        interventions.append(
            Positions(side, tuple(int(position) for position in rng.permutation(min(source, target))))
        )
    return interventions


def check_torch(shape: TransformerSettings, seed: int) -> None:
    model, rng = random_model(shape, seed), np.random.default_rng(seed)
    [source], [target] = sentences(1, seed), sentences(1, seed + 1)
    interventions = random_interventions(shape, len(source), len(target), rng)
    engine, torch_model = (
        native_model(model).with_interventions(*interventions),
        with_interventions(model, interventions),
    )
    [actual], [expected] = (
        edited_model.attentions([source], decoder_inputs([target])) for edited_model in (engine, torch_model)
    )
    for name in ATTENTION_KINDS:
        actual_matrices, expected_matrices = getattr(actual, name), getattr(expected, name)
        if expected_matrices is not None:
            np.testing.assert_allclose(actual_matrices, expected_matrices, atol=1e-4)
    pair = TokenPair(source, target)
    scores = step_scorer(engine)([pair]), parallel_scorer(torch_model)([pair])
    np.testing.assert_allclose(*scores, atol=1e-3, rtol=1e-4)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(transformer_settings(), st.integers(0, 10_000))
def test_random_interventions_match_torch(shape, seed):
    check_torch(shape, seed)


@pytest.mark.release
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(transformer_settings(), st.integers(0, 10_000))
def test_200_random_interventions_match_torch(shape, seed):
    check_torch(shape, seed)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_empty_and_neutral_edits_do_not_change_results(precision):
    plain = native_model(MODEL, precision)
    unchanged = (
        plain.with_interventions(),
        plain.with_interventions(Heads("cross", 1)),
        plain.with_interventions(Positions("source", (0, 1, 2))),
    )
    options = SearchOptions(beam=3, max_length=12)
    expected = search(plain, inputs(SOURCES), options)
    for model in unchanged:
        results = search(model, inputs(SOURCES), options)
        assert [(hypothesis.tokens, hypothesis.token_scores) for hypothesis in results[0]] == [
            (hypothesis.tokens, hypothesis.token_scores) for hypothesis in expected[0]
        ]


EDITS = [
    Heads("encoder", 2, 1, "uniform"),
    Heads("cross", None, 2, "diagonal"),
    Heads("decoder", 1, 1, "silent"),
]


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("threads", [1, 3])
def test_edited_results_do_not_depend_on_the_batch(precision, threads):
    model = native_model(MODEL, precision, threads=threads).with_interventions(*EDITS)
    joint = step_scorer(model)(PAIRS)
    separate = [step_scorer(model)([pair])[0] for pair in PAIRS]
    assert joint == separate
    maps = model.attentions(SOURCES, decoder_inputs(TARGETS))
    for source, target, attentions in zip(SOURCES, TARGETS, maps, strict=True):
        [separate_attentions] = model.attentions([source], decoder_inputs([target]))
        assert all(
            np.array_equal(getattr(separate_attentions, kind), getattr(attentions, kind))
            for kind in ATTENTION_KINDS
        )
        state = model.start(model.encode([source]), 1)
        for position, token in enumerate(decoder_inputs([target])[0]):
            step = model.step(np.array([token]), state, Choice(count=1, attention=True))
            state = step.state
            np.testing.assert_allclose(
                step.attention[0], attentions.cross[-1, :, position].mean(0), **tolerance(1.0)
            )


def test_edits_replace_mask_or_scale_attention_weights():
    [source], [target] = SOURCES[:1], TARGETS[:1]
    mask = np.ones((len(target), len(source)), dtype=bool)
    mask[:, 1] = mask[2] = False
    [attentions] = (
        native_model(MODEL)
        .with_interventions(
            Heads("encoder", 1, 2, "alone"), Heads("cross", 1, 1, mask=mask), Heads("cross", 2, 2, scale=0.0)
        )
        .attentions([source], decoder_inputs([target]))
    )
    np.testing.assert_array_equal(
        attentions.encoder[0].sum(-1) > 0.5, np.broadcast_to([[False], [True]], (2, len(source)))
    )
    assert not attentions.cross[0, 0, :, 1].any() and not attentions.cross[0, 0, 2].any()
    np.testing.assert_allclose(attentions.cross[0, 0, [0, 1]].sum(-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(attentions.cross[1, 1], 1 / len(source), atol=1e-6)


def test_successive_edits_accumulate_with_cached_sources():
    plain = native_model(MODEL).caching_sources()
    edited_twice = plain.with_interventions(EDITS[0]).with_interventions(*EDITS[1:])
    assert step_scorer(edited_twice)(PAIRS) == step_scorer(native_model(MODEL).with_interventions(*EDITS))(
        PAIRS
    )
    scores = [
        step_scorer(model.with_interventions(*EDITS[1:]))(PAIRS)
        for model in (plain, plain, native_model(MODEL))
    ]
    assert scores[0] == scores[1] == scores[2]
    assert step_scorer(plain)(PAIRS) == step_scorer(native_model(MODEL))(PAIRS)


def test_edits_of_decoder_only_models_are_applied():
    shape = DecoderOnlySettings(layers=2, width=24, heads=2, feed_forward=36, max_length=40, dropout=0.0)
    model = native_model(random_decoder(shape, 1))
    sources = prompts(3, 1)
    [attentions] = model.with_interventions(Heads("decoder", 1, 2, "uniform")).attentions(
        sources[:1], [[SYMBOLS.start, 5, 4]]
    )
    size = attentions.decoder.shape[-1]
    visible = np.tril(np.ones((size, size)))
    np.testing.assert_allclose(attentions.decoder[0, 1], visible / visible.sum(-1, keepdims=True), atol=1e-6)
    with pytest.raises(SettingsError, match="no cross attention"):
        model.with_interventions(Heads("cross", 1))


WEIGHT_TABLE = np.random.default_rng(3).random((2, 40, 40))


@pytest.mark.parametrize(
    "edits",
    [
        [Heads("decoder", None, 2, "uniform")],
        [Heads("decoder", 2, 1, "alone"), Heads("decoder", 1, None, "diagonal")],
        [Heads("decoder", 1, None, "silent")],
        [
            Heads("decoder", 2, weights=np.tril(WEIGHT_TABLE)),
            Heads("decoder", 1, 1, mask=WEIGHT_TABLE[0] < 0.7),
        ],
        [Heads("decoder", 1, 2, scale=0.3), Positions("target", (3, 1, 0, 2))],
    ],
    ids=["uniform", "alone", "silent", "tables", "positions"],
)
def test_edits_of_decoder_only_models_match_torch(edits):
    shape = DecoderOnlySettings(layers=2, width=24, heads=2, feed_forward=36, max_length=40, dropout=0.0)
    model = random_decoder(shape, 1)
    engine, torch_model = native_model(model).with_interventions(*edits), with_interventions(model, edits)
    sources = [(*prompt, 5) for prompt in prompts(3, 1)]  # does not end in padding
    continued = [[5, 4, 3], [6, 3], [3]]
    for prompt, target in zip(sources, continued, strict=True):
        [actual], [expected] = (
            edited_model.attentions([prompt], [[SYMBOLS.start, *target]])
            for edited_model in (engine, torch_model)
        )
        np.testing.assert_allclose(actual.decoder, expected.decoder, atol=1e-4)
    pairs = list(map(TokenPair, sources, continued))
    scores = [np.concatenate(step_scorer(edited_model)(pairs)) for edited_model in (engine, torch_model)]
    scores.append(np.concatenate(parallel_scorer(torch_model)(pairs)))
    for step_scores in scores[:2]:
        np.testing.assert_allclose(step_scores, scores[2], atol=1e-3, rtol=1e-4)
    for kind in ("cross", "encoder"):
        with pytest.raises(SettingsError, match=f"no {kind} attention"):
            with_interventions(model, [Heads(kind, 1)])
    with pytest.raises(SettingsError, match="side source: a decoder-only model"):
        with_interventions(model, [Positions("source", (0,))])


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (Heads("cross", 3), "layer 3: the model has 2"),
        (Heads("encoder", 1, 5), "head 5: the layer has 2"),
        (Heads("sideways"), "kind 'sideways'"),
        (Heads("cross", 1, weights="loud"), "weights 'loud'"),
        (Heads("cross", 1, weights="alone"), "need a head"),
        (Heads("cross", 1, weights=np.ones((3, 90, 90))),
         "the array has 3 heads, but the number of selected heads is 2"),
        (Heads("cross", 1, scale=float("nan")), "scale nan"),
        (Positions("source", (0, 24)), "position 24: the model has 24"),
        (Positions("middle", (0,)), "side 'middle'"),
    ],
)  # fmt: skip
def test_invalid_edits_are_rejected(edit, message):
    with pytest.raises(SettingsError, match=message):
        native_model(MODEL).with_interventions(edit)


def test_replacement_weights_of_the_wrong_size_are_rejected():
    for kind in ATTENTION_KINDS:
        model = native_model(MODEL).with_interventions(Heads(kind, 1, weights=np.ones((2, 2))))
        with pytest.raises(SettingsError, match=f"2 rows and 2 columns for {kind} attention does not fit"):
            step_scorer(model)(PAIRS[:1])
        with pytest.raises(SettingsError, match="does not fit"):
            model.attentions(SOURCES[:1], decoder_inputs(TARGETS[:1]))
