"""Guided alignment: loss, learning, and unchanged outputs."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toy import Stop, toy_values, write_reversal_corpus

from uwaga.data.batches import Batch
from uwaga.decoder import Symbols
from uwaga.errors import DataError, SettingsError
from uwaga.models.build import build_model
from uwaga.settings import GuidedAlignmentSettings, Settings, TransformerSettings, parse
from uwaga.training.checkpoint import checkpoint_path, read_checkpoint
from uwaga.training.initial_model import guided_head
from uwaga.training.loss import alignment_cross_entropy
from uwaga.training.step import batch_loss, split_batch
from uwaga.training.train import train

SYMBOLS = Symbols(start=2, end=3, pad=0, unknown=1)


def make_model(layers: int = 2) -> Any:
    torch.manual_seed(1)
    settings = TransformerSettings(
        encoder_layers=1, decoder_layers=layers, width=16, heads=2, feed_forward=16, max_length=20,
        dropout=0.0,
    )  # fmt: skip
    return build_model(settings, SYMBOLS, 12, 12)


def make_batch(sentences: int = 4, seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 7, (2, sentences))
    source, target = (np.zeros((sentences, length.max()), dtype=np.int64) for length in lengths)
    start = np.zeros_like(target)
    for row in range(sentences):
        source[row, : lengths[0, row]] = [*rng.integers(4, 12, lengths[0, row] - 1), 3]
        target[row, : lengths[1, row]] = [*rng.integers(4, 12, lengths[1, row] - 1), 3]
        start[row, : lengths[1, row]] = [2, *target[row, : lengths[1, row] - 1]]
    links = [
        (row, target_token, source_token)
        for row in range(sentences)
        for target_token in range(lengths[1, row] - 1)
        for source_token in range(lengths[0, row] - 1)
        if rng.random() < 0.4
    ]
    link_array = np.array(links, dtype=np.int64)
    return Batch(source, lengths[0], start, target, lengths[1], np.arange(sentences), link_array)


def test_M28_alignment_loss_matches_hand_calculation() -> None:
    weights = torch.tensor([[[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]]])
    links = torch.tensor([[0, 0, 0], [0, 1, 1], [0, 1, 2]])
    expected = -(np.log(0.5) + (np.log(0.2) + np.log(0.7)) / 2)
    assert float(alignment_cross_entropy(weights, links)) == pytest.approx(expected, rel=1e-6)
    assert float(alignment_cross_entropy(weights, links[:0])) == 0.0


def test_alignment_loss_is_minimal_if_attention_equals_the_links() -> None:
    links = torch.tensor([[0, 0, 1], [0, 1, 0], [0, 1, 2]])
    scores = torch.zeros(1, 2, 3, requires_grad=True)
    optimiser = torch.optim.Adam([scores], 0.1)
    for _ in range(400):
        optimiser.zero_grad()
        alignment_cross_entropy(scores.softmax(-1), links).backward()
        optimiser.step()
    expected = torch.tensor([[[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]]])
    torch.testing.assert_close(scores.softmax(-1).detach(), expected, atol=0.02, rtol=0)


@pytest.mark.parametrize("parts", [2, 3])
def test_losses_of_batch_parts_sum_to_the_batch_loss(parts: int) -> None:
    model = make_model()
    model.guided_head = guided_head(model, None, None)
    model.train()
    batch = make_batch(7)
    guided = GuidedAlignmentSettings(weight=0.5)
    expected = batch_loss(model, batch, 0.1, "float32", guided)
    losses = [batch_loss(model, part, 0.1, "float32", guided) for part in split_batch(batch, parts)]
    torch.testing.assert_close(sum(loss.smoothed for loss in losses), expected.smoothed)
    torch.testing.assert_close(sum(loss.plain for loss in losses), expected.plain)


def test_alignment_loss_is_added_only_to_the_smoothed_loss() -> None:
    model = make_model()
    plain = batch_loss(model, make_batch(), 0.1, "float32")
    model.guided_head = guided_head(model, 2, 2)
    model.train()
    losses = [
        batch_loss(model, make_batch(), 0.1, "float32", GuidedAlignmentSettings(weight=weight, step=step))
        for step in ("predicting", "reading")
        for weight in (0.5, 1.0)
    ]
    for half, full in (losses[:2], losses[2:]):
        torch.testing.assert_close(full.smoothed - plain.smoothed, 2 * (half.smoothed - plain.smoothed))
        torch.testing.assert_close(half.plain, plain.plain)
    assert not torch.allclose(losses[1].smoothed, losses[3].smoothed)


def test_guided_alignment_head_does_not_change_outputs() -> None:
    model = make_model()
    inputs = torch.from_numpy(make_batch().source), torch.from_numpy(make_batch().target_in)
    model.eval()
    expected, names = model.features(*inputs), list(model.state_dict())
    model.guided_head = guided_head(model, 1, 2)
    assert list(model.state_dict()) == names
    assert torch.equal(model.features(*inputs), expected)
    features, weights = model.train().guided_features(*inputs)
    torch.testing.assert_close(features, expected)
    assert weights.shape == (4, *[side.shape[1] for side in reversed(inputs)])
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:2]))


@pytest.mark.parametrize(("layer", "head"), [(3, None), (1, 3)])
def test_nonexistent_layer_or_head_is_rejected(layer, head) -> None:
    with pytest.raises(SettingsError, match=r"guided_alignment\.(layer: 3|head: 3), but the"):
        guided_head(make_model(), layer, head)


def spelled_values(folder: Path, **training: Any) -> dict[str, Any]:
    """Write a reversal corpus of separate letters with alignments; return its settings."""
    write_reversal_corpus(folder, pairs=300)
    for name in ("train", "dev"):
        path = folder / f"{name}.tsv"
        lines = [[" ".join(side) for side in line.split("\t")] for line in path.read_text().splitlines()]
        path.write_text("".join(f"{source}\t{target}\n" for source, target in lines))
        ends = [len(source.split()) - 1 for source, _ in lines]
        lines = [" ".join(f"{end - index}-{index}" for index in range(end + 1)) for end in ends]
        (folder / f"{name}.links").write_text("".join(f"{line}\n" for line in lines))
    values = toy_values(folder, **training)
    values["data"]["train"] = [
        {"files": [str(folder / "train.tsv")], "alignment": str(folder / "train.links")}
    ]
    values["text"]["size"] = 27
    return values


MODELS: dict[str, dict[str, Any]] = {
    "transformer": {},
    "bahdanau": {"family": "bahdanau", "embedding": 16, "hidden": 24, "read_out": 16, "max_length": 40},
}


@pytest.mark.parametrize("kind", MODELS)
def test_resumed_run_is_bit_identical_to_an_uninterrupted_one(tmp_path, monkeypatch, kind: str) -> None:
    guided = {"weight": 0.3}
    training = {"steps": 9, "save_every": 4, "validate_every": 9, "validation_sentences": 0}
    values = spelled_values(tmp_path, **training, guided_alignment=guided)
    values["data"]["augment"] = {"upper": 0.2, "unpunctuated": 0.2}
    values["model"] = MODELS[kind] or values["model"]
    uninterrupted = parse(Settings, {**values, "run": str(tmp_path / "whole")}, "toy")
    assert train(uninterrupted)
    interrupted = parse(Settings, {**values, "run": str(tmp_path / "parts")}, "toy")
    rng = random.Random(1)
    with monkeypatch.context() as patch:
        patch.setattr("uwaga.training.train.Interrupt", Stop)
        for _ in range(2):
            Stop.after = rng.randint(1, 4)
            assert train(interrupted) is None
    assert train(interrupted)
    checkpoints = [
        read_checkpoint(checkpoint_path(settings.run / "checkpoints", 9))[1]
        for settings in (uninterrupted, interrupted)
    ]
    assert checkpoints[0].keys() == checkpoints[1].keys()
    assert all(torch.equal(tensor, checkpoints[1][name]) for name, tensor in checkpoints[0].items())


@pytest.mark.slow
def test_guided_alignment_head_learns_alignments(tmp_path: Path) -> None:
    import uwaga

    errors = {}
    for name, guided in (("guided", {"weight": 1.0, "layer": 1}), ("plain", None)):
        values = spelled_values(
            tmp_path, steps=120, save_every=120, validate_every=120, average=0, guided_alignment=guided
        )
        values["model"] |= {"heads": 1, "dropout": 0.0}
        if guided is None:
            values["data"]["train"] = [str(tmp_path / "train.tsv")]
        folder = train(parse(Settings, {**values, "run": str(tmp_path / name)}, "toy"))
        translator = uwaga.load(folder, device="cpu", engine="torch")
        wrong = total = 0
        for line in (tmp_path / "dev.tsv").read_text().splitlines()[:30]:
            source, target = line.split("\t")
            result = translator.attend(source, target=target)
            assert result.attention is not None
            target_pieces = [piece.strip("▁") for piece in result.tokens]
            source_pieces = [piece.strip("▁") for piece in result.source_tokens]
            for row, piece in enumerate(target_pieces):
                if piece and len(set(source_pieces)) == len(source_pieces):
                    total += 1
                    wrong += source_pieces[int(result.attention[row].argmax()) % len(source_pieces)] != piece
        errors[name] = wrong / total
    assert errors["guided"] < 0.4
    assert errors["guided"] < errors["plain"]


def test_corpora_without_an_alignment_file_are_aligned(tmp_path: Path) -> None:
    values = spelled_values(tmp_path, steps=2, save_every=2, validate_every=2, guided_alignment={})
    values["data"]["train"] = [str(tmp_path / "train.tsv")]
    settings = parse(Settings, values, "toy")
    assert train(settings)
    links = settings.run / "data" / "train.alignment"
    assert len(links.read_text().splitlines()) == 300
    before = links.stat().st_mtime_ns
    train(settings)
    assert links.stat().st_mtime_ns == before


def test_incompatible_guided_alignment_settings_are_rejected(tmp_path: Path) -> None:
    values = spelled_values(tmp_path, guided_alignment={})
    del values["training"]["guided_alignment"]
    with pytest.raises(SettingsError, match="an alignment is given but not used"):
        parse(Settings, values, "toy")
    values["training"]["guided_alignment"] = {"layer": 1}
    values["model"] = MODELS["bahdanau"]
    with pytest.raises(SettingsError, match="layer and head apply only to Transformers"):
        train(parse(Settings, values, "toy"))
    values["training"]["guided_alignment"] = {}
    values["model"] = {"family": "cho", "embedding": 16, "hidden": 24, "max_length": 40}
    values["run"] = str(tmp_path / "cho")
    with pytest.raises(SettingsError, match="no attention to the source"):
        train(parse(Settings, values, "toy"))
    values["model"] = MODELS["bahdanau"]
    (tmp_path / "train.links").write_text("0-0\n")
    values["run"] = str(tmp_path / "short")
    with pytest.raises(DataError, match=r"train.links: ends after line 1"):
        train(parse(Settings, values, "toy"))
    values["data"]["dev"] = values["data"]["train"]
    with pytest.raises(SettingsError, match="dev and also: alignments can be given only for train"):
        parse(Settings, values, "toy")
