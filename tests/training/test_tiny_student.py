"""Training with recipes/tiny-student.yaml: learning, and exact resumption."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from toy import toy_values, write_reversal_corpus

import uwaga
from uwaga.settings import MODEL_PRESETS, Settings, TransformerSettings, load_settings, parse
from uwaga.training.checkpoint import checkpoint_path, read_checkpoint
from uwaga.training.final_model import average_run
from uwaga.training.train import train

RECIPE = load_settings(Path(__file__).resolve().parents[2] / "recipes" / "tiny-student.yaml")


def recipe_settings(folder: Path, run: str, steps: int) -> Settings:
    """Return the settings of the recipe for a small corpus, fewer steps and a smaller model."""
    values = RECIPE.model_dump(mode="json")
    values["model"] |= {"encoder_layers": 2, "width": 64, "feed_forward": 128}
    small = toy_values(folder)
    amounts = {
        **{"steps": steps, "batch_tokens": 100, "threads": 2, "device": "cpu"},
        **{"save_every": 2, "validate_every": 100, "validation_sentences": 5, "average": 2},
    }
    decoding = values["decoding"] | {"max_length": 10}
    return parse(
        Settings,
        values
        | {"run": str(folder / run), "data": small["data"], "text": small["text"]}
        | {"training": values["training"] | amounts, "decoding": decoding},
        "the recipe",
    )


def test_recipe_has_the_shape_of_firefox_tiny_models() -> None:
    assert RECIPE.model == MODEL_PRESETS["tiny-student"]()
    assert isinstance(RECIPE.model, TransformerSettings)
    shape = (RECIPE.model.encoder_layers, RECIPE.model.decoder_layers)
    assert (shape, RECIPE.model.width, RECIPE.model.feed_forward, RECIPE.model.heads) == (
        (6, 2), 256, 1536, 8,
    )  # fmt: skip
    assert (RECIPE.model.self_attention, RECIPE.model.tie, RECIPE.model.norm) == ("ssru", "all", "post")


@pytest.mark.slow
def test_M26_resumed_run_is_bit_identical_to_an_uninterrupted_one(tmp_path: Path) -> None:
    write_reversal_corpus(tmp_path, pairs=60)
    train(recipe_settings(tmp_path, "whole", 4))
    train(recipe_settings(tmp_path, "stopped", 2))
    train(recipe_settings(tmp_path, "stopped", 4))
    checkpoints = [
        read_checkpoint(checkpoint_path(tmp_path / run / "checkpoints", 4))[1] for run in ("whole", "stopped")
    ]
    assert checkpoints[0].keys() == checkpoints[1].keys()
    assert all(torch.equal(checkpoints[0][name], checkpoints[1][name]) for name in checkpoints[0])
    assert any(name.endswith("decoder.1.ssru.forget.bias") for name in checkpoints[0])
    average_run(tmp_path / "whole", tmp_path / "mean", 2)
    for folder in (tmp_path / "whole" / "model", tmp_path / "mean"):
        assert load_file(folder / "model.safetensors")["decoder.0.ssru.input.weight"].dtype == torch.float16
        assert uwaga.load(folder, engine="torch", device="cpu").translate("abc", max_length=5) is not None


@pytest.mark.parametrize(
    ("kind", "precision"),
    [
        pytest.param("ssru", "float32", marks=pytest.mark.slow),
        pytest.param("ssru", "bfloat16", marks=pytest.mark.release),
        pytest.param("aan", "float32", marks=pytest.mark.release),
    ],
)
def test_M26_M35_ssru_and_aan_models_learn_to_reverse_words(tmp_path, kind, precision) -> None:
    write_reversal_corpus(tmp_path, pairs=2000, max_length=4)
    values = toy_values(
        tmp_path, steps=600, batch_tokens=500, validate_every=600, validation_sentences=40, save_every=20,
        label_smoothing=0.0, bleu_tokenise="char", precision=precision,
        schedule={"kind": "cosine", "peak": 0.008, "warmup": 30},
    )  # fmt: skip
    values["model"] |= {"width": 64, "heads": 4, "feed_forward": 128, "dropout": 0.0, "self_attention": kind}
    model = train(parse(Settings, values, "toy"))
    assert model is not None
    translator = uwaga.load(model, engine="torch", device="cpu")
    pairs = [line.split("\t") for line in (tmp_path / "dev.tsv").read_text().splitlines()]
    translations = translator.translate([source for source, _ in pairs], beam=2)
    assert sum(
        translation.text == target for translation, (_, target) in zip(translations, pairs, strict=True)
    ) > 0.8 * len(pairs)
