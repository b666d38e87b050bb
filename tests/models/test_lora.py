"""Low-rank adapters (M34): initial output, merged matrix, and trained parameters."""

import copy

import pytest
import torch
from native_models import random_model

from uwaga.errors import SettingsError
from uwaga.models.adapters import adapted_layers, add_adapters
from uwaga.models.build import build_model
from uwaga.models.layers.lora import LoraLinear
from uwaga.settings import LoraSettings, LuongSettings, TransformerSettings

TINY = TransformerSettings(encoder_layers=2, decoder_layers=1, width=8, heads=2, feed_forward=12)


def test_M34_lora_layer_matches_hand_calculation() -> None:
    frozen = torch.nn.Linear(2, 2)
    layer = LoraLinear(frozen, rank=1, alpha=3.0, dropout=0.0)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        layer.bias.copy_(torch.tensor([0.5, -0.5]))
        layer.lora_a.copy_(torch.tensor([[1.0, -1.0]]))
        layer.lora_b.copy_(torch.tensor([[2.0], [0.0]]))
    # x = (1, 3): W x + b = (7.5, 14.5); A x = -2; 3 B A x = (-12, 0)
    torch.testing.assert_close(layer(torch.tensor([[1.0, 3.0]])), torch.tensor([[-4.5, 14.5]]))
    torch.testing.assert_close(layer.merged(), torch.tensor([[7.0, -4.0], [3.0, 4.0]]))


def test_M34_untrained_adapters_have_no_effect_and_merging_is_exact() -> None:
    plain = random_model(TINY)
    model = copy.deepcopy(plain)
    add_adapters(model, LoraSettings(rank=2, targets=["*attention.query", "decoder.*.feed_forward.*"]))
    source, target = torch.randint(4, 23, (3, 5)), torch.randint(4, 23, (3, 4))
    assert torch.equal(model.features(source, target), plain.features(source, target))
    adapted = adapted_layers(model)
    assert set(adapted) == {
        *(f"encoder.{layer}.attention.query" for layer in (0, 1)),
        *(f"decoder.0.{kind}_attention.query" for kind in ("self", "cross")),
        *(f"decoder.0.feed_forward.{kind}" for kind in ("inner", "outer")),
    }
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert trained == {f"{name}.lora_{side}" for name in adapted for side in "ab"}
    with torch.no_grad():
        for name, layer in adapted.items():
            layer.lora_b.normal_()
            plain.get_submodule(name).weight.copy_(layer.merged())
    torch.testing.assert_close(
        model.features(source, target), plain.features(source, target), atol=1e-5, rtol=1e-5
    )


def test_M34_invalid_adapter_targets_and_models_are_rejected() -> None:
    with pytest.raises(
        SettingsError, match=r"adapt\.lora\.targets: 'q_proj' matches no linear layer .* choose"
    ):
        add_adapters(random_model(TINY), LoraSettings(targets=["q_proj"]))
    recurrent = build_model(LuongSettings(embedding=8, hidden=8), random_model(TINY).symbols, 20, 20)
    with pytest.raises(SettingsError, match=r"only Transformers support adapters, not Luong"):
        add_adapters(recurrent, LoraSettings())
