"""Marian's binary models and shortlists (M26): the tokens of their equations; what is damaged, by name."""

import shutil
import struct

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from loaded import load_torch
from marian_students import INNER, MAGIC, OPTIONS, binary, lexical, tensors, write_student
from precision import close_for
from typer.testing import CliRunner

import uwaga
from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.formats.marian.binary import read_binary
from uwaga.checkpoints.formats.marian.read import read_lexical_shortlist
from uwaga.checkpoints.formats.marian.weights import SETTINGS
from uwaga.cli.main import app
from uwaga.engine.shortlist import Shortlist
from uwaga.errors import ModelError, SettingsError
from uwaga.search import SearchOptions, search
from uwaga.settings.text_options import TextOptions

TEXTS = ["the dog sees the cat", "Hi", "Where is the station? It is not far from here.", "a car"]
KINDS = ["float32", "float16", "intgemm8", "intgemm16"]


def ids(checkpoint, text=TEXTS[0]):
    return checkpoint.source.add_special_tokens(checkpoint.source.encode(text))


def check_logits(student, folder):
    """The logits of a folder in torch are those of the student that was written to it."""
    found = load_torch(folder)
    model, source, target = found.model.double(), ids(found), [5, 9, 77, 200, 31]
    with torch.no_grad():
        start = torch.tensor([[model.symbols.start, *target]])
        logits = model.logits(model.features(torch.tensor([source]), start))[0]
    wanted = student.logits(source, target)
    # The scale of quantised weights is a float32.
    torch.testing.assert_close(logits[:, : student.vocabulary].numpy(), wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.numerical
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_of_the_equations(tmp_path, kind, shared):
    check_logits(write_student(tmp_path, kind, shared=shared), tmp_path)


@pytest.mark.numerical
@pytest.mark.parametrize("gate", [True, False])
def test_average_attention_in_an_npz_is_that_of_the_equations(tmp_path, gate):
    """M35, as Marian stores it."""
    student = write_student(tmp_path, "float32", common=None)
    student.make_average(gate)
    (tmp_path / "model.ende.intgemm.alphas.bin").unlink()
    options = {"transformer-decoder-autoreg": "average-attention", "transformer-dim-aan": INNER}
    options |= {"transformer-aan-nogate": not gate, "transformer-aan-activation": "swish"}
    said = np.frombuffer(yaml.safe_dump(OPTIONS | options).encode() + b"\0", dtype=np.int8)
    arrays = {name: np.atleast_2d(array).astype(np.float32) for name, array in student.weights.items()}
    np.savez(tmp_path / "model.npz", **arrays, **{SETTINGS: said})
    check_logits(student, tmp_path)


@pytest.mark.numerical
@pytest.mark.parametrize("kind", KINDS)
def test_the_engine_computes_what_torch_does(tmp_path, kind):
    write_student(tmp_path, kind, common=None)
    options = SearchOptions(beam=4, max_length=12, max_ratio=9.0)
    torched = uwaga.load(tmp_path, engine="torch", device="cpu")
    native = uwaga.load(tmp_path, engine="native", dtype="float32")
    sources = [ids(torched, text) for text in TEXTS]
    ours, theirs = (search(one.decoder, sources, options) for one in (native, torched))
    for (one,), (other,) in zip(ours, theirs, strict=True):
        assert one.tokens == other.tokens
        np.testing.assert_allclose(one.token_scores, other.token_scores, **close_for([20.0]))
    assert len({one.tokens for (one,) in ours}) > 1


def test_greedy_search_takes_the_tokens_of_the_equations_within_the_shortlist(tmp_path):
    """float32 with the file's shortlist: candidates in the order of token ids, the unknown token left out."""
    student = write_student(tmp_path, "float32", common=20)
    translator = uwaga.load(tmp_path, engine="native")
    shortlist = translator.decoder.shortlist
    assert shortlist is not None
    for text in TEXTS:
        source = ids(translator, text)
        tokens: list[int] = []
        allowed = shortlist.of(source)
        allowed = allowed[(allowed != translator.source.symbols.unknown) & (allowed < student.vocabulary)]
        for _ in range(15):
            logits = student.logits(source, tokens)[-1]
            tokens.append(int(allowed[np.argmax(logits[allowed])]))
            if tokens[-1] == translator.source.symbols.end:
                break
        ((found,),) = search(
            translator.decoder, [source], SearchOptions(beam=1, max_length=15, unknown=False)
        )
        assert list(found.tokens) == [token for token in tokens if token != translator.source.symbols.end]


@pytest.mark.parametrize("shortlist", [None, "none"])
def test_int8_gives_the_same_bits_alone_and_in_any_batch(tmp_path, shortlist):
    write_student(tmp_path)
    translator = uwaga.load(tmp_path, shortlist=shortlist, threads=2)
    assert "int8" in repr(translator)
    sources = [ids(translator, text) for text in TEXTS * 5]
    options = SearchOptions(beam=3, max_length=10)
    together = search(translator.decoder, sources, options)
    for source, (whole,) in zip(sources, together, strict=True):
        ((alone,),) = search(translator.decoder, [source], options)
        assert (alone.tokens, alone.token_scores) == (whole.tokens, whole.token_scores)


def test_int8_weights_are_the_files_own_numbers(tmp_path):
    write_student(tmp_path)
    checkpoint = formats.read(tmp_path)
    assert checkpoint.weights is not None
    stored, _ = read_binary(tmp_path / "model.ende.intgemm.alphas.bin")
    numbers, scales = checkpoint.weights.integers("decoder.0.ssru.forget.weight")
    assert np.array_equal(numbers, stored["decoder_l1_rnn_Wf"].values.T)
    product = numbers * scales[:, None]
    np.testing.assert_array_equal(product, checkpoint.weights.read("decoder.0.ssru.forget.weight"))
    assert checkpoint.weights.integers("decoder.0.self_attention_norm.weight") is None


@pytest.mark.parametrize("place", ["folder", "file"])
def test_loading_info_and_converting_know_it(tmp_path, place):
    folder = tmp_path / "student"
    write_student(folder)
    name = folder if place == "folder" else folder / "model.ende.intgemm.alphas.bin"
    described = formats.describe(name)
    assert (described.format, described.languages) == ("Marian", (("en",), ("de",)))
    assert not described.problems
    assert described.decoding["beam"] == 1
    wanted = [str(one) for one in uwaga.load(name, shortlist="none").translate(TEXTS, max_length=9)]
    for options, made in (([], tmp_path / "int8"), (["--keep", "*"], tmp_path / "float")):
        arguments = ["convert", str(name), str(made), "--int8", *options]
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        assert len(uwaga.load(made).translate(TEXTS, max_length=9)) == len(TEXTS)
    exact = uwaga.load(tmp_path / "int8", shortlist="none")
    assert [str(one) for one in exact.translate(TEXTS, max_length=9)] == wanted


@pytest.mark.parametrize(("stated", "layer"), [("last", 2), (1, 1), (None, 2)])
def test_words_are_aligned_by_the_head_that_guided_alignment_trains(tmp_path, stated, layer):
    write_student(tmp_path / "student", options={"transformer-guided-alignment-layer": stated})
    checkpoint = formats.read(tmp_path / "student")
    assert str(checkpoint.alignment_head) == f"{layer}.1 predicting"
    done = CliRunner().invoke(app, ["convert", str(tmp_path / "student"), str(tmp_path / "int8"), "--int8"])
    assert done.exit_code == 0, done.output
    converted = formats.read(tmp_path / "int8")
    assert converted.alignment_head == checkpoint.alignment_head
    assert converted.text == checkpoint.text == TextOptions(split_above=1)


@pytest.mark.parametrize("stated", ["first", 0, 3, True])
def test_a_guided_alignment_layer_that_the_decoder_lacks_is_refused(tmp_path, stated):
    write_student(tmp_path, options={"transformer-guided-alignment-layer": stated})
    with pytest.raises(ModelError, match=r"transformer-guided-alignment-layer .* is not one of"):
        formats.read(tmp_path)


def test_a_line_is_split_into_sentences(tmp_path):
    write_student(tmp_path)
    translator = uwaga.load(tmp_path, shortlist="none")
    two = ["The dog sleeps.", "A car is here."]
    parts = [one.text for one in translator.translate(two, max_length=9)]
    assert translator.translate(" ".join(two), max_length=9).text == " ".join(parts)


def test_settings_beside_the_model_are_honoured(tmp_path):
    write_student(tmp_path)
    said = "models: [model.ende.intgemm.alphas.bin]\nvocabs: [vocab.ende.spm, vocab.ende.spm]\n"
    said += "shortlist: [lex.50.50.ende.s2t.bin, false]\nbeam-size: 3\nmax-length-factor: 2.5\n"
    (tmp_path / "config.intgemm8bitalpha.yml").write_text(said)
    checkpoint = formats.read(tmp_path)
    assert checkpoint.decoding.beam == 3
    # Marian counts steps up: as many as are at least the factor times the source.
    for length, steps in ((2, 5), (3, 8), (4, 10), (26, 65), (1000, 2500)):
        ratio = checkpoint.decoding.max_ratio * length
        assert int(ratio) + checkpoint.decoding.max_extra == steps
    (tmp_path / "config.intgemm8bitalpha.yml").write_text(said.replace("lex.50", "lex.99"))
    with pytest.raises(
        ModelError, match=r"config.*yml: names 'lex\.99\.50\.ende\.s2t\.bin', which is not in"
    ):
        formats.read(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dec-cell": "gru"}, "dec-cell = 'gru' is not supported; supported: 'ssru'"),
        ({"transformer-rnn-projection": True}, "transformer-rnn-projection = True"),
        ({"transformer-decoder-autoreg": "magic"}, "transformer-decoder-autoreg = 'magic'"),
        ({"enc-depth": 10**6}, "layers, but only"),
        ({"dim-emb": 10**9}, "more numbers than the"),
        ({"dec-depth": 3}, "missing, which special:model.yml asks for"),
    ],
)
def test_features_and_sizes_that_do_not_fit_are_refused_by_name(tmp_path, changes, message):
    write_student(tmp_path, options=changes)
    with pytest.raises(ModelError, match=message):
        uwaga.load(tmp_path)


def changed(folder, place, value, width=8):
    path = folder / "model.ende.intgemm.alphas.bin"
    content = bytearray(path.read_bytes())
    content[place : place + width] = value.to_bytes(width, "little")
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (0, 2, "not a recognised model|not a binary Marian model of version 1"),
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
def test_damaged_headers_are_refused_by_name(tmp_path, place, value, message):
    write_student(tmp_path)
    changed(tmp_path, place, value)
    with pytest.raises(ModelError, match=message):
        formats.read(tmp_path / "model.ende.intgemm.alphas.bin")


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_cut_and_flipped_files_never_escape(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp() / "flipped-student"
    if not folder.exists():
        write_student(folder)
    names = ["model.ende.intgemm.alphas.bin", "lex.50.50.ende.s2t.bin"]
    name = data.draw(st.sampled_from(names))
    content = bytearray((folder / name).read_bytes())
    place = data.draw(st.integers(0, min(len(content), 9000) - 1))
    if data.draw(st.booleans()):
        content[place] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del content[place:]
    other = tmp_path_factory.mktemp("other")
    for path in folder.iterdir():
        shutil.copy(path, other / path.name)
    (other / name).write_bytes(content)
    try:
        uwaga.load(other).translate("the dog", max_length=5)
    except ModelError as error:
        assert "ende" in str(error) or "other" in str(error)  # noqa: PT017
    else:
        assert name != names[1] or place >= len(content) - 4


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, -1.0])
def test_multipliers_that_are_no_numbers_are_refused(tmp_path, value):
    write_student(tmp_path)
    path = tmp_path / "model.ende.intgemm.alphas.bin"
    content = path.read_bytes()
    bad = struct.pack("<f", value)
    path.write_bytes(content.replace(np.float32(20).tobytes(), bad, 1))
    with pytest.raises(ModelError, match=r"_QuantMultA' holds .*, which multiplies nothing"):
        uwaga.load(tmp_path)


def test_a_missing_multiplier_is_named(tmp_path):
    write_student(tmp_path)
    weights = {
        "encoder_l1_self_Wq": np.ones((4, 4), np.float32),
        "encoder_l1_self_Wk": np.ones((4, 4), np.float32),
    }
    items, _ = tensors(weights, "intgemm8", alphas=True)
    (tmp_path / "m.bin").write_bytes(
        binary([one for one in items if one[0] != "encoder_l1_self_Wq_QuantMultA"])
    )
    with pytest.raises(ModelError, match="'encoder_l1_self_Wq_QuantMultA' is missing"):
        read_binary(tmp_path / "m.bin")


def test_minus_128_is_no_level(tmp_path):
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
        (lexical(4, [[1]] * 340)[:-1], "it is cut short or damaged"),
        (lexical(4, [[1]] * 339), "is for 339 source tokens, and the model has 340"),
        (lexical(4, [[340]] * 340), "target tokens beyond the 340"),
        (lexical(400, [[1]] * 340), "target tokens beyond the 340"),
        (lexical(0, [[1]] * 340), "target tokens beyond the 340"),
        (lexical(4, [[9, 5]] * 340), "targets: token ids are not in ascending order"),
        (struct.pack("<QQ", MAGIC, 7) + lexical(4, [[1]] * 340)[16:], "the checksum is not that of the file"),
    ],
)
def test_damaged_shortlists_are_refused_by_name(tmp_path, content, message):
    path = tmp_path / "lex.bin"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=message):
        read_lexical_shortlist(path, (340, 340), 341, True)


@given(
    st.lists(st.integers(0, 59), min_size=1, max_size=9), st.integers(1, 9), st.booleans(), st.integers(1, 20)
)
@settings(max_examples=30, deadline=None)
def test_lists_are_the_union_filled_with_the_lowest_tokens(source, multiple, own, common):
    """As Marian's own code makes them, of one sentence: token for token."""
    rng = np.random.default_rng(5)
    lists = [sorted(rng.choice(60, 4, replace=False).tolist()) for _ in range(60)]
    first = np.arange(0, 4 * 60 + 1, 4, dtype=np.int32)
    flat = np.array([token for one in lists for token in one], dtype=np.int32)
    shortlist = Shortlist(np.arange(common, dtype=np.int32), first, flat, 60, own, multiple)
    wanted = (
        set(range(common))
        | {token for one in source for token in lists[one]}
        | (set(source) if own else set())
    )
    following = iter(token for token in range(60) if token not in wanted)
    while len(wanted) % multiple:
        one = next(following, None)
        if one is None:
            break
        wanted.add(one)
    assert shortlist.of(source).tolist() == sorted(wanted)


def test_a_shortlist_of_another_kind_is_refused_with_torch(tmp_path):
    write_student(tmp_path)
    with pytest.raises(SettingsError, match="torch takes no shortlist"):
        uwaga.load(tmp_path, engine="torch", shortlist=tmp_path / "lex.50.50.ende.s2t.bin")
    assert len(uwaga.load(tmp_path, engine="torch", device="cpu").translate(TEXTS, max_length=5)) == len(
        TEXTS
    )


def test_the_command_line_says_what_is_wrong(tmp_path):
    write_student(tmp_path)
    done = CliRunner().invoke(app, ["translate", "--model", str(tmp_path), "--shortlist", "none", "the dog"])
    assert done.exit_code == 0, done.output
    (tmp_path / "vocab.ende.spm").unlink()
    done = CliRunner().invoke(app, ["translate", "--model", str(tmp_path), "the dog"])
    assert done.exit_code == 1
    assert "expected one vocabulary for both sides" in done.stderr
    done = CliRunner().invoke(app, ["info", "--json", str(tmp_path)])
    assert done.exit_code == 1
    assert "expected one vocabulary for both sides" in done.stderr
