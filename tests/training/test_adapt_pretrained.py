"""Base models of other libraries: losses equal those of ``transformers``; folders keep their format."""

import json
import shutil
from pathlib import Path
from typing import Any

import numbered_tokens
import numpy as np
import pytest
import tiny_models as tiny
import torch
from command_line import run_uwaga
from toy import toy_values

import uwaga
from uwaga.errors import SettingsError
from uwaga.settings import Settings, parse
from uwaga.training.base_model import open_base
from uwaga.training.corpus import prepare_corpora
from uwaga.training.initial_model import make_initial_model
from uwaga.training.optimiser import make_optimiser
from uwaga.training.step import Updater
from uwaga.training.train import train
from uwaga.translator.text import TokenPair

transformers = pytest.importorskip("transformers")
from fairseq_folders import PAIRS, model_folder
from marian_folders import make
from marian_students import write_student

STEPS = 10


def write_corpus(folder: Path, lines: list[str]) -> None:
    for name in ("train", "dev"):
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def adapt_settings(folder: Path, base: Path, **changes: Any) -> Settings:
    defaults = {
        **{"steps": 2, "save_every": 1, "validate_every": 2, "validation_sentences": 3, "average": 0},
        **{"label_smoothing": 0.0, "epsilon": 1e-6, "batch_tokens": 100},
        "schedule": {"kind": "constant", "peak": 1e-3, "warmup": 0},
    }
    values = toy_values(folder, **defaults | changes.pop("training", {}))
    data = {name: values["data"][name] for name in ("train", "dev")} | {"max_tokens": 38}
    data |= changes.pop("data", {})
    training = values["training"]
    return parse(
        Settings,
        {"run": str(folder / "run"), "init": str(base), "data": data, "training": training, **changes},
        "test",
    )


@pytest.mark.numerical
@pytest.mark.parametrize("shared", [True, False])
def test_ten_training_steps_from_a_marian_model_match_transformers(tmp_path: Path, shared: bool) -> None:
    peer_model = make(tmp_path / "marian", shared, dropout=0.0)
    write_corpus(
        tmp_path, [f"{source}\t{target}" for source, target in zip(tiny.ENGLISH, tiny.GERMAN, strict=True)]
    )
    settings, base = open_base(adapt_settings(tmp_path, tmp_path / "marian"))
    assert base is not None
    corpora = prepare_corpora(settings, lambda line: None, (base.source, base.target))
    model = make_initial_model(settings, base, base.source, base.target)
    updater = Updater(model, make_optimiser(model, settings.training), settings.training)
    peer_optimiser = torch.optim.AdamW(
        peer_model.parameters(), lr=1e-3, betas=settings.training.betas, eps=1e-6, weight_decay=0.0
    )
    peer_model.train()
    stream = corpora.stream(0, 0)
    losses, peer_losses = [], []
    for step in range(1, STEPS + 1):
        _, batch = next(stream)
        update = updater.update([batch], step)
        losses.append(update.loss / update.tokens)
        source, target_in, out = map(torch.from_numpy, (batch.source, batch.target_in, batch.target_out))
        pad = peer_model.config.pad_token_id
        output = peer_model(
            input_ids=source,
            attention_mask=(source != pad).long(),
            decoder_input_ids=target_in,
            labels=out.masked_fill(out == pad, -100),
        )
        peer_optimiser.zero_grad()
        output.loss.backward()
        peer_optimiser.step()
        peer_losses.append(float(output.loss.detach()))
    stream.close()
    updater.close()
    np.testing.assert_allclose(losses, peer_losses, atol=1e-4)
    assert peer_losses[-1] < peer_losses[0] - 0.1  # the loss falls


def test_adapted_marian_model_is_written_in_the_marian_format(tmp_path: Path) -> None:
    make(tmp_path / "marian")
    write_corpus(
        tmp_path, [f"{source}\t{target}" for source, target in zip(tiny.ENGLISH, tiny.GERMAN, strict=True)]
    )
    folder = train(adapt_settings(tmp_path, tmp_path / "marian"))
    assert folder == tmp_path / "run" / "model"
    before, after = uwaga.load(tmp_path / "marian", device="cpu"), uwaga.load(folder, device="cpu")
    assert after.languages == ("en", "de") and after.decoding == before.decoding
    peer = transformers.MarianMTModel.from_pretrained(folder).eval()
    source, target = torch.tensor([[5, 9, 12, 0]]), torch.tensor([[7, 8, 0]])
    start = torch.full((1, 1), peer.config.decoder_start_token_id)
    with torch.no_grad():
        logits = peer(input_ids=source, decoder_input_ids=torch.cat([start, target[:, :-1]], 1)).logits
    expected = torch.log_softmax(logits, -1).gather(2, target[..., None]).sum()
    pair = TokenPair(source[0].tolist(), target[0].tolist())
    scores = after.model.scores([pair])
    assert sum(scores[0]) == pytest.approx(float(expected), abs=1e-3)
    assert sum(before.model.scores([pair])[0]) != pytest.approx(float(expected), abs=1e-3)
    run_uwaga("convert", "--int8", folder, tmp_path / "int8")
    repeated = train(adapt_settings(tmp_path, tmp_path / "marian", training={"steps": 3}))
    assert repeated == folder  # the folder is replaced


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["bart", "pegasus", "mbart", "mbart50", "m2m100", "nllb"])
def test_adapted_model_is_written_in_the_format_of_its_family(tmp_path: Path, kind: str) -> None:
    model, peer = model_folder(tmp_path / "m", kind)
    lines = ["the dog sees the cat\tder Hund sieht die Katze", "a small house\tein kleines Haus"]
    write_corpus(tmp_path, lines * 3)
    languages = PAIRS.get(kind)
    data = {"max_tokens": 60} | ({"languages": list(languages)} if languages else {})
    if languages:
        with pytest.raises(SettingsError, match=r"data\.languages: "):
            open_base(adapt_settings(tmp_path, tmp_path / "m", data={"max_tokens": 60}))
    settings, base = open_base(adapt_settings(tmp_path, tmp_path / "m", data=data))
    assert base is not None
    row = base.source.add_special_tokens(base.source.encode("the dog sees the cat"))
    if languages and hasattr(peer, "src_lang"):
        peer.src_lang = languages[0]
    assert row == peer("the dog sees the cat").input_ids
    folder = train(settings)
    assert folder is not None
    source, target = languages or (None, None)
    loaded = uwaga.load(folder, device="cpu", source=source, target=target)
    assert loaded.translate("the dog", max_length=9) is not None
    trained = type(model).from_pretrained(folder)
    before, after = dict(model.named_parameters()), dict(trained.named_parameters())
    assert before.keys() == after.keys()
    changed = [name for name in before if not torch.equal(before[name].detach(), after[name].detach())]
    assert len(changed) > 0.8 * len(before)


def test_adapted_t5_model_is_written_in_the_t5_format(tmp_path, monkeypatch) -> None:
    from uwaga.checkpoints.formats.huggingface import t5

    monkeypatch.setattr(t5, "read_t5_tokeniser", numbered_tokens.read_numbers)
    config = transformers.T5Config(
        vocab_size=41, d_model=18, d_kv=5, d_ff=22, num_layers=2, num_heads=3, pad_token_id=0, eos_token_id=1,
        decoder_start_token_id=0, relative_attention_num_buckets=8, relative_attention_max_distance=11,
        dropout_rate=0.0,
    )  # fmt: skip
    torch.manual_seed(1)
    transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path / "t5")
    write_corpus(tmp_path, ["5 6 7 8\t8 7 6 5", "9 10 11\t11 10 9"] * 3)
    folder = train(adapt_settings(tmp_path, tmp_path / "t5"))
    assert folder is not None
    assert uwaga.load(folder, device="cpu", engine="torch").translate("5 6 7", max_length=4) is not None
    assert transformers.T5ForConditionalGeneration.from_pretrained(folder) is not None


def test_M34_adapter_of_a_marian_model_is_merged_with_its_base_model(tmp_path: Path) -> None:
    make(tmp_path / "marian")
    write_corpus(
        tmp_path, [f"{source}\t{target}" for source, target in zip(tiny.ENGLISH, tiny.GERMAN, strict=True)]
    )
    adapter = train(adapt_settings(tmp_path, tmp_path / "marian", adapt={"lora": {"rank": 2}}))
    assert adapter == tmp_path / "run" / "adapter"
    run_uwaga("merge", adapter, tmp_path / "merged")
    adapted, merged = uwaga.load(adapter=adapter, device="cpu"), uwaga.load(tmp_path / "merged", device="cpu")
    pairs = [("a car", "ein Auto"), ("the dog", "der Hund")]
    scores = [[score.log_prob for score in model.score(pairs)] for model in (adapted, merged)]
    np.testing.assert_allclose(*scores, rtol=1e-5)
    shutil.rmtree(tmp_path / "marian")
    run_uwaga("merge", adapter, tmp_path / "again", code=1)


@pytest.mark.numerical
@pytest.mark.parametrize("kind", ["intgemm8", "float32"])
def test_M34_adapter_for_a_read_only_format_is_trained_and_merged(tmp_path, kind) -> None:
    base = tmp_path / "student"
    write_student(base, kind, alphas=False)
    write_corpus(
        tmp_path, [f"{source}\t{target}" for source, target in zip(tiny.ENGLISH, tiny.GERMAN, strict=True)]
    )
    data = {"languages": ["en", "de"]}
    with pytest.raises(SettingsError, match=r"does not write the format Marian; train an adapter"):
        train(adapt_settings(tmp_path, base, data=data))
    adapter = train(adapt_settings(tmp_path, base, data=data, adapt={"lora": {"rank": 2}}))
    merging = run_uwaga("merge", adapter, tmp_path / "merged")
    assert merging.stdout.endswith("with --shortlist FILE\n")
    models = [
        uwaga.load(base, engine="torch"),
        uwaga.load(adapter=adapter, engine="torch"),
        uwaga.load(adapter=adapter, dtype="float32", engine="native", shortlist="none"),
        uwaga.load(adapter=adapter, dtype="int8", shortlist="none"),
        uwaga.load(tmp_path / "merged"),
    ]
    pairs = [("a car", "ein Auto"), ("the dog", "der Hund")]
    original, *scores = [[score.log_prob for score in model.score(pairs)] for model in models]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-4)
    np.testing.assert_array_equal(scores[2], scores[3])
    np.testing.assert_allclose(scores[1], scores[2], rtol=0.05)
    assert not np.allclose(original, scores[0], rtol=1e-4)


def test_marian_model_with_a_new_vocabulary_is_written_in_the_uwaga_format(tmp_path: Path) -> None:
    make(tmp_path / "marian")
    write_corpus(
        tmp_path, [f"{source}\t{target}" for source, target in zip(tiny.ENGLISH, tiny.GERMAN, strict=True)]
    )
    changes = {"adapt": {"vocabulary": "new"}, "text": {"kind": "bpe", "size": 330}}
    folder = train(adapt_settings(tmp_path, tmp_path / "marian", **changes, data={"max_tokens": 38}))
    assert folder is not None
    assert json.loads((folder / "config.json").read_text())["format"] == "uwaga model"
    assert uwaga.load(folder, device="cpu").translate("a car", max_length=4) is not None


def test_settings_unsupported_by_the_marian_format_are_rejected(tmp_path: Path) -> None:
    make(tmp_path / "marian")
    write_corpus(tmp_path, ["a car\tein Auto"])
    for message, changes in (
        (r"decoding\.beam: .*generation_config\.json", {"decoding": {"beam": 7}}),
        (r"training\.save_dtype: ", {"training": {"save_dtype": "bfloat16"}}),
        (r"data\.subword_sampling: ", {"data": {"subword_sampling": 0.1}}),
        (r"data\.max_tokens: 200, .* accepts 40 tokens, .* lower it to 39", {"data": {"max_tokens": 200}}),
    ):
        with pytest.raises(SettingsError, match=message):
            train(adapt_settings(tmp_path, tmp_path / "marian", **changes))
