"""libuwaga through ctypes, and its building."""

import ctypes
import json
import os
import random
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from uwaga.engine.interventions import KINDS, REPLACEMENTS, Heads, Positions
from uwaga.inspection.interventions import intervene
from uwaga.search import search
from uwaga.translator.align import with_alignments
from uwaga.translator.attention import with_attentions
from uwaga.translator.score import step_scorer

ROOT = Path(__file__).resolve().parents[2]
SIZE, POINTER, INT, DOUBLE = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int, ctypes.c_double
ALLOWED = (2, 3, 5, 7)
"""Codes that a damaged folder may have: of the file, the model, its limits and the memory."""
ON_TOKEN = ctypes.CFUNCTYPE(INT, POINTER, SIZE, ctypes.c_int32, DOUBLE, ctypes.c_char_p)


def build(name, *options):
    """Build the library into ``build/NAME``, where cmake finds it again the next time."""
    missing = [program for program in ("cmake", "make", "c++") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} here")
    folder = ROOT / "build" / name
    whole = ["-DUWAGA_EXTENSION=OFF", "-DUWAGA_LIBRARY=ON", f"-DCMAKE_INSTALL_PREFIX={folder / 'installed'}"]
    run("cmake", "-S", ROOT, "-B", folder, "-G", "Unix Makefiles", *whole, *options)
    # Under a sanitizer gcc ignores hints of loops, and says so.
    flags = [] if any("SANITIZE" in option for option in options) else ["-DCMAKE_CXX_FLAGS=-Werror"]
    run("cmake", folder, *flags)
    run("make", "-C", folder, "-j2", "install")
    return folder


def compiled(compiler, built, program, out, *flags):
    """Compile a program over the static library."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} here")
    include = f"-I{ROOT / 'native' / 'c'}"
    objects = out.with_suffix(".o")
    run(compiler, *flags, "-Wall", "-Wextra", "-pedantic", "-Werror", include, "-c", program, "-o", objects)
    link = [flag for flag in flags if flag.startswith("-fsanitize")]
    run("c++", *link, objects, built / "libuwaga.a", "-lpthread", "-o", out)
    return out


def compiled_check(built, out, *flags):
    """Compile the checks of the library in C over a build of it."""
    check = ROOT / "native" / "tests" / "c_library_test.c"
    return compiled("gcc", built, check, out, "-std=c99", "-D_POSIX_C_SOURCE=200809L", *flags)


def sanitised_check(out, sanitizer):
    """Build the library with a sanitizer, and compile its checks in C."""
    built = build(
        f"c-library-{sanitizer.split(',')[0]}",
        f"-DUWAGA_SANITIZE={sanitizer}",
        "-DCMAKE_BUILD_TYPE=Debug",
        "-DUWAGA_PORTABLE=ON",  # the kernels of each processor have sanitised tests of their own
    )
    return compiled_check(built, out, f"-fsanitize={sanitizer}")


def check_damaged(program, folders):
    """Every folder is translated with, or refused in words."""
    command = [program, "open", *folders]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=10 * len(command)
    )
    assert done.returncode == 0, done.stderr[:4000]
    answers = done.stdout.splitlines()
    assert len(answers) == len(folders)
    for answer in answers:
        code, _, message = answer.partition(" ")
        assert int(code) in (0, *ALLOWED), answer
        assert (code == "0") == (message == ""), answer


def run(*command, **options):
    """Run a command that succeeds; return its output."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


class CError(Exception):
    """A code of the library and its message."""


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
        return self._opened(self.c.uwaga_open_folder, os.fsencode(folder), options=options)

    def open_files(self, files, **options):
        names = (ctypes.c_char_p * len(files))(*[name.encode() for name in files])
        contents = (ctypes.c_char_p * len(files))(*files.values())
        sizes = (SIZE * len(files))(*map(len, files.values()))
        return self._opened(
            self.c.uwaga_open_files, names, contents, sizes, SIZE(len(files)), options=options
        )

    def _opened(self, function, *given, options):
        model, error = POINTER(), _Error()
        code = function(*given, json.dumps(options).encode(), ctypes.byref(model), ctypes.byref(error))
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
        """One list of translations, as dictionaries, for each text of ``str`` or ``bytes``."""
        raw = [text if isinstance(text, bytes) else text.encode() for text in texts]
        result, error = POINTER(), _Error()
        code = self.c.uwaga_translate(
            self.model,
            (ctypes.c_char_p * len(raw))(*raw),
            (SIZE * len(raw))(*map(len, raw)),
            SIZE(len(raw)),
            json.dumps(options).encode(),
            call,
            ctypes.byref(result),
            ctypes.byref(error),
        )
        assert code == error.code
        if code:
            assert not result
            raise CError(code, error.message.decode())
        made = [self._translations(result, SIZE(text)) for text in range(len(raw))]
        self.c.uwaga_result_free(result)
        return made

    def _translations(self, result, text):
        count = self.c.uwaga_result_count(result, text)
        return [self._translation(result, text, SIZE(rank)) for rank in range(count)]

    def _translation(self, *at):
        numbers, tokens = ctypes.POINTER(DOUBLE)(), ctypes.POINTER(ctypes.c_int32)()
        made = {
            "text": self.c.uwaga_result_text(*at, None).decode(),
            "score": self.c.uwaga_result_score(*at),
            "truncated": bool(self.c.uwaga_result_truncated(*at)),
        }
        count = self.c.uwaga_result_log_probs(*at, ctypes.byref(numbers))
        made["log_probs"] = numbers[:count]
        for side, name in enumerate(("source", "target")):
            count = self.c.uwaga_result_tokens(*at, side, ctypes.byref(tokens))
            made[name] = tokens[:count]
            pieces = [self.c.uwaga_model_piece(self.model, side, token) for token in made[name]]
            made[f"{name}_pieces"] = [piece.decode() for piece in pieces]
        names = iter(lambda: self.c.uwaga_result_array_name(*at, SIZE(len(made["arrays"]))), None)
        made["arrays"] = {}
        for name in names:
            made["arrays"][name.decode()] = self._array(*at, name)
        return made

    def _array(self, *at):
        shape, axes = (SIZE * 4)(), SIZE()
        found = self.c.uwaga_result_array(*at, shape, ctypes.byref(axes))
        sizes = tuple(shape)[: axes.value]
        return np.ctypeslib.as_array(found, sizes).copy() if 0 not in sizes else np.zeros(sizes, np.float32)


def check_answers(opened, translator, texts, options):
    """A model of the library gives what the translator's model gives, to the bit."""
    decoder, model = translator.decoder, translator.model
    chosen = replace(translator.decoding, **options)
    sources = [model.source.add_special_tokens(model.source.encode(text)) for text in texts]
    wanted = with_attentions(decoder, sources, search(decoder, sources, chosen))
    wanted = with_alignments(decoder, model.alignment_head, sources, wanted)
    found = opened.translate(texts, alignment=True, attention=True, **options)
    for source, theirs, ours in zip(sources, wanted, found, strict=True):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert one["source"] == source
            assert one["target"] == list(other.tokens)
            assert one["target_pieces"] == model.target.pieces(other.tokens)
            assert one["text"] == model.target.decode(other.tokens).partition("\0")[0]  # ends a C string
            assert (one["score"], one["truncated"]) == (other.score, other.truncated)
            assert one["log_probs"] == list(other.token_scores)
            kinds = {kind: getattr(other.attentions, kind) for kind in ("encoder", "decoder", "cross")}
            maps = {f"attention.{kind}": table for kind, table in kinds.items() if table is not None}
            same_arrays(one["arrays"], {"alignment": other.alignment, **maps})
    opened.close()


def same_arrays(found, wanted):
    """The same names, in any order, with the same numbers."""
    assert set(found) == set(wanted)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def random_edits(settings, seed):
    """Changes of a Transformer for any sentence, as the options of the library and as interventions."""
    drawn = random.Random(seed)
    options, interventions = [], []
    for _ in range(drawn.randint(1, 4)):
        kind = drawn.choice(("encoder", "cross") if settings.self_attention == "ssru" else KINDS)
        layers = settings.encoder_layers if kind == "encoder" else settings.decoder_layers
        heads = settings.heads if kind == "encoder" else settings.decoder_heads or settings.heads
        one = {"layer": drawn.choice([None, drawn.randint(1, layers)])}
        one["weights"] = drawn.choice([None, *REPLACEMENTS])
        one["head"] = drawn.choice([None] * (one["weights"] != "alone") + [drawn.randint(1, heads)])
        one["scale"] = drawn.choice([None, drawn.uniform(0, 2)])
        options.append({"kind": kind} | {key: value for key, value in one.items() if value is not None})
        interventions.append(Heads(kind, **one))
    if settings.positions != "relative":
        side, places = drawn.choice(("source", "target")), drawn.sample(range(8), 6)
        options.append({"side": side, "places": places})
        interventions.append(Positions(side, tuple(places)))
    return options, interventions


def check_inside(opened, translator, text, target, seed):
    """Edits, insight and given targets of a Transformer: what Python's translator gives, to the bit."""
    edits, interventions = random_edits(translator.decoder.settings, seed)
    end = translator.decoder.symbols.end
    (source,), (ids,) = translator.pair_ids([(text, target)])
    for options, changed in (({}, translator), ({"edits": edits}, intervene(translator, *interventions))):
        decoder, start = changed.decoder, changed.decoding.start
        ((found,),) = search(decoder, [source], replace(changed.decoding, beam=1, nbest=1))
        own = (*found.tokens, *[end] * (not found.truncated))
        for scored, given in ((own, {"beam": 1}), (ids, {"targets": [target]})):
            ((one,),) = opened.translate([text], attention=True, insight=[], **options, **given)
            assert [*one["target"], *[end] * (not one["truncated"])] == list(scored)
            [scores] = step_scorer(decoder)([source], [scored], start)
            if "targets" in given:
                assert one["log_probs"] == scores
            fed = [decoder.symbols.start if start is None else start, *scored[:-1]]
            [maps] = decoder.attentions([source], [fed])
            kinds = {f"attention.{kind}": getattr(maps, kind) for kind in KINDS}
            maps = {name: each for name, each in kinds.items() if each is not None}
            same_arrays(one["arrays"], decoder.insight(source, fed) | maps)
    opened.close()
