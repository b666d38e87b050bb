"""Score statistics in float and int8 folders of older and newer format versions."""

import json
from dataclasses import replace

import pytest
import tiny_models as tiny
import torch

from uwaga.checkpoints.formats.uwaga.folder import FolderContents, save_model
from uwaga.checkpoints.formats.uwaga.int8 import read_quantised
from uwaga.checkpoints.formats.uwaga.read import read_folder
from uwaga.checkpoints.score_stats import ScoreStats
from uwaga.conversion.quantise import quantise
from uwaga.data.corpus import Pair
from uwaga.errors import ModelError
from uwaga.models.adapters import adapted_layers, add_adapters
from uwaga.settings import LoraSettings, TrainingSettings
from uwaga.tokenizers.subwords import byte_tokens
from uwaga.training.validation import validate
from uwaga.translator import Model, Translator


def test_score_stats_are_stored_and_may_be_missing_from_older_folders(tmp_path):
    score_stats = ScoreStats(mean=-0.5, low=-1.5, sentences=200)
    joint = tiny.tokeniser()
    model = tiny.transformer(tiny.TINY, joint, joint)
    contents = FolderContents(tiny.TINY, tiny.DECODING, joint, joint, ("en", "de"), "# Card\n")
    save_model(tmp_path / "old", model, contents)
    save_model(tmp_path / "new", model, replace(contents, score_stats=score_stats))
    configs = {name: json.loads((tmp_path / name / "config.json").read_text()) for name in ("old", "new")}
    assert (configs["old"]["version"], configs["new"]["version"]) == (
        1,
        2,
    )  # readers of version 1 raise an error
    assert "usual_score" not in configs["old"]
    assert read_folder(tmp_path / "old").score_stats is None
    assert read_folder(tmp_path / "new").score_stats == score_stats
    assert Translator.load(tmp_path / "new", device="cpu").model.score_stats == score_stats
    quantise(tmp_path / "new", tmp_path / "int8")
    assert read_quantised(tmp_path / "int8").score_stats == score_stats
    quantise(tmp_path / "old", tmp_path / "measured", sample=tiny.ENGLISH * 13)
    measured = read_quantised(tmp_path / "measured").score_stats
    assert measured.sentences == 13 * len(tiny.ENGLISH)
    assert measured.low <= measured.mean < 0
    (tmp_path / "new" / "config.json").write_text(json.dumps(configs["new"] | {"usual_score": {"mean": 1}}))
    with pytest.raises(ModelError, match="usual_score"):
        read_folder(tmp_path / "new")


def test_validation_measures_score_stats_on_at_least_100_sentences():
    joint = tiny.tokeniser()
    model = tiny.transformer(tiny.TINY, joint, joint)
    lines = [f"{number} {line}" for number in range(60) for line in tiny.ENGLISH if len(line) < 40]
    pairs = [Pair(line, (line,), 1) for line in lines]
    settings = TrainingSettings(steps=1, validation_beam=1)
    search = replace(tiny.SEARCH, banned=tuple(byte_tokens(joint)))  # translations have whole characters
    validation = validate(model, [], pairs[:99], joint, joint, settings, search)
    assert validation.score_stats is None
    validation = validate(model, [], pairs[:100], joint, joint, settings, search)
    assert validation.score_stats.sentences == 100
    translator = Translator(Model(model.eval(), joint, joint, search))
    translations = translator.translate(lines[:100], beam=1, placeholders=False)
    means = [translation.log_prob / len(translation.token_scores) for translation in translations]
    assert validation.score_stats.mean == pytest.approx(sum(means) / 100, abs=1e-3)
    assert validation.score_stats.low == pytest.approx(sorted(means)[1], abs=1e-3)


@pytest.mark.parametrize("lora", [False, True])
def test_validation_scores_of_the_native_engine_and_torch_are_equal(lora, monkeypatch):
    joint = tiny.tokeniser()
    model = tiny.transformer(tiny.TINY, joint, joint)
    if lora:
        add_adapters(model, LoraSettings(targets=("decoder.*",)))
        for layer in adapted_layers(model).values():
            torch.nn.init.normal_(layer.lora_b, generator=torch.Generator().manual_seed(1))
    pairs = [Pair(line, (line,), 1) for line in tiny.ENGLISH if len(line) < 40]
    arguments = [], pairs, joint, joint, TrainingSettings(steps=1, validation_beam=3), tiny.SEARCH
    steps = []
    monkeypatch.setattr(
        model, "step", lambda *arguments: steps.append(1) or type(model).step(model, *arguments)
    )
    native = validate(model, *arguments)
    assert not steps
    monkeypatch.setattr("uwaga.training.validation.unsupported_reason", lambda settings: "others")
    assert native == validate(model, *arguments) and steps
