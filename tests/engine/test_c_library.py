"""The C library libuwaga gives results bit-identical to Python's, and errors with code and message."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import damaged_models
import marian_folders
import pytest
import tiny_models as tiny
import unknown_options
from c_library import (
    ON_TOKEN,
    ROOT,
    CError,
    Library,
    build,
    build_sanitised_check,
    check_answers,
    check_damaged,
    check_edits,
    compile_check,
    compile_program,
    run,
    search_whole,
)
from fairseq_folders import MODEL_KINDS, PAIRS, model_folder
from marian_students import write_random, write_student
from pretrained_texts import sentencepiece
from pretrained_tokenisers import older_format
from recurrent_variants import VARIANTS
from search_inputs import inputs

import uwaga
from uwaga.checkpoints.formats.uwaga.folder import FolderContents, save_model
from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.conversion.quantise import quantise
from uwaga.models.build import build_model
from uwaga.tokenizers.tokeniser import Tokeniser

pytestmark = pytest.mark.slow
TEXTS = [
    "A dog runs through the snow.", "Two men are talking on a street in front of a café.", "A ▁ marked  text",
    "Ein 漢字 ☃ test", "yes",
]  # fmt: skip
ARGUMENT, FILE, DAMAGED, TEXT, TOO_LONG, LANGUAGE, MEMORY, CANCELLED = range(1, 9)


@pytest.fixture(scope="module")
def built():
    return build("c-library")


@pytest.fixture(scope="module")
def library(built):
    return Library(built / ("libuwaga.dylib" if sys.platform == "darwin" else "libuwaga.so"))


@pytest.fixture(scope="module")
def int8_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("c") / "int8"
    quantise(BUNDLED, folder)
    return folder


@pytest.fixture(scope="module")
def folders(int8_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("c4") / "int4"
    quantise(BUNDLED, folder, ["output"], precision="int4")
    return {"float32": BUNDLED, "int8": int8_folder, "int4": folder}


@pytest.mark.parametrize("dtype", ["float32", "int8", "int4"])
@pytest.mark.parametrize(
    "options",
    [{"beam": 1}, {"beam": 5, "nbest": 3}, {"length_formula": "gnmt", "max_ratio": 0.2, "max_extra": 1}],
)
def test_c_library_translations_match_python(library, folders, dtype, options):
    folder = folders[dtype]
    translator = uwaga.load(folder, device="cpu", threads=1)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    for model in (library.open(folder), library.open_files(files)):
        assert model.info["precision"] == dtype
        check_answers(model, translator, TEXTS, options)


@pytest.mark.parametrize("precision", ["int8", "int4"])
@pytest.mark.parametrize("kind", [*PAIRS, "pegasus"])
def test_translations_by_multilingual_models_match_python(library, tmp_path, monkeypatch, kind, precision):
    monkeypatch.setitem(MODEL_KINDS, kind, (MODEL_KINDS[kind][0], older_format))
    model_folder(tmp_path / "m", kind)
    folder = tmp_path / "q"
    quantise(tmp_path / "m", folder, precision=precision, check=False)
    pair = PAIRS.get(kind, (None, None))
    for languages in (pair, pair[::-1]):
        translator = uwaga.load(folder, threads=1, source=languages[0], target=languages[1])
        options = dict(zip(("source_language", "target_language"), languages, strict=True)) if pair[0] else {}
        texts = [*TEXTS, "  two  spaces </s>and <mask> x", "<s> a __fr__b fr_XX <unk_7> y", "</s> z"]
        check_answers(library.open(folder, **options), translator, texts, {"beam": 3, "nbest": 2})
        if not pair[0]:
            continue
        model = library.open(folder)
        assert set(pair) < set(model.info["languages"]) == set(translator.languages.sources)
        (answer,), (expected,) = (
            model.translate(["yes"], **options),
            library.open(folder, **options).translate(["yes"]),
        )
        assert answer[0]["text"] == expected[0]["text"] and answer[0]["source"] == expected[0]["source"]
        with pytest.raises(CError, match="_language is missing") as error:
            model.translate(["yes"])
        assert error.value.args[0] == LANGUAGE
        with pytest.raises(CError, match="source_language is 'xx'") as error:
            model.translate(["yes"], **options | {"source_language": "xx"})
        assert error.value.args[0] == LANGUAGE


@pytest.mark.parametrize("name", VARIANTS)
def test_translations_by_recurrent_models_match_python(library, name, tmp_path):
    shape, tokeniser = VARIANTS[name].model_copy(update={"max_length": 60}), tiny.tokeniser()
    model = build_model(shape, tokeniser.symbols, tokeniser.size, tokeniser.size).eval()
    tiny.save(tmp_path / "m", model, tokeniser)
    quantise(tmp_path / "m", tmp_path / "int8", ("output",))
    for folder in (tmp_path / "m", tmp_path / "int8"):
        if name.startswith(("cho", "sutskever")):
            with pytest.raises(CError, match="alignment: the model has no attention"):
                library.open(folder).translate(tiny.ENGLISH, alignment=True)
            translator, c_model = uwaga.load(folder, device="cpu", threads=1), library.open(folder)
            for text in tiny.ENGLISH:
                ((c_hypothesis,),) = c_model.translate([text], beam=3)
                source = tokeniser.add_special_tokens(tokeniser.encode(text))
                ((hypothesis,),) = search_whole(
                    translator, inputs([source]), replace(translator.decoding, beam=3)
                )
                assert c_hypothesis["target"] == list(hypothesis.tokens)
                assert c_hypothesis["log_probs"] == list(hypothesis.token_scores)
            c_model.close()
            continue
        check_answers(
            library.open(folder), uwaga.load(folder, device="cpu", threads=1), tiny.ENGLISH, {"beam": 3}
        )


TRANSFORMERS = [
    {"tie": "none", "positions": "learned", "position_offset": 2, "norm": "pre", "gated": True},
    {
        "tie": "decoder", "positions": "relative", "attention_scale": False, "norm_kind": "rms",
        "activation": "silu",
    },
    {"tie": "embeddings", "sinusoids": "tensor2tensor", "output_bias": True, "embedding_norm": True},
    {"tie": "decoder", "self_attention": "ssru", "sinusoids": "halves", "decoder_feed_forward": 24},
    {
        "tie": "none", "attention_bias": False, "feed_forward_bias": False, "head_width": 12,
        "decoder_heads": 2,
    },
]  # fmt: skip


@pytest.mark.parametrize("variant", TRANSFORMERS)
@pytest.mark.parametrize("stored", ["float32", "bfloat16", "int8", "int8 folder"])
def test_results_of_transformer_variants_match_python(library, tmp_path, variant, stored):
    shape = tiny.TINY.model_copy(update=variant)
    shared = variant["tie"] == "embeddings"
    source = tiny.tokeniser("source")
    target = source if shared else tiny.tokeniser("target", size=330)
    folder = tmp_path / "model"
    model = tiny.transformer(shape, source, target)
    contents = FolderContents(shape, tiny.DECODING, source, target, ("en", "de"), "# card\n")
    save_model(folder, model, contents, "float32" if stored == "int8 folder" else stored)
    if stored == "int8 folder":
        quantise(folder, tmp_path / "int8", ("output",))
        folder = tmp_path / "int8"
    translator = uwaga.load(folder, engine="native", threads=1)
    for seed in range(3):
        check_edits(library.open(folder), translator, tiny.ENGLISH[seed], tiny.GERMAN[seed][:8], seed)
    lines = tiny.ENGLISH[:4]
    ids = [source.add_special_tokens(source.encode(line)) for line in lines]
    c_model = library.open(folder)
    for expected_nbest, (c_hypothesis,) in zip(
        search_whole(translator, inputs(ids), tiny.SEARCH), c_model.translate(lines), strict=True
    ):
        assert c_hypothesis["target"] == list(expected_nbest[0].tokens)
        assert c_hypothesis["log_probs"] == list(expected_nbest[0].token_scores)
        assert c_hypothesis["score"] == expected_nbest[0].score
    c_model.close()


def check_marian(library, folder, options, **load_options):
    """Check that a folder gives equal results in C, from disk and from memory, and in Python."""
    translator = uwaga.load(folder, engine="native", device="cpu", threads=1, **load_options)
    texts = [*tiny.ENGLISH[:3], ">>fra<< yes", "  ☃ \u2581 x \u3000", "", "<pad> </s>"]
    sources = [translator.source.add_special_tokens(translator.source.encode(text)) for text in texts]
    expected = search_whole(
        translator, inputs(sources), replace(translator.decoding, max_length=12, **options)
    )
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    for c_model in (library.open(folder, **load_options), library.open_files(files, **load_options)):
        assert c_model.info["precision"] == translator.decoder.precision
        assert c_model.info["shortlist"] == (translator.decoder.shortlist is not None)
        results = c_model.translate(texts, max_length=12, **options)
        for text, source, expected_nbest, nbest in zip(texts, sources, expected, results, strict=True):
            if len(source) == 1:  # no tokens except the end symbol
                assert (text, nbest[0]["text"]) == ("", "")
                continue
            assert [c_hypothesis["source"] for c_hypothesis in nbest] == [source] * len(expected_nbest)
            for c_hypothesis, hypothesis in zip(nbest, expected_nbest, strict=True):
                assert c_hypothesis["target"] == list(hypothesis.tokens)
                assert c_hypothesis["log_probs"] == list(hypothesis.token_scores)
                assert c_hypothesis["score"] == hypothesis.score
                text = translator.target.decode(hypothesis.tokens).replace("\ufffd", "")
                assert c_hypothesis["text"] == text
                assert c_hypothesis["target_pieces"] == translator.target.pieces(hypothesis.tokens)
        c_model.close()


@pytest.mark.parametrize("kind", ["float32", "float16", "intgemm8", "intgemm16"])
@pytest.mark.parametrize(("shared", "common"), [(True, 40), (True, None), (False, 40)])
def test_results_of_firefox_models_match_python(library, tmp_path, kind, shared, common):
    write_student(tmp_path, kind, shared=shared, common=common)
    check_marian(library, tmp_path, {"beam": 1})
    check_marian(library, tmp_path, {"beam": 4, "nbest": 2}, dtype="float32")
    check_marian(library, tmp_path, {"beam": 2}, dtype="int8")


PRE_NORM = {
    "transformer-preprocess": "n",
    "transformer-postprocess": "da",
    "transformer-postprocess-top": "n",
}
MARIAN = [
    {"transformer-decoder-autoreg": "self-attention", "tied-embeddings-all": False},
    PRE_NORM | {"tied-embeddings-all": False, "tied-embeddings": True},
    PRE_NORM | {"transformer-decoder-autoreg": "self-attention", "transformer-ffn-activation": "swish"},
    {"transformer-train-position-embeddings": True, "max-length": 40, "transformer-postprocess-emb": "nd"},
    {"tied-embeddings-all": False, "tied-embeddings-src": True, "transformer-decoder-dim-ffn": 28},
    {"transformer-guided-alignment-layer": "1", "enc-depth": 3},
]


@pytest.mark.parametrize("options", MARIAN)
def test_results_of_marian_variants_match_python(library, tmp_path, options):
    write_random(tmp_path, options)
    (tmp_path / "config.yml").write_text(
        "beam-size: 3\nnormalize: 0.6\nmax-length-factor: 2.5\nallow-unk: true\n"
    )
    check_marian(library, tmp_path, {})
    translator = uwaga.load(tmp_path, engine="native", device="cpu", threads=1)
    check_answers(library.open(tmp_path), translator, tiny.ENGLISH, {"max_length": 9})
    check_edits(library.open(tmp_path), translator, tiny.ENGLISH[0], tiny.GERMAN[0][:8], 1)


@pytest.mark.parametrize("dtype", ["float32", "int8", "int4"])
def test_options_of_newer_versions_are_listed_and_ignored(library, folders, tmp_path, dtype):
    unknown_options.add(folders[dtype], tmp_path / "newer")
    newer, model = library.open(tmp_path / "newer"), library.open(folders[dtype])
    assert newer.info == model.info | {"ignored_options": unknown_options.IGNORED}
    assert newer.translate(TEXTS) == model.translate(TEXTS)


def test_target_language_is_selected_by_option_or_tag(library, tmp_path):
    marian_folders.make(tmp_path / "mul")
    quantise(tmp_path / "mul", tmp_path / "int8")
    check_marian(library, tmp_path / "int8", {"beam": 2})
    model = library.open(tmp_path / "int8")
    assert model.info["target_languages"] == ["deu", "fra"]
    (tagged,) = model.translate([">>fra<< the dog"])
    for (translation,) in (
        model.translate(["the dog"], target_language="fra"),
        model.translate(["the dog"], target_language=">>fra<<"),
        library.open(tmp_path / "int8", target_language="fra").translate(["the dog"]),
        model.translate([">>fra<< the dog"], target_language="deu"),
    ):
        assert translation == tagged
    for call in (
        lambda: model.translate(["the dog"], target_language="pol"),
        lambda: model.translate([">>pol<< the dog"]),
        lambda: library.open(tmp_path / "int8", target_language="pol"),
    ):
        with pytest.raises(CError, match="deu fra") as error:
            call()
        assert error.value.args[0] == LANGUAGE


@pytest.mark.parametrize("kind", ["control_symbols", "user_defined_symbols"])
def test_language_tags_are_tokenised_as_in_python(library, tmp_path, kind):
    tokeniser = Tokeniser(
        sentencepiece(pad_id=3, **{kind: ["<2de>", ">>fra<<", "<formal>", "<other tag>"]}), "words"
    )
    contents = FolderContents(tiny.TINY, tiny.DECODING, tokeniser, tokeniser, ("en", "de"), "# card\n")
    save_model(tmp_path / "m", tiny.transformer(tiny.TINY, tokeniser, tokeniser), contents)
    model = library.open(tmp_path / "m")
    assert model.info["target_languages"] == [tag.strip("<>2") for tag in tokeniser.languages]
    tokeniser_for_french = tokeniser.with_target("fra")
    for text in (
        "a dog",
        "<2de> a dog",
        "<2de><formal>  a dog",
        "<other tag> a",
        "x <2de>",
        "<formal>",
        "<",
        "\u2581 a",
    ):
        for text_tokeniser, options in ((tokeniser, {}), (tokeniser_for_french, {"target_language": "fra"})):
            ((hypothesis, *_),) = model.translate([text], **options)
            assert hypothesis["source"] == text_tokeniser.add_special_tokens(text_tokeniser.encode(text))
    with pytest.raises(CError, match="de fra"):
        model.translate(["<2pl> a"])


def _edit_file(folder, pattern, change):
    (path,) = folder.glob(pattern)
    path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize(
    ("pattern", "change", "message"),
    [
        ("model*", lambda raw: raw[:-100], "cut short"),
        ("model*", lambda raw: raw + b"x", "ends? at byte|end at byte"),
        ("model*", lambda raw: b"\x02" + raw[1:], "not a binary Marian model"),
        ("model*", lambda raw: raw.replace(b"decoder_l2_rnn_Wf\0", b"decoder_l9_rnn_Wf\0"), "rnn_Wf"),
        ("model*", lambda raw: raw.replace(b"dim-emb: 16", b"dim-emb: 17"), "dim-emb"),
        ("model*", lambda raw: raw.replace(b"dec-depth: 2", b"dec-depth: 3"), "is missing"),
        ("model*", lambda raw: raw.replace(b"special:model.yml", b"special:madel.yml"), "special:model.yml"),
        ("lex*", lambda raw: raw[:-4], "cut short"),
        ("lex*", lambda raw: raw[:-4] + b"\0\0\0\1", "checksum"),
        ("vocab*", lambda raw: raw[: len(raw) // 2], "SentencePiece"),
        ("config.yml", lambda raw: b"beam-size: many\n", "beam-size must be a whole number"),
        ("config.yml", lambda raw: b"models:\n  - a: b\n", r"line 2|names 'a: b'"),
        ("config.yml", lambda raw: b"a:\n  b: 1\n", "line 2: a nested value"),
        ("config.yml", lambda raw: b"a: &x 1\n", "line 1: a value that begins with &"),
        ("config.yml", lambda raw: b"models: [model.npz]\n", "names 'model.npz', which is not in the folder"),
        ("config.yml", lambda raw: b"word-penalty: 0.5\n", "word-penalty = 0.5 is not supported"),
    ],
)
def test_damaged_or_unsupported_marian_files_are_rejected(library, tmp_path, pattern, change, message):
    write_student(tmp_path)
    (tmp_path / "config.yml").write_text("beam-size: 1\n")
    _edit_file(tmp_path, pattern, change)
    with pytest.raises(CError, match=message) as error:
        library.open(tmp_path)
    assert error.value.args[0] in (FILE, DAMAGED)


@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 4, "nbest": 4}])
def test_translations_with_byte_tokens_match_python(library, options):
    """Results equal Python's; ``tests/translator/test_characters.py`` shows that invalid bytes occur."""
    texts = [f"The {''.join(signs)} car" for signs in combinations("¼ń日łĞő€", 2)]
    check_answers(library.open(BUNDLED), uwaga.load(threads=1), texts, options)


def test_streams_yield_only_whole_characters(library):
    texts = [f"The {''.join(signs)} car" for signs in combinations("¼ń日łĞő€", 2)]
    events = [[] for _ in texts]
    callback = ON_TOKEN(lambda _, text, *event: events[text].append(event) or 0)
    model = library.open(BUNDLED)
    call = ctypes.c_void_p(library.c.uwaga_call_new(callback, None))
    for [hypothesis], streamed in zip(model.translate(texts, call), events, strict=True):
        assert [token for token, _, _ in streamed][: len(hypothesis["target"])] == hypothesis["target"]
        assert streamed[-1][2].decode() == hypothesis["text"]
        assert not any("\ufffd" in text.decode() for _, _, text in streamed)
    library.c.uwaga_call_free(call)
    model.close()


def test_tokens_are_streamed_and_calls_are_cancelled(library):
    model = library.open(BUNDLED)
    events = []
    callback = ON_TOKEN(lambda _, *arguments: events.append(arguments) or 0)
    call = ctypes.c_void_p(library.c.uwaga_call_new(callback, None))
    (streamed,), (complete,) = model.translate(TEXTS[:1], call), model.translate(TEXTS[:1], beam=1)
    assert [result["target"] for result in streamed] == [result["target"] for result in complete]
    assert [token for _, token, _, _ in events] == complete[0]["target"]
    assert events[-1][-1].decode() == complete[0]["text"]
    library.c.uwaga_cancel(call)
    with pytest.raises(CError) as error:
        model.translate(TEXTS, call)
    assert error.value.args[0] == CANCELLED
    with pytest.raises(CError) as error:
        model.translate(TEXTS, call, beam=2)
    assert error.value.args[0] == ARGUMENT
    library.c.uwaga_call_free(call)
    model.close()


def test_errors_have_codes_and_messages(library):
    def check_error(code, *fragments, call):
        with pytest.raises(CError) as error:
            call()
        assert error.value.args[0] == code, error.value
        for fragment in fragments:
            assert fragment in error.value.args[1]

    check_error(FILE, "config.json", call=lambda: library.open("/nowhere"))
    check_error(MEMORY, "bound", call=lambda: library.open(BUNDLED, memory=1_000_000))
    check_error(LANGUAGE, "'fr'", "en", "de", call=lambda: library.open(BUNDLED, target_language="fr"))
    check_error(ARGUMENT, "thread", call=lambda: library.open(BUNDLED, thread=2))
    check_error(ARGUMENT, "isa", call=lambda: library.open(BUNDLED, isa="vax"))
    model = library.open(BUNDLED, memory=60_000_000)
    check_error(LANGUAGE, "'de'", call=lambda: model.translate(TEXTS, source_language="de"))
    check_error(TEXT, "text 2", "byte 3", call=lambda: model.translate(["a", b"ab\xff"]))
    check_error(TOO_LONG, "text 1", "256", call=lambda: model.translate(["dog " * 300]))
    check_error(ARGUMENT, "beam", call=lambda: model.translate(TEXTS, beam=0))
    check_error(MEMORY, "bound", call=lambda: model.translate(TEXTS, memory=1000))
    check_error(MEMORY, "bound", call=lambda: model.translate(["dog " * 200] * 50, attention=True))
    assert model.translate(["", "  "])[0][0]["text"] == ""
    model.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"edits": {}}, "edits must be an array"),
        ({"edits": [1]}, "edits[0] must be an object"),
        ({"edits": [{"kind": "self"}]}, "edits[0].kind must be one of cross, encoder, decoder"),
        ({"edits": [{}, {"layer": 9}]}, "edits[1]: layer 9: the model has 2"),
        ({"edits": [{"layer": 0}]}, "edits[0].layer must be a whole number from 1"),
        ({"edits": [{"head": 99}]}, "edits[0]: head 99: the model has 4"),
        ({"edits": [{"weights": "loud"}]}, "edits[0].weights must be one of silent, alone"),
        ({"edits": [{"weights": "alone"}]}, "edits[0]: weights 'alone': name the head"),
        ({"edits": [{"weights": [[1, 2], [3]]}]}, "rows of equal length"),
        ({"edits": [{"weights": [[]]}]}, "rows of equal length"),
        ({"edits": [{"weights": [[[1]], [[2]]]}]}, "a table of 2 heads does not fit 4"),
        ({"edits": [{"weights": [[1e300]]}]}, "edits[0].weights must be"),
        ({"edits": [{"mask": [[1]]}]}, "edits[0].mask must be a table of true and false"),
        ({"edits": [{"mask": [[True]]}]}, "does not fit"),
        ({"edits": [{"scale": 1e40}]}, "edits[0].scale must be a number"),
        ({"edits": [{"side": "source", "places": [999]}]}, "edits[0]: position 999"),
        ({"edits": [{"side": "both", "places": []}]}, "edits[0].side must be one of"),
        ({"edits": [{"side": "target"}]}, "edits[0].places is missing"),
        ({"edits": [{"heads": 1}]}, "edits[0].heads is unknown"),
        ({"insight": "logits"}, "insight must be an array of strings"),
        ({"insight": ["cross.9"]}, "insight: no array has the name 'cross.9'; the model has encoder.emb"),
        ({"targets": []}, "targets: there are 0 for 1 texts"),
        ({"targets": [1]}, "targets must be an array of strings or of arrays of tokens"),
        ({"targets": [[1, "a"]]}, "targets must be an array of strings or of arrays of tokens"),
        ({"targets": [[4, 99999]]}, "target 1 has the token 99999"),
        ({"targets": ["ja"], "beam": 2}, "beam must be 1 with targets"),
    ],
)
def test_invalid_options_are_rejected(library, options, message):
    model = library.open(BUNDLED)
    with pytest.raises(CError) as error:
        model.translate(TEXTS[:1], **options)
    assert error.value.args[0] == ARGUMENT
    assert message in error.value.args[1]
    model.close()


def test_search_tree_contains_all_hypotheses(library):
    """Each hypothesis is a path that starts at a root of the tree, with equal log-probabilities."""
    model = library.open(BUNDLED)
    (nbest,) = model.translate(TEXTS[1:2], beam=4, nbest=4, tree=True)
    tree, end = nbest[0]["arrays"]["tree"], uwaga.load().decoder.symbols.end
    paths = set()
    for node in range(len(tree)):
        path, index = [], node
        while index >= 0:
            parent, token, log_prob = tree[index]
            assert parent < index
            path.append((int(token), float(log_prob)))
            index = int(parent)
        paths.add(tuple(reversed(path)))
    for hypothesis in nbest:
        numbers = list(zip([*hypothesis["target"], end], hypothesis["log_probs"], strict=True))
        assert tuple(numbers) in paths
    (forced,) = model.translate(TEXTS[1:2], targets=[nbest[0]["target"]])
    assert forced[0]["log_probs"] == pytest.approx(nbest[0]["log_probs"], abs=1e-4)
    model.close()


def test_oversized_requests_are_rejected(library):
    model = library.open(BUNDLED)
    for options in ({"insight": [], "memory": 10_000_000}, {"targets": ["Hund " * 300]}):
        with pytest.raises(CError) as error:
            model.translate(["dog " * 200], **options)
        assert error.value.args[0] in (MEMORY, TOO_LONG)
    model.close()


@pytest.mark.parametrize(
    "compiler",
    ["gcc", "g++", *(pytest.param(name, marks=pytest.mark.release) for name in ("clang", "clang++"))],
)
def test_example_program_translates(built, tmp_path, compiler):
    example = ROOT / "native" / "c" / "examples" / "translate.c"
    flags = ["-std=c99"] if "+" not in compiler else ["-std=c++11", "-x", "c++"]
    program = compile_program(compiler, built, example, tmp_path / "translate", *flags)
    expected = "Ein Hund läuft durch den Schnee.\n"
    assert run(program, BUNDLED, input=TEXTS[0] + "\n") == expected
    python_command = [sys.executable, example.with_suffix(".py"), built / "libuwaga.so", BUNDLED]
    assert run(*python_command, input=TEXTS[0] + "\n") == expected


@pytest.mark.release
def test_windows_program_translates_in_wine(tmp_path):
    """Cross-compile and link the library and the example; run them in Wine."""
    tools = "x86_64-w64-mingw32"
    gcc, gxx = f"{tools}-gcc-posix", f"{tools}-g++-posix"
    if shutil.which(gxx) is None:
        pytest.skip(f"no {gxx} here")
    system = ["-DCMAKE_SYSTEM_NAME=Windows", "-DCMAKE_SYSTEM_PROCESSOR=AMD64"]
    built = build("c-library-windows", *system, f"-DCMAKE_C_COMPILER={gcc}", f"-DCMAKE_CXX_COMPILER={gxx}")
    assert (built / "libuwaga.dll").exists()
    example, program = ROOT / "native" / "c" / "examples" / "translate.c", tmp_path / "translate.exe"
    objects = tmp_path / "translate.o"
    run(
        gcc, "-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'native/c'}", "-c", example, "-o", objects
    )
    run(gxx, "-static", objects, built / "libuwaga.a", "-o", program)
    if shutil.which("wine") is None:
        pytest.skip("no wine here: compiled and linked, not run")
    wine = os.environ | {"WINEPREFIX": str(Path(tempfile.gettempdir(), "uwaga-wine")), "WINEDEBUG": "-all"}
    (expected,) = uwaga.load(threads=1).translate([TEXTS[0]])
    assert run("wine", program, f"Z:{BUNDLED}", input=TEXTS[0] + "\n", env=wine) == expected.text + "\n"


def test_cmake_and_pkg_config_find_the_library(built, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(t C CXX)\nfind_package(uwaga 0.1 REQUIRED)\n"
        f"add_executable(t {ROOT}/native/c/examples/translate.c)\ntarget_link_libraries(t uwaga::uwaga)\n"
        f"add_executable(s {ROOT}/native/c/examples/translate.c)\ntarget_link_libraries(s uwaga::static)\n"
        "set_target_properties(s PROPERTIES LINKER_LANGUAGE CXX)\n"
    )
    run("cmake", "-S", tmp_path, "-B", tmp_path / "b", f"-DCMAKE_PREFIX_PATH={built / 'installed'}")
    run("make", "-C", tmp_path / "b")
    for program in ("t", "s"):
        assert run(tmp_path / "b" / program, BUNDLED, input="yes\n").strip()
    if shutil.which("pkg-config"):
        (pc_file,) = (built / "installed").rglob("uwaga.pc")
        process = subprocess.run(
            ["pkg-config", "--cflags", "--libs", pc_file], capture_output=True, text=True
        )
        assert "-luwaga" in process.stdout


@pytest.mark.release
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_c_library_runs_without_sanitizer_errors(tmp_path, sanitizer, int8_folder):
    program = build_sanitised_check(tmp_path / "check", sanitizer)
    output = run(program, "load", int8_folder, "4", "48")
    assert output.startswith("wrong 0 ") and "cancelled 0" not in output
    if sanitizer != "thread":
        folders = damaged_models.make(tmp_path, 90)
        check_damaged(program, folders)


def test_damaged_model_folders_give_error_codes(built, tmp_path):
    program = compile_check(built, tmp_path / "check")
    check_damaged(program, damaged_models.make(tmp_path, 600))


def test_concurrent_calls_do_not_leak_memory(built, int8_folder, tmp_path):
    program = compile_check(built, tmp_path / "check")
    fields = run(program, "load", int8_folder, "8", "10000").split()
    counts = dict(zip(fields[::2], map(int, fields[1::2]), strict=True))
    assert counts["wrong"] == 0
    assert counts["cancelled"] > 1000
    assert counts["grown"] < 8 << 10  # KiB


def test_header_has_at_most_twenty_functions():
    header = (ROOT / "native" / "c" / "uwaga.h").read_text()
    assert sum(line.startswith("UWAGA_API") for line in header.splitlines()) <= 20


def test_model_info_is_json_with_the_requested_precision(library):
    model = library.open(BUNDLED, dtype="int8", threads=2)
    assert json.loads(json.dumps(model.info))["precision"] == "int8"
    model.close()
