"""GPT-2 on the native engine: loaded without torch, the same as on torch, in int8, and refused by name."""

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
from marian_folders import make as make_marian
from precision import tolerance
from safetensors.torch import load_file, save_file
from test_text_generator import PROMPTS, peer, run  # noqa: F401 (peer is a fixture)
from torch_models import edit_config, load_torch
from typer.testing import CliRunner

import uwaga
from uwaga.checkpoints.formats.huggingface import gpt2
from uwaga.checkpoints.formats.uwaga.int8 import CONFIG, WEIGHTS
from uwaga.checkpoints.registry import read
from uwaga.checkpoints.to_engine import pack_weights, to_engine
from uwaga.cli.main import app
from uwaga.conversion import quantise as conversion
from uwaga.conversion.quantise import quantise
from uwaga.decoder import Choice
from uwaga.engine import NativeModel
from uwaga.errors import ModelError, SettingsError, TextTooLongError
from uwaga.models.decoder_only import DecoderOnly
from uwaga.settings import DecoderOnlySettings

WHOLE = Choice(1, all_tokens=True)
SETTINGS = [{"beam": 1}, {"beam": 4, "nbest": 3}, {"sample": True, "nbest": 2, "seed": 5, "top_k": 30}]


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


def changed(folder, path, change):
    """A copy of a folder with other tensors."""
    shutil.copytree(folder, path)
    values = load_file(path / "model.safetensors")
    change(values)
    save_file({name: one.contiguous() for name, one in values.items()}, path / "model.safetensors")
    return path


@pytest.mark.parametrize("options", SETTINGS)
def test_M18_both_engines_write_the_same(folder, options):
    ours, theirs = (uwaga.load(folder, device="cpu", engine=engine) for engine in ("auto", "torch"))
    assert isinstance(ours.decoder, NativeModel) and isinstance(theirs.decoder, DecoderOnly)
    assert ours.decoding == theirs.decoding
    for one, other in zip(
        ours.generate(PROMPTS, **options), theirs.generate(PROMPTS, **options), strict=True
    ):
        assert [a.tokens for a in (one, *one.alternatives)] == [
            b.tokens for b in (other, *other.alternatives)
        ]
        assert one.score == pytest.approx(other.score, abs=1e-4)
    assert "".join(ours.stream(PROMPTS[0])) == theirs.generate(PROMPTS[0], beam=1).text


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("options", SETTINGS)
def test_M21_continuations_are_the_same_bits_in_any_batch_and_on_any_number_of_threads(
    folder, precision, options
):
    one = uwaga.TextGenerator.load(folder, device="cpu", dtype=precision, threads=1)
    expected = [one.generate(prompt, **options) for prompt in PROMPTS]
    for threads in (1, 2, 3, 4):
        several = uwaga.TextGenerator.load(folder, device="cpu", dtype=precision, threads=threads)
        assert several.decoder.precision == precision
        assert several.generate(PROMPTS, **options) == expected
        assert several.generate(PROMPTS[::-1], batch_tokens=8, **options) == expected[::-1]


def test_M42_a_smaller_model_of_the_same_vocabulary_drafts(folder, converted, tmp_path):
    alone, drafted = uwaga.load(folder), uwaga.load(folder, draft=converted)
    expected = alone.generate(PROMPTS, beam=1, max_length=20)
    found = drafted.generate(PROMPTS, max_length=20)
    assert [replace(one, draft=None) for one in found] == expected
    assert found[0].to_dict()["draft"]["proposed"] > 0
    assert "".join(drafted.stream(PROMPTS[0], max_length=20)) == expected[0].text
    with pytest.raises(SettingsError, match="drafts need greedy search"):
        drafted.generate(PROMPTS[0], sample=True)
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    tokenizer["model"]["merges"].pop()
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(SettingsError, match="has another vocabulary"):
        uwaga.load(folder, draft=other)


def test_generating_needs_no_torch(folder, converted):
    code = (
        "import sys; sys.modules['torch'] = None; import uwaga\n"
        "for name in sys.argv[1:]:\n"
        "    print(len(uwaga.load(name).generate(['A dog', ''], max_length=4)))\n"
        "from uwaga.cli.main import main; main(['generate', sys.argv[1], 'A dog', '--max-length', '3'])"
    )
    command = [sys.executable, "-c", code, str(folder), str(converted)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2\n2\nA dog")


VARIANTS = {
    "older names": lambda values: values.update(
        {name.removeprefix("transformer."): values.pop(name) for name in list(values)}
    ),
    "look-ahead masks": lambda values: values.update(
        {f"transformer.h.{layer}.attn.bias": torch.ones(1, 1, 40, 40, dtype=torch.bool) for layer in range(3)}
    ),
    "a stored head": lambda values: values.update(
        {"lm_head.weight": values["transformer.wte.weight"].clone()}
    ),
    "sixteen bits": lambda values: values.update({name: one.bfloat16() for name, one in values.items()}),
    "sixty-four bits": lambda values: values.update({name: one.double() for name, one in values.items()}),
}


@pytest.mark.numerical
@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize("variant", [*VARIANTS, *gpt2_folders.VARIANTS, "pytorch_model.bin"])
def test_M18_every_way_to_store_the_weights_is_read(tmp_path, variant):
    gpt2_folders.make(tmp_path / "made", **gpt2_folders.VARIANTS.get(variant, {}))
    change = VARIANTS.get(variant, lambda values: None)
    folder = changed(tmp_path / "made", tmp_path / "m", change)
    if variant == "pytorch_model.bin":
        torch.save(load_file(folder / "model.safetensors"), folder / variant)
        (folder / "model.safetensors").unlink()
    ours, theirs = to_engine(read(folder)), load_torch(folder).model
    prompts = gpt2_folders.PROMPTS
    found, wanted = (
        model.step(np.zeros(len(prompts), int), model.start(model.encode(prompts), 1), WHOLE).log_probs
        for model in (ours, theirs)
    )
    np.testing.assert_allclose(found, wanted, **tolerance(wanted))


@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize("message", gpt2_folders.UNSUPPORTED)
def test_bad_folders_are_refused_as_with_torch(tmp_path, message):
    gpt2_folders.make(tmp_path / "bad")
    edit_config(tmp_path / "bad", **gpt2_folders.UNSUPPORTED[message])
    with pytest.raises(ModelError, match=message):
        uwaga.TextGenerator.load(tmp_path / "bad", device="cpu")


@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("h.1.attn.c_attn.weight", lambda one: one[:, :53], r"c_attn\.weight' has shape \(18, 53\)"),
        ("h.1.attn.c_attn.bias", lambda one: one[0], r"c_attn\.bias' has shape \(\)"),
        (
            "h.0.mlp.c_fc.weight",
            lambda one: one.T,
            r"c_fc\.weight' has shape \(18, 72\).*asks for \(72, 18\)",
        ),
        ("h.2.ln_1.bias", lambda one: one * float("nan"), "not finite"),
        ("h.2.ln_1.bias", lambda one: one.int(), "stored as I32, which is not a weight format"),
        ("wte.weight", lambda one: one * float("inf"), "not finite"),
    ],
)
def test_damaged_weights_are_refused_by_name(tmp_path, name, change, message):
    name = f"transformer.{name}"
    gpt2_folders.make(tmp_path / "made")
    folder = changed(tmp_path / "made", tmp_path / "bad", lambda all: all.update({name: change(all[name])}))
    with pytest.raises(ModelError, match=message) as error:
        uwaga.TextGenerator.load(folder, device="cpu")
    assert str(folder) in str(error.value)


def test_where_the_positions_end_is_said(folder):
    generator = uwaga.load(folder, device="cpu")
    with pytest.raises(TextTooLongError, match=r"prompt 2 has \d+ tokens, and the model has 64 positions"):
        generator.generate(["A", "AB" * 300])
    short, long = generator.generate(["A", "A" * 60], max_length=20, min_length=20)
    assert len(short.tokens) == 20 and long.truncated


def test_impossible_wishes_are_refused(folder, converted, tmp_path):
    load = uwaga.TextGenerator.load
    for wish in ({"device": "cuda", "engine": "native"}, {"dtype": "float16", "engine": "native"}):
        with pytest.raises(
            SettingsError, match="the native engine runs on the CPU in float32, bfloat16, int8 or int4"
        ):
            load(folder, **wish)
    with pytest.raises(SettingsError, match="engine must be one of auto, native, torch"):
        load(folder, engine="fast")
    for name in (folder, converted):
        with pytest.raises(SettingsError, match="int8 and int4 are the native engine's"):
            load(name, engine="torch", dtype="int8")
        with pytest.raises(SettingsError, match="takes no shortlist"):
            uwaga.load(name, shortlist="list")
    with pytest.raises(SettingsError, match="float32 needs the model that it was made of"):
        load(converted, dtype="float32")
    with pytest.raises(ModelError, match=r"this int8 model is a decoder-only model, which uwaga\.Text"):
        uwaga.MaskFiller.load(converted)
    make_marian(tmp_path / "marian")
    quantise(tmp_path / "marian", tmp_path / "marian8")
    for name in ("marian8", "marian"):
        with pytest.raises(ModelError, match=r"which uwaga\.Translator and `uwaga translate` run"):
            load(tmp_path / name)


def test_an_int8_folder_continues_as_the_engine_in_int8(folder, converted):
    assert json.loads((converted / CONFIG).read_text())["weights"]["spread"] is True
    loaded = uwaga.load(converted)
    assert isinstance(loaded, uwaga.TextGenerator)
    assert loaded.decoder.precision == "int8" and isinstance(loaded.decoder.settings, DecoderOnlySettings)
    whole = uwaga.load(folder, device="cpu")
    assert loaded.decoding == whole.decoding
    texts = [*PROMPTS, "<|endoftext|> A dog", "don't"]
    for text in texts:
        assert loaded.tokeniser.encode(text) == whole.tokeniser.encode(text)
        assert loaded.tokeniser.decode(whole.tokeniser.encode(text)) == text.replace("<|endoftext|>", "")
    assert loaded.tokeniser.symbols == whole.tokeniser.symbols
    checkpoint = read(folder)
    engine = to_engine(checkpoint, "int8", packed=pack_weights(checkpoint, "int8", ("output",)))
    expected = uwaga.TextGenerator(engine, whole.tokeniser, whole.decoding)
    for options in SETTINGS:
        assert loaded.generate(PROMPTS, **options) == expected.generate(PROMPTS, **options)


def edited(folder, path, **values):
    shutil.copytree(folder, path)
    (path / CONFIG).write_text(json.dumps(json.loads((path / CONFIG).read_text()) | values))
    return path


def test_damaged_int8_folders_are_refused(converted, tmp_path):
    model = json.loads((converted / CONFIG).read_text())["model"]
    for number, (values, message) in enumerate(
        (
            ({"frame": None}, "a frame goes with the tokenisers of tokenizers"),
            ({"frame": {"prefix": [99999], "suffix": [], "clean": False}}, "belongs to another model"),
            ({"model": model | {"sinusoids": "halves"}}, "unknown setting 'model.sinusoids'"),
            ({"model": model | {"layers": 3}}, WEIGHTS),
            ({"kind": "encoder"}, "unknown setting 'kind'"),
        )
    ):
        with pytest.raises(ModelError, match=message):
            uwaga.load(edited(converted, tmp_path / str(number), **values))
    broken = edited(converted, tmp_path / "broken")
    (broken / "tokenizer.json").write_text("{")
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        uwaga.load(broken)


def test_the_command_line_chooses_engine_and_precision(folder, tmp_path):
    plain = run(folder, "A dog", "--device", "cpu", "--max-length", 6)
    assert plain[0] == 0
    assert run(folder, "A dog", "--device", "cpu", "--max-length", 6, "--engine", "torch") == plain
    assert run(folder, "A dog", "--max-length", 6, "--engine", "native", "--threads", 2) == plain
    code, out, _ = run(folder, "A dog", "--dtype", "int8", "--max-length", 6, "--json")
    assert code == 0 and len(json.loads(out)["tokens"]) <= 6
    (tmp_path / "sample").write_text("A dog\nWhere is\n")
    arguments = [
        "convert",
        "--int8",
        str(folder),
        str(tmp_path / "out"),
        "--sample",
        str(tmp_path / "sample"),
    ]
    done = CliRunner().invoke(app, arguments)
    assert (
        done.exit_code == 0 and "2 sentences, greedy" in done.stdout and "equal continuations" in done.stdout
    )
    assert run(tmp_path / "out", "A dog", "--max-length", 6)[0] == 0
    done = CliRunner().invoke(app, ["translate", "--model", str(tmp_path / "out"), "A dog"])
    assert done.exit_code == 1 and "`uwaga generate`" in done.stderr


def test_I11_22_a_decoder_only_model_is_compared_without_a_sample(folder, tmp_path, monkeypatch):
    """On sentences that its tokeniser knows, or else on what it writes itself."""
    found = quantise(folder, tmp_path / "own")
    assert found.continued and found.sentences >= 5 and found.measured_on.endswith("(no --sample)")
    monkeypatch.setattr(conversion, "nearest_language", lambda tokeniser: None)
    drawn = quantise(folder, tmp_path / "drawn")
    assert drawn.continued and drawn.measured_on == "texts sampled from the model (no --sample)"
