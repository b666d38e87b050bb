"""Matrices of chosen layers and heads: labels, words, errors that name what there is, and figures."""

from __future__ import annotations

import io

import numpy as np
import pytest
import tiny_models as tiny
from precision import close_for

from uwaga.errors import SettingsError
from uwaga.inspection import Selection, align, draw_matrices, matrices, save_figure
from uwaga.results.attention import Attentions
from uwaga.results.translation import Translation
from uwaga.translator import AttendedText, Model, Translator

JOINT = tiny.tokeniser()


@pytest.fixture(scope="module")
def led() -> Translation:
    model = Translator(Model(tiny.transformer(tiny.TINY, JOINT, JOINT), JOINT, JOINT, tiny.SEARCH))
    return model.attend("The dog sees the cat.", "Der Hund sieht die Katze.")


def read_alone(kind: str = "encoder", layers: int = 3, tokens: str = "[CLS] un ##happy cat [SEP]"):
    pieces = tuple(tokens.split())
    table = np.random.default_rng(0).random((layers, 2, len(pieces), len(pieces))).astype(np.float32)
    return AttendedText("", pieces, Attentions(**{kind: table / table.sum(-1, keepdims=True)}))


def test_the_default_is_what_align_shows(led):
    [found], wanted = matrices(led), align(led)
    assert (found.source, found.target) == (wanted.source, wanted.target)
    np.testing.assert_allclose(found.weights, wanted.weights, **close_for(1.0))
    assert (found.kind, found.layer, found.head) == ("cross", 2, None)
    assert found.title == "cross, layer 2, mean of heads"


def test_every_matrix_in_its_order_with_its_labels(led):
    every = Selection(("encoder", "decoder", "cross"), "all", "all")
    found = matrices(led, every, title="tiny")
    shape = [("encoder", 1), ("decoder", 2), ("cross", 2)]
    names = [
        (kind, layer + 1, head + 1) for kind, many in shape for layer in range(many) for head in range(2)
    ]
    assert [(one.kind, one.layer, one.head) for one in found] == names
    assert found[0].title == "tiny: encoder, layer 1, head 1"
    for one, (kind, layer, head) in zip(found, names, strict=True):
        assert np.array_equal(one.weights, getattr(led.attentions, kind)[layer - 1, head - 1])
    encoder, decoder, cross = found[0], found[2], found[-1]
    assert encoder.source == encoder.target == cross.source
    assert decoder.target == cross.target and decoder.target[-1] == "</s>"
    assert decoder.source == ("<s>", *decoder.target[:-1])


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_rows_of_words_sum_to_1(led, kind):
    for one in matrices(led, Selection((kind,), "all", "all"), words=True):
        np.testing.assert_allclose(one.weights.sum(-1), 1.0, **close_for(1.0))
        german, english = ("Der", "Hund", "sieht", "die", "Katze."), ("The", "dog", "sees", "the", "cat.")
        assert one.target == (*(english if kind == "encoder" else german), "</s>")
        assert one.source == (("<s>", *german) if kind == "decoder" else (*english, "</s>"))


def test_words_add_up_what_is_looked_at_and_average_who_looks():
    text = read_alone()
    pieces, words = (matrices(text, Selection((), [2], [1]), words=each)[0] for each in (False, True))
    assert words.source == words.target == ("[CLS]", "unhappy", "cat", "[SEP]")
    joined = np.add.reduceat(pieces.weights, [0, 1, 3, 4], axis=1)
    wanted = np.stack([joined[0], joined[1:3].mean(axis=0), joined[3], joined[4]])
    np.testing.assert_allclose(words.weights, wanted, **close_for(1.0))


def test_a_second_sentence_starts_anew():
    table = np.zeros((1, 1, 5, 5), np.float32)
    joined = Translation("", 0.0, ("▁a", "</s>", "▁b", "c"), (0.0,) * 5, attentions=Attentions(decoder=table))
    [found] = matrices(joined)
    assert found.target == ("a", "</s>", "b", "c", "</s>")
    assert found.source == ("<s>", "a", "<s>", "b", "c")
    assert matrices(joined, words=True)[0].source == ("<s>", "a", "<s>", "bc")


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (
            {"kinds": ("encoder",), "layers": [7]},
            "layer 7: the model has 3 encoder layers with 2 heads; give 1 to 3",
        ),
        (
            {"heads": [1, 3]},
            "head 3: the model has 3 encoder layers with 2 heads; give 1 to 2, 'mean' or 'all'",
        ),
        ({"kinds": ("cross",)}, "has no cross-attention; it has encoder: 3 encoder layers with 2 heads"),
    ],
)
def test_what_a_model_lacks_is_named(chosen, message):
    with pytest.raises(SettingsError, match=message):
        matrices(read_alone(), Selection(**chosen))


@pytest.mark.parametrize(
    "chosen",
    [{"kinds": ("crossed",)}, {"layers": "first"}, {"layers": [0]}, {"heads": [True]}, {"heads": "last"}],
    ids=str,
)
def test_what_no_model_has_is_refused(chosen):
    with pytest.raises(SettingsError, match="must be"):
        Selection(**chosen)


def test_without_a_recording_there_is_nothing():
    with pytest.raises(SettingsError, match="translate with attention='all'"):
        matrices(Translation("", 0.0, (), ()))


@pytest.mark.parametrize(("layers", "length"), [(3, 5), pytest.param(12, 40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_small_multiples_are_drawn(tmp_path, layers, length, ending):
    text = read_alone("decoder", layers, " ".join(f"Ġ$w{at}" for at in range(length)))
    figure = draw_matrices(matrices(text, Selection((), "all", "all")))
    assert len(figure.axes) == 2 * layers
    place = tmp_path / f"every.{ending}"
    save_figure(figure, place)
    assert place.stat().st_size < 2_000_000
    again = io.BytesIO(place.read_bytes())
    save_figure(draw_matrices(matrices(text, Selection((), "all", "all"))), place)
    assert again.getvalue() == place.read_bytes()


def test_rows_of_unlike_models_stand_below_each_other(led):
    both = [*matrices(led, Selection((), "all", "all")), *matrices(read_alone(), title="alone")]
    figure = draw_matrices(both)
    assert len(figure.axes) == 3 * 2
    with pytest.raises(SettingsError, match="no matrix"):
        draw_matrices([])
