"""Build libuwaga, and call it with ctypes."""

import ctypes
import json
import os
import random
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from search_inputs import inputs

from uwaga.engine.interventions import ATTENTION_KINDS, REPLACEMENTS, Heads, Positions
from uwaga.inspection.interventions import intervene
from uwaga.search import search
from uwaga.translator.align import add_alignments
from uwaga.translator.attention import add_attentions
from uwaga.translator.layers.search import repair_incomplete_characters, set_hypotheses
from uwaga.translator.score import step_scorer
from uwaga.translator.text import Sentence, TokenPair

ROOT = Path(__file__).resolve().parents[2]
SIZE, POINTER, INT, DOUBLE = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int, ctypes.c_double
DAMAGE_CODES = (2, 3, 5, 7)
"""Error codes that damaged folders may cause: invalid file or model, exceeded limit, out of memory."""
ON_TOKEN = ctypes.CFUNCTYPE(INT, POINTER, SIZE, ctypes.c_int32, DOUBLE, ctypes.c_char_p)


def extension_objects(compiler):
    """Return the folder of the extension's objects, or None if they are outdated or of another compiler."""
    extension = next((ROOT / "build").glob("cp*/_core*.so"), None)
    if extension is None:
        return None
    cached = re.search(
        r"^CMAKE_CXX_COMPILER:\w+=(.*)", (extension.parent / "CMakeCache.txt").read_text(), re.M
    )
    if cached is None or Path(cached[1]).resolve() != Path(shutil.which(compiler)).resolve():
        return None
    linked, native = extension.stat().st_mtime, ROOT / "native"
    sources = set(native.rglob("*.*")) - {*native.glob("tests/**/*"), *native.glob("c/**/*")}
    is_new = all(path.stat().st_mtime < linked for path in sources | {ROOT / "CMakeLists.txt"})
    return extension.parent / "CMakeFiles/_core.dir" if is_new else None


def build(name, *options):
    """Build the library into ``build/NAME``, where the next call finds it.

    Without options, the objects of the extension are linked if they are up to date.
    """
    missing = [program for program in ("cmake", "make", "c++") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} here")
    folder = ROOT / "build" / name
    common = ["-DUWAGA_EXTENSION=OFF", "-DUWAGA_LIBRARY=ON", f"-DCMAKE_INSTALL_PREFIX={folder / 'installed'}"]
    objects = None if options else extension_objects("c++")
    common.append(f"-DUWAGA_OBJECTS={objects or ''}")
    run("cmake", "-S", ROOT, "-B", folder, "-G", "Unix Makefiles", *common, *options)
    # With a sanitizer, gcc ignores loop hints and warns about it.
    flags = [] if any("SANITIZE" in option for option in options) else ["-DCMAKE_CXX_FLAGS=-Werror"]
    run("cmake", folder, *flags)
    run("make", "-C", folder, "-j2", "install")
    return folder


def compile_program(compiler, build_folder, program, out, *flags):
    """Compile a program with the static library."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} here")
    include = f"-I{ROOT / 'native' / 'c'}"
    objects = out.with_suffix(".o")
    run(compiler, *flags, "-Wall", "-Wextra", "-pedantic", "-Werror", include, "-c", program, "-o", objects)
    link = [flag for flag in flags if flag.startswith("-fsanitize")]
    run("c++", *link, objects, build_folder / "libuwaga.a", "-lpthread", "-o", out)
    return out


def compile_check(build_folder, out, *flags):
    """Compile the C program that checks the library, and link it with a build of the library."""
    check = ROOT / "native" / "tests" / "c_library_test.c"
    return compile_program("gcc", build_folder, check, out, "-std=c99", "-D_POSIX_C_SOURCE=200809L", *flags)


def build_sanitised_check(out, sanitizer):
    """Build the library with a sanitizer, and compile the C program that checks it."""
    build_folder = build(
        f"c-library-{sanitizer.split(',')[0]}",
        f"-DUWAGA_SANITIZE={sanitizer}",
        "-DCMAKE_BUILD_TYPE=Debug",
        "-DUWAGA_PORTABLE=ON",  # other tests run the kernels of each processor with sanitizers
    )
    return compile_check(build_folder, out, f"-fsanitize={sanitizer}")


def check_damaged(program, folders):
    """Check that each damaged folder loads and translates, or is rejected with an error message."""
    command = [program, "open", *folders]
    process = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=10 * len(command)
    )
    assert process.returncode == 0, process.stderr[:4000]
    answers = process.stdout.splitlines()
    assert len(answers) == len(folders)
    for answer in answers:
        code, _, message = answer.partition(" ")
        assert int(code) in (0, *DAMAGE_CODES), answer
        assert (code == "0") == (message == ""), answer


def run(*command, **options):
    """Run a command that must succeed, and return its output."""
    process = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert process.returncode == 0, (process.stdout + process.stderr)[-4000:]
    return process.stdout


class CError(Exception):
    """An error code of the library and its message."""


class _Error(ctypes.Structure):
    _fields_ = (("code", INT), ("message", ctypes.c_char * 508))


class Library:
    """The functions of a shared library."""

    def __init__(self, path):
        self.c = ctypes.CDLL(os.fspath(path))
        self.c.uwaga_result_text.restype = self.c.uwaga_model_piece.restype = ctypes.c_char_p
        for name in ("tokens", "log_probs", "count"):
            getattr(self.c, f"uwaga_result_{name}").restype = SIZE
        self.c.uwaga_result_array_name.restype = ctypes.c_char_p
        self.c.uwaga_result_array.restype = ctypes.POINTER(ctypes.c_float)
        self.c.uwaga_result_score.restype = DOUBLE
        self.c.uwaga_model_info.restype = self.c.uwaga_version.restype = ctypes.c_char_p
        self.c.uwaga_call_new.restype = POINTER

    def open(self, folder, **options):
        return self._open(self.c.uwaga_open_folder, os.fsencode(folder), options=options)

    def open_files(self, files, **options):
        names = (ctypes.c_char_p * len(files))(*[name.encode() for name in files])
        contents = (ctypes.c_char_p * len(files))(*files.values())
        sizes = (SIZE * len(files))(*map(len, files.values()))
        return self._open(self.c.uwaga_open_files, names, contents, sizes, SIZE(len(files)), options=options)

    def _open(self, function, *arguments, options):
        model, error = POINTER(), _Error()
        code = function(*arguments, json.dumps(options).encode(), ctypes.byref(model), ctypes.byref(error))
        assert code == error.code
        if code:
            raise CError(code, error.message.decode())
        return CModel(self.c, model)


class CModel:
    """An open model."""

    def __init__(self, c, model):
        self.c, self.model = c, model

    @property
    def info(self):
        return json.loads(self.c.uwaga_model_info(self.model))

    def close(self):
        self.c.uwaga_close(self.model)

    def translate(self, texts, call=None, **options):
        """Return a list of translations, as dictionaries, for each text (``str`` or ``bytes``)."""
        raw = [text if isinstance(text, bytes) else text.encode() for text in texts]
        result, error = POINTER(), _Error()
        code = self.c.uwaga_translate(
            self.model, (ctypes.c_char_p * len(raw))(*raw), (SIZE * len(raw))(*map(len, raw)), SIZE(len(raw)),
            json.dumps(options).encode(), call, ctypes.byref(result), ctypes.byref(error),
        )  # fmt: skip
        assert code == error.code
        if code:
            assert not result
            raise CError(code, error.message.decode())
        translations = [self._translations(result, SIZE(text)) for text in range(len(raw))]
        self.c.uwaga_result_free(result)
        return translations

    def _translations(self, result, text):
        count = self.c.uwaga_result_count(result, text)
        return [self._translation(result, text, SIZE(rank)) for rank in range(count)]

    def _translation(self, *position):
        numbers, tokens = ctypes.POINTER(DOUBLE)(), ctypes.POINTER(ctypes.c_int32)()
        translation = {
            "text": self.c.uwaga_result_text(*position, None).decode(),
            "score": self.c.uwaga_result_score(*position),
            "truncated": bool(self.c.uwaga_result_truncated(*position)),
        }
        count = self.c.uwaga_result_log_probs(*position, ctypes.byref(numbers))
        translation["log_probs"] = numbers[:count]
        for side, name in enumerate(("source", "target")):
            count = self.c.uwaga_result_tokens(*position, side, ctypes.byref(tokens))
            translation[name] = tokens[:count]
            pieces = [self.c.uwaga_model_piece(self.model, side, token) for token in translation[name]]
            translation[f"{name}_pieces"] = [piece.decode() for piece in pieces]
        names = iter(
            lambda: self.c.uwaga_result_array_name(*position, SIZE(len(translation["arrays"]))), None
        )
        translation["arrays"] = {}
        for name in names:
            translation["arrays"][name.decode()] = self._array(*position, name)
        return translation

    def _array(self, *position):
        shape, axes = (SIZE * 4)(), SIZE()
        pointer = self.c.uwaga_result_array(*position, shape, ctypes.byref(axes))
        sizes = tuple(shape)[: axes.value]
        return np.ctypeslib.as_array(pointer, sizes).copy() if 0 not in sizes else np.zeros(sizes, np.float32)


def search_whole(translator, sentences, options):
    """Search with bytes omitted that do not form a whole character, as the C library does."""
    lists = search(translator.decoder, sentences, options)
    stage = SimpleNamespace(model=translator.model, search_decoder=translator.decoder)
    repair_incomplete_characters(stage, sentences, lists, options)
    return lists


def check_answers(c_model, translator, texts, options):
    """Check that a model opened by the C library gives exactly the results of the translator."""
    decoder, model = translator.decoder, translator.model
    decoding = replace(translator.decoding, **options)
    sources = [model.source.add_special_tokens(model.source.encode(text)) for text in texts]
    sentences = list(map(Sentence, sources))
    set_hypotheses(sentences, search_whole(translator, sentences, decoding))
    add_attentions(decoder, sentences)
    add_alignments(decoder, model.alignment_head, sentences)
    c_results = c_model.translate(texts, alignment=True, attention=True, **options)
    for sentence, c_sentence in zip(sentences, c_results, strict=True):
        assert len(c_sentence) == len(sentence.hypotheses)
        for c_result, hypothesis in zip(c_sentence, sentence.hypotheses, strict=True):
            assert c_result["source"] == sentence.ids
            assert c_result["target"] == list(hypothesis.tokens)
            assert c_result["target_pieces"] == model.target.pieces(hypothesis.tokens)
            # NUL ends a C string.
            text = model.target.decode(hypothesis.tokens).replace("\ufffd", "")
            assert c_result["text"] == text.partition("\0")[0]
            assert (c_result["score"], c_result["truncated"]) == (hypothesis.score, hypothesis.truncated)
            assert c_result["log_probs"] == list(hypothesis.token_scores)
            kinds = {kind: getattr(hypothesis.attentions, kind) for kind in ("encoder", "decoder", "cross")}
            maps = {f"attention.{kind}": table for kind, table in kinds.items() if table is not None}
            check_arrays(c_result["arrays"], {"alignment": hypothesis.alignment, **maps})
    c_model.close()


def check_arrays(actual, expected):
    """Check that two mappings have the same names, in any order, and equal arrays."""
    assert set(actual) == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array, err_msg=name)


def random_edits(settings, seed):
    """Return random attention edits, as options of the C library and as interventions in Python."""
    rng = random.Random(seed)
    options, interventions = [], []
    for _ in range(rng.randint(1, 4)):
        kind = rng.choice(("encoder", "cross") if settings.self_attention == "ssru" else ATTENTION_KINDS)
        layers = settings.encoder_layers if kind == "encoder" else settings.decoder_layers
        heads = settings.heads if kind == "encoder" else settings.decoder_heads or settings.heads
        edit = {"layer": rng.choice([None, rng.randint(1, layers)])}
        edit["weights"] = rng.choice([None, *REPLACEMENTS])
        edit["head"] = rng.choice([None] * (edit["weights"] != "alone") + [rng.randint(1, heads)])
        edit["scale"] = rng.choice([None, rng.uniform(0, 2)])
        options.append({"kind": kind} | {key: value for key, value in edit.items() if value is not None})
        interventions.append(Heads(kind, **edit))
    if settings.positions != "relative":
        side, positions = rng.choice(("source", "target")), rng.sample(range(8), 6)
        options.append({"side": side, "places": positions})
        interventions.append(Positions(side, tuple(positions)))
    return options, interventions


def check_edits(c_model, translator, text, target, seed):
    """Check that results with edits, activations and forced targets equal those of Python exactly."""
    edits, interventions = random_edits(translator.decoder.settings, seed)
    end = translator.decoder.symbols.end
    [(source, ids)] = translator.pair_ids([(text, target)])
    for options, edited in (({}, translator), ({"edits": edits}, intervene(translator, *interventions))):
        decoder, start = edited.decoder, edited.decoding.start
        ((hypothesis,),) = search_whole(edited, inputs([source]), replace(edited.decoding, beam=1, nbest=1))
        greedy_ids = (*hypothesis.tokens, *[end] * (not hypothesis.truncated))
        for scored, target_options in ((greedy_ids, {"beam": 1}), (ids, {"targets": [target]})):
            ((translation,),) = c_model.translate(
                [text], attention=True, insight=[], **options, **target_options
            )
            assert [*translation["target"], *[end] * (not translation["truncated"])] == list(scored)
            [scores] = step_scorer(decoder)([TokenPair(source, scored)], start)
            if "targets" in target_options:
                assert translation["log_probs"] == scores
            decoder_input = [decoder.symbols.start if start is None else start, *scored[:-1]]
            [maps] = decoder.attentions([source], [decoder_input])
            kinds = {f"attention.{kind}": getattr(maps, kind) for kind in ATTENTION_KINDS}
            maps = {name: weights for name, weights in kinds.items() if weights is not None}
            check_arrays(translation["arrays"], decoder.insight(source, decoder_input) | maps)
    c_model.close()
