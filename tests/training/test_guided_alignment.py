"""Guided alignment: what it costs, what it teaches, what it leaves alone."""

from __future__ import annotations

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
from uwaga.models.blocks import watch_head, watched_weights
from uwaga.models.build import build_model
from uwaga.settings import GuidedAlignmentSettings, Settings, TransformerSettings, parse
from uwaga.training.checkpoint import checkpoint_path, read_checkpoint
from uwaga.training.loss import alignment_cross_entropy
from uwaga.training.step import batch_loss, split
from uwaga.training.train import train

SYMBOLS = Symbols(start=2, end=3, pad=0, unknown=1)


def model(layers: int = 2) -> Any:
    torch.manual_seed(1)
    settings = TransformerSettings(
        encoder_layers=1,
        decoder_layers=layers,
        width=16,
        heads=2,
        feed_forward=16,
        max_length=20,
        dropout=0.0,
    )
    return build_model(settings, SYMBOLS, 12, 12)


def batch(sentences: int = 4, seed: int = 0) -> Batch:
    draw = np.random.default_rng(seed)
    lengths = draw.integers(3, 7, (2, sentences))
    source, target = (np.zeros((sentences, length.max()), dtype=np.int64) for length in lengths)
    start = np.zeros_like(target)
    for row in range(sentences):
        source[row, : lengths[0, row]] = [*draw.integers(4, 12, lengths[0, row] - 1), 3]
        target[row, : lengths[1, row]] = [*draw.integers(4, 12, lengths[1, row] - 1), 3]
        start[row, : lengths[1, row]] = [2, *target[row, : lengths[1, row] - 1]]
    links = [
        (row, there, here)
        for row in range(sentences)
        for there in range(lengths[1, row] - 1)
        for here in range(lengths[0, row] - 1)
        if draw.random() < 0.4
    ]
    made = np.array(links, dtype=np.int64)
    return Batch(source, lengths[0], start, target, lengths[1], np.arange(sentences), made)


def test_M28_the_cost_by_hand() -> None:
    weights = torch.tensor([[[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]]])
    links = torch.tensor([[0, 0, 0], [0, 1, 1], [0, 1, 2]])
    expected = -(np.log(0.5) + (np.log(0.2) + np.log(0.7)) / 2)
    assert float(alignment_cross_entropy(weights, links)) == pytest.approx(expected, rel=1e-6)
    assert float(alignment_cross_entropy(weights, links[:0])) == 0.0


def test_it_is_least_where_attention_is_the_alignment() -> None:
    links = torch.tensor([[0, 0, 1], [0, 1, 0], [0, 1, 2]])
    scores = torch.zeros(1, 2, 3, requires_grad=True)
    optimiser = torch.optim.Adam([scores], 0.1)
    for _ in range(400):
        optimiser.zero_grad()
        alignment_cross_entropy(scores.softmax(-1), links).backward()
        optimiser.step()
    wanted = torch.tensor([[[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]]])
    torch.testing.assert_close(scores.softmax(-1).detach(), wanted, atol=0.02, rtol=0)


@pytest.mark.parametrize("parts", [2, 3])
def test_parts_of_a_batch_cost_what_it_costs(parts: int) -> None:
    made = model()
    watch_head(made.decoder, None, None)
    made.train()
    whole = batch(7)
    guided = GuidedAlignmentSettings(weight=0.5)
    expected = batch_loss(made, whole, 0.1, "float32", guided)
    found = [batch_loss(made, part, 0.1, "float32", guided) for part in split(whole, parts)]
    torch.testing.assert_close(sum(one.smoothed for one in found), expected.smoothed)
    torch.testing.assert_close(sum(one.plain for one in found), expected.plain)


def test_it_is_added_to_the_loss_and_the_plain_loss_is_as_it_was() -> None:
    made = model()
    plain = batch_loss(made, batch(), 0.1, "float32")
    watch_head(made.decoder, 2, 2)
    made.train()
    losses = [
        batch_loss(made, batch(), 0.1, "float32", GuidedAlignmentSettings(weight=weight, step=step))
        for step in ("predicting", "reading")
        for weight in (0.5, 1.0)
    ]
    for half, once in (losses[:2], losses[2:]):
        torch.testing.assert_close(once.smoothed - plain.smoothed, 2 * (half.smoothed - plain.smoothed))
        torch.testing.assert_close(half.plain, plain.plain)
    assert not torch.allclose(losses[1].smoothed, losses[3].smoothed)


def test_watching_changes_nothing() -> None:
    made = model()
    given = torch.from_numpy(batch().source), torch.from_numpy(batch().target_in)
    made.eval()
    before, names = made.features(*given), list(made.state_dict())
    watch_head(made.decoder, 1, 2)
    assert list(made.state_dict()) == names
    assert torch.equal(made.eval().features(*given), before)
    made.train()
    torch.testing.assert_close(made.features(*given), before)
    weights = watched_weights(made.decoder)
    assert weights.shape == (4, *[side.shape[1] for side in reversed(given)])
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:2]))


@pytest.mark.parametrize(("layer", "head"), [(3, None), (1, 3)])
def test_what_is_not_there_cannot_be_guided(layer, head) -> None:
    with pytest.raises(SettingsError, match=r"guided_alignment\.(layer: 3|head: 3), but the"):
        watch_head(model().decoder, layer, head)


def spelt(folder: Path, **training: Any) -> dict[str, Any]:
    """Letters with spaces between, and the same reversed."""
    write_reversal_corpus(folder, pairs=300)
    for name in ("train", "dev"):
        path = folder / f"{name}.tsv"
        lines = [[" ".join(side) for side in line.split("\t")] for line in path.read_text().splitlines()]
        path.write_text("".join(f"{source}\t{target}\n" for source, target in lines))
        ends = [len(source.split()) - 1 for source, _ in lines]
        lines = [" ".join(f"{end - at}-{at}" for at in range(end + 1)) for end in ends]
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
def test_a_run_stopped_anywhere_ends_with_the_same_bits(tmp_path, monkeypatch, kind: str) -> None:
    guided = {"weight": 0.3}
    once = {"steps": 9, "save_every": 4, "validate_every": 9, "validation_sentences": 0}
    made = spelt(tmp_path, **once, guided_alignment=guided)
    made["data"]["augment"] = {"upper": 0.2, "unpunctuated": 0.2}
    made["model"] = MODELS[kind] or made["model"]
    whole = parse(Settings, {**made, "run": str(tmp_path / "whole")}, "toy")
    assert train(whole)
    parts = parse(Settings, {**made, "run": str(tmp_path / "parts")}, "toy")
    draw = random.Random(1)
    with monkeypatch.context() as patch:
        patch.setattr("uwaga.training.train.Interrupt", Stop)
        for _ in range(2):
            Stop.after = draw.randint(1, 4)
            assert train(parts) is None
    assert train(parts)
    ends = [read_checkpoint(checkpoint_path(one.run / "checkpoints", 9))[1] for one in (whole, parts)]
    assert ends[0].keys() == ends[1].keys()
    assert all(torch.equal(tensor, ends[1][name]) for name, tensor in ends[0].items())


def test_a_head_learns_to_align(tmp_path: Path) -> None:
    import uwaga

    errors = {}
    for name, guided in (("guided", {"weight": 1.0, "layer": 1}), ("plain", None)):
        made = spelt(
            tmp_path, steps=120, save_every=120, validate_every=120, average=0, guided_alignment=guided
        )
        made["model"] |= {"heads": 1, "dropout": 0.0}
        if guided is None:
            made["data"]["train"] = [str(tmp_path / "train.tsv")]
        place = train(parse(Settings, {**made, "run": str(tmp_path / name)}, "toy"))
        translator = uwaga.load(place, device="cpu", engine="torch")
        wrong = total = 0
        for line in (tmp_path / "dev.tsv").read_text().splitlines()[:30]:
            source, target = line.split("\t")
            found = translator.attend(source, target=target)
            assert found.attention is not None
            shown = [piece.strip("▁") for piece in found.tokens]
            left = [piece.strip("▁") for piece in found.source_tokens]
            for row, piece in enumerate(shown):
                if piece and len(set(left)) == len(left):
                    total += 1
                    wrong += left[int(found.attention[row].argmax()) % len(left)] != piece
        errors[name] = wrong / total
    assert errors["guided"] < 0.4
    assert errors["guided"] < errors["plain"]


def test_our_own_aligner_serves_where_no_file_is_given(tmp_path: Path) -> None:
    made = spelt(tmp_path, steps=2, save_every=2, validate_every=2, guided_alignment={})
    made["data"]["train"] = [str(tmp_path / "train.tsv")]
    settings = parse(Settings, made, "toy")
    assert train(settings)
    links = settings.run / "data" / "train.alignment"
    assert len(links.read_text().splitlines()) == 300
    before = links.stat().st_mtime_ns
    train(settings)
    assert links.stat().st_mtime_ns == before


def test_settings_that_do_not_go_together(tmp_path: Path) -> None:
    made = spelt(tmp_path, guided_alignment={})
    del made["training"]["guided_alignment"]
    with pytest.raises(SettingsError, match="an alignment is given but not used"):
        parse(Settings, made, "toy")
    made["training"]["guided_alignment"] = {"layer": 1}
    made["model"] = MODELS["bahdanau"]
    with pytest.raises(SettingsError, match="layer and head apply to Transformers only"):
        train(parse(Settings, made, "toy"))
    made["training"]["guided_alignment"] = {}
    made["model"] = {"family": "cho", "embedding": 16, "hidden": 24, "max_length": 40}
    made["run"] = str(tmp_path / "cho")
    with pytest.raises(SettingsError, match="no attention to the source"):
        train(parse(Settings, made, "toy"))
    made["model"] = MODELS["bahdanau"]
    (tmp_path / "train.links").write_text("0-0\n")
    made["run"] = str(tmp_path / "short")
    with pytest.raises(DataError, match=r"train.links: ends after line 1"):
        train(parse(Settings, made, "toy"))
    made["data"]["dev"] = made["data"]["train"]
    with pytest.raises(SettingsError, match="dev and also: alignments are only for train"):
        parse(Settings, made, "toy")
