"""The statistics of a model's scores in its folder, float and int8, of older formats and newer ones."""

import json

import pytest
import tiny_models as tiny
import torch

from uwaga.checkpoints.formats.uwaga.folder import save_model
from uwaga.checkpoints.formats.uwaga.int8 import read_quantised
from uwaga.checkpoints.formats.uwaga.read import read_folder
from uwaga.checkpoints.score_stats import ScoreStats
from uwaga.conversion.quantise import quantise
from uwaga.data.corpus import Pair
from uwaga.errors import ModelError
from uwaga.models.adapters import adapted_layers, add_adapters
from uwaga.settings import LoraSettings, TrainingSettings
from uwaga.training.validation import validate
from uwaga.translator import Model, Translator


def test_I11_7_the_usual_score_is_kept_and_older_folders_load(tmp_path):
    score_stats = ScoreStats(mean=-0.5, low=-1.5, sentences=200)
    joint = tiny.tokeniser()
    model = tiny.transformer(tiny.TINY, joint, joint)
    parts = (model, tiny.TINY, tiny.DECODING, joint, joint, ("en", "de"), "# Card\n")
    save_model(tmp_path / "old", *parts)
    save_model(tmp_path / "new", *parts, score_stats=score_stats)
    found = {name: json.loads((tmp_path / name / "config.json").read_text()) for name in ("old", "new")}
    assert (found["old"]["version"], found["new"]["version"]) == (1, 2)  # a reader of 1 is told
    assert "usual_score" not in found["old"]
    assert read_folder(tmp_path / "old").score_stats is None
    assert read_folder(tmp_path / "new").score_stats == score_stats
    assert Translator.load(tmp_path / "new", device="cpu").model.score_stats == score_stats
    quantise(tmp_path / "new", tmp_path / "int8")
    assert read_quantised(tmp_path / "int8").score_stats == score_stats
    quantise(tmp_path / "old", tmp_path / "measured", sample=tiny.ENGLISH * 13)
    measured = read_quantised(tmp_path / "measured").score_stats
    assert measured.sentences == 13 * len(tiny.ENGLISH)
    assert measured.low <= measured.mean < 0
    (tmp_path / "new" / "config.json").write_text(json.dumps(found["new"] | {"usual_score": {"mean": 1}}))
    with pytest.raises(ModelError, match="usual_score"):
        read_folder(tmp_path / "new")


def test_I11_7_training_measures_it_on_the_dev_set():
    joint = tiny.tokeniser()
    model = tiny.transformer(tiny.TINY, joint, joint)
    lines = [f"{number} {line}" for number in range(60) for line in tiny.ENGLISH if len(line) < 40]
    pairs = [Pair(line, (line,), 1) for line in lines]
    settings = TrainingSettings(steps=1, validation_beam=1)
    found = validate(model, [], pairs[:99], joint, joint, settings, tiny.SEARCH)
    assert found.score_stats is None
    found = validate(model, [], pairs[:100], joint, joint, settings, tiny.SEARCH)
    assert found.score_stats.sentences == 100
    translator = Translator(Model(model.eval(), joint, joint, tiny.SEARCH))
    made = translator.translate(lines[:100], beam=1)
    means = [one.log_prob / len(one.token_scores) for one in made]
    assert found.score_stats.mean == pytest.approx(sum(means) / 100, abs=1e-3)
    assert found.score_stats.low == pytest.approx(sorted(means)[1], abs=1e-3)


@pytest.mark.parametrize("lora", [False, True])
def test_validation_decodes_on_the_engine_with_the_scores_of_torch(lora, monkeypatch):
    joint = tiny.tokeniser()
    model = tiny.transformer(tiny.TINY, joint, joint)
    if lora:
        add_adapters(model, LoraSettings(targets=("decoder.*",)))
        for layer in adapted_layers(model).values():
            torch.nn.init.normal_(layer.lora_b, generator=torch.Generator().manual_seed(1))
    pairs = [Pair(line, (line,), 1) for line in tiny.ENGLISH if len(line) < 40]
    arguments = [], pairs, joint, joint, TrainingSettings(steps=1, validation_beam=3), tiny.SEARCH
    steps = []
    monkeypatch.setattr(model, "step", lambda *given: steps.append(1) or type(model).step(model, *given))
    native = validate(model, *arguments)
    assert not steps
    monkeypatch.setattr("uwaga.training.validation.engine_refusal", lambda settings: "others")
    assert native == validate(model, *arguments) and steps
