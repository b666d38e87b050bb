"""Training from a base model (``init``): trained weights, saved folders, resumption, and errors."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from toy import toy_values, write_reversal_corpus

import uwaga
from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.adapter import apply_adapter, read_adapter, weights_checksum
from uwaga.cli.main import main
from uwaga.errors import CheckpointError, ModelError, SettingsError
from uwaga.settings import parse
from uwaga.settings.training import Settings
from uwaga.training.checkpoint import checkpoint_path, read_checkpoint
from uwaga.training.estimate import estimate_time
from uwaga.training.final_model import average_run
from uwaga.training.train import train


def adapt_settings(folder: Path, base: Path | str, run: str, steps: int = 4, **changes: Any) -> Settings:
    """Return settings of a run with the base model ``base``; ``changes`` are groups of settings."""
    training = {"save_every": 2, "validate_every": 2, "average": 2, "patience": 0}
    values = toy_values(folder, steps=steps, **training | changes.pop("training", {}))
    groups = {name: values[name] for name in ("data", "training")}
    del groups["data"]["languages"]
    groups["data"] = {**groups["data"], "max_tokens": 30, **changes.pop("data", {})}
    return parse(Settings, {"run": str(folder / run), "init": str(base), **groups, **changes}, "test")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a finished toy run with its corpus and its model."""
    folder = tmp_path_factory.mktemp("base")
    write_reversal_corpus(folder)
    assert train(parse(Settings, toy_values(folder, steps=20), "toy")) == folder / "run" / "model"
    return folder


LORA = {"lora": {"rank": 2, "alpha": 4.0, "dropout": 0.1, "targets": ["*attention.*", "*feed_forward*"]}}
VARIANTS: dict[str, dict[str, Any]] = {
    "all": {
        "model": {"dropout": 0.2},
        "adapt": {"rates": {"encoder.*": 0.1, "*norm*": 2.0}},
        "training": {"quantisation": "int8"},
    },
    "frozen": {"adapt": {"freeze": ["encoder.*", "*embedding*"]}},
    "lora": {"adapt": LORA},
    "vocabulary": {
        "adapt": {"vocabulary": "new"},
        "text": {"kind": "bpe", "size": 20, "byte_fallback": False, "normalisation": "identity"},
    },
}


@pytest.mark.parametrize(
    "variant",
    [
        pytest.param(name, marks=pytest.mark.slow if name in ("frozen", "vocabulary") else ())
        for name in VARIANTS
    ],
)
def test_resumed_adaptation_is_bit_identical_to_an_uninterrupted_one(base, tmp_path, variant) -> None:
    run = f"../{tmp_path.name}-{variant}"
    model = base / "run" / "model"
    data = {"also": {"other": [str(base / "dev.tsv")]}}
    uninterrupted = train(adapt_settings(base, model, f"{run}/whole", data=data, **VARIANTS[variant]))
    train(adapt_settings(base, model, f"{run}/stopped", steps=2, data=data, **VARIANTS[variant]))
    train(adapt_settings(base, model, f"{run}/stopped", steps=4, data=data, **VARIANTS[variant]))
    root = base / run
    paths = [checkpoint_path(root / name / "checkpoints", 4) for name in ("whole", "stopped")]
    (expected_progress, expected), (progress, actual) = map(read_checkpoint, paths)
    assert expected_progress == progress and set(expected_progress.before) == {"dev", "other"}
    assert expected.keys() == actual.keys()
    assert all(torch.equal(expected[name], actual[name]) for name in expected)
    weight_names = {name.removeprefix("model.") for name in expected if name.startswith("model.")}
    if variant == "lora":
        assert all(".lora_" in name for name in weight_names) and uninterrupted == root / "whole" / "adapter"
    if variant == "frozen":
        assert not any(name.startswith("encoder.") or name == "output_weight" for name in weight_names)
    if variant == "all":  # the written settings describe the same run
        written = json.loads(json.dumps(_written_settings(root / "whole")))
        assert train(parse(Settings, written, "written")) == uninterrupted
    average_run(root / "whole", root / "mean")


def _written_settings(run: Path) -> dict[str, Any]:
    from uwaga.settings import read_yaml

    return read_yaml(run / "settings.yaml")


def test_frozen_weights_stay_unchanged_and_all_other_weights_change(base: Path, tmp_path: Path) -> None:
    folder = train(
        adapt_settings(base, base / "run/model", f"../{tmp_path.name}/run", adapt={"freeze": ["encoder.*"]})
    )
    assert folder is not None
    before, after = (load_file(path / "model.safetensors") for path in (base / "run" / "model", folder))
    assert before.keys() == after.keys()
    for name in before:
        assert torch.equal(before[name], after[name]) == name.startswith("encoder."), name
    config, old = (
        json.loads((path / "config.json").read_text()) for path in (folder, base / "run" / "model")
    )
    for key in ("languages", "model", "decoding", "symbols"):
        assert config[key] == old[key]
    assert "started from" in (folder / "card.md").read_text()


def test_learning_rate_factors_scale_the_first_update(base: Path, tmp_path: Path) -> None:
    """Adam's first step equals the learning rate wherever there is a gradient."""
    model = base / "run" / "model"
    training = {"schedule": {"kind": "constant", "peak": 1e-3, "warmup": 0}, "average": 0, "save_every": 1}
    adapt = {"rates": {"*": 0.5, "decoder.*": 2.0}}
    folder = train(
        adapt_settings(base, model, f"../{tmp_path.name}/run", steps=1, training=training, adapt=adapt)
    )
    assert folder is not None
    before, after = (load_file(path / "model.safetensors") for path in (model, folder))
    for name, rate in (
        ("encoder.0.feed_forward.outer.bias", 0.5),
        ("decoder.0.feed_forward.outer.bias", 2.0),
    ):
        difference = (after[name] - before[name]).abs()
        torch.testing.assert_close(difference, torch.full_like(difference, rate * 1e-3), atol=1e-5, rtol=1e-2)


def test_M34_trained_adapter_is_saved_and_merged(base: Path, tmp_path: Path) -> None:
    model = base / "run" / "model"
    adapter = train(adapt_settings(base, model, f"../{tmp_path.name}/run", adapt=LORA))
    assert adapter is not None
    assert sorted(path.name for path in adapter.iterdir()) == [
        "adapter.json",
        "adapter.safetensors",
        "card.md",
    ]
    adapter_weights = read_adapter(adapter)
    weights = formats.read(model).weights
    assert weights is not None and adapter_weights.base_sha256 == weights_checksum(weights)
    changed = apply_adapter(formats.read(model), adapter_weights).weights
    assert changed is not None
    for name in changed.names():
        rows = changed.rows(name, 0, 2)
        assert rows is None or np.array_equal(rows, changed.read(name)[:2])
    assert changed.rows("output_weight", 0, 2) is not None
    assert changed.rows(f"{min(adapter_weights.factors)}.weight", 0, 2) is None
    (tmp_path / "link").symlink_to(model)
    for base_path in (model, tmp_path / "link"):
        assert run_main("merge", adapter, base_path) == 1  # never overwrites its base model
    assert formats.read(model).weights is not None
    assert run_main("merge", adapter, tmp_path / "merged") == 0
    texts = ["abc", "fed", "g h"]
    models = [uwaga.load(adapter=adapter, engine=engine, device="cpu") for engine in ("native", "torch")] + [
        uwaga.load(tmp_path / "merged", device="cpu"),
        uwaga.load(model, adapter=str(adapter), device="cpu"),
    ]
    scores = [
        [score.log_prob for score in loaded.score([(text, "cba") for text in texts])] for loaded in models
    ]
    for actual in scores[1:]:
        np.testing.assert_allclose(actual, scores[0], rtol=1e-4)
    plain = uwaga.load(model, device="cpu").score([(text, "cba") for text in texts])
    assert not np.allclose([score.log_prob for score in plain], scores[0], rtol=1e-3)
    assert run_main("translate", "--adapter", adapter, "abc") == 0
    (tmp_path / "pairs.tsv").write_text("abc\tcba\n")
    assert run_main("score", "--adapter", adapter, tmp_path / "pairs.tsv", "-o", tmp_path / "scores") == 0
    assert float((tmp_path / "scores").read_text().split("\t")[0]) == pytest.approx(scores[0][0], rel=1e-3)
    assert run_main("convert", "--int8", tmp_path / "merged", tmp_path / "int8") == 0


def run_main(*arguments: object) -> int:
    with pytest.raises(SystemExit) as error:
        main([str(argument) for argument in arguments])
    return int(error.value.code or 0)


def test_damaged_adapters_and_adapters_of_other_models_are_rejected(base: Path, tmp_path: Path) -> None:
    model, run = base / "run" / "model", f"../{tmp_path.name}/run"
    adapter = train(adapt_settings(base, model, run, steps=2, adapt=LORA))
    other = train(adapt_settings(base, model, f"{run}2", steps=2))
    assert adapter is not None and other is not None
    with pytest.raises(ModelError, match=r"adapter belongs to .*run/model.* is another model"):
        uwaga.load(other, adapter=adapter)
    assert run_main("convert", "--int8", model, tmp_path / "int8") == 0
    with pytest.raises(SettingsError, match=r"an adapter cannot be applied to a quantised model"):
        uwaga.load(tmp_path / "int8", adapter=adapter)
    with pytest.raises(ModelError, match=r"not an adapter, because it contains no adapter\.json"):
        uwaga.load(model, adapter=other)
    content = bytearray((adapter / "adapter.safetensors").read_bytes())
    content[-1] ^= 1
    (adapter / "adapter.safetensors").write_bytes(bytes(content))
    with pytest.raises(ModelError, match=r"adapter\.safetensors: damaged"):
        uwaga.load(model, adapter=adapter)


def test_dev_scores_are_logged_before_and_after_adaptation(base, tmp_path, capsys) -> None:
    data = {"also": {"general": [str(base / "dev.tsv")]}}
    train(adapt_settings(base, base / "run" / "model", f"../{tmp_path.name}/run", steps=2, data=data))
    log = capsys.readouterr().err
    assert "general: BLEU " in log and " → " in log
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    parts = [(line["part"], line.get("corpus")) for line in lines if "corpus" in line]
    assert parts == [
        *(("before", name) for name in ("dev", "general")),
        ("also", "general"),
        ("after", "general"),
    ]
    assert "Before and after" in (tmp_path / "run/model/card.md").read_text()


def test_checkpoint_of_a_training_run_can_be_adapted(base: Path, tmp_path: Path) -> None:
    checkpoint = checkpoint_path(base / "run" / "checkpoints", 20)
    folder = train(adapt_settings(base, checkpoint, f"../{tmp_path.name}/run", steps=2))
    assert folder is not None
    assert uwaga.load(folder, device="cpu").translate("abc", max_length=5) is not None


def test_invalid_adaptation_settings_are_rejected(base: Path, tmp_path: Path) -> None:
    model, run = base / "run" / "model", f"../{tmp_path.name}/run"
    run_main("convert", "--int8", model, tmp_path / "int8")
    cases: list[tuple[str, dict[str, Any]]] = [
        (r"model\.width: 64, but the model named by init .* has 32", {"model": {"width": 64}}),
        (r"model\.family: 'luong'", {"model": {"family": "luong"}}),
        (r"model\.\w+: .* omit it", {"model": "transformer-small"}),
        (r"text\.size: the run uses the tokenisers of", {"text": {"size": 99}}),
        (r"data\.max_tokens: 40, but .* accepts 40 tokens", {"data": {"max_tokens": 40}}),
        (r"data\.languages: .*translates only abc to cba", {"data": {"languages": ["en", "de"]}}),
        (r"adapt\.freeze: 'encodr\.\*' matches no weight .* encoder", {"adapt": {"freeze": ["encodr.*"]}}),
        (r"adapt\.freeze: all weights are frozen", {"adapt": {"freeze": ["*"]}}),
        (r"adapt\.rates: 'x' matches no weight", {"adapt": {"rates": {"x": 2.0}}}),
        (
            r"adapt\.lora\.targets: 'q_proj' matches no linear layer",
            {"adapt": {"lora": {"targets": ["q_proj"]}}},
        ),
        (r"merge it", {"adapt": LORA, "training": {"quantisation": "int8"}}),
        (
            r"text\.joint: .* shares its embeddings",
            {
                "adapt": {"vocabulary": "new"},
                "text": {"joint": False, "size": 24, "kind": "bpe", "byte_fallback": False},
            },
        ),
    ]
    for message, changes in cases:
        with pytest.raises(SettingsError, match=message):
            train(adapt_settings(base, model, run, **changes))
    with pytest.raises(SettingsError, match=r"init: .*int8 weights"):
        train(adapt_settings(base, tmp_path / "int8", run))
    with pytest.raises(ModelError, match=r"init: 'nobody': no such folder"):
        train(adapt_settings(base, "nobody", run))
    with pytest.raises(ModelError, match=r"step-1\.safetensors: no such checkpoint"):
        train(adapt_settings(base, base / "run/checkpoints/step-1.safetensors", run))
    with pytest.raises(SettingsError, match=r"with lora, only the adapters are trained"):
        adapt_settings(base, model, run, adapt={"freeze": ["*"], **LORA})
    values = toy_values(base) | {"adapt": {"freeze": ["*"]}}
    with pytest.raises(SettingsError, match=r"adapt: there is no model to adapt"):
        train(parse(Settings, values, "toy"))


def test_changed_base_model_is_detected(base: Path, tmp_path: Path) -> None:
    run = f"../{tmp_path.name}/run"
    first = train(adapt_settings(base, base / "run" / "model", f"{run}0", steps=2))
    assert first is not None
    train(adapt_settings(base, first, run, steps=2, adapt=LORA))
    train(adapt_settings(base, base / "run" / "model", f"{run}0", steps=4))  # replaces the base model
    with pytest.raises(CheckpointError, match=r"has changed since the run started"):
        train(adapt_settings(base, first, run, steps=4, adapt=LORA))


@pytest.mark.parametrize("variant", ["all", "lora", "vocabulary"])
def test_time_estimate_is_based_on_the_model_to_train(base: Path, tmp_path: Path, variant: str) -> None:
    settings = adapt_settings(base, base / "run" / "model", f"../{tmp_path.name}/run", **VARIANTS[variant])
    estimate = estimate_time(settings, 0.2)
    assert estimate.real and estimate.updates > 0 and 0 < estimate.validation < estimate.seconds
    assert not (tmp_path / "run").exists()
