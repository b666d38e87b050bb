"""Training of ProphetNet on the next n tokens, from a settings file to a model folder (M29)."""

from pathlib import Path

import numpy as np
import pytest
import torch
from precision import tolerance
from toy import toy_values, write_reversal_corpus

import uwaga
from uwaga.data.batches import Batch
from uwaga.decoder import Symbols
from uwaga.errors import ModelError, SettingsError
from uwaga.models.build import build_model
from uwaga.models.prophetnet import ProphetNet
from uwaga.settings import MODEL_PRESETS, ProphetNetSettings, Settings, parse
from uwaga.training.step import batch_loss
from uwaga.training.train import train

SYMBOLS = Symbols(start=1, end=2, pad=0, unknown=3)
SMALL = {
    "encoder_layers": 1, "decoder_layers": 2, "width": 16, "heads": 2, "feed_forward": 24, "max_length": 40,
    "dropout": 0.0,
}  # fmt: skip


def test_loss_shares_of_prediction_streams_match_hand_calculation() -> None:
    assert ProphetNetSettings(ngram=2).loss_shares == (0.5, 0.5)
    assert ProphetNetSettings(ngram=3, ngram_decay=0.5).loss_shares == (4 / 7, 2 / 7, 1 / 7)


@pytest.mark.numerical
def test_M29_loss_is_the_weighted_sum_over_prediction_streams() -> None:
    """``L = -Σ_j α_j Σ_t log p_j(y_t | y_<t-j, x)`` (Qi 2020); in evaluation only the next token counts."""
    torch.manual_seed(2)
    settings = ProphetNetSettings(**SMALL, ngram=3, ngram_decay=0.5)
    model = build_model(settings, SYMBOLS, 23, 23)
    assert isinstance(model, ProphetNet)
    batch = Batch(
        source=np.array([[5, 6, 7, 2], [8, 2, 0, 0]]),
        source_lengths=np.array([4, 2]),
        target_in=np.array([[1, 11, 12, 13], [1, 14, 0, 0]]),
        target_out=np.array([[11, 12, 13, 2], [14, 2, 0, 0]]),
        target_lengths=np.array([4, 2]),
        pairs=np.array([0, 1]),
    )
    source, target_in = torch.from_numpy(batch.source), torch.from_numpy(batch.target_in)
    target_out = torch.from_numpy(batch.target_out)
    with torch.no_grad():
        log_probs = torch.log_softmax(model.logits(model.future_features(source, target_in, 3)), dim=-1)
        token_log_probs = log_probs.gather(-1, target_out[:, None, :, None].expand(-1, 3, -1, 1))[..., 0]
        nll = -(token_log_probs * (target_out != 0)[:, None]).sum(dim=(0, 2))  # (ngram,)
    shares = torch.tensor([4 / 7, 2 / 7, 1 / 7])
    training_loss, evaluation_loss = (
        batch_loss(model.train(mode), batch, 0.0, "float32") for mode in (True, False)
    )
    torch.testing.assert_close(training_loss.smoothed.detach(), (shares * nll).sum(), **tolerance(nll))
    for loss in (training_loss.plain, evaluation_loss.plain, evaluation_loss.smoothed.detach()):
        torch.testing.assert_close(loss, nll[0], **tolerance(nll))


def values(folder: Path, steps: int) -> dict:
    raw = toy_values(
        folder, steps=steps, batch_tokens=500, validate_every=steps, save_every=20, bleu_tokenise="char",
        label_smoothing=0.0,
    )  # fmt: skip
    raw["training"]["schedule"] = {"kind": "cosine", "peak": 0.008, "warmup": 30}
    return raw | {"model": {"family": "prophetnet", **SMALL, "width": 32, "feed_forward": 64}}


@pytest.mark.parametrize("steps", [20, pytest.param(700, marks=pytest.mark.release)])
def test_M29_prophetnet_is_trained_from_a_settings_file(tmp_path: Path, steps: int) -> None:
    write_reversal_corpus(tmp_path, pairs=2000, max_length=4)
    model = train(parse(Settings, values(tmp_path, steps), "toy"))
    assert model is not None
    translations = [
        translation.text for translation in uwaga.load(model, device="cpu").translate(["abc", "fg", "hijk"])
    ]
    assert len(translations) == 3
    if steps > 100:
        assert translations == ["cba", "gf", "kjih"]
    message = "the native engine runs Transformers and recurrent models, not the family 'prophetnet'"
    with pytest.raises(ModelError, match=message):
        uwaga.load(model, engine="native")


def test_vocabularies_of_different_sizes_are_rejected() -> None:
    with pytest.raises(
        SettingsError,
        match=r"prophetnet has one embedding table, but the vocabularies differ \(23 and 24 tokens\)",
    ):
        build_model(ProphetNetSettings(**SMALL), SYMBOLS, 23, 24)


def test_prophetnet_preset_has_the_published_size() -> None:
    """Qi 2020 §4.1: 12 and 12 layers, width 1024, filter 4096, 16 heads, n = 2."""
    large = MODEL_PRESETS["prophetnet"]()
    assert isinstance(large, ProphetNetSettings)
    assert (large.encoder_layers, large.decoder_layers, large.width, large.feed_forward) == (
        12, 12, 1024, 4096,
    )  # fmt: skip
    assert (large.heads, large.ngram, large.relative_buckets, large.relative_distance) == (16, 2, 32, 128)
