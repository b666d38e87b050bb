"""`uwaga convert`: transformers and CTranslate2 load exported folders and generate equal tokens."""

import json
import os
from pathlib import Path

import pytest
import tiny_models as tiny
import torch
from command_line import run_uwaga
from hypothesis import given
from hypothesis import strategies as st
from precision import to_double, tolerance
from search_inputs import inputs
from torch_models import load_torch

import uwaga
from uwaga.checkpoints.formats.huggingface.export import write_hugging_face
from uwaga.checkpoints.formats.huggingface.export_weights import deinterleave
from uwaga.decoder import Symbols
from uwaga.errors import ModelError, SettingsError
from uwaga.models.build import build_model
from uwaga.search import (
    SearchOptions,
    from_generation_config,
    options_from_settings,
    search,
    to_generation_config,
)
from uwaga.settings import BahdanauSettings, DecodingSettings
from uwaga.translator import Model

transformers = pytest.importorskip("transformers")
ctranslate2 = pytest.importorskip("ctranslate2")
NUMBERS = Path(__file__).parents[1] / "support/models/numbers-en-de"
LINES = [
    "forty-two", "one hundred seventy", "nine hundred ninety nine", "six", "two hundred sixty one", "zero",
]  # fmt: skip
POST_NORM = {"norm": "post", "sinusoids": "interleaved"}
CASES = {
    "interleaved": POST_NORM,
    "halves": {"sinusoids": "halves", "activation": "silu", "output_bias": True},
    "tensor2tensor": {"sinusoids": "tensor2tensor", "embedding_scale": False, "activation": "gelu"},
    "learned": {"positions": "learned", "position_offset": 2, "activation": "gelu_tanh", "tie": "none"},
    "no biases": {"attention_bias": False, "feed_forward_bias": False, "tie": "decoder"},
    "two vocabularies": {"tie": "decoder", "decoder_feed_forward": 20},
}
DECODING = options_from_settings(
    DecodingSettings(beam=4, max_length=12, length_penalty=0.7, early_stopping=False, max_ratio=50.0)
)


def random_model(seed=3, **changes):
    """Return a random model with random biases and norms, so that tests detect lost weights."""
    separate = changes.pop("two", False)
    source = tiny.tokeniser("source" if separate else "joint", size=330 if separate else 340)
    target = tiny.tokeniser("target", size=340) if separate else source
    model_settings = tiny.TINY.model_copy(update={**POST_NORM, **changes})
    model = tiny.transformer(model_settings, source, target, seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.data += 0.3 * torch.randn(parameter.shape)
            if name == "target_embedding.weight":
                parameter.data[model.symbols.end] *= 1.5
    return model, source, target


def checkpoint_of(model, source, target, settings=DECODING):
    """Return a model together with its tokenisers, search options and text options."""
    decoding, text = settings
    return Model(model, source, target, decoding, ("en", "de"), text=text)


def write_model(folder, case, **changes):
    options = {**CASES.get(case, {}), "two": case == "two vocabularies", **changes}
    model, source, target = random_model(**options)
    export_format = "pegasus" if model.settings.norm == "pre" else "marian"
    write_hugging_face(folder, export_format, checkpoint_of(model, source, target))
    return model, source, target


def to_ctranslate2(folder, out, *options):
    """Run CTranslate2's converter in this process, which saves the time of importing it again."""
    from ctranslate2.converters import TransformersConverter

    TransformersConverter(str(folder)).convert(str(out), *options)
    return ctranslate2.Translator(str(out), device="cpu", compute_type="float32", intra_threads=1)


@pytest.mark.sampled(3)
@pytest.mark.numerical
@pytest.mark.parametrize("case", [*CASES, "pegasus"])
def test_transformers_generates_the_same_tokens_with_the_converted_model(tmp_path, case):
    changes = {"norm": "pre", "sinusoids": "interleaved"} if case == "pegasus" else {}
    model, source, target = write_model(tmp_path / "m", case, **changes)
    peer = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "m").eval()
    tokeniser = transformers.AutoTokenizer.from_pretrained(tmp_path / "m")
    assert type(peer).__name__ == (
        "PegasusForConditionalGeneration" if case == "pegasus" else "MarianMTModel"
    )
    assert peer.dtype == torch.float32
    texts = [line.strip() for line in tiny.ENGLISH]
    sources = [source.add_special_tokens(source.encode(text)) for text in texts]
    batch = tokeniser(texts, return_tensors="pt", padding=True)
    real_tokens = batch.attention_mask.bool()
    assert [row[mask].tolist() for row, mask in zip(batch.input_ids, real_tokens, strict=True)] == sources
    loaded = load_torch(tmp_path / "m")
    assert loaded.languages == ("en", "de")
    options, _ = DECODING
    model.double(), loaded.model.double()
    double = to_double(peer)
    for beam in (1, 4):
        with double:
            rows = peer.generate(**batch, num_beams=beam)
        hypotheses = search(model, inputs(sources), options.changed({"beam": beam}))
        loaded_hypotheses = search(loaded.model, inputs(sources), loaded.options.changed({"beam": beam}))
        for (hypothesis,), (loaded_hypothesis,), row in zip(
            hypotheses, loaded_hypotheses, rows[:, 1:].tolist(), strict=True
        ):
            assert hypothesis.tokens == loaded_hypothesis.tokens == tuple(row[: len(hypothesis.tokens)])
            assert set(row[len(hypothesis.tokens) :]) <= {model.symbols.end, tokeniser.pad_token_id}
            assert hypothesis.log_prob == pytest.approx(
                loaded_hypothesis.log_prob, abs=1e-5
            )  # columns in another order
            assert target.decode(hypothesis.tokens).strip() == tokeniser.decode(row, skip_special_tokens=True)
    assert loaded.options.beam == 4


@pytest.mark.parametrize("case", ["interleaved", "halves", "learned", "no biases", "pegasus"])
def test_ctranslate2_generates_the_same_tokens_with_the_converted_model(tmp_path, case):
    model, source, _ = write_model(tmp_path / "m", case, **({"norm": "pre"} if case == "pegasus" else {}))
    peer = to_ctranslate2(tmp_path / "m", tmp_path / "c")
    tokeniser = transformers.AutoTokenizer.from_pretrained(tmp_path / "m")
    sources = [source.add_special_tokens(source.encode(text)) for text in tiny.ENGLISH]
    # A random model, unlike a trained one, may produce the start and padding symbols.
    suppressed = [["<unused0>"], ["<pad>" if case == "pegasus" else "<s>"]]
    peer_results = peer.translate_batch(
        [tokeniser.convert_ids_to_tokens(row) for row in sources],
        beam_size=1,
        max_decoding_length=12,
        min_decoding_length=0,
        suppress_sequences=suppressed,
    )
    hypotheses = search(model, inputs(sources), SearchOptions(beam=1, max_length=12, max_ratio=50.0))
    for (hypothesis,), peer_result in zip(hypotheses, peer_results, strict=True):
        assert tuple(tokeniser.convert_tokens_to_ids(peer_result.hypotheses[0])) == hypothesis.tokens


def test_trained_model_survives_a_conversion_round_trip(tmp_path):
    result = run_uwaga("convert", NUMBERS, tmp_path / "m", "--to", "pegasus")
    assert "note: uwaga limits a target to 3 times" in result.output
    original, converted = uwaga.load(NUMBERS, device="cpu"), uwaga.load(tmp_path / "m", device="cpu")
    tokeniser = transformers.AutoTokenizer.from_pretrained(tmp_path / "m")
    peer = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "m").eval()
    batch = tokeniser(LINES, return_tensors="pt", padding=True)
    for beam in (1, 4):
        expected = [translation.text for translation in original.translate(LINES, beam=beam)]
        assert [translation.text for translation in converted.translate(LINES, beam=beam)] == expected
        generated = peer.generate(**batch, num_beams=beam)
        assert tokeniser.batch_decode(generated, skip_special_tokens=True) == expected
    assert expected[1] == "einhundertsiebzig"
    ctranslate2_model = to_ctranslate2(tmp_path / "m", tmp_path / "c")
    pieces = [tokeniser.convert_ids_to_tokens(tokeniser(line).input_ids) for line in LINES]
    peer_results = ctranslate2_model.translate_batch(pieces, beam_size=1)
    texts = [
        tokeniser.decode(tokeniser.convert_tokens_to_ids(translation.hypotheses[0]))
        for translation in peer_results
    ]
    assert texts == [translation.text for translation in original.translate(LINES, beam=1)]


def test_deinterleaving_weights_does_not_change_outputs():
    model, source, target = random_model(norm="pre", positions="sinusoidal", decoder_heads=4)
    reordered = build_model(
        model.settings.model_copy(update={"sinusoids": "halves"}), model.symbols, source.size, target.size
    )
    weights = deinterleave(model.state_dict())
    reordered.load_state_dict(weights)
    assert not torch.equal(weights["source_embedding.weight"], model.source_embedding.weight)
    source_ids = torch.tensor([source.add_special_tokens(source.encode(tiny.ENGLISH[0]))])
    target_ids = torch.randint(4, 300, (1, 7), generator=torch.manual_seed(1))
    actual, expected = (network.eval()(source_ids, target_ids) for network in (reordered, model))
    torch.testing.assert_close(actual, expected, **tolerance(expected))


UNSUPPORTED = {
    r"pre-norm blocks, but marian has post-norm.*--to pegasus": ("marian", {"norm": "pre"}),
    r"post-norm blocks, but pegasus has pre-norm.*--to marian": ("pegasus", {"norm": "post"}),
    r"gated = True is not supported by marian": ("marian", {"gated": True}),
    r"self_attention = 'ssru'": ("marian", {"self_attention": "ssru"}),
    r"positions = 'relative'": ("marian", {"positions": "relative"}),
    r"embedding_norm = True": ("marian", {"embedding_norm": True}),
    r"norm_kind = 'rms'": ("marian", {"norm_kind": "rms"}),
    r"norm_epsilon = 0\.001": ("marian", {"norm_epsilon": 1e-3}),
    r"attention_scale = False": ("marian", {"attention_scale": False}),
    r"output_scale = True": ("marian", {"output_scale": True}),
    r"head_width = 10": ("marian", {"head_width": 10}),
    r"tie = 'decoder'": ("pegasus", {"norm": "pre", "tie": "decoder"}),
}


@pytest.mark.parametrize("message", UNSUPPORTED)
def test_unsupported_settings_are_rejected(tmp_path, message):
    export_format, changes = UNSUPPORTED[message]
    model, source, target = random_model(**changes)
    with pytest.raises(ModelError, match=message):
        write_hugging_face(tmp_path / "m", export_format, checkpoint_of(model, source, target))
    assert not any(tmp_path.iterdir())


def test_unsupported_models_options_and_nonempty_folders_are_rejected(tmp_path):
    model, source, target = random_model()
    recurrent = build_model(BahdanauSettings(embedding=8, hidden=8), model.symbols, source.size, source.size)
    with pytest.raises(ModelError, match=r"Bahdanau.* cannot be written as marian"):
        write_hugging_face(tmp_path / "m", "marian", checkpoint_of(recurrent, source, target))
    gnmt = options_from_settings(DecodingSettings(beam=4, length_formula="gnmt"))
    with pytest.raises(SettingsError, match=r"no equivalent of .* 'gnmt'"):
        write_hugging_face(tmp_path / "m", "marian", checkpoint_of(model, source, target, gnmt))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").write_text("mine")
    with pytest.raises(ModelError, match="is not empty, so it is not overwritten"):
        write_hugging_face(tmp_path / "full", "marian", checkpoint_of(model, source, target))
    assert [path.name for path in tmp_path.iterdir()] == ["full"]
    other = tiny.tokeniser("target", size=340)
    with pytest.raises(ModelError, match="their vocabularies differ"):
        write_hugging_face(tmp_path / "m", "marian", checkpoint_of(model, source, other))


def test_full_disk_leaves_no_partial_files(tmp_path, monkeypatch):
    model, source, target = random_model()

    def full(path, *arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelError, match="no space left"):
        write_hugging_face(tmp_path / "m", "marian", checkpoint_of(model, source, target))
    assert not any(tmp_path.iterdir())


def test_command_line_prints_differences_and_errors(tmp_path):
    result = run_uwaga("convert", "bundled", tmp_path / "b", "--to", "pegasus")
    for difference in ("spaces at both ends", "into sentences", "written in capitals"):
        assert difference in result.output
    rejected = run_uwaga("convert", "bundled", tmp_path / "b2", "--to", "marian", code=1)
    assert "--to pegasus" in rejected.output
    assert not (tmp_path / "b2").exists()
    config = json.loads((tmp_path / "b/config.json").read_text())
    assert config["model_type"] == "pegasus"


OPTIONS = st.builds(
    SearchOptions,
    beam=st.integers(1, 8),
    length_penalty=st.floats(-2, 2),
    length_formula=st.just("average"),
    score_forced=st.just(False),
    early_stopping=st.sampled_from([True, False, "estimate"]),
    min_length=st.integers(0, 5),
    max_length=st.integers(5, 40),
    max_ratio=st.just(float("inf")),
    force_end=st.booleans(),
    no_repeat_ngram=st.integers(0, 3),
    first=st.none() | st.integers(20, 30),
    banned=st.lists(st.integers(4, 19), unique=True).map(lambda tokens: tuple(sorted(tokens))),
    renormalise=st.booleans(),
)


@given(OPTIONS)
def test_generation_config_survives_a_round_trip(options):
    values = to_generation_config(options, Symbols(start=2, end=3, pad=0, unknown=1), 64)
    assert from_generation_config(json.loads(json.dumps(values))) == options
    limited = to_generation_config(options, Symbols(start=2, end=3, pad=0, unknown=1), 4, (0, 2))
    assert limited["max_length"] == 5
    assert {(0,), (2,)} <= {tuple(word) for word in limited["bad_words_ids"]}
