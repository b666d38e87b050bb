"""GPT-2 on the native engine: agreement with torch, int8, independence of torch, and loading errors."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import gpt2_folders
import numbered_tokens
import numpy as np
import pytest
import torch
from command_line import run_uwaga
from json_files import edited
from marian_folders import make as make_marian
from precision import tolerance
from safetensors.torch import load_file, save_file
from test_text_generator import PROMPTS, peer, run  # noqa: F401 (peer is a fixture)
from torch_models import edit_config, load_torch

import uwaga
from uwaga.checkpoints.formats.huggingface import gpt2
from uwaga.checkpoints.formats.uwaga.int8 import CONFIG, WEIGHTS
from uwaga.checkpoints.registry import read
from uwaga.checkpoints.to_engine import pack_weights, to_engine
from uwaga.conversion import quantise as conversion
from uwaga.conversion.quantise import quantise
from uwaga.decoder import Choice
from uwaga.engine import NativeModel
from uwaga.errors import ModelError, SettingsError, TextTooLongError
from uwaga.models.decoder_only import DecoderOnly
from uwaga.settings import DecoderOnlySettings

ALL_TOKENS = Choice(1, all_tokens=True)
SEARCH_OPTIONS = [{"beam": 1}, {"beam": 4, "nbest": 3}, {"sample": True, "nbest": 2, "seed": 5, "top_k": 30}]


@pytest.fixture(scope="module")
def folder(peer):  # noqa: F811
    return peer[0]


@pytest.fixture
def numbers(monkeypatch):
    monkeypatch.setattr(gpt2, "read_gpt2_tokeniser", numbered_tokens.read_numbers)


@pytest.fixture(scope="module")
def converted(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("int8") / "gpt2"
    quantise(folder, out, ("output",), ["Where is the dog?", "It is not far", ""])
    return out


def copy_with_tensors(folder, path, change):
    """Copy a model folder, change its tensors and return the path of the copy."""
    shutil.copytree(folder, path)
    tensors = load_file(path / "model.safetensors")
    change(tensors)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path / "model.safetensors")
    return path


@pytest.mark.parametrize("options", SEARCH_OPTIONS)
def test_M18_torch_and_the_native_engine_give_equal_continuations(folder, options):
    native, reference = (uwaga.load(folder, device="cpu", engine=engine) for engine in ("auto", "torch"))
    assert isinstance(native.decoder, NativeModel) and isinstance(reference.decoder, DecoderOnly)
    assert native.decoding == reference.decoding
    for actual, expected in zip(
        native.generate(PROMPTS, **options), reference.generate(PROMPTS, **options), strict=True
    ):
        assert [a.tokens for a in (actual, *actual.alternatives)] == [
            b.tokens for b in (expected, *expected.alternatives)
        ]
        assert actual.score == pytest.approx(expected.score, abs=1e-4)
    assert "".join(native.stream(PROMPTS[0])) == reference.generate(PROMPTS[0], beam=1).text


@pytest.mark.sampled(5)
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("options", SEARCH_OPTIONS)
def test_M21_continuations_do_not_depend_on_the_batch_or_the_threads(folder, precision, options):
    single = uwaga.TextGenerator.load(folder, device="cpu", dtype=precision, threads=1)
    expected = [single.generate(prompt, **options) for prompt in PROMPTS]
    for threads in (1, 2, 3, 4):
        generator = uwaga.TextGenerator.load(folder, device="cpu", dtype=precision, threads=threads)
        assert generator.decoder.precision == precision
        assert generator.generate(PROMPTS, **options) == expected
        assert generator.generate(PROMPTS[::-1], batch_tokens=8, **options) == expected[::-1]


def test_M42_draft_model_keeps_continuations_and_requires_the_same_vocabulary(folder, converted, tmp_path):
    plain, drafted = uwaga.load(folder), uwaga.load(folder, draft=converted)
    expected = plain.generate(PROMPTS, beam=1, max_length=20)
    continuations = drafted.generate(PROMPTS, max_length=20)
    assert [replace(continuation, draft=None) for continuation in continuations] == expected
    assert continuations[0].to_dict()["draft"]["proposed"] > 0
    assert "".join(drafted.stream(PROMPTS[0], max_length=20)) == expected[0].text
    with pytest.raises(SettingsError, match="drafts need greedy search"):
        drafted.generate(PROMPTS[0], sample=True)
    mismatched = tmp_path / "other"
    shutil.copytree(folder, mismatched)
    with edited(mismatched / "tokenizer.json") as tokenizer:
        tokenizer["model"]["merges"].pop()
    with pytest.raises(SettingsError, match="does not have the vocabulary"):
        uwaga.load(folder, draft=mismatched)


@pytest.mark.slow
def test_texts_are_generated_without_torch(folder, converted):
    code = (
        "import sys; sys.modules['torch'] = None; import uwaga\n"
        "for name in sys.argv[1:]:\n"
        "    print(len(uwaga.load(name).generate(['A dog', ''], max_length=4)))\n"
        "from uwaga.cli.main import main; main(['generate', sys.argv[1], 'A dog', '--max-length', '3'])"
    )
    command = [sys.executable, "-c", code, str(folder), str(converted)]
    process = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("2\n2\nA dog")


WEIGHT_VARIANTS = {
    "older names": lambda values: values.update(
        {name.removeprefix("transformer."): values.pop(name) for name in list(values)}
    ),
    "look-ahead masks": lambda values: values.update(
        {f"transformer.h.{layer}.attn.bias": torch.ones(1, 1, 40, 40, dtype=torch.bool) for layer in range(3)}
    ),
    "a stored head":
        lambda values: values.update({"lm_head.weight": values["transformer.wte.weight"].clone()}),
    "sixteen bits":
        lambda values: values.update({name: tensor.bfloat16() for name, tensor in values.items()}),
    "sixty-four bits":
        lambda values: values.update({name: tensor.double() for name, tensor in values.items()}),
}  # fmt: skip


@pytest.mark.numerical
@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize("variant", [*WEIGHT_VARIANTS, *gpt2_folders.VARIANTS, "pytorch_model.bin"])
def test_M18_stored_weights_of_all_variants_are_read(tmp_path, variant):
    gpt2_folders.make(tmp_path / "made", **gpt2_folders.VARIANTS.get(variant, {}))
    change = WEIGHT_VARIANTS.get(variant, lambda values: None)
    folder = copy_with_tensors(tmp_path / "made", tmp_path / "m", change)
    if variant == "pytorch_model.bin":
        torch.save(load_file(folder / "model.safetensors"), folder / variant)
        (folder / "model.safetensors").unlink()
    native, reference = to_engine(read(folder)), load_torch(folder).model
    prompts = gpt2_folders.PROMPTS
    actual, expected = (
        model.step(np.zeros(len(prompts), int), model.start(model.encode(prompts), 1), ALL_TOKENS).log_probs
        for model in (native, reference)
    )
    np.testing.assert_allclose(actual, expected, **tolerance(expected))


@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize("message", gpt2_folders.UNSUPPORTED)
def test_unsupported_gpt2_settings_are_rejected(tmp_path, message):
    gpt2_folders.make(tmp_path / "bad")
    edit_config(tmp_path / "bad", **gpt2_folders.UNSUPPORTED[message])
    with pytest.raises(ModelError, match=message):
        uwaga.TextGenerator.load(tmp_path / "bad", device="cpu")


@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("h.1.attn.c_attn.weight", lambda tensor: tensor[:, :53], r"c_attn\.weight' has shape \(18, 53\)"),
        ("h.1.attn.c_attn.bias", lambda tensor: tensor[0], r"c_attn\.bias' has shape \(\)"),
        ("h.0.mlp.c_fc.weight", lambda tensor: tensor.T,
         r"c_fc\.weight' has shape \(18, 72\).*requires \(72, 18\)"),
        ("h.2.ln_1.bias", lambda tensor: tensor * float("nan"), "not finite"),
        ("h.2.ln_1.bias", lambda tensor: tensor.int(), "stored as I32, which is not a weight format"),
        ("wte.weight", lambda tensor: tensor * float("inf"), "not finite"),
    ],
)  # fmt: skip
def test_damaged_weight_error_names_the_weight(tmp_path, name, change, message):
    name = f"transformer.{name}"
    gpt2_folders.make(tmp_path / "made")
    folder = copy_with_tensors(
        tmp_path / "made", tmp_path / "bad", lambda tensors: tensors.update({name: change(tensors[name])})
    )
    with pytest.raises(ModelError, match=message) as error:
        uwaga.TextGenerator.load(folder, device="cpu")
    assert str(folder) in str(error.value)


def test_number_of_positions_limits_the_prompt_and_the_continuation(folder):
    generator = uwaga.load(folder, device="cpu")
    with pytest.raises(TextTooLongError, match=r"prompt 2 has \d+ tokens, but the model has only 64"):
        generator.generate(["A", "AB" * 300])
    short, long = generator.generate(["A", "A" * 60], max_length=20, min_length=20)
    assert len(short.tokens) == 20 and long.truncated


def test_unsupported_options_are_rejected(folder, converted, tmp_path):
    load = uwaga.TextGenerator.load
    for options in ({"device": "cuda", "engine": "native"}, {"dtype": "float16", "engine": "native"}):
        with pytest.raises(
            SettingsError, match="the native engine runs on the CPU in float32, bfloat16, int8 or int4"
        ):
            load(folder, **options)
    with pytest.raises(SettingsError, match="engine must be one of auto, native, torch"):
        load(folder, engine="fast")
    for name in (folder, converted):
        with pytest.raises(SettingsError, match="int8 and int4 need the native engine"):
            load(name, engine="torch", dtype="int8")
        with pytest.raises(SettingsError, match="takes no shortlist"):
            uwaga.load(name, shortlist="list")
    with pytest.raises(SettingsError, match="float32 requires the original model"):
        load(converted, dtype="float32")
    with pytest.raises(ModelError, match=r"this int8 model is a decoder-only model, which uwaga\.Text"):
        uwaga.MaskFiller.load(converted)
    make_marian(tmp_path / "marian")
    quantise(tmp_path / "marian", tmp_path / "marian8")
    for name in ("marian8", "marian"):
        with pytest.raises(ModelError, match=r"which uwaga\.Translator and `uwaga translate` run"):
            load(tmp_path / name)


def test_int8_model_folder_gives_the_same_results_as_quantising_in_memory(folder, converted):
    assert json.loads((converted / CONFIG).read_text())["weights"]["spread"] is True
    loaded = uwaga.load(converted)
    assert isinstance(loaded, uwaga.TextGenerator)
    assert loaded.decoder.precision == "int8" and isinstance(loaded.decoder.settings, DecoderOnlySettings)
    original = uwaga.load(folder, device="cpu")
    assert loaded.decoding == original.decoding
    texts = [*PROMPTS, "<|endoftext|> A dog", "don't"]
    for text in texts:
        assert loaded.tokeniser.encode(text) == original.tokeniser.encode(text)
        assert loaded.tokeniser.decode(original.tokeniser.encode(text)) == text.replace("<|endoftext|>", "")
    assert loaded.tokeniser.symbols == original.tokeniser.symbols
    checkpoint = read(folder)
    engine = to_engine(checkpoint, "int8", packed=pack_weights(checkpoint, "int8", ("output",)))
    expected = uwaga.TextGenerator(engine, original.tokeniser, original.decoding)
    for options in SEARCH_OPTIONS:
        assert loaded.generate(PROMPTS, **options) == expected.generate(PROMPTS, **options)


def copy_with_config(folder, path, **values):
    shutil.copytree(folder, path)
    (path / CONFIG).write_text(json.dumps(json.loads((path / CONFIG).read_text()) | values))
    return path


def test_damaged_int8_model_folders_are_rejected(converted, tmp_path):
    model = json.loads((converted / CONFIG).read_text())["model"]
    for number, (values, message) in enumerate(
        (
            ({"frame": None}, "a frame is required for all tokenisers except"),
            ({"frame": {"prefix": [99999], "suffix": [], "clean": False}}, "belongs to another model"),
            ({"model": model | {"sinusoids": "halves"}}, "unknown setting 'model.sinusoids'"),
            ({"model": model | {"layers": 3}}, WEIGHTS),
            ({"kind": "encoder"}, "unknown setting 'kind'"),
        )
    ):
        with pytest.raises(ModelError, match=message):
            uwaga.load(copy_with_config(converted, tmp_path / str(number), **values))
    broken = copy_with_config(converted, tmp_path / "broken")
    (broken / "tokenizer.json").write_text("{")
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        uwaga.load(broken)


def test_generate_command_accepts_the_options_engine_and_dtype(folder, tmp_path):
    plain = run(folder, "A dog", "--device", "cpu", "--max-length", 6)
    assert plain[0] == 0
    assert run(folder, "A dog", "--device", "cpu", "--max-length", 6, "--engine", "torch") == plain
    assert run(folder, "A dog", "--max-length", 6, "--engine", "native", "--threads", 2) == plain
    code, out, _ = run(folder, "A dog", "--dtype", "int8", "--max-length", 6, "--json")
    assert code == 0 and len(json.loads(out)["tokens"]) <= 6
    (tmp_path / "sample").write_text("A dog\nWhere is\n")
    arguments = [
        "convert", "--int8", str(folder), str(tmp_path / "out"), "--sample", str(tmp_path / "sample"),
    ]  # fmt: skip
    result = run_uwaga(*arguments)
    assert "2 sentences, greedy" in result.stdout and "identical continuations" in result.stdout
    assert run(tmp_path / "out", "A dog", "--max-length", 6)[0] == 0
    result = run_uwaga("translate", "--model", tmp_path / "out", "A dog", code=1)
    assert "`uwaga generate`" in result.stderr


def test_quantise_measures_agreement_without_a_sample(folder, tmp_path, monkeypatch):
    """Sentences in a language of the tokeniser are compared, or else texts sampled from the model."""
    comparison = quantise(folder, tmp_path / "own")
    assert (
        comparison.continued
        and comparison.sentences >= 5
        and comparison.measured_on.endswith("(no --sample)")
    )
    monkeypatch.setattr(conversion, "nearest_language", lambda tokeniser: None)
    sampled = quantise(folder, tmp_path / "drawn")
    assert sampled.continued and sampled.measured_on == "texts sampled from the model (no --sample)"
