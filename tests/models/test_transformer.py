"""Properties of the Transformer (M16, M20, M21; E3 to E5) and its published variants."""

import numpy as np
import pytest
import torch
from precision import EXACT, tolerance

from uwaga.decoder import Choice, Symbols
from uwaga.models.transformer import Transformer
from uwaga.settings import TransformerSettings

pytestmark = pytest.mark.numerical

SYMBOLS = Symbols(start=2, end=3, pad=0, unknown=1)
SMALL = {
    "encoder_layers": 2, "decoder_layers": 2, "width": 16, "heads": 2, "feed_forward": 24, "max_length": 32,
}  # fmt: skip
VARIANTS = [
    {},
    {"norm": "pre"},
    {"positions": "learned", "tie": "none", "activation": "gelu"},
    {"tie": "decoder", "gated": True, "activation": "silu", "norm": "pre"},
    {  # T5 1.1
        **{"positions": "relative", "relative_buckets": 8, "relative_distance": 9, "norm": "pre"},
        **{"norm_kind": "rms", "attention_bias": False, "feed_forward_bias": False, "attention_scale": False},
        **{"head_width": 5, "heads": 3, "gated": True, "activation": "gelu_tanh", "embedding_scale": False},
        **{"output_scale": True},
    },
    {  # BART, with different decoder sizes
        **{"positions": "learned", "position_offset": 2, "embedding_norm": True, "output_bias": True},
        **{"decoder_heads": 4, "decoder_feed_forward": 20},
    },
    {"sinusoids": "halves"},
    {"sinusoids": "tensor2tensor", "position_offset": 2},
    {"self_attention": "ssru"},
    {"self_attention": "ssru", "norm": "pre", "positions": "learned"},
    {"self_attention": "aan"},
    {"self_attention": "aan", "norm": "pre", "aan_layers": 1, "aan_gate": False},
    {"self_attention": "aan", "aan_layers": 3, "aan_feed_forward": 16, "aan_activation": "silu"},
]


def make(variant: dict, source: int = 23, target: int = 23) -> Transformer:
    torch.manual_seed(5)
    settings = TransformerSettings(**(SMALL | variant))
    return Transformer(settings, SYMBOLS, source, target).eval()


@pytest.mark.parametrize("variant", VARIANTS)
def test_M20_steps_match_teacher_forcing(variant: dict) -> None:
    model = make(variant).double()
    sources = [[5, 6, 7, 8, 3], [9, 10, 3]]
    target = torch.tensor([[2, 11, 12, 13], [2, 14, 15, 16]])
    with torch.no_grad():
        log_probs = model(torch.tensor([[5, 6, 7, 8, 3], [9, 10, 3, 0, 0]]), target)  # (2, 4, vocabulary)
    beams = 3
    state = model.start(model.encode(sources), beams)
    for position in range(4):
        tokens = np.repeat(target[:, position].numpy(), beams)
        step = model.step(tokens, state, Choice(model.vocabulary))
        step_log_probs = np.empty_like(step.log_probs)
        np.put_along_axis(step_log_probs, step.tokens, step.log_probs, axis=1)  # by token id
        expected = log_probs[:, position].repeat_interleave(beams, 0).numpy()
        np.testing.assert_allclose(step_log_probs, expected, **EXACT)
        state = step.state


@pytest.mark.parametrize("variant", VARIANTS)
def test_padding_does_not_change_outputs(variant: dict) -> None:
    model = make(variant).double()
    expected = model(torch.tensor([[9, 10, 3]]), torch.tensor([[2, 14, 15]]))
    padded = model(
        torch.tensor([[9, 10, 3, 0, 0, 0], [4, 5, 6, 7, 8, 3]]), torch.tensor([[2, 14, 15, 0], [2, 4, 5, 6]])
    )
    torch.testing.assert_close(padded[:1, :3], expected, **EXACT)


@pytest.mark.parametrize("kind", ["attention", "ssru", "aan"])
def test_M21_reordered_and_selected_rows_continue_unchanged(kind: str) -> None:
    model = make({"self_attention": kind})
    sources = [[5, 6, 7, 3], [9, 3], [12, 13, 3]]
    state = model.start(model.encode(sources), 2)
    state = model.step(np.array([2, 2, 2, 2, 2, 2]), state, Choice(1)).state
    state = model.step(np.array([4, 5, 6, 7, 8, 9]), state, Choice(1)).state
    expected = model.step(np.array([10, 11, 12, 13, 14, 15]), state, Choice(5))
    selected = state.reorder(np.array([1, 0, 3, 2, 5, 4])).select(np.array([2, 0]))
    actual = model.step(np.array([15, 14, 11, 10]), selected, Choice(5))
    rows = [5, 4, 1, 0]
    np.testing.assert_array_equal(actual.tokens, expected.tokens[rows])
    np.testing.assert_allclose(actual.log_probs, expected.log_probs[rows], **tolerance(expected.log_probs))


def test_attention_weights_sum_to_one_and_are_zero_on_padding() -> None:
    model = make({})
    state = model.start(model.encode([[5, 6, 7, 3], [9, 3]]), 1)
    attention = model.step(np.array([2, 2]), state, Choice(1, attention=True)).attention
    assert attention is not None and attention.shape == (2, 4)
    np.testing.assert_allclose(attention.sum(1), 1.0, **tolerance(1.0))
    assert (attention[1, 2:] == 0).all()


def test_E3_each_input_token_has_one_encoding() -> None:
    model = make({})
    memory = model.encode([[5, 6, 7, 8, 3]])
    assert memory.encodings.shape == (1, 5, 16)
    np.testing.assert_array_equal(memory.lengths, [5])


def test_E4_first_encoding_depends_on_the_last_source_word() -> None:
    model = make({})
    with torch.no_grad():
        encodings, _ = model.encode_ids(torch.tensor([[5, 6, 7, 3]]))
        changed, _ = model.encode_ids(torch.tensor([[5, 6, 8, 3]]))
    assert float((encodings[0, 0] - changed[0, 0]).abs().max()) > 1e-4


@pytest.mark.parametrize("variant", VARIANTS)
def test_E5_earlier_logits_do_not_depend_on_later_target_words(variant: dict) -> None:
    model = make(variant)
    source = torch.tensor([[5, 6, 7, 3]])
    log_probs = model(source, torch.tensor([[2, 4, 5, 6]]))
    changed = model(source, torch.tensor([[2, 4, 5, 9]]))
    torch.testing.assert_close(log_probs[0, :3], changed[0, :3], atol=0, rtol=0)
    assert float((log_probs[0, 3] - changed[0, 3]).detach().abs().max()) > 1e-4
