"""Attention matrices of selected layers and heads: labels, words, errors and figures."""

import io

import numpy as np
import pytest
import tiny_models as tiny
from precision import tolerance

from uwaga.errors import SettingsError
from uwaga.inspection import Selection, align, draw_matrices, matrices, save_figure
from uwaga.results.attention import Attentions
from uwaga.results.translation import Translation
from uwaga.translator import AttendedText, Model, Translator

JOINT = tiny.tokeniser()


@pytest.fixture(scope="module")
def translation() -> Translation:
    model = Translator(Model(tiny.transformer(tiny.TINY, JOINT, JOINT), JOINT, JOINT, tiny.SEARCH))
    return model.attend("The dog sees the cat.", "Der Hund sieht die Katze.")


def attended_text(kind: str = "encoder", layers: int = 3, tokens: str = "[CLS] un ##happy cat [SEP]"):
    pieces = tuple(tokens.split())
    table = np.random.default_rng(0).random((layers, 2, len(pieces), len(pieces))).astype(np.float32)
    return AttendedText("", pieces, Attentions(**{kind: table / table.sum(-1, keepdims=True)}))


def test_default_attention_matrix_equals_the_alignment_matrix(translation):
    [actual], expected = matrices(translation), align(translation)
    assert (actual.source, actual.target) == (expected.source, expected.target)
    np.testing.assert_allclose(actual.weights, expected.weights, **tolerance(1.0))
    assert (actual.kind, actual.layer, actual.head) == ("cross", 2, None)
    assert actual.title == "cross, layer 2, mean of heads"


def test_all_attention_matrices_are_ordered_and_labelled(translation):
    selection = Selection(("encoder", "decoder", "cross"), "all", "all")
    alignments = matrices(translation, selection, title="tiny")
    shape = [("encoder", 1), ("decoder", 2), ("cross", 2)]
    names = [
        (kind, layer + 1, head + 1) for kind, layers in shape for layer in range(layers) for head in range(2)
    ]
    assert [(alignment.kind, alignment.layer, alignment.head) for alignment in alignments] == names
    assert alignments[0].title == "tiny: encoder, layer 1, head 1"
    for alignment, (kind, layer, head) in zip(alignments, names, strict=True):
        assert np.array_equal(alignment.weights, getattr(translation.attentions, kind)[layer - 1, head - 1])
    encoder, decoder, cross = alignments[0], alignments[2], alignments[-1]
    assert encoder.source == encoder.target == cross.source
    assert decoder.target == cross.target and decoder.target[-1] == "</s>"
    assert decoder.source == ("<s>", *decoder.target[:-1])


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_rows_of_word_level_matrices_sum_to_1(translation, kind):
    for alignment in matrices(translation, Selection((kind,), "all", "all"), words=True):
        np.testing.assert_allclose(alignment.weights.sum(-1), 1.0, **tolerance(1.0))
        german, english = ("Der", "Hund", "sieht", "die", "Katze."), ("The", "dog", "sees", "the", "cat.")
        assert alignment.target == (*(english if kind == "encoder" else german), "</s>")
        assert alignment.source == (("<s>", *german) if kind == "decoder" else (*english, "</s>"))


def test_word_weights_sum_over_keys_and_average_over_queries():
    text = attended_text()
    pieces, words = (matrices(text, Selection((), [2], [1]), words=merge)[0] for merge in (False, True))
    assert words.source == words.target == ("[CLS]", "unhappy", "cat", "[SEP]")
    joined = np.add.reduceat(pieces.weights, [0, 1, 3, 4], axis=1)
    expected = np.stack([joined[0], joined[1:3].mean(axis=0), joined[3], joined[4]])
    np.testing.assert_allclose(words.weights, expected, **tolerance(1.0))


def test_second_sentence_starts_with_the_start_symbol():
    table = np.zeros((1, 1, 5, 5), np.float32)
    translation = Translation(
        "", 0.0, ("▁a", "</s>", "▁b", "c"), (0.0,) * 5, attentions=Attentions(decoder=table)
    )
    [alignment] = matrices(translation)
    assert alignment.target == ("a", "</s>", "b", "c", "</s>")
    assert alignment.source == ("<s>", "a", "<s>", "b", "c")
    assert matrices(translation, words=True)[0].source == ("<s>", "a", "<s>", "bc")


@pytest.mark.parametrize(
    ("selection", "message"),
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
def test_nonexistent_attention_kinds_layers_and_heads_are_reported(selection, message):
    with pytest.raises(SettingsError, match=message):
        matrices(attended_text(), Selection(**selection))


@pytest.mark.parametrize(
    "selection",
    [{"kinds": ("crossed",)}, {"layers": "first"}, {"layers": [0]}, {"heads": [True]}, {"heads": "last"}],
    ids=str,
)
def test_invalid_selections_are_rejected(selection):
    with pytest.raises(SettingsError, match="must be"):
        Selection(**selection)


def test_translation_without_attention_is_rejected():
    with pytest.raises(SettingsError, match="translate with attention='all'"):
        matrices(Translation("", 0.0, (), ()))


@pytest.mark.parametrize(("layers", "length"), [(3, 5), pytest.param(12, 40, marks=pytest.mark.release)])
@pytest.mark.sampled(5)
@pytest.mark.parametrize("file_format", ["png", "svg", "pdf"])
def test_small_multiples_are_drawn_reproducibly(tmp_path, layers, length, file_format):
    text = attended_text("decoder", layers, " ".join(f"Ġ$w{index}" for index in range(length)))
    figure = draw_matrices(matrices(text, Selection((), "all", "all")))
    assert len(figure.axes) == 2 * layers
    path = tmp_path / f"every.{file_format}"
    save_figure(figure, path)
    assert path.stat().st_size < 2_000_000
    first = io.BytesIO(path.read_bytes())
    save_figure(draw_matrices(matrices(text, Selection((), "all", "all"))), path)
    assert first.getvalue() == path.read_bytes()


def test_matrices_of_different_models_are_drawn_in_separate_rows(translation):
    alignments = [
        *matrices(translation, Selection((), "all", "all")),
        *matrices(attended_text(), title="alone"),
    ]
    figure = draw_matrices(alignments)
    assert len(figure.axes) == 3 * 2
    with pytest.raises(SettingsError, match="no matrix"):
        draw_matrices([])
