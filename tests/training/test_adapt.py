"""Starting from a model (``init``): what trains, what is written, what is remembered, what is refused."""

from __future__ import annotations

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
from uwaga.checkpoints.adapter import adapted, read_adapter, weights_checksum
from uwaga.cli.main import main
from uwaga.errors import CheckpointError, ModelError, SettingsError
from uwaga.settings import parse
from uwaga.settings.training import Settings
from uwaga.training.checkpoint import checkpoint_path, read_checkpoint
from uwaga.training.estimate import estimate_time
from uwaga.training.final_model import average_run
from uwaga.training.train import train


def adapting(folder: Path, base: Path | str, run: str, steps: int = 4, **changes: Any) -> Settings:
    """Settings of a run that starts from ``base``; ``changes`` are groups."""
    amounts = {"save_every": 2, "validate_every": 2, "average": 2, "patience": 0}
    values = toy_values(folder, steps=steps, **amounts | changes.pop("training", {}))
    kept = {name: values[name] for name in ("data", "training")}
    del kept["data"]["languages"]
    kept["data"] = {**kept["data"], "max_tokens": 30, **changes.pop("data", {})}
    return parse(Settings, {"run": str(folder / run), "init": str(base), **kept, **changes}, "test")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a toy run: its corpus and its model."""
    folder = tmp_path_factory.mktemp("base")
    write_reversal_corpus(folder)
    assert train(parse(Settings, toy_values(folder, steps=20), "toy")) == folder / "run" / "model"
    return folder


LORA = {"lora": {"rank": 2, "alpha": 4.0, "dropout": 0.1, "targets": ["*attention.*", "*feed_forward*"]}}
WAYS: dict[str, dict[str, Any]] = {
    "all": {"model": {"dropout": 0.2}, "adapt": {"rates": {"encoder.*": 0.1, "*norm*": 2.0}}},
    "frozen": {"adapt": {"freeze": ["encoder.*", "*embedding*"]}},
    "lora": {"adapt": LORA},
    "int8": {"training": {"quantisation": "int8"}},
    "vocabulary": {
        "adapt": {"vocabulary": "new"},
        "text": {"kind": "bpe", "size": 20, "byte_fallback": False, "normalisation": "identity"},
    },
}


@pytest.mark.parametrize("way", WAYS)
def test_a_stopped_run_ends_with_the_same_bits(base: Path, tmp_path: Path, way: str) -> None:
    run = f"../{tmp_path.name}-{way}"
    model = base / "run" / "model"
    data = {"also": {"other": [str(base / "dev.tsv")]}}
    whole = train(adapting(base, model, f"{run}/whole", data=data, **WAYS[way]))
    train(adapting(base, model, f"{run}/stopped", steps=2, data=data, **WAYS[way]))
    train(adapting(base, model, f"{run}/stopped", steps=4, data=data, **WAYS[way]))
    place = base / run
    paths = [checkpoint_path(place / name / "checkpoints", 4) for name in ("whole", "stopped")]
    (one, wanted), (two, found) = map(read_checkpoint, paths)
    assert one == two and set(one.before) == {"dev", "other"}
    assert wanted.keys() == found.keys()
    assert all(torch.equal(wanted[name], found[name]) for name in wanted)
    named = {name.removeprefix("model.") for name in wanted if name.startswith("model.")}
    if way == "lora":
        assert all(".lora_" in name for name in named) and whole == place / "whole" / "adapter"
    if way == "frozen":
        assert not any(name.startswith("encoder.") or name == "output_weight" for name in named)
    # The settings that were written say the same run, and so does what is averaged of it.
    again = train(parse(Settings, json.loads(json.dumps(_written(place / "whole"))), "written"))
    assert again == whole
    average_run(place / "whole", place / "mean")


def _written(run: Path) -> dict[str, Any]:
    from uwaga.settings import read_yaml

    return read_yaml(run / "settings.yaml")


def test_frozen_weights_stay_and_others_move(base: Path, tmp_path: Path) -> None:
    made = train(
        adapting(base, base / "run/model", f"../{tmp_path.name}/run", adapt={"freeze": ["encoder.*"]})
    )
    assert made is not None
    before, after = (load_file(one / "model.safetensors") for one in (base / "run" / "model", made))
    assert before.keys() == after.keys()
    for name in before:
        assert torch.equal(before[name], after[name]) == name.startswith("encoder."), name
    config, old = (json.loads((one / "config.json").read_text()) for one in (made, base / "run" / "model"))
    for key in ("languages", "model", "decoding", "symbols"):
        assert config[key] == old[key]
    assert "started from" in (made / "card.md").read_text()


def test_a_rate_multiplies_the_first_step(base: Path, tmp_path: Path) -> None:
    """Adam's first step is the learning rate wherever there is a gradient."""
    model = base / "run" / "model"
    training = {"schedule": {"kind": "constant", "peak": 1e-3, "warmup": 0}, "average": 0, "save_every": 1}
    adapt = {"rates": {"*": 0.5, "decoder.*": 2.0}}
    made = train(adapting(base, model, f"../{tmp_path.name}/run", steps=1, training=training, adapt=adapt))
    assert made is not None
    before, after = (load_file(one / "model.safetensors") for one in (model, made))
    for name, rate in (
        ("encoder.0.feed_forward.outer.bias", 0.5),
        ("decoder.0.feed_forward.outer.bias", 2.0),
    ):
        moved = (after[name] - before[name]).abs()
        torch.testing.assert_close(moved, torch.full_like(moved, rate * 1e-3), atol=1e-5, rtol=1e-2)


def test_M34_an_adapter_lies_apart_and_merges(base: Path, tmp_path: Path) -> None:
    model = base / "run" / "model"
    adapter = train(adapting(base, model, f"../{tmp_path.name}/run", adapt=LORA))
    assert adapter is not None
    assert sorted(path.name for path in adapter.iterdir()) == [
        "adapter.json",
        "adapter.safetensors",
        "card.md",
    ]
    found = read_adapter(adapter)
    weights = formats.read(model).weights
    assert weights is not None and found.base_sha256 == weights_checksum(weights)
    changed = adapted(formats.read(model), found).weights
    assert changed is not None
    for name in changed.names():
        rows = changed.rows(name, 0, 2)
        assert rows is None or np.array_equal(rows, changed.read(name)[:2])
    assert changed.rows("output_weight", 0, 2) is not None
    assert changed.rows(f"{min(found.sides)}.weight", 0, 2) is None
    (tmp_path / "link").symlink_to(model)
    for own in (model, tmp_path / "link"):
        assert main_code("merge", adapter, own) == 1  # never over the model that it belongs to
    assert formats.read(model).weights is not None
    assert main_code("merge", adapter, tmp_path / "merged") == 0
    texts = ["abc", "fed", "g h"]
    ways = [uwaga.load(adapter=adapter, engine=engine, device="cpu") for engine in ("native", "torch")] + [
        uwaga.load(tmp_path / "merged", device="cpu"),
        uwaga.load(model, adapter=str(adapter), device="cpu"),
    ]
    scores = [[one.log_prob for one in way.score([(text, "cba") for text in texts])] for way in ways]
    for other in scores[1:]:
        np.testing.assert_allclose(other, scores[0], rtol=1e-4)
    plain = uwaga.load(model, device="cpu").score([(text, "cba") for text in texts])
    assert not np.allclose([one.log_prob for one in plain], scores[0], rtol=1e-3)
    assert main_code("translate", "--adapter", adapter, "abc") == 0
    (tmp_path / "pairs.tsv").write_text("abc\tcba\n")
    assert main_code("score", "--adapter", adapter, tmp_path / "pairs.tsv", "-o", tmp_path / "scores") == 0
    assert float((tmp_path / "scores").read_text().split("\t")[0]) == pytest.approx(scores[0][0], rel=1e-3)
    assert main_code("convert", "--int8", tmp_path / "merged", tmp_path / "int8") == 0


def main_code(*arguments: object) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return int(end.value.code or 0)


def test_an_adapter_of_another_model_is_refused(base: Path, tmp_path: Path) -> None:
    model, run = base / "run" / "model", f"../{tmp_path.name}/run"
    adapter = train(adapting(base, model, run, steps=2, adapt=LORA))
    other = train(adapting(base, model, f"{run}2", steps=2))
    assert adapter is not None and other is not None
    with pytest.raises(ModelError, match=r"an adapter of .*run/model.* is another model"):
        uwaga.load(other, adapter=adapter)
    assert main_code("convert", "--int8", model, tmp_path / "int8") == 0
    with pytest.raises(SettingsError, match=r"a quantised model cannot take an adapter"):
        uwaga.load(tmp_path / "int8", adapter=adapter)
    with pytest.raises(ModelError, match=r"no adapter: there is no adapter\.json"):
        uwaga.load(model, adapter=other)
    content = bytearray((adapter / "adapter.safetensors").read_bytes())
    content[-1] ^= 1
    (adapter / "adapter.safetensors").write_bytes(bytes(content))
    with pytest.raises(ModelError, match=r"adapter\.safetensors: damaged"):
        uwaga.load(model, adapter=adapter)


def test_dev_sets_are_compared_with_before(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = {"also": {"general": [str(base / "dev.tsv")]}}
    train(adapting(base, base / "run" / "model", f"../{tmp_path.name}/run", steps=2, data=data))
    told = capsys.readouterr().err
    assert "general: BLEU " in told and " → " in told
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    parts = [(line["part"], line.get("corpus")) for line in lines if "corpus" in line]
    assert parts == [
        *(("before", name) for name in ("dev", "general")),
        ("also", "general"),
        ("after", "general"),
    ]
    assert "Before and after" in (tmp_path / "run/model/card.md").read_text()


def test_a_checkpoint_of_a_run_starts_another(base: Path, tmp_path: Path) -> None:
    checkpoint = checkpoint_path(base / "run" / "checkpoints", 20)
    made = train(adapting(base, checkpoint, f"../{tmp_path.name}/run", steps=2))
    assert made is not None
    assert uwaga.load(made, device="cpu").translate("abc", max_length=5) is not None


def test_what_cannot_be_is_refused(base: Path, tmp_path: Path) -> None:
    model, run = base / "run" / "model", f"../{tmp_path.name}/run"
    main_code("convert", "--int8", model, tmp_path / "int8")
    wrong: list[tuple[str, dict[str, Any]]] = [
        (r"model\.width: 64, but the model named by init .* has 32", {"model": {"width": 64}}),
        (r"model\.family: 'luong'", {"model": {"family": "luong"}}),
        (r"model\.\w+: .* omit it", {"model": "transformer-small"}),
        (r"text\.size: the tokenisers are those of", {"text": {"size": 99}}),
        (r"data\.max_tokens: 40, but .* takes 40 tokens", {"data": {"max_tokens": 40}}),
        (r"data\.languages: .*translates abc to cba only", {"data": {"languages": ["en", "de"]}}),
        (r"adapt\.freeze: 'encodr\.\*' matches no weight .* encoder", {"adapt": {"freeze": ["encodr.*"]}}),
        (r"adapt\.freeze: nothing is left to train", {"adapt": {"freeze": ["*"]}}),
        (r"adapt\.rates: 'x' matches no weight", {"adapt": {"rates": {"x": 2.0}}}),
        (
            r"adapt\.lora\.targets: 'q_proj' matches no linear layer",
            {"adapt": {"lora": {"targets": ["q_proj"]}}},
        ),
        (r"merge the adapter", {"adapt": LORA, "training": {"quantisation": "int8"}}),
        (
            r"text\.joint: .* shares its embeddings",
            {
                "adapt": {"vocabulary": "new"},
                "text": {"joint": False, "size": 24, "kind": "bpe", "byte_fallback": False},
            },
        ),
    ]
    for message, changes in wrong:
        with pytest.raises(SettingsError, match=message):
            train(adapting(base, model, run, **changes))
    with pytest.raises(SettingsError, match=r"init: .*int8 weights"):
        train(adapting(base, tmp_path / "int8", run))
    with pytest.raises(ModelError, match=r"init: 'nobody': no such folder"):
        train(adapting(base, "nobody", run))
    with pytest.raises(ModelError, match=r"step-1\.safetensors: no such checkpoint"):
        train(adapting(base, base / "run/checkpoints/step-1.safetensors", run))
    with pytest.raises(SettingsError, match=r"with lora only the adapters train"):
        adapting(base, model, run, adapt={"freeze": ["*"], **LORA})
    values = toy_values(base) | {"adapt": {"freeze": ["*"]}}
    with pytest.raises(SettingsError, match=r"adapt: needs a model to adapt"):
        train(parse(Settings, values, "toy"))


def test_a_base_that_has_changed_is_noticed(base: Path, tmp_path: Path) -> None:
    run = f"../{tmp_path.name}/run"
    first = train(adapting(base, base / "run" / "model", f"{run}0", steps=2))
    assert first is not None
    train(adapting(base, first, run, steps=2, adapt=LORA))
    train(adapting(base, base / "run" / "model", f"{run}0", steps=4))  # which replaces it
    with pytest.raises(CheckpointError, match=r"has changed since the run started"):
        train(adapting(base, first, run, steps=4, adapt=LORA))


@pytest.mark.parametrize("way", ["all", "lora", "vocabulary"])
def test_an_estimate_is_of_the_model_that_would_train(base: Path, tmp_path: Path, way: str) -> None:
    settings = adapting(base, base / "run" / "model", f"../{tmp_path.name}/run", **WAYS[way])
    found = estimate_time(settings, 0.2)
    assert found.real and found.updates > 0 and 0 < found.validation < found.seconds
    assert not (tmp_path / "run").exists()
