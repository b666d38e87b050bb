"""Folders of the BART family with tokenisers: texts, languages, older files and invalid folders."""

import json
import shutil

import pytest
from command_line import run_uwaga

transformers = pytest.importorskip("transformers")

import numpy as np
import pretrained_tokenisers as tokenisers
import torch
from fairseq_folders import MODEL_KINDS, PAIRS, model_folder
from fairseq_models import PUBLISHED, make, read_as_numbers
from json_files import edit_json
from precision import EXACT, to_double
from pretrained_texts import LINES
from search_inputs import inputs
from torch_models import load_torch

import uwaga
from uwaga.decoder import Choice, Sampling
from uwaga.errors import DataError, ModelError, SettingsError
from uwaga.search import from_generation_config, search

TEXTS = [*LINES[:40:9], "Hi", *LINES[-4:]]


def peer_translations(model, peer, symbols, **options):
    """Return the translations of ``transformers``."""
    batch = peer(TEXTS, return_tensors="pt", padding=True)
    suppressed = sorted({symbols.start, symbols.pad} - {symbols.end})
    rows = model.generate(
        batch.input_ids, attention_mask=batch.attention_mask, suppress_tokens=suppressed, **options
    )
    decoded = peer.batch_decode(rows, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return [text.replace("\ufffd", "") for text in decoded]  # which uwaga leaves out


@pytest.mark.sampled(3)
@pytest.mark.numerical
@pytest.mark.parametrize("kind", MODEL_KINDS)
def test_translations_match_transformers(tmp_path, kind):
    model, peer = model_folder(tmp_path / "m", kind)
    source, target = PAIRS.get(kind, (None, None))
    translator = uwaga.load(tmp_path / "m", device="cpu", source=source, target=target)
    expected = peer_translations(model, peer, translator.decoder.symbols)
    assert [translator.source.add_special_tokens(translator.source.encode(text)) for text in TEXTS] == peer(
        TEXTS
    ).input_ids
    assert [translation.text for translation in translator.translate(TEXTS, placeholders=False)] == expected
    assert len(set(expected)) > 1
    assert translator.translate(TEXTS[0], placeholders=False).text == expected[0]
    assert translator.score([(TEXTS[0], TEXTS[1])])[0].log_prob < 0


def test_target_language_token_precedes_a_prefix(tmp_path):
    model, peer = model_folder(tmp_path / "m", "mbart50")
    translator = uwaga.load(tmp_path / "m", device="cpu", source="de", target="fr_XX")
    french = peer.convert_tokens_to_ids("fr_XX")
    prefix = translator.target.encode("the dog")
    translations = translator.translate(TEXTS[:3], prefix="the dog")
    batch = peer(TEXTS[:3], return_tensors="pt", padding=True)
    start = torch.tensor([[2, french, *prefix]] * 3)
    rows = model.generate(**batch, decoder_input_ids=start, suppress_tokens=[1])
    for translation, row in zip(translations, rows.tolist(), strict=True):
        assert translation.tokens[0] == "fr_XX"
        assert translation.text == peer.decode(row, skip_special_tokens=True).replace("\ufffd", "")


def test_many_to_one_model_does_not_require_a_target_language(tmp_path):
    model_folder(tmp_path / "m", "mbart50")
    english = tokenisers.newer_format("mbart50").peer.convert_tokens_to_ids("en_XX")
    edit_json(tmp_path / "m/generation_config.json", forced_bos_token_id=english)
    translator = uwaga.load(tmp_path / "m", device="cpu", source="de_DE")
    assert translator.languages == ("de_DE", "en_XX")
    assert translator.translate("Hi").tokens[0] == "en_XX"
    other = uwaga.load(tmp_path / "m", device="cpu", source="de_DE", target="fr_XX")
    assert other.translate("Hi").tokens[0] == "fr_XX"


@pytest.mark.parametrize("kind", PAIRS)
def test_missing_or_unknown_languages_are_rejected(tmp_path, kind):
    model_folder(tmp_path / "m", kind)
    source, target = PAIRS[kind]
    with pytest.raises(SettingsError, match="multilingual model needs a"):
        uwaga.load(tmp_path / "m", device="cpu", target=target).translate("Hi")
    if kind != "mbart":  # whose start is a language
        with pytest.raises(SettingsError, match="multilingual model needs a"):
            uwaga.load(tmp_path / "m", device="cpu", source=source).translate("Hi")
    with pytest.raises(SettingsError, match="no language 'xx_XX'"):
        uwaga.load(tmp_path / "m", device="cpu", source=source, target="xx_XX")


def test_command_line_output_matches_transformers(tmp_path):
    model, peer = model_folder(tmp_path / "m", "nllb")
    translator = uwaga.load(tmp_path / "m", device="cpu", source="deu_Latn", target="fra_Latn")
    expected = peer_translations(model, peer, translator.decoder.symbols)[0]
    arguments = ["translate", "--model", str(tmp_path / "m"), "--device", "cpu", TEXTS[0]]
    result = run_uwaga(*arguments, "--from", "deu_Latn", "--to", "fra_Latn")
    assert result.stdout == expected + "\n"
    bart, peer = model_folder(tmp_path / "bart", "bart")
    expected = peer_translations(bart, peer, load_torch(tmp_path / "bart").model.symbols)[0]
    arguments[2] = str(tmp_path / "bart")
    assert run_uwaga(*arguments).stdout == expected + "\n"


def test_mask_token_without_an_embedding_is_rejected_in_texts(tmp_path):
    """bart-large-cnn has one embedding row less than its tokeniser has pieces: the mask is the last piece."""
    case = tokenisers.newer_format("bart")
    mask, size = case.peer.mask_token_id, case.ids.vocabulary
    files = {path.name: path for path in case.folder.iterdir()}
    (tmp_path / "m").mkdir()
    text = files["tokenizer.json"].read_text()
    values = json.loads(text)
    vocabulary = values["model"]["vocab"]
    last = next(piece for piece, number in vocabulary.items() if number == size - 1)
    vocabulary["<mask>"], vocabulary[last] = size - 1, mask
    for token in values["added_tokens"]:
        if token["content"] == "<mask>":
            token["id"] = size - 1
    (tmp_path / "m/tokenizer.json").write_text(json.dumps(values))
    shutil.copy(files["tokenizer_config.json"], tmp_path / "m")
    make(tmp_path / "m", "bart-large-cnn", vocab_size=size - 1, max_position_embeddings=90)
    translator = uwaga.load(tmp_path / "m", device="cpu")
    assert translator.translate(TEXTS[0]).text
    with pytest.raises(DataError, match="no embedding for <mask>"):
        translator.translate("a <mask> b")


@pytest.mark.numerical
@pytest.mark.parametrize(
    ("kind", "changes"), [("bart", {}), ("bart", {"activation_function": "gelu_new"}), ("m2m100", {})]
)
def test_untied_embeddings_are_read(tmp_path, monkeypatch, kind, changes):
    read_as_numbers(monkeypatch)
    peer = make(tmp_path / "m", MODEL_KINDS[kind][0], tie_word_embeddings=False, **changes)
    model = load_torch(tmp_path / "m").model
    assert not torch.equal(model.source_embedding.weight, model.target_embedding.weight)
    ids, target = torch.tensor([[9, 30, 7, 2]]), torch.tensor([[2, 8, 13]])
    state = {name: tensor.clone() for name, tensor in peer.state_dict().items()}
    with torch.no_grad(), to_double(peer, model):
        expected = peer(input_ids=ids, decoder_input_ids=target).logits
        torch.testing.assert_close(model.logits(model.features(ids, target)), expected, **EXACT)
    # Until 2024 only the output was separate, and the embeddings were stored once.
    shared = state["model.shared.weight"]
    older = {name: tensor for name, tensor in state.items() if "embed_tokens" not in name}
    (tmp_path / "m/model.safetensors").unlink()
    torch.save(older, tmp_path / "m/pytorch_model.bin")
    model = load_torch(tmp_path / "m").model
    assert torch.equal(model.source_embedding.weight, shared)
    assert torch.equal(model.target_embedding.weight, shared)
    assert torch.equal(model.output_weight, state["lm_head.weight"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PUBLISHED)
def test_original_and_sharded_files_give_the_same_weights(tmp_path, monkeypatch, name):
    """``pytorch_model.bin`` with tied copies, version numbers and position tables; a model without head."""
    read_as_numbers(monkeypatch)
    peer = make(tmp_path / "m", name)
    expected = load_torch(tmp_path / "m").model.state_dict()
    shutil.copytree(tmp_path / "m", tmp_path / "shards")
    (tmp_path / "shards/model.safetensors").unlink()
    peer.save_pretrained(tmp_path / "shards", max_shard_size="12KB")
    assert (tmp_path / "shards/model.safetensors.index.json").exists()
    state = dict(peer.state_dict())
    state |= {f"model.{side}.version": torch.tensor([3.0]) for side in ("encoder", "decoder")}
    for side in ("encoder", "decoder"):
        if "m2m" in name or "nllb" in name:
            state[f"model.{side}.embed_positions.weights"] = getattr(peer.model, side).embed_positions.weights
    assert {"lm_head.weight", "model.shared.weight", "model.encoder.embed_tokens.weight"} <= set(state)
    (tmp_path / "m/model.safetensors").unlink()
    torch.save(state, tmp_path / "m/pytorch_model.bin")
    shutil.copytree(tmp_path / "m", tmp_path / "bare")
    bare_state = {
        name.removeprefix("model."): tensor for name, tensor in state.items() if name.startswith("model.")
    }
    torch.save(bare_state, tmp_path / "bare/pytorch_model.bin")
    for folder in ("m", "shards", "bare"):
        state_read = load_torch(tmp_path / folder).model.state_dict()
        for key, tensor in expected.items():
            zero = folder == "bare" and key == "output_bias"
            assert torch.equal(state_read[key], torch.zeros_like(tensor) if zero else tensor), (folder, key)


def test_reading_does_not_copy_weights(tmp_path, monkeypatch):
    read_as_numbers(monkeypatch)
    make(tmp_path / "m", "mbart-large-en-ro")
    loaded = load_torch(tmp_path / "m")
    model, stored = loaded.model, loaded.checkpoint.weights.tensors
    mapped = {tensor.values.ctypes.data for tensor in stored.values()}
    copies = {name for name, weight in model.named_parameters() if weight.data_ptr() not in mapped}
    assert all("key_value" in name for name in copies)  # two stored tensors become one
    assert model.output_weight is model.source_embedding.weight is model.target_embedding.weight


def test_options_are_read_from_the_config_without_a_generation_config(tmp_path, monkeypatch):
    read_as_numbers(monkeypatch)
    make(tmp_path / "m", "bart-large-cnn")
    (tmp_path / "m/generation_config.json").unlink()
    options = load_torch(tmp_path / "m").options
    assert (options.first, options.force_end, options.max_length, options.beam) == (0, True, 256, 1)
    edit_json(tmp_path / "m/config.json", num_beams=4, max_length=142, min_length=56, no_repeat_ngram_size=3)
    edit_json(tmp_path / "m/config.json", force_bos_token_to_be_generated=False, length_penalty=2.0)
    options = load_torch(tmp_path / "m").options
    assert (options.first, options.beam, options.max_length, options.min_length) == (None, 4, 141, 55)
    assert (options.no_repeat_ngram, options.length_penalty) == (3, 2.0)


def rewrite_weights(folder, change):
    path = folder / "pytorch_model.bin"
    state = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).state_dict()
    (folder / "model.safetensors").unlink()
    torch.save(change(dict(state)), path)


def without(state, name):
    state.pop(name)
    return state


INVALID_FOLDERS = {
    "no uwaga or Hugging Face config.json": lambda f: (f / "config.json").unlink(),
    r"neither model\.safetensors": lambda f: (f / "model.safetensors").unlink(),
    r"layernorm_embedding\.weight': missing": lambda f: rewrite_weights(
        f, lambda state: without(state, "model.decoder.layernorm_embedding.weight")
    ),
    r"'model\.classifier\.weight'.*: unknown":
        lambda f: rewrite_weights(f, lambda state: state | {"model.classifier.weight": torch.ones(2)}),
    r"embed_positions\.weight' has shape \(26, 18\), .*\(32, 18\)":
        lambda f: edit_json(f / "config.json", max_position_embeddings=30),
    r"has shape \(22, 18\), .*\(20, 18\)": lambda f: edit_json(f / "config.json", encoder_ffn_dim=20),
    r"encoder\.layers\.1.*: unknown": lambda f: edit_json(f / "config.json", encoder_layers=1),
    r"'lm_head\.weight' .*differ":
        lambda f: rewrite_weights(f, lambda state: state | {"lm_head.weight": state["lm_head.weight"] + 1}),
    r"'static_position_embeddings' = True":
        lambda f: edit_json(f / "config.json", static_position_embeddings=True),
    r"'normalize_before' = False": lambda f: edit_json(f / "config.json", normalize_before=False),
    r"'quantization_config'": lambda f: edit_json(f / "config.json", quantization_config={"bits": 4}),
    r"'activation_function' = 'tanh'": lambda f: edit_json(f / "config.json", activation_function="tanh"),
    r"not a multiple of heads": lambda f: edit_json(f / "config.json", encoder_attention_heads=4),
    r"family 'nllb-moe' is not supported": lambda f: edit_json(f / "config.json", model_type="nllb-moe"),
    r"'diversity_penalty' = 0\.5": lambda f: edit_json(f / "generation_config.json", diversity_penalty=0.5),
    r"decoder_start_token_id is 99":
        lambda f: edit_json(f / "generation_config.json", decoder_start_token_id=99),
}  # fmt: skip


@pytest.mark.parametrize("message", INVALID_FOLDERS)
def test_invalid_folder_is_rejected(tmp_path, monkeypatch, message):
    read_as_numbers(monkeypatch)
    make(tmp_path / "m", "mbart-large-en-ro")
    INVALID_FOLDERS[message](tmp_path / "m")
    with pytest.raises(ModelError, match=message):
        load_torch(tmp_path / "m")


def test_position_table_of_another_model_is_rejected(tmp_path, monkeypatch):
    read_as_numbers(monkeypatch)
    for name in ("pegasus-xsum", "m2m100_418M"):
        peer = make(tmp_path / name, name)
        table = "weight" if "pegasus" in name else "weights"
        state = peer.state_dict() | {f"model.encoder.embed_positions.{table}": torch.randn(26, 18)}
        state[f"model.encoder.embed_positions.{table}"] = torch.randn(24 + 2 * ("m2m" in name), 18)
        (tmp_path / name / "model.safetensors").unlink()
        torch.save(state, tmp_path / name / "pytorch_model.bin")
        with pytest.raises(ModelError, match="does not contain the sinusoids"):
            load_torch(tmp_path / name)


GRID_POINTS = 40_000


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "shape",
    [
        {"top_k": 0},
        {"temperature": 0.6, "top_k": 0},
        {"top_k": 4},
        {"temperature": 1.7, "top_k": 7, "top_p": 0.8},
    ],
)
def test_samples_follow_the_distribution_of_transformers(tmp_path, monkeypatch, shape):
    """Compare the exact distribution of the first token, and frequencies of samples, with ``generate``."""
    read_as_numbers(monkeypatch)
    peer = make(tmp_path / "m", "bart-large-cnn", vocab_size=12)
    with torch.no_grad():
        peer.final_logits_bias[0, 2] = -30.0  # no target ends before its limit
    peer.save_pretrained(tmp_path / "m")
    model = load_torch(tmp_path / "m").model
    sampling = {"do_sample": True, "num_beams": 1, "suppress_tokens": [1], **shape}
    free = {"forced_bos_token_id": None, "forced_eos_token_id": None, "no_repeat_ngram_size": 0}
    peer.generation_config = transformers.GenerationConfig(
        decoder_start_token_id=2, eos_token_id=2, pad_token_id=1, max_length=3, **free
    )
    source = [9, 5, 7, 11, 2]
    options = from_generation_config({"max_length": 3, **free, **sampling}).changed(
        {"nbest": 4000, "seed": 5}
    )
    (samples,) = search(model, inputs([source]), options)
    frequencies = np.zeros((12, 12))
    for sample in samples:
        frequencies[sample.tokens] += 1 / len(samples)
    exact = np.zeros((12, 12))
    state = model.start(model.encode([source]), GRID_POINTS)
    draws = Sampling(
        (np.arange(GRID_POINTS) + 0.5) / GRID_POINTS, options.temperature, options.top_k, options.top_p
    )
    banned = np.stack([np.arange(GRID_POINTS), np.full(GRID_POINTS, 1)], axis=1)
    step = model.step(np.full(GRID_POINTS, 2), state, Choice(1, banned=banned, sampling=draws))
    first_frequencies = np.bincount(step.tokens[:, 0], minlength=12) / GRID_POINTS
    for token in range(12):
        generated = peer.generate(
            torch.tensor([source]), decoder_input_ids=torch.tensor([[2, token]]), output_scores=True,
            return_dict_in_generate=True, **sampling,
        )  # fmt: skip
        exact[token] = generated.scores[0].softmax(-1)[0].numpy()
    generated = peer.generate(
        torch.tensor([source]), output_scores=True, return_dict_in_generate=True, **sampling
    )
    first = generated.scores[0].softmax(-1)[0].numpy()
    assert np.abs(first_frequencies - first).sum() / 2 < 12 / GRID_POINTS
    assert np.abs(frequencies - first[:, None] * exact).sum() / 2 < 0.06
    assert (first > 0.02).sum() >= 2
