"""Training: learning, averaging, accumulation, early stopping, and errors."""

import errno
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from toy import toy_settings, toy_values, write_reversal_corpus

from uwaga.data.batches import Batch
from uwaga.decoder import Symbols
from uwaga.errors import CheckpointError, DataError, SettingsError
from uwaga.models.transformer import Transformer
from uwaga.settings import Settings, parse
from uwaga.training import checkpoint
from uwaga.training.checkpoint import (
    Progress,
    average_checkpoints,
    checkpoint_path,
    checkpoint_steps,
    read_checkpoint,
    write_checkpoint,
)
from uwaga.training.corpus import prepare_corpora
from uwaga.training.optimiser import make_optimiser
from uwaga.training.step import Updater
from uwaga.training.train import train


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_reversal_corpus(tmp_path)
    return tmp_path


def metrics(settings: Settings) -> list[dict[str, float]]:
    lines = (settings.run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.slow
def test_transformer_learns_to_reverse_words(tmp_path: Path) -> None:
    write_reversal_corpus(tmp_path, pairs=2000, max_length=5)
    values = toy_values(
        tmp_path, steps=420, batch_tokens=500, validate_every=420, validation_sentences=40, save_every=20,
        label_smoothing=0.0, bleu_tokenise="char", schedule={"kind": "cosine", "peak": 0.008, "warmup": 30},
    )  # fmt: skip
    values["model"] |= {"width": 64, "heads": 4, "feed_forward": 128, "dropout": 0.0}
    settings = parse(Settings, values, "toy")
    model = train(settings)
    assert model == settings.run / "model"
    last = metrics(settings)[-1]
    assert last["part"] == "final" and last["bleu"] > 95 and last["loss"] < 0.1
    assert (model / "model.safetensors").exists() and "| dev bleu |" in (model / "card.md").read_text()


def test_bfloat16_training_converges_like_float32(folder: Path) -> None:
    losses = {}
    for precision in ("float32", "bfloat16"):
        shutil.rmtree(folder / "run", ignore_errors=True)
        settings = toy_settings(folder, steps=20, validate_every=20, precision=precision)
        train(settings)
        losses[precision] = metrics(settings)[-1]["loss"]
    assert abs(losses["float32"] - losses["bfloat16"]) < 0.1


@pytest.mark.numerical
def test_gradients_of_batch_parts_sum_to_the_total_gradient(folder: Path) -> None:
    settings = toy_settings(folder)
    corpora = prepare_corpora(settings, lambda text: None)
    batches = [corpora.train.batch(0, index) for index in range(2)]
    total = sum(batch.tokens for batch in batches)

    def gradients(group: list[Batch], threads: int) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = Transformer(settings.model, corpora.target.symbols, corpora.source.size, corpora.target.size)
        training = settings.training.model_copy(update={"threads": threads})
        updater = Updater(model.eval(), make_optimiser(model, training), training)  # no dropout
        collected: list[torch.Tensor] = []
        updater.optimiser.register_step_pre_hook(
            lambda *_: collected.extend(p.grad for p in updater.parameters)
        )
        updater.update(group, 1)
        updater.close()
        return collected

    shares = [batch.tokens / total for batch in batches]
    separate = [gradients([batch], 1) for batch in batches]
    expected = [shares[0] * first + shares[1] * second for first, second in zip(*separate, strict=True)]
    for threads in (1, 2, 5):  # five parts of two batches
        for actual, gradient in zip(gradients(batches, threads), expected, strict=True):
            torch.testing.assert_close(actual, gradient, atol=1e-6, rtol=1e-4)


def test_multithreaded_updates_are_deterministic(folder: Path) -> None:
    settings = toy_settings(folder, threads=3)
    corpora = prepare_corpora(settings, lambda text: None)
    weights = []
    for _ in range(2):
        torch.manual_seed(0)
        model = Transformer(settings.model, corpora.target.symbols, corpora.source.size, corpora.target.size)
        updater = Updater(model.train(), make_optimiser(model, settings.training), settings.training)
        for step in range(1, 6):
            updater.update([corpora.train.batch(0, step), corpora.train.batch(1, step)], step)
        updater.close()
        weights.append([p.detach() for p in model.parameters()])
    for first, second in zip(*weights, strict=True):
        assert torch.equal(first, second)


def test_training_stops_early_and_keeps_the_best_checkpoints(folder: Path) -> None:
    settings = toy_settings(
        folder,
        steps=400,
        validate_every=5,
        patience=2,
        keep_last=2,
        keep_best=2,
        save_every=10,
        schedule={"kind": "constant", "peak": 0.2, "warmup": 0},
        label_smoothing=0.0,
    )  # a rate this high does not keep improving
    train(settings)
    steps = checkpoint_steps(settings.run / "checkpoints")
    assert steps[-1] < 400
    progress, _ = read_checkpoint(checkpoint_path(settings.run / "checkpoints", steps[-1]))
    assert len(progress.best) == 2 and set(progress.best) <= set(steps)
    scores = {m["step"]: -m["loss"] for m in metrics(settings) if m["part"] == "dev"}
    assert set(progress.best) == set(sorted(scores, key=lambda step: -scores[step])[:2])


def test_without_averaging_the_best_checkpoint_becomes_the_model(folder: Path) -> None:
    settings = toy_settings(folder, steps=20, validate_every=5, average=0)
    model = train(settings)
    assert model is not None
    checkpoints = settings.run / "checkpoints"
    progress, _ = read_checkpoint(checkpoint_path(checkpoints, 20))
    [best] = progress.best
    _, tensors = read_checkpoint(checkpoint_path(checkpoints, best))
    stored = load_file(model / "model.safetensors")
    assert stored
    for name, weight in stored.items():
        assert any(torch.equal(weight, tensor) for tensor in tensors.values()), name


def test_averaged_weights_are_the_mean_of_the_checkpoints(tmp_path: Path) -> None:
    paths = [
        write_checkpoint(tmp_path, Progress(step=step), {"model.w": torch.full((2, 3), float(step))})
        for step in (1, 2, 6)
    ]
    averaged = average_checkpoints(paths)
    assert averaged.keys() == {"w"}
    torch.testing.assert_close(averaged["w"], torch.full((2, 3), 3.0))
    with pytest.raises(CheckpointError, match="no checkpoints"):
        average_checkpoints([])


@pytest.mark.parametrize("damage", ["truncate", "flip", "replace", "missing"])
def test_damaged_checkpoints_are_rejected(tmp_path: Path, damage: str) -> None:
    path = write_checkpoint(tmp_path, Progress(step=3), {"model.w": torch.randn(50)})
    content = bytearray(path.read_bytes())
    if damage == "truncate":
        path.write_bytes(content[:-20])
    elif damage == "flip":
        content[-20] ^= 1
        path.write_bytes(content)
    elif damage == "replace":
        path.write_bytes(b"\x80\x04not a checkpoint")
    else:
        Path(path).unlink()
    with pytest.raises(CheckpointError, match=r"step-00000003\.safetensors"):
        read_checkpoint(path)


def test_full_disk_leaves_only_complete_older_checkpoints(tmp_path, monkeypatch) -> None:
    older = write_checkpoint(tmp_path, Progress(step=1), {"model.w": torch.ones(3)})

    def save_to_full_disk(tensors: object, path: str, metadata: object) -> None:
        Path(path).write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", save_to_full_disk)
    with pytest.raises(CheckpointError, match=r"No space left.*free some space"):
        write_checkpoint(tmp_path, Progress(step=2), {"model.w": torch.ones(3)})
    assert list(tmp_path.iterdir()) == [older]
    read_checkpoint(older)


def test_deleted_file_is_not_reported_as_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = checkpoint.save_file

    def save_and_delete(tensors: dict[str, torch.Tensor], path: str, metadata: dict[str, str]) -> None:
        write(tensors, path, metadata)
        Path(path).unlink()

    monkeypatch.setattr(checkpoint, "save_file", save_and_delete)
    with pytest.raises(CheckpointError, match="another program deleted the file") as error:
        write_checkpoint(tmp_path, Progress(step=2), {"model.w": torch.ones(3)})
    assert "free some space" not in str(error.value)


def test_invalid_corpora_and_devices_are_reported(folder: Path) -> None:
    settings = toy_settings(folder)
    (folder / "train.tsv").unlink()
    with pytest.raises(DataError, match=r"train\.tsv"):
        train(settings)
    (folder / "train.tsv").write_text("")
    with pytest.raises(DataError, match=r"train\.tsv"):
        train(settings)
    if not torch.cuda.is_available():
        with pytest.raises(SettingsError, match=r"training\.device"):
            train(toy_settings(folder, device="cuda"))


def test_checkpoint_with_another_vocabulary_is_rejected(folder: Path) -> None:
    settings = toy_settings(folder, steps=5)
    train(settings)
    path = checkpoint_path(settings.run / "checkpoints", 5)
    progress, tensors = read_checkpoint(path)
    tensors["model.output_weight"] = tensors["model.output_weight"][:-1].contiguous()
    write_checkpoint(settings.run / "checkpoints", progress, tensors)
    with pytest.raises(
        CheckpointError, match=r"output_weight has shape \(16, 32\) in the checkpoint and \(17"
    ):
        train(toy_settings(folder, steps=6))


def test_initial_embeddings_have_the_published_scale() -> None:
    settings = toy_settings(Path("x")).model
    torch.manual_seed(0)
    model = Transformer(settings, Symbols(2, 3, 0, 1), 5000, 5000)
    assert abs(float(model.source_embedding.weight.detach().std()) * settings.width**0.5 - 1) < 0.02
