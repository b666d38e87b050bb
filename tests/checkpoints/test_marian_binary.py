"""Marian's binary models and shortlists (M26): agreement with numpy, and rejection of damaged files."""

import shutil
import struct

import numpy as np
import pytest
import torch
import yaml
from command_line import run_uwaga
from hypothesis import given
from hypothesis import strategies as st
from marian_students import INNER, MAGIC, OPTIONS, binary_model, shortlist_bytes, tensors, write_student
from precision import tolerance
from search_inputs import inputs
from torch_models import load_torch

import uwaga
from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.formats.marian.read import read_lexical_shortlist
from uwaga.checkpoints.formats.marian.weights import SETTINGS, read_binary
from uwaga.engine.shortlist import Shortlist
from uwaga.errors import ModelError, SettingsError
from uwaga.search import SearchOptions, search
from uwaga.settings.text_options import TextOptions

TEXTS = ["the dog sees the cat", "Hi", "Where is the station? It is not far from here.", "a car"]
KINDS = ["float32", "float16", "intgemm8", "intgemm16"]


def ids(checkpoint, text=TEXTS[0]):
    return checkpoint.source.add_special_tokens(checkpoint.source.encode(text))


def check_logits(student, folder):
    """Assert that the logits of a folder in torch equal those of the numpy student model written to it."""
    loaded = load_torch(folder)
    model, source, target = loaded.model.double(), ids(loaded), [5, 9, 77, 200, 31]
    with torch.no_grad():
        start = torch.tensor([[model.symbols.start, *target]])
        logits = model.logits(model.features(torch.tensor([source]), start))[0]
    expected = student.logits(source, target)
    # The scale of quantised weights is in float32.
    torch.testing.assert_close(logits[:, : student.vocabulary].numpy(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.numerical
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_logits_match_the_numpy_implementation(tmp_path, kind, shared):
    check_logits(write_student(tmp_path, kind, shared=shared), tmp_path)


@pytest.mark.numerical
@pytest.mark.parametrize("gate", [True, False])
def test_average_attention_of_npz_models_matches_the_numpy_implementation(tmp_path, gate):
    """M35 in Marian's format."""
    student = write_student(tmp_path, "float32", common=None)
    student.make_average(gate)
    (tmp_path / "model.ende.intgemm.alphas.bin").unlink()
    options = {"transformer-decoder-autoreg": "average-attention", "transformer-dim-aan": INNER}
    options |= {"transformer-aan-nogate": not gate, "transformer-aan-activation": "swish"}
    settings_bytes = np.frombuffer(yaml.safe_dump(OPTIONS | options).encode() + b"\0", dtype=np.int8)
    arrays = {name: np.atleast_2d(array).astype(np.float32) for name, array in student.weights.items()}
    np.savez(tmp_path / "model.npz", **arrays, **{SETTINGS: settings_bytes})
    check_logits(student, tmp_path)


@pytest.mark.numerical
@pytest.mark.parametrize("kind", KINDS)
def test_native_engine_matches_torch(tmp_path, kind):
    write_student(tmp_path, kind, common=None)
    options = SearchOptions(beam=4, max_length=12, max_ratio=9.0)
    torch_translator = uwaga.load(tmp_path, engine="torch", device="cpu")
    native = uwaga.load(tmp_path, engine="native", dtype="float32")
    sources = [ids(torch_translator, text) for text in TEXTS]
    native_results, torch_results = (
        search(translator.decoder, inputs(sources), options) for translator in (native, torch_translator)
    )
    for (actual,), (expected,) in zip(native_results, torch_results, strict=True):
        assert actual.tokens == expected.tokens
        np.testing.assert_allclose(actual.token_scores, expected.token_scores, **tolerance([20.0]))
    assert len({actual.tokens for (actual,) in native_results}) > 1


def test_greedy_search_within_the_shortlist_matches_the_numpy_implementation(tmp_path):
    """Compare in float32 with the shortlist of the folder; the unknown token is never a candidate."""
    student = write_student(tmp_path, "float32", common=20)
    translator = uwaga.load(tmp_path, engine="native")
    shortlist = translator.decoder.shortlist
    assert shortlist is not None
    for text in TEXTS:
        source = ids(translator, text)
        tokens: list[int] = []
        allowed = shortlist.allowed_tokens(source)
        allowed = allowed[(allowed != translator.source.symbols.unknown) & (allowed < student.vocabulary)]
        for _ in range(15):
            logits = student.logits(source, tokens)[-1]
            tokens.append(int(allowed[np.argmax(logits[allowed])]))
            if tokens[-1] == translator.source.symbols.end:
                break
        ((hypothesis,),) = search(
            translator.decoder, inputs([source]), SearchOptions(beam=1, max_length=15, unknown=False)
        )
        assert list(hypothesis.tokens) == [
            token for token in tokens if token != translator.source.symbols.end
        ]


@pytest.mark.parametrize("shortlist", [None, "none"])
def test_int8_results_are_bitwise_independent_of_the_batch(tmp_path, shortlist):
    write_student(tmp_path)
    translator = uwaga.load(tmp_path, shortlist=shortlist, threads=2)
    assert "int8" in repr(translator)
    sources = [ids(translator, text) for text in TEXTS * 5]
    options = SearchOptions(beam=3, max_length=10)
    batch = search(translator.decoder, inputs(sources), options)
    for source, (expected,) in zip(sources, batch, strict=True):
        ((single,),) = search(translator.decoder, inputs([source]), options)
        assert (single.tokens, single.token_scores) == (expected.tokens, expected.token_scores)


def test_int8_weights_equal_stored_integers(tmp_path):
    write_student(tmp_path)
    checkpoint = formats.read(tmp_path)
    assert checkpoint.weights is not None
    stored, _ = read_binary(tmp_path / "model.ende.intgemm.alphas.bin")
    numbers, scales = checkpoint.weights.integers("decoder.0.ssru.forget.weight")
    assert np.array_equal(numbers, stored["decoder_l1_rnn_Wf"].values.T)
    product = numbers * scales[:, None]
    np.testing.assert_array_equal(product, checkpoint.weights.read("decoder.0.ssru.forget.weight"))
    assert checkpoint.weights.integers("decoder.0.self_attention_norm.weight") is None


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_student_model_is_described_loaded_and_converted(tmp_path, kind):
    folder = tmp_path / "student"
    write_student(folder)
    name = folder if kind == "folder" else folder / "model.ende.intgemm.alphas.bin"
    described = formats.describe(name)
    assert (described.format, described.languages) == ("Marian", (("en",), ("de",)))
    assert not described.problems
    assert described.decoding["beam"] == 1
    expected = [str(result) for result in uwaga.load(name, shortlist="none").translate(TEXTS, max_length=9)]
    for options, output in (([], tmp_path / "int8"), (["--keep", "*"], tmp_path / "float")):
        arguments = ["convert", str(name), str(output), "--int8", *options]
        run_uwaga(*arguments)
        assert len(uwaga.load(output).translate(TEXTS, max_length=9)) == len(TEXTS)
    exact = uwaga.load(tmp_path / "int8", shortlist="none")
    assert [str(translation) for translation in exact.translate(TEXTS, max_length=9)] == expected


@pytest.mark.parametrize(("setting", "layer"), [("last", 2), (1, 1), (None, 2)])
def test_guided_alignment_layer_determines_the_alignment_head(tmp_path, setting, layer):
    write_student(tmp_path / "student", options={"transformer-guided-alignment-layer": setting})
    checkpoint = formats.read(tmp_path / "student")
    assert str(checkpoint.alignment_head) == f"{layer}.1 predicting"
    run_uwaga("convert", tmp_path / "student", tmp_path / "int8", "--int8")
    converted = formats.read(tmp_path / "int8")
    assert converted.alignment_head == checkpoint.alignment_head
    assert converted.text == checkpoint.text == TextOptions(split_above=1)


@pytest.mark.parametrize("setting", ["first", 0, 3, True])
def test_invalid_guided_alignment_layer_is_rejected(tmp_path, setting):
    write_student(tmp_path, options={"transformer-guided-alignment-layer": setting})
    with pytest.raises(ModelError, match=r"transformer-guided-alignment-layer .* is not one of"):
        formats.read(tmp_path)


def test_line_is_translated_sentence_by_sentence(tmp_path):
    write_student(tmp_path)
    translator = uwaga.load(tmp_path, shortlist="none")
    sentences = ["The dog sleeps.", "A car is here."]
    parts = [translation.text for translation in translator.translate(sentences, max_length=9)]
    assert translator.translate(" ".join(sentences), max_length=9).text == " ".join(parts)


def test_settings_file_next_to_the_model_is_read(tmp_path):
    write_student(tmp_path)
    settings_text = "models: [model.ende.intgemm.alphas.bin]\nvocabs: [vocab.ende.spm, vocab.ende.spm]\n"
    settings_text += "shortlist: [lex.50.50.ende.s2t.bin, false]\nbeam-size: 3\nmax-length-factor: 2.5\n"
    (tmp_path / "config.intgemm8bitalpha.yml").write_text(settings_text)
    checkpoint = formats.read(tmp_path)
    assert checkpoint.decoding.beam == 3
    # Marian rounds the limit of steps up: the factor times the source tokens.
    for length, steps in ((2, 5), (3, 8), (4, 10), (26, 65), (1000, 2500)):
        ratio = checkpoint.decoding.max_ratio * length
        assert int(ratio) + checkpoint.decoding.max_extra == steps
    (tmp_path / "config.intgemm8bitalpha.yml").write_text(settings_text.replace("lex.50", "lex.99"))
    with pytest.raises(
        ModelError, match=r"config.*yml: names 'lex\.99\.50\.ende\.s2t\.bin', which is not in"
    ):
        formats.read(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dec-cell": "gru"}, "dec-cell = 'gru' is not supported; supported: 'ssru'"),
        ({"transformer-rnn-projection": True}, "transformer-rnn-projection = true"),
        ({"transformer-decoder-autoreg": "magic"}, "transformer-decoder-autoreg = 'magic'"),
        ({"enc-depth": 10**6}, "enc-depth must be a whole number from 1 to 4096"),
        ({"enc-depth": 1000}, "layers, but only"),
        ({"dim-emb": 10**9}, "dim-emb must be a whole number from 1 to 16777216"),
        ({"dim-emb": 10**6}, "more numbers than the"),
        ({"dec-depth": 3}, "missing, but required by special:model.yml"),
    ],
)
def test_invalid_or_unsupported_settings_are_rejected(tmp_path, changes, message):
    write_student(tmp_path, options=changes)
    with pytest.raises(ModelError, match=message):
        uwaga.load(tmp_path)


def overwrite(folder, offset, value, width=8):
    path = folder / "model.ende.intgemm.alphas.bin"
    content = bytearray(path.read_bytes())
    content[offset : offset + width] = value.to_bytes(width, "little")
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (0, 2, "not a known model format|not a binary Marian model of version 1"),
        (8, 1 << 40, "states 1099511627776 tensors"),
        (8, 0, "states 0 tensors"),
        (16, 1 << 50, "a header with impossible lengths"),
        (24, 0x0808, "in the layout of one processor .* marian-conv"),
        (24, 0x7777, "layout of one processor|unknown number format"),
        (24, 0x0303, "unknown number format 0x303"),
        (32, 99, "a header with impossible lengths"),
        (40, 1 << 60, "it is cut short or damaged|needs .* bytes and has"),
        (40, 256, "needs .* bytes and has 256"),
    ],
)
def test_damaged_header_is_rejected(tmp_path, offset, value, message):
    write_student(tmp_path)
    overwrite(tmp_path, offset, value)
    with pytest.raises(ModelError, match=message):
        formats.read(tmp_path / "model.ende.intgemm.alphas.bin")


@given(st.data())
def test_damaged_model_or_shortlist_file_is_read_or_raises_model_error(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp() / "flipped-student"
    if not folder.exists():
        write_student(folder)
    names = ["model.ende.intgemm.alphas.bin", "lex.50.50.ende.s2t.bin"]
    name = data.draw(st.sampled_from(names))
    content = bytearray((folder / name).read_bytes())
    position = data.draw(st.integers(0, min(len(content), 9000) - 1))
    if data.draw(st.booleans()):
        content[position] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del content[position:]
    other = tmp_path_factory.mktemp("other")
    for path in folder.iterdir():
        shutil.copy(path, other / path.name)
    (other / name).write_bytes(content)
    try:
        uwaga.load(other).translate("the dog", max_length=5)
    except ModelError as error:
        assert "ende" in str(error) or "other" in str(error)  # noqa: PT017
    else:
        assert name != names[1] or position >= len(content) - 4


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, -1.0])
def test_invalid_quantisation_multiplier_is_rejected(tmp_path, value):
    write_student(tmp_path)
    path = tmp_path / "model.ende.intgemm.alphas.bin"
    content = path.read_bytes()
    invalid = struct.pack("<f", value)
    path.write_bytes(content.replace(np.float32(20).tobytes(), invalid, 1))
    with pytest.raises(ModelError, match=r"_QuantMultA' holds .*, which multiplies nothing"):
        uwaga.load(tmp_path)


def test_missing_quantisation_multiplier_is_rejected(tmp_path):
    write_student(tmp_path)
    weights = {
        "encoder_l1_self_Wq": np.ones((4, 4), np.float32),
        "encoder_l1_self_Wk": np.ones((4, 4), np.float32),
    }
    items, _ = tensors(weights, "intgemm8", alphas=True)
    (tmp_path / "m.bin").write_bytes(
        binary_model([tensor for tensor in items if tensor[0] != "encoder_l1_self_Wq_QuantMultA"])
    )
    with pytest.raises(ModelError, match="'encoder_l1_self_Wq_QuantMultA' is missing"):
        read_binary(tmp_path / "m.bin")


def test_int8_weight_of_minus_128_is_rejected(tmp_path):
    write_student(tmp_path)
    path = tmp_path / "model.ende.intgemm.alphas.bin"
    content = path.read_bytes()
    stored, _ = read_binary(path)
    numbers = np.ascontiguousarray(stored["decoder_l1_rnn_W"].values.T).tobytes()
    assert content.count(numbers) == 1
    path.write_bytes(content.replace(numbers, b"\x80" + numbers[1:]))
    with pytest.raises(ModelError, match="127 levels"):
        uwaga.load(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"short", "not a shortlist .5 bytes."),
        (shortlist_bytes(4, [[1]] * 340)[:-1], "it is cut short or damaged"),
        (shortlist_bytes(4, [[1]] * 339), "is for 339 source tokens, and the model has 340"),
        (shortlist_bytes(4, [[340]] * 340), "target tokens beyond the 340"),
        (shortlist_bytes(400, [[1]] * 340), "target tokens beyond the 340"),
        (shortlist_bytes(0, [[1]] * 340), "target tokens beyond the 340"),
        (shortlist_bytes(4, [[9, 5]] * 340), "target tokens of source token 0 are not in ascending order"),
        (struct.pack("<QQ", MAGIC, 7) + shortlist_bytes(4, [[1]] * 340)[16:],
         "the checksum is not that of the file"),
    ],
)  # fmt: skip
def test_damaged_shortlist_is_rejected(tmp_path, content, message):
    path = tmp_path / "lex.bin"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=message):
        read_lexical_shortlist(path, (340, 340), 341, True)


@given(
    st.lists(st.integers(0, 59), min_size=1, max_size=9), st.integers(1, 9), st.booleans(), st.integers(1, 20)
)
def test_shortlist_is_the_union_of_token_lists_padded_with_the_lowest_ids(source, multiple, copies, common):
    """The expected lists are those that Marian computes for a single sentence."""
    rng = np.random.default_rng(5)
    lists = [sorted(rng.choice(60, 4, replace=False).tolist()) for _ in range(60)]
    first = np.arange(0, 4 * 60 + 1, 4, dtype=np.int32)
    flat = np.array([token for targets in lists for token in targets], dtype=np.int32)
    shortlist = Shortlist(np.arange(common, dtype=np.int32), first, flat, 60, copies, multiple)
    expected = (
        set(range(common))
        | {token for source_token in source for token in lists[source_token]}
        | (set(source) if copies else set())
    )
    following = iter(token for token in range(60) if token not in expected)
    while len(expected) % multiple:
        token_id = next(following, None)
        if token_id is None:
            break
        expected.add(token_id)
    assert shortlist.allowed_tokens(source).tolist() == sorted(expected)


def test_torch_engine_rejects_a_shortlist(tmp_path):
    write_student(tmp_path)
    with pytest.raises(SettingsError, match="torch takes no shortlist"):
        uwaga.load(tmp_path, engine="torch", shortlist=tmp_path / "lex.50.50.ende.s2t.bin")
    assert len(uwaga.load(tmp_path, engine="torch", device="cpu").translate(TEXTS, max_length=5)) == len(
        TEXTS
    )


def test_command_line_reports_a_missing_vocabulary(tmp_path):
    write_student(tmp_path)
    run_uwaga("translate", "--model", tmp_path, "--shortlist", "none", "the dog")
    (tmp_path / "vocab.ende.spm").unlink()
    result = run_uwaga("translate", "--model", tmp_path, "the dog", code=1)
    assert "expected one vocabulary for both sides" in result.stderr
    result = run_uwaga("info", "--json", tmp_path, code=1)
    assert "expected one vocabulary for both sides" in result.stderr
