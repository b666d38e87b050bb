"""Edited attention on the engine: torch's numbers, the same bits in steps, in batches and recorded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from native_models import SYMBOLS, native, random_model, sentences, shapes
from precision import close_for
from prompted_models import native_decoder, prompts, random_decoder

from uwaga.decoder import Choice
from uwaga.engine.interventions import KINDS, REPLACEMENTS, Heads, Positions
from uwaga.errors import SettingsError
from uwaga.models.interventions import with_interventions
from uwaga.search import SearchOptions, search
from uwaga.settings import DecoderOnlySettings, TransformerSettings
from uwaga.translator.score import parallel_scorer, step_scorer

pytestmark = pytest.mark.numerical

BASE = TransformerSettings(
    encoder_layers=3, decoder_layers=2, width=24, heads=2, feed_forward=36, max_length=24, dropout=0.0
)
MODEL = random_model(BASE, spread=2.0)
SOURCES, TARGETS = sentences(5, seed=3), sentences(5, seed=4)


def fed(targets):
    return [[SYMBOLS.start, *target[:-1]] for target in targets]


def drawn(settings: TransformerSettings, source: int, target: int, rng: np.random.Generator):
    """Draw one to three interventions for a sentence with these lengths."""
    kinds = [kind for kind in KINDS if kind != "decoder" or settings.self_attention == "attention"]
    made = []
    for _ in range(rng.integers(1, 4)):
        kind = kinds[rng.integers(len(kinds))]
        encoder = kind == "encoder"
        layers = settings.encoder_layers if encoder else settings.decoder_layers
        heads = settings.heads if encoder else settings.decoder_heads or settings.heads
        rows, columns = {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}[
            kind
        ]
        head = None if rng.random() < 0.3 else int(rng.integers(1, heads + 1))
        seen = np.tril(np.ones((rows, columns))) if kind == "decoder" else np.ones((rows, columns))
        table = rng.random((heads if head is None else 1, rows, columns)) * seen
        choices = [None, table, table[0], *(one for one in REPLACEMENTS if one != "alone" or head)]
        made.append(
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
        made.append(Positions(side, tuple(int(at) for at in rng.permutation(min(source, target)))))
    return made


def check_torch(shape: TransformerSettings, seed: int) -> None:
    model, rng = random_model(shape, seed), np.random.default_rng(seed)
    [source], [target] = sentences(1, seed), sentences(1, seed + 1)
    interventions = drawn(shape, len(source), len(target), rng)
    ours, theirs = native(model).edited(*interventions), with_interventions(model, interventions)
    [mine], [wanted] = (each.attentions([source], fed([target])) for each in (ours, theirs))
    for name in KINDS:
        one, other = getattr(mine, name), getattr(wanted, name)
        if other is not None:
            np.testing.assert_allclose(one, other, atol=1e-4)
    scores = step_scorer(ours)([source], [target]), parallel_scorer(theirs)([source], [target])
    np.testing.assert_allclose(*scores, atol=1e-3, rtol=1e-4)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(shapes(), st.integers(0, 10_000))
def test_random_edits_are_those_of_torch(shape, seed):
    check_torch(shape, seed)


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(shapes(), st.integers(0, 10_000))
def test_200_random_edits_are_those_of_torch(shape, seed):
    check_torch(shape, seed)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_without_an_edit_no_bit_changes(precision):
    plain = native(MODEL, precision)
    same = plain.edited(), plain.edited(Heads("cross", 1)), plain.edited(Positions("source", (0, 1, 2)))
    options = SearchOptions(beam=3, max_length=12)
    wanted = search(plain, SOURCES, options)
    for model in same:
        found = search(model, SOURCES, options)
        assert [(each.tokens, each.token_scores) for each in found[0]] == [
            (each.tokens, each.token_scores) for each in wanted[0]
        ]


EDITS = [
    Heads("encoder", 2, 1, "uniform"),
    Heads("cross", None, 2, "diagonal"),
    Heads("decoder", 1, 1, "silent"),
]


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_sentence_alone_and_in_a_batch_have_the_same_bits(precision, threads):
    model = native(MODEL, precision, threads=threads).edited(*EDITS)
    together = step_scorer(model)(SOURCES, TARGETS)
    alone = [
        step_scorer(model)([source], [target])[0] for source, target in zip(SOURCES, TARGETS, strict=True)
    ]
    assert together == alone
    maps = model.attentions(SOURCES, fed(TARGETS))
    for source, target, found in zip(SOURCES, TARGETS, maps, strict=True):
        [own] = model.attentions([source], fed([target]))
        assert all(np.array_equal(getattr(own, kind), getattr(found, kind)) for kind in KINDS)
        state = model.start(model.encode([source]), 1)
        for at, token in enumerate(fed([target])[0]):
            step = model.step(np.array([token]), state, Choice(count=1, attention=True))
            state = step.state
            np.testing.assert_allclose(step.attention[0], found.cross[-1, :, at].mean(0), **close_for(1.0))


def test_the_weights_are_those_of_the_edit():
    [source], [target] = SOURCES[:1], TARGETS[:1]
    mask = np.ones((len(target), len(source)), dtype=bool)
    mask[:, 1] = mask[2] = False
    [found] = (
        native(MODEL)
        .edited(
            Heads("encoder", 1, 2, "alone"), Heads("cross", 1, 1, mask=mask), Heads("cross", 2, 2, scale=0.0)
        )
        .attentions([source], fed([target]))
    )
    np.testing.assert_array_equal(
        found.encoder[0].sum(-1) > 0.5, np.broadcast_to([[False], [True]], (2, len(source)))
    )
    assert not found.cross[0, 0, :, 1].any() and not found.cross[0, 0, 2].any()
    np.testing.assert_allclose(found.cross[0, 0, [0, 1]].sum(-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(found.cross[1, 1], 1 / len(source), atol=1e-6)


def test_edits_add_up_and_share_the_encoded_sources():
    plain = native(MODEL).keeping_sources()
    once = plain.edited(EDITS[0]).edited(*EDITS[1:])
    assert step_scorer(once)(SOURCES, TARGETS) == step_scorer(native(MODEL).edited(*EDITS))(SOURCES, TARGETS)
    scores = [
        step_scorer(each.edited(*EDITS[1:]))(SOURCES, TARGETS) for each in (plain, plain, native(MODEL))
    ]
    assert scores[0] == scores[1] == scores[2]
    assert step_scorer(plain)(SOURCES, TARGETS) == step_scorer(native(MODEL))(SOURCES, TARGETS)


def test_a_decoder_alone_is_edited_too():
    shape = DecoderOnlySettings(layers=2, width=24, heads=2, feed_forward=36, max_length=40, dropout=0.0)
    model = native_decoder(random_decoder(shape, 1))
    given = prompts(3, 1)
    [found] = model.edited(Heads("decoder", 1, 2, "uniform")).attentions(given[:1], [[SYMBOLS.start, 5, 4]])
    size = found.decoder.shape[-1]
    seen = np.tril(np.ones((size, size)))
    np.testing.assert_allclose(found.decoder[0, 1], seen / seen.sum(-1, keepdims=True), atol=1e-6)
    with pytest.raises(SettingsError, match="no cross attention"):
        model.edited(Heads("cross", 1))


EVERY = np.random.default_rng(3).random((2, 40, 40))


@pytest.mark.parametrize(
    "edits",
    [
        [Heads("decoder", None, 2, "uniform")],
        [Heads("decoder", 2, 1, "alone"), Heads("decoder", 1, None, "diagonal")],
        [Heads("decoder", 1, None, "silent")],
        [Heads("decoder", 2, weights=np.tril(EVERY)), Heads("decoder", 1, 1, mask=EVERY[0] < 0.7)],
        [Heads("decoder", 1, 2, scale=0.3), Positions("target", (3, 1, 0, 2))],
    ],
    ids=["uniform", "alone", "silent", "tables", "positions"],
)
def test_a_decoder_alone_is_edited_as_in_torch(edits):
    shape = DecoderOnlySettings(layers=2, width=24, heads=2, feed_forward=36, max_length=40, dropout=0.0)
    model = random_decoder(shape, 1)
    ours, theirs = native_decoder(model).edited(*edits), with_interventions(model, edits)
    given = [(*prompt, 5) for prompt in prompts(3, 1)]  # ends in no padding
    continued = [[5, 4, 3], [6, 3], [3]]
    for prompt, target in zip(given, continued, strict=True):
        [mine], [wanted] = (each.attentions([prompt], [[SYMBOLS.start, *target]]) for each in (ours, theirs))
        np.testing.assert_allclose(mine.decoder, wanted.decoder, atol=1e-4)
    scores = [np.concatenate(step_scorer(each)(given, continued)) for each in (ours, theirs)]
    scores.append(np.concatenate(parallel_scorer(theirs)(given, continued)))
    for one in scores[:2]:
        np.testing.assert_allclose(one, scores[2], atol=1e-3, rtol=1e-4)
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
        (Heads("cross", 1, weights="alone"), "name the head"),
        (Heads("cross", 1, weights=np.ones((3, 90, 90))), "a table of 3 heads does not fit 2"),
        (Heads("cross", 1, scale=float("nan")), "scale nan"),
        (Positions("source", (0, 24)), "position 24: the model has 24"),
        (Positions("middle", (0,)), "side 'middle'"),
    ],
)
def test_an_edit_that_the_model_lacks_is_refused_by_name(edit, message):
    with pytest.raises(SettingsError, match=message):
        native(MODEL).edited(edit)


def test_a_table_of_another_sentence_is_refused_and_the_model_stays_usable():
    for kind in KINDS:
        model = native(MODEL).edited(Heads(kind, 1, weights=np.ones((2, 2))))
        with pytest.raises(SettingsError, match=f"2 rows and 2 columns for {kind} attention does not fit"):
            step_scorer(model)(SOURCES[:1], TARGETS[:1])
        with pytest.raises(SettingsError, match="does not fit"):
            model.attentions(SOURCES[:1], fed(TARGETS[:1]))
