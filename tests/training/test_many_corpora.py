"""Training on several corpora: mixing, tags, exact resumption, and target languages."""

import io
import os
import random
from pathlib import Path
from typing import Any, Literal

import fsspec
import pytest
import torch
import yaml
from toy import Stop, toy_values, write_reversal_corpus

import uwaga
from uwaga.errors import CheckpointError, DataError, SettingsError
from uwaga.settings import Settings, parse
from uwaga.tokenizers.tokeniser import Tokeniser
from uwaga.training.changes import check_unchanged, fixed_settings
from uwaga.training.checkpoint import checkpoint_path, read_checkpoint
from uwaga.training.train import train


def toy_corpora_values(folder: Path, **training: Any) -> dict[str, Any]:
    """Write toy corpora with tags ``<2rev>`` and ``>>eng<<`` and without a tag; return settings for them."""
    write_reversal_corpus(folder, pairs=300)
    rng = random.Random(3)
    words = ["".join(rng.choices("abcdefghijkl", k=rng.randint(1, 5))) for _ in range(140)]
    (folder / "copy.jsonl").write_text("".join(f'{{"s": "{word}", "t": "{word}"}}\n' for word in words[:100]))
    (folder / "more.tsv").write_text("".join(f"{word}\t{word[::-1]}\n" for word in words[100:]))
    values = toy_values(folder, **training)
    values["text"]["size"] = 19
    values["data"]["train"] = [
        {"files": [str(folder / "train.tsv")], "tag": "<2rev>", "name": "turned"},
        {"files": [str(folder / "copy.jsonl")], "columns": ["s", "t"], "tag": ">>eng<<", "weight": 1.5},
        {"files": [str(folder / "more.tsv")], "weight": 0.5, "filters": {"max_tokens": 4}},
    ]
    values["data"]["dev"] = [{"files": [str(folder / "dev.tsv")], "tag": "<2rev>"}]
    return values


def parse_settings(values: dict[str, Any], **changes: Any) -> Settings:
    return parse(Settings, {**values, **changes}, "toy")


class BrokenFile(io.BytesIO):
    """A file whose reads fail from byte 500."""

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() >= 500:
            raise OSError("reset")
        return super().read(500)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("extra", [{}, {"subword_sampling": 0.1, "augment": {"upper": 0.2}}])
@pytest.mark.parametrize("mixing", ["weights", "temperature"])
def test_resumed_run_is_bit_identical_to_an_uninterrupted_one(tmp_path, monkeypatch, mixing, extra) -> None:
    values = toy_corpora_values(tmp_path, steps=26, save_every=7, validate_every=13)
    values["data"] |= extra
    if mixing == "temperature":
        values["data"]["temperature"] = 5
        for corpus in values["data"]["train"]:
            corpus.pop("weight", None)
    uninterrupted = parse_settings(values, run=str(tmp_path / "whole"))
    assert train(uninterrupted)
    interrupted = parse_settings(values, run=str(tmp_path / "parts"))
    monkeypatch.setattr("uwaga.training.train.Interrupt", Stop)
    for after in (3, 9, 1):
        Stop.after = after
        assert train(interrupted) is None
    Stop.after = 0
    assert train(interrupted)
    (expected_progress, expected), (progress, actual) = (
        read_checkpoint(checkpoint_path(run.run / "checkpoints", 26)) for run in (uninterrupted, interrupted)
    )
    assert expected_progress == progress and expected_progress.epoch >= 1
    assert all(torch.equal(tensor, actual[name]) for name, tensor in expected.items())
    assert sorted(path.name for path in (interrupted.run / "data").iterdir()) == [
        "dev", "train.copy.jsonl", "train.more.tsv", "train.turned",
    ]  # fmt: skip


def test_model_trained_with_tags_translates_into_the_requested_language(tmp_path: Path) -> None:
    values = toy_corpora_values(tmp_path, steps=3, save_every=3, validate_every=3)
    folder = train(parse_settings(values))
    assert folder is not None
    source = Tokeniser.load(folder / "source.spm")
    assert source.languages == [">>eng<<", "<2rev>"] or source.languages == ["<2rev>", ">>eng<<"]
    from uwaga.checkpoints.registry import describe

    assert describe(folder).languages == (("abc",), ("eng", "rev"))
    for engine in ("torch", "native"):
        check_languages(folder, engine)


def check_languages(folder: Path, engine: Literal["torch", "native"]) -> None:
    translator = uwaga.load(folder, engine=engine)
    assert set(translator.languages.targets) == {"rev", "eng"}

    def translate(text: str, **options: Any) -> tuple[str, float]:
        translation = translator.translate(text, **options)
        return str(translation), translation.score

    tagged, copied = translate("<2rev> abc"), translate(">>eng<< abc")
    assert tagged[1] != copied[1] != translate("abc")[1]
    assert translate("abc", target="rev") == tagged
    assert translate("abc", target="en") == translate("abc", target="eng") == copied
    with pytest.raises(SettingsError, match="no target language 'pl'; the model has eng rev"):
        translator.translate("abc", target="pl")
    translator = uwaga.load(folder, engine=engine, target="rev")
    assert translate("abc") == tagged


def test_corpora_that_are_pipes_or_have_invalid_weights_are_rejected(tmp_path: Path) -> None:
    values = toy_corpora_values(tmp_path)
    os.mkfifo(tmp_path / "pipe.tsv")
    values["data"]["train"][2]["files"] = [str(tmp_path / "pipe.tsv")]
    with pytest.raises(DataError, match=r"pipe\.tsv: is a pipe or a device"):
        train(parse_settings(values))
    values["data"]["train"][2] = {"files": [str(tmp_path / "more.tsv")], "weight": 1e300}
    with pytest.raises(SettingsError, match="weight"):
        parse_settings(values)


def test_tokeniser_without_the_tag_is_rejected(tmp_path: Path) -> None:
    values = toy_corpora_values(tmp_path, steps=3)
    plain = {
        **values,
        "data": {
            **values["data"],
            "train": [str(tmp_path / "train.tsv")],
            "dev": [str(tmp_path / "dev.tsv")],
        },
    }
    plain["text"] = {**values["text"], "size": 17}
    assert train(parse_settings(plain, run=str(tmp_path / "plain")))
    run = tmp_path / "run"
    (run / "text").mkdir(parents=True)
    (run / "text" / "joint.spm").write_bytes((tmp_path / "plain" / "text" / "joint.spm").read_bytes())
    with pytest.raises(
        SettingsError,
        match=r"the tag <2rev> is not a piece of the vocabulary .*joint\.spm \(17 pieces; it has no tags",
    ):
        train(parse_settings(values))


def test_corpus_settings_that_affect_weights_cannot_change(tmp_path: Path) -> None:
    values = toy_corpora_values(tmp_path)
    before = fixed_settings(parse_settings(values))
    path = tmp_path / "step-1.safetensors"

    def changed(number: int, **change: Any) -> Settings:
        corpora = [dict(corpus) for corpus in values["data"]["train"]]
        corpora[number] |= change
        return parse_settings(values, data={**values["data"], "train": corpora})

    check_unchanged(path, before, changed(0, files=["elsewhere.tsv"], name="another"))
    for number, change, message in (
        (1, {"weight": 2}, r"data\.train\.1\.weight was 1\.5 and is now 2\.0"),
        (0, {"tag": "<2x>"}, r"data\.train\.0\.tag was <2rev> and is now <2x>"),
        (2, {"filters": {"max_tokens": 9}}, r"data\.train\.2\.filters\.max_tokens was 4 and is now 9"),
    ):
        with pytest.raises(CheckpointError, match=message):
            check_unchanged(path, before, changed(number, **change))


def test_remote_corpora_are_read_and_read_errors_are_reported(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("uwaga.files.store.PAUSE", 0.001)
    values = toy_corpora_values(tmp_path, steps=3, save_every=3, validate_every=3)
    memory = fsspec.filesystem("memory")
    memory.pipe("/corpora/train.tsv", (tmp_path / "train.tsv").read_bytes())
    values["data"]["train"] = [{"files": ["memory://corpora/train.tsv"], "tag": "<2rev>"}]
    values["text"]["size"] = 18
    content = (tmp_path / "train.tsv").read_bytes()
    monkeypatch.setattr(type(memory), "_open", lambda *_, **__: BrokenFile(content))
    with pytest.raises(DataError, match="reading failed 6 times at byte 500 of"):
        train(parse_settings(values))
    assert not list((tmp_path / "run").rglob("*.spm")) and not (tmp_path / "run" / "data").exists()
    monkeypatch.undo()
    assert train(parse_settings(values))
    assert "memory://corpora/train.tsv" in (tmp_path / "run" / "settings.yaml").read_text()
    assert (
        yaml.safe_load((tmp_path / "run" / "settings.yaml").read_text())["data"]["train"][0]["tag"]
        == "<2rev>"
    )
