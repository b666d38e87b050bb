"""Beams that are alike before the first token are computed once, and nobody can tell."""

import numpy as np
import pytest
from native_models import native, random_model, sentences
from recurrent_variants import VARIANTS

from uwaga.decoder import Choice
from uwaga.settings import TransformerSettings

SHAPE = TransformerSettings(
    encoder_layers=1, decoder_layers=2, width=16, heads=2, feed_forward=24, max_length=24
)
SHAPES = [SHAPE, VARIANTS["bahdanau"], VARIANTS["luong"], VARIANTS["cho"]]
BEAMS = 4


def of_rows(made, rows):
    return made.tokens[rows].tolist(), made.log_probs[rows].tolist()


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.family)
def test_the_first_step_of_every_beam_is_that_of_a_beam_alone(shape, precision, threads):
    engine, sources = native(random_model(shape, spread=3.0), precision, threads), sentences(9)
    memory = engine.encode(sources)
    start = np.full(len(sources), engine.symbols.start)
    alone = engine.step(start, engine.start(memory, 1), Choice(count=3))
    beams = engine.step(np.repeat(start, BEAMS), engine.start(memory, BEAMS), Choice(count=3))
    for beam in range(BEAMS):
        rows = np.arange(len(sources)) * BEAMS + beam
        assert of_rows(beams, rows) == of_rows(alone, slice(None))
    # Each goes on by itself from what they share.
    tokens = np.arange(len(sources) * BEAMS) % engine.vocabulary
    later = engine.step(tokens, beams.state, Choice(count=3))
    for beam in range(BEAMS):
        rows = np.arange(len(sources)) * BEAMS + beam
        assert of_rows(later, rows) == of_rows(
            engine.step(tokens[rows], alone.state, Choice(count=3)), slice(None)
        )


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.family)
def test_beams_that_are_not_alike_get_what_each_asks_for(shape):
    engine, sources = native(random_model(shape, spread=3.0)), sentences(3)
    rows = len(sources) * BEAMS
    memory = engine.encode(sources)
    tokens = np.arange(rows) % engine.vocabulary
    banned = np.array([[row, row % engine.vocabulary] for row in range(rows)])
    forced = np.where(np.arange(rows) % 3 == 0, 6, -1)
    for given, asked in (
        (tokens, {}),
        (np.full(rows, engine.symbols.start), {"banned": banned}),
        (np.full(rows, engine.symbols.start), {"forced": forced}),
    ):
        made = engine.step(given, engine.start(memory, BEAMS), Choice(count=3, **asked))
        for row in range(rows):
            own = dict(asked)
            if "banned" in own:
                own["banned"] = np.array([[0, banned[row, 1]]])
            if "forced" in own:
                own["forced"] = forced[row : row + 1]
            one = engine.encode([sources[row // BEAMS]])
            law = engine.step(given[row : row + 1], engine.start(one, 1), Choice(count=3, **own))
            assert of_rows(made, row) == of_rows(law, 0)
