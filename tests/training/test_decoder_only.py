"""Training of decoder-only models for translation, from a settings file to a folder (M18, M37 to M41)."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from precision import tolerance
from toy import toy_values, write_reversal_corpus

import uwaga
from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.description import describe_checkpoint
from uwaga.decoder import Symbols
from uwaga.engine.interventions import Heads
from uwaga.errors import ModelError, SettingsError
from uwaga.inspection.interventions import compare
from uwaga.models.build import build_model
from uwaga.models.decoder_only import DecoderOnly
from uwaga.settings import MODEL_PRESETS, DecoderOnlySettings, Settings, load_settings, parse
from uwaga.training.template import write_template
from uwaga.training.train import train

SMALL = {
    "preset": "llama-tiny", "layers": 2, "width": 32, "feed_forward": 64, "max_length": 96, "dropout": 0.0,
}  # fmt: skip
GEMMA = {
    **{"norm": "both", "window": 4, "global_every": 2, "query_key_norm": "before", "local_rotary": {}},
    **{"score_cap": 50.0, "logit_cap": 30.0, "score_scale": 0.3},
}
GPT2 = {
    **{"family": "decoder-only", "layers": 1, "width": 32, "heads": 2, "feed_forward": 64, "norm": "pre"},
    **{"max_length": 96, "dropout": 0.0},
}


def toy_decoder_values(folder: Path, steps: int, model: dict[str, Any]) -> dict[str, Any]:
    raw = toy_values(
        folder, steps=steps, batch_tokens=500, validate_every=steps, save_every=20, bleu_tokenise="char",
        label_smoothing=0.0,
    )  # fmt: skip
    raw["training"]["schedule"] = {"kind": "cosine", "peak": 0.008, "warmup": 30}
    raw["data"]["max_tokens"] = 40
    return raw | {"model": model}


def train_toy_model(folder: Path, steps: int, model: dict[str, Any]) -> Path:
    write_reversal_corpus(folder, pairs=2000, max_length=4)
    model_folder = train(parse(Settings, toy_decoder_values(folder, steps, model), "toy"))
    assert model_folder is not None
    return model_folder


@pytest.mark.parametrize(
    ("model", "steps"),
    [
        (SMALL, 20),
        pytest.param(SMALL, 700, marks=pytest.mark.release),
        pytest.param(SMALL | GEMMA, 700, marks=pytest.mark.release),
    ],
)
def test_M18_llama_tiny_is_trained_from_a_settings_file(tmp_path, model, steps) -> None:
    folder = train_toy_model(tmp_path, steps, model)
    translator = uwaga.load(folder, device="cpu")
    translations = [translation.text for translation in translator.translate(["abc", "fg", "hijk"])]
    assert translations == [translator.translate(text).text for text in ("abc", "fg", "hijk")]
    [scored] = translator.score([("abc", "cba")])
    assert scored.log_prob < 0
    if steps > 100:
        assert translations == ["cba", "gf", "kjih"]
        assert scored.log_prob > -0.5


def test_saved_decoder_only_model_preserves_all_settings(tmp_path: Path) -> None:
    folder = train_toy_model(tmp_path, 5, SMALL | GEMMA)
    stored = json.loads((folder / "config.json").read_text())
    assert stored["version"] == 4
    checkpoint = formats.read(folder)
    assert checkpoint.task == "translate"
    assert checkpoint.settings == parse(Settings, toy_decoder_values(tmp_path, 5, SMALL | GEMMA), "toy").model
    sizes = describe_checkpoint(formats.read(folder)).sizes
    assert (sizes["positions"], sizes["rotary base"], sizes["rotary scaling"]) == ("rotary", 10_000.0, "none")
    assert sizes["window"] == 4
    effect = compare(uwaga.load(folder, device="cpu"), "abc", Heads("decoder", None, None, "silent"))
    assert effect.log_prob_before != effect.log_prob_after
    native, reference = (
        uwaga.load(folder, engine=engine, device="cpu").translate("abc") for engine in ("native", "torch")
    )
    assert native.text == reference.text
    continued = toy_decoder_values(tmp_path, 5, SMALL) | {"init": str(folder), "run": str(tmp_path / "more")}
    del continued["model"], continued["text"]
    assert train(parse(Settings, continued, "toy")) is not None
    stored["model"]["key_value_heads"] = 3
    (folder / "config.json").write_text(json.dumps(stored))
    with pytest.raises(ModelError, match="key_value_heads 3 does not divide heads 4"):
        formats.read(folder)
    stored["model"] |= {"key_value_heads": 2, "rotary": stored["model"]["rotary"] | {"scaling": "ntk"}}
    (folder / "config.json").write_text(json.dumps(stored))
    with pytest.raises(ModelError, match=r"scaling: .*'llama3' or 'yarn' .found 'ntk'"):
        formats.read(folder)


def test_model_like_gpt2_runs_on_the_engine_in_float32_and_int8(tmp_path: Path) -> None:
    folder = train_toy_model(tmp_path, 20, GPT2)
    texts = ["abc", "fg", "hijk"]
    native, reference = (
        uwaga.load(folder, engine=engine, device="cpu").translate(texts) for engine in ("native", "torch")
    )
    assert [translation.text for translation in native] == [translation.text for translation in reference]
    from uwaga.conversion.quantise import quantise

    quantise(folder, tmp_path / "int8", sample=texts)
    int8 = formats.read(tmp_path / "int8")
    assert int8.task == "translate"
    assert len(uwaga.load(tmp_path / "int8").translate(texts)) == 3


@pytest.mark.numerical
def test_M18_target_log_probs_depend_on_the_source() -> None:
    torch.manual_seed(2)
    settings = parse(
        DecoderOnlySettings, MODEL_PRESETS["llama-tiny"]().model_dump() | {"layers": 2}, "preset"
    )
    model = build_model(settings, Symbols(start=1, end=2, pad=0, unknown=3), 23, 23).eval()
    assert isinstance(model, DecoderOnly)
    source, target = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]]), torch.tensor([[1, 11, 12], [1, 14, 0]])
    with torch.no_grad():
        log_probs = model(source, target)
        for row, text, length in ((0, [5, 6, 7, 2, 11, 12], 3), (1, [8, 2, 14], 2)):
            expected = torch.log_softmax(model.logits(model.read(torch.tensor([text]))), -1)[0, -length:]
            torch.testing.assert_close(log_probs[row, :length], expected, **tolerance(expected))


def test_invalid_decoder_only_settings_are_rejected(tmp_path: Path) -> None:
    raw = toy_decoder_values(tmp_path, 5, SMALL)
    with pytest.raises(SettingsError, match=r"a single vocabulary; set text.joint: true"):
        parse(Settings, raw | {"text": {"joint": False}}, "toy")
    with pytest.raises(
        SettingsError, match=r"up to 513 positions, .* is 96: raise it, or lower data.max_tok"
    ):
        parse(Settings, raw | {"data": raw["data"] | {"max_tokens": 256}}, "toy")
    with pytest.raises(SettingsError, match=r"there are two, of 23 and 24 tokens; set text.joint"):
        build_model(MODEL_PRESETS["llama-tiny"](), Symbols(start=1, end=2, pad=0, unknown=3), 23, 24)
    write_reversal_corpus(tmp_path, pairs=20)
    raw["training"]["quantisation"] = "int8"
    with pytest.raises(SettingsError, match="can be simulated only for Transformers, not for DecoderOnly"):
        train(parse(Settings, raw, "toy"))


def test_settings_template_of_a_preset_is_valid_and_complete(tmp_path: Path) -> None:
    write_template(tmp_path / "my.yaml", "llama-tiny")
    assert "key_value_heads: 2  #" in (tmp_path / "my.yaml").read_text()
    settings = load_settings(tmp_path / "my.yaml")
    assert settings.model == MODEL_PRESETS["llama-tiny"]()
    assert parse(Settings, json.loads(settings.model_dump_json()), "again") == settings
