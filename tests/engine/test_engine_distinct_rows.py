"""Beams that are equal before the first token are computed only once, which does not change results."""

import numpy as np
import pytest
from native_models import native_model, random_model, sentences
from recurrent_variants import VARIANTS

from uwaga.decoder import Choice
from uwaga.settings import TransformerSettings

SHAPE = TransformerSettings(
    encoder_layers=1, decoder_layers=2, width=16, heads=2, feed_forward=24, max_length=24
)
SHAPES = [SHAPE, VARIANTS["bahdanau"], VARIANTS["luong"], VARIANTS["cho"]]
BEAMS = 4


def candidates_of(step, rows):
    return step.tokens[rows].tolist(), step.log_probs[rows].tolist()


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.family)
def test_first_step_of_equal_beams_equals_single_beam_step(shape, precision, threads):
    engine, sources = native_model(random_model(shape, spread=3.0), precision, threads), sentences(9)
    memory = engine.encode(sources)
    start = np.full(len(sources), engine.symbols.start)
    single = engine.step(start, engine.start(memory, 1), Choice(count=3))
    beams = engine.step(np.repeat(start, BEAMS), engine.start(memory, BEAMS), Choice(count=3))
    for beam in range(BEAMS):
        rows = np.arange(len(sources)) * BEAMS + beam
        assert candidates_of(beams, rows) == candidates_of(single, slice(None))
    # Each beam continues from the shared state.
    tokens = np.arange(len(sources) * BEAMS) % engine.vocabulary
    later = engine.step(tokens, beams.state, Choice(count=3))
    for beam in range(BEAMS):
        rows = np.arange(len(sources)) * BEAMS + beam
        assert candidates_of(later, rows) == candidates_of(
            engine.step(tokens[rows], single.state, Choice(count=3)), slice(None)
        )


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.family)
def test_first_step_of_distinct_rows_equals_one_step_per_row(shape):
    engine, sources = native_model(random_model(shape, spread=3.0)), sentences(3)
    rows = len(sources) * BEAMS
    memory = engine.encode(sources)
    tokens = np.arange(rows) % engine.vocabulary
    banned = np.array([[row, row % engine.vocabulary] for row in range(rows)])
    forced = np.where(np.arange(rows) % 3 == 0, 6, -1)
    for step_tokens, options in (
        (tokens, {}),
        (np.full(rows, engine.symbols.start), {"banned": banned}),
        (np.full(rows, engine.symbols.start), {"forced": forced}),
    ):
        step = engine.step(step_tokens, engine.start(memory, BEAMS), Choice(count=3, **options))
        for row in range(rows):
            row_options = dict(options)
            if "banned" in row_options:
                row_options["banned"] = np.array([[0, banned[row, 1]]])
            if "forced" in row_options:
                row_options["forced"] = forced[row : row + 1]
            row_memory = engine.encode([sources[row // BEAMS]])
            expected = engine.step(
                step_tokens[row : row + 1], engine.start(row_memory, 1), Choice(count=3, **row_options)
            )
            assert candidates_of(step, row) == candidates_of(expected, 0)
