"""A run on several corpora: mixed, tagged, resumed bit by bit, and translated with ``--to``."""

from __future__ import annotations

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


def values(folder: Path, **training: Any) -> dict[str, Any]:
    """Letters to be reversed behind ``<2rev>``, to be copied behind ``>>eng<<``, and untagged ones."""
    write_reversal_corpus(folder, pairs=300)
    draw = random.Random(3)
    words = ["".join(draw.choices("abcdefghijkl", k=draw.randint(1, 5))) for _ in range(140)]
    (folder / "copy.jsonl").write_text("".join(f'{{"s": "{word}", "t": "{word}"}}\n' for word in words[:100]))
    (folder / "more.tsv").write_text("".join(f"{word}\t{word[::-1]}\n" for word in words[100:]))
    made = toy_values(folder, **training)
    made["text"]["size"] = 19
    made["data"]["train"] = [
        {"files": [str(folder / "train.tsv")], "tag": "<2rev>", "name": "turned"},
        {"files": [str(folder / "copy.jsonl")], "columns": ["s", "t"], "tag": ">>eng<<", "weight": 1.5},
        {"files": [str(folder / "more.tsv")], "weight": 0.5, "filters": {"max_tokens": 4}},
    ]
    made["data"]["dev"] = [{"files": [str(folder / "dev.tsv")], "tag": "<2rev>"}]
    return made


def settings(made: dict[str, Any], **changes: Any) -> Settings:
    return parse(Settings, {**made, **changes}, "toy")


class Broken(io.BytesIO):
    """An object whose reads fail from byte 500 on."""

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() >= 500:
            raise OSError("reset")
        return super().read(500)


@pytest.mark.parametrize("extra", [{}, {"subword_sampling": 0.1, "augment": {"upper": 0.2}}])
@pytest.mark.parametrize("mixing", ["weights", "temperature"])
def test_a_run_stopped_anywhere_ends_with_the_same_bits(tmp_path, monkeypatch, mixing: str, extra) -> None:
    made = values(tmp_path, steps=26, save_every=7, validate_every=13)
    made["data"] |= extra
    if mixing == "temperature":
        made["data"]["temperature"] = 5
        for corpus in made["data"]["train"]:
            corpus.pop("weight", None)
    whole = settings(made, run=str(tmp_path / "whole"))
    assert train(whole)
    parts = settings(made, run=str(tmp_path / "parts"))
    monkeypatch.setattr("uwaga.training.train.Interrupt", Stop)
    for after in (3, 9, 1):
        Stop.after = after
        assert train(parts) is None
    Stop.after = 0
    assert train(parts)
    (one, expected), (two, found) = (
        read_checkpoint(checkpoint_path(run.run / "checkpoints", 26)) for run in (whole, parts)
    )
    assert one == two and one.epoch >= 1
    assert all(torch.equal(tensor, found[name]) for name, tensor in expected.items())
    assert sorted(path.name for path in (parts.run / "data").iterdir()) == [
        "dev",
        "train.copy.jsonl",
        "train.more.tsv",
        "train.turned",
    ]


def test_a_tagged_model_translates_to_the_language_asked_for(tmp_path: Path) -> None:
    made = values(tmp_path, steps=3, save_every=3, validate_every=3)
    folder = train(settings(made))
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

    def said(text: str, **options: Any) -> tuple[str, float]:
        made = translator.translate(text, **options)
        return str(made), made.score

    tagged, copied = said("<2rev> abc"), said(">>eng<< abc")
    assert tagged[1] != copied[1] != said("abc")[1]
    assert said("abc", target="rev") == tagged
    assert said("abc", target="en") == said("abc", target="eng") == copied
    with pytest.raises(SettingsError, match="no target language 'pl'; the model has eng rev"):
        translator.translate("abc", target="pl")
    translator = uwaga.load(folder, engine=engine, target="rev")
    assert said("abc") == tagged


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    made = values(tmp_path)
    os.mkfifo(tmp_path / "pipe.tsv")
    made["data"]["train"][2]["files"] = [str(tmp_path / "pipe.tsv")]
    with pytest.raises(DataError, match=r"pipe\.tsv: a pipe or a device"):
        train(settings(made))
    made["data"]["train"][2] = {"files": [str(tmp_path / "more.tsv")], "weight": 1e300}
    with pytest.raises(SettingsError, match="weight"):
        settings(made)


def test_a_tokeniser_without_the_tag(tmp_path: Path) -> None:
    made = values(tmp_path, steps=3)
    plain = {
        **made,
        "data": {**made["data"], "train": [str(tmp_path / "train.tsv")], "dev": [str(tmp_path / "dev.tsv")]},
    }
    plain["text"] = {**made["text"], "size": 17}
    assert train(settings(plain, run=str(tmp_path / "plain")))
    run = tmp_path / "run"
    (run / "text").mkdir(parents=True)
    (run / "text" / "joint.spm").write_bytes((tmp_path / "plain" / "text" / "joint.spm").read_bytes())
    with pytest.raises(
        SettingsError,
        match=r"the tag <2rev> is not a piece of the vocabulary .*joint\.spm \(17 pieces; it has no tags",
    ):
        train(settings(made))


def test_what_decides_a_weight_must_not_change(tmp_path: Path) -> None:
    made = values(tmp_path)
    before = fixed_settings(settings(made))
    path = tmp_path / "step-1.safetensors"

    def changed(number: int, **change: Any) -> Settings:
        corpora = [dict(corpus) for corpus in made["data"]["train"]]
        corpora[number] |= change
        return settings(made, data={**made["data"], "train": corpora})

    check_unchanged(path, before, changed(0, files=["elsewhere.tsv"], name="another"))
    for number, change, message in (
        (1, {"weight": 2}, r"data\.train\.1\.weight was 1\.5 and is now 2\.0"),
        (0, {"tag": "<2x>"}, r"data\.train\.0\.tag was <2rev> and is now <2x>"),
        (2, {"filters": {"max_tokens": 9}}, r"data\.train\.2\.filters\.max_tokens was 4 and is now 9"),
    ):
        with pytest.raises(CheckpointError, match=message):
            check_unchanged(path, before, changed(number, **change))


def test_corpora_behind_urls_and_one_that_breaks(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("uwaga.files.store.PAUSE", 0.001)
    made = values(tmp_path, steps=3, save_every=3, validate_every=3)
    memory = fsspec.filesystem("memory")
    memory.pipe("/corpora/train.tsv", (tmp_path / "train.tsv").read_bytes())
    made["data"]["train"] = [{"files": ["memory://corpora/train.tsv"], "tag": "<2rev>"}]
    made["text"]["size"] = 18
    content = (tmp_path / "train.tsv").read_bytes()
    monkeypatch.setattr(type(memory), "_open", lambda *_, **__: Broken(content))
    with pytest.raises(DataError, match="reading failed 6 times at byte 500 of"):
        train(settings(made))
    assert not list((tmp_path / "run").rglob("*.spm")) and not (tmp_path / "run" / "data").exists()
    monkeypatch.undo()
    assert train(settings(made))
    assert "memory://corpora/train.tsv" in (tmp_path / "run" / "settings.yaml").read_text()
    assert (
        yaml.safe_load((tmp_path / "run" / "settings.yaml").read_text())["data"]["train"][0]["tag"]
        == "<2rev>"
    )
