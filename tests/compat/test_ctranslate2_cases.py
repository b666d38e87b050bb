"""The cases of CTranslate2's ``test_translator.py`` with a model of uwaga: each passes in both libraries.

Their names are those of CTranslate2's tests; docs/guides/ctranslate2.md lists them and is checked here.
"""

import collections
import inspect
import io
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import gpt2_folders
import numpy as np
import pretrained_tokenisers
import pytest

import uwaga_compat.ctranslate2 as uwaga_ctranslate2
from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.conversion.export import export
from uwaga.errors import UwagaError

pytest.importorskip("transformers")
peer_ctranslate2 = pytest.importorskip("ctranslate2")
LIBRARIES = {"ctranslate2": peer_ctranslate2, "uwaga": uwaga_ctranslate2}
PAGE = Path(__file__).parents[2] / "docs" / "guides" / "ctranslate2.md"
CAR = ["▁I", "▁want", "▁to", "▁buy", "▁a", "▁car", ".", "</s>"]
AUTO = ["▁Ich", "▁möchte", "▁ein", "▁Auto", "▁kaufen", "."]
HELLO, HALLO = ["▁Hello", ".", "</s>"], ["▁Hallo", "."]
STATION = ["▁Where", "▁is", "▁the", "▁station", "?", "</s>"]
SOURCES, TARGETS = [CAR, HELLO], [AUTO, HALLO]
TOLERANCE = 1e-4
"""Relative tolerance for scores computed in float32."""
NEVER_GENERATED = [["<pad>"]]
"""The start token, which CTranslate2 may generate and uwaga does not; it is suppressed in both."""


def convert(folder, out, quantisation=None):
    from ctranslate2.converters import TransformersConverter

    TransformersConverter(str(folder)).convert(str(out), quantization=quantisation)
    return str(out)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Convert the bundled model with uwaga's exporter and CTranslate2's converter."""
    root = tmp_path_factory.mktemp("ctranslate2")
    export(BUNDLED, root / "pegasus", "pegasus")
    return convert(root / "pegasus", root / "model")


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    """Return the folder of a random GPT-2 in CTranslate2's format."""
    root = tmp_path_factory.mktemp("gpt2")
    pieces = pretrained_tokenisers.older_format("gpt2")
    end = pieces.peer.eos_token_id
    sizes = {"vocab_size": pieces.ids.vocabulary, "bos_token_id": end, "eos_token_id": end}
    gpt2_folders.make(root / "gpt2", **sizes)
    pieces.peer.save_pretrained(root / "gpt2")
    return convert(root / "gpt2", root / "model")


def translator(library, folder, **options):
    return library.Translator(folder, **{"compute_type": "float32", "intra_threads": 1, **options})


def with_vmap(folder, tmp_path, tokens):
    copy = tmp_path / "listed"
    shutil.copytree(folder, copy)
    (copy / "vmap.txt").write_text(f"\t{' '.join(tokens)}\n", encoding="utf-8")
    return str(copy)


def lines(path, *rows):
    path.write_text("".join(f"{' '.join(row)}\n" for row in rows), encoding="utf-8")
    return str(path)


CASES = {}
"""The cases by name of CTranslate2's test; each takes a library, a model folder and a temporary folder."""


def case(function):
    CASES[f"test_{function.__name__}"] = function
    return function


@case
def invalid_model_path(library, folder, tmp_path):
    with pytest.raises(RuntimeError, match="open file"):
        library.Translator("xxx")


@case
def unicode_path(library, folder, tmp_path):
    path = tmp_path / "测试" / "model"
    shutil.copytree(folder, path)
    assert translator(library, str(path)).translate_batch([HELLO])[0].hypotheses == [HALLO]


@case
def invalid_model_type(library, folder, tmp_path):
    with pytest.raises(RuntimeError, match="cannot be used"):
        library.Generator(folder)


@case
def invalid_device_settings(library, folder, tmp_path):
    for indices in ([], [0, 1]):
        with pytest.raises(ValueError, match="device index"):
            library.Translator(folder, device_index=indices)


@case
def contains_model(library, folder, tmp_path):
    assert library.contains_model(folder)
    assert not library.contains_model(str(tmp_path))
    (tmp_path / "model.bin").touch()
    assert library.contains_model(str(tmp_path))


@case
def get_supported_compute_types(library, folder, tmp_path):
    assert {"float32", "int8", "int8_float32"} <= library.get_supported_compute_types("cpu")


@case
def translator_properties(library, folder, tmp_path):
    model = library.Translator(folder, inter_threads=2)
    assert model.model_is_loaded
    assert (model.device, model.device_index) == ("cpu", [0])
    assert (model.num_translators, model.num_queued_batches) == (2, 0)


@case
def compute_type(library, folder, tmp_path):
    with pytest.raises(ValueError, match="compute type"):
        library.Translator(folder, compute_type="float64")
    with pytest.raises(TypeError, match="incompatible constructor arguments"):
        library.Translator(folder, compute_type=["int8", "int16"])
    for kind in ("int8", {"cuda": "float16", "cpu": "int8"}):
        assert library.Translator(folder, compute_type=kind).compute_type == "int8_float32"


@case
def batch_translation(library, folder, tmp_path):
    for size in (0, 1):
        results = translator(library, folder).translate_batch(
            SOURCES, max_batch_size=size, return_scores=True
        )
        assert [result.hypotheses for result in results] == [[target] for target in TARGETS]
        first, second = results
        assert first.scores[0] < 0
        assert not first.attention
        fields = f"hypotheses={first.hypotheses}, scores={first.scores}, attention=[], logits=[]"
        assert repr(first) == f"TranslationResult({fields})"
        assert len(first) == len(second) == 1
        assert first[0]["tokens"] == AUTO and first[0]["score"] < 0
        assert "attention" not in first[0]


@case
def batch_translation_async(library, folder, tmp_path):
    model = translator(library, folder)
    results = model.translate_batch(SOURCES, asynchronous=True)
    assert model.num_active_batches <= 1
    assert [result.result().hypotheses for result in results] == [[target] for target in TARGETS]
    assert all(result.done() for result in results)


@case
def iterable_translation(library, folder, tmp_path):
    model = translator(library, folder)
    results = model.translate_iterable(iter(SOURCES), return_scores=True)
    assert inspect.isgenerator(results)
    results = list(results)
    assert [result.hypotheses for result in results] == [[target] for target in TARGETS]
    assert all(result.scores for result in results)
    prefixes = [["▁Wir", "▁wollen"], ["▁Wir"]]
    results = list(model.translate_iterable(iter(SOURCES), iter(prefixes)))
    for result, prefix in zip(results, prefixes, strict=True):
        assert result.hypotheses[0][: len(prefix)] == prefix
        assert not result.scores
    with pytest.raises(ValueError, match="length"):
        next(model.translate_iterable(iter(SOURCES), iter(prefixes[:1])))
    with pytest.raises(StopIteration):
        next(model.translate_iterable(iter([])))


@case
def token_streaming(library, folder, tmp_path):
    model = translator(library, folder)
    expected = model.translate_batch([CAR], return_scores=True)[0]
    for scored in (True, False):
        results = model.generate_tokens(CAR, return_log_prob=scored)
        assert inspect.isgenerator(results)
        results = list(results)
        assert all(isinstance(step, library.GenerationStepResult) for step in results)
        assert [step.token for step in results] == [*expected.hypotheses[0], "</s>"]
        assert [step.is_last for step in results] == [False] * (len(results) - 1) + [True]
        if scored:
            mean = sum(step.log_prob for step in results) / len(results)
            assert mean == pytest.approx(expected.scores[0], abs=1e-5)
        else:
            assert {step.log_prob for step in results} == {None}


@case
def token_streaming_exception(library, folder, tmp_path):
    model = translator(library, folder)
    results = model.generate_tokens(CAR, min_decoding_length=2, max_decoding_length=1)
    with pytest.raises(ValueError, match="decoding length"):
        list(results)


@case
def callback_hypothesis_id(library, folder, tmp_path):
    tokens = collections.defaultdict(list)

    def callback(step):
        assert step.batch_id == 0
        tokens[step.hypothesis_id].append(step.token)

    sampled = {"beam_size": 1, "sampling_topk": 20, "num_hypotheses": 3}
    translator(library, folder).translate_batch([HELLO], callback=callback, **sampled)
    assert len(tokens) == 3


@case
def callback_batch_id(library, folder, tmp_path):
    sources = [["▁car"] * length for length in (1, 2, 3)]
    prefixes = [["▁ein"], ["▁Auto"], ["."]]
    batch_ids = []

    def callback(step):
        batch_ids.append(step.batch_id)
        assert step.token == prefixes[step.batch_id][0]
        return True

    greedy = {"max_batch_size": 2, "beam_size": 1, "callback": callback}
    translator(library, folder).translate_batch(sources, prefixes, **greedy)
    assert sorted(batch_ids) == [0, 1, 2]


@case
def file_translation(library, folder, tmp_path):
    source, out = lines(tmp_path / "in.txt", *SOURCES), tmp_path / "out.txt"
    stats = translator(library, folder).translate_file(source, str(out))
    assert out.read_text(encoding="utf-8").splitlines() == [" ".join(target) for target in TARGETS]
    assert (stats.num_tokens, stats.num_examples) == (len(AUTO) + len(HALLO), 2)
    assert isinstance(stats.total_time_in_ms, float)
    fields = f"num_tokens=8, num_examples=2, total_time_in_ms={stats.total_time_in_ms}"
    assert repr(stats) == f"ExecutionStats({fields})"


def words(line):
    return [f"▁{word}" for word in line.removesuffix(".").split()] + [".", "</s>"]


def text(tokens):
    return "".join(tokens).replace("▁", " ").strip()


@case
def raw_file_translation(library, folder, tmp_path):
    source, out = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("I want to buy a car.\nHello.\n", encoding="utf-8")
    model = translator(library, folder)
    for function in ({"source_tokenize_fn": words}, {"target_detokenize_fn": text}):
        with pytest.raises(ValueError, match="source_tokenize_fn and target_detokenize_fn"):
            model.translate_file(str(source), str(out), **function)
    model.translate_file(str(source), str(out), source_tokenize_fn=words, target_detokenize_fn=text)
    assert out.read_text(encoding="utf-8").splitlines() == [text(target) for target in TARGETS]


@case
def file_translation_with_prefix(library, folder, tmp_path):
    model, out = translator(library, folder), tmp_path / "out.txt"
    source, target = lines(tmp_path / "in.txt", *SOURCES), lines(tmp_path / "target.txt", ["▁Wir"])
    with pytest.raises(RuntimeError, match="has less examples"):
        model.translate_file(source, str(out), target_path=target)
    lines(tmp_path / "target.txt", ["▁Wir"], [])
    model.translate_file(source, str(out), target_path=target)
    first, second = out.read_text(encoding="utf-8").splitlines()
    assert first.startswith("▁Wir ")
    assert second == " ".join(HALLO)


@case
def raw_file_translation_with_prefix(library, folder, tmp_path):
    model, source, out = translator(library, folder), tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("I want to buy a car.\nHello.\n", encoding="utf-8")
    target = lines(tmp_path / "target.txt", ["riW"], [])
    functions = {"source_tokenize_fn": words, "target_detokenize_fn": text}
    with pytest.raises(ValueError, match="target_tokenize_fn"):
        model.translate_file(str(source), str(out), target_path=target, **functions)
    functions["target_tokenize_fn"] = lambda line: [f"▁{line[::-1]}"] if line else []
    model.translate_file(str(source), str(out), target_path=target, **functions)
    first, second = out.read_text(encoding="utf-8").splitlines()
    assert first.startswith("Wir ")
    assert second == "Hallo."


@case
def empty_translation(library, folder, tmp_path):
    assert translator(library, folder).translate_batch([]) == []


CONTRADICTORY_LENGTHS = {"min_decoding_length": 10, "max_decoding_length": 5}


@case
def invalid_translation_options(library, folder, tmp_path):
    with pytest.raises(ValueError, match="is greater than"):
        translator(library, folder).translate_batch([CAR], **CONTRADICTORY_LENGTHS)


@case
def invalid_translation_options_async(library, folder, tmp_path):
    [result] = translator(library, folder).translate_batch([CAR], **CONTRADICTORY_LENGTHS, asynchronous=True)
    for _ in range(2):
        with pytest.raises(ValueError, match="is greater than"):
            result.result()
        assert result.done()


@case
def hard_target_prefix(library, folder, tmp_path):
    first, second = translator(library, folder).translate_batch(SOURCES, target_prefix=[["▁Wir"], None])
    assert first.hypotheses[0][0] == "▁Wir"
    assert second.hypotheses == [HALLO]


@case
def hard_target_prefix_with_vmap(library, folder, tmp_path):
    model = translator(library, with_vmap(folder, tmp_path, AUTO[2:]))
    for beam in (1, 2):
        prefix = {"target_prefix": [AUTO[:2]], "beam_size": beam, "use_vmap": True}
        assert model.translate_batch([CAR], **prefix)[0].hypotheses == [AUTO]


@case
def no_repeat_ngram_size_with_vmap(library, folder, tmp_path):
    model = translator(library, with_vmap(folder, tmp_path, AUTO))
    for beam in (1, 2):
        options = {"no_repeat_ngram_size": 3, "beam_size": beam, "use_vmap": True}
        [tokens] = model.translate_batch([["▁car"] * 50], **options)[0].hypotheses
        ngrams = [tuple(tokens[start : start + 3]) for start in range(len(tokens) - 2)]
        assert len(ngrams) == len(set(ngrams))
        assert set(tokens) <= {*AUTO, "<unk>", "<pad>"}


@case
def num_hypotheses(library, folder, tmp_path):
    results = translator(library, folder).translate_batch([CAR], beam_size=4, num_hypotheses=2)
    assert len(results[0].hypotheses) == 2


@case
def max_decoding_length(library, folder, tmp_path):
    results = translator(library, folder).translate_batch([CAR], max_decoding_length=2)
    assert results[0].hypotheses == [AUTO[:2]]


@case
def min_decoding_length(library, folder, tmp_path):
    results = translator(library, folder).translate_batch([CAR], min_decoding_length=len(AUTO) + 1)
    assert len(results[0].hypotheses[0]) > len(AUTO)


@case
def min_decoding_length_with_vmap(library, folder, tmp_path):
    model = translator(library, with_vmap(folder, tmp_path, AUTO))
    for beam in (1, 2):
        options = {"min_decoding_length": 1, "beam_size": beam, "use_vmap": True}
        assert model.translate_batch([CAR], **options)[0].hypotheses == [AUTO]


@case
def return_attention(library, folder, tmp_path):
    [weights] = translator(library, folder).translate_batch([CAR], return_attention=True)[0].attention
    assert len(weights) == len(AUTO)
    for row in weights:
        assert len(row) == len(CAR)
        assert all(isinstance(value, float) for value in row)
        assert sum(row) == pytest.approx(1.0, abs=1e-4)


@case
def ignore_scores(library, folder, tmp_path):
    results = translator(library, folder).translate_batch([CAR], beam_size=1, return_scores=False)
    assert not results[0].scores


@case
def return_alternatives(library, folder, tmp_path):
    prefix = {"target_prefix": [AUTO[:2]], "num_hypotheses": 10, "return_alternatives": True}
    [result] = translator(library, folder).translate_batch([CAR], **prefix)
    assert len(result.hypotheses) == 10
    assert result.hypotheses[0] == AUTO
    assert len({tuple(tokens[:3]) for tokens in result.hypotheses}) == 10


@case
def return_alternatives_with_vmap(library, folder, tmp_path):
    model = translator(library, with_vmap(folder, tmp_path, [*AUTO[2:], "▁einen"]))
    options = {"num_hypotheses": 2, "return_alternatives": True, "use_vmap": True}
    [result] = model.translate_batch([CAR], target_prefix=[AUTO[:2]], **options)
    assert len(result.hypotheses) == 2
    assert result.hypotheses[0] == AUTO


@case
def random_sampling(library, folder, tmp_path):
    library.set_random_seed(46)
    options = {"beam_size": 1, "sampling_topk": 0, "num_hypotheses": 5, "return_scores": True}
    [result] = translator(library, folder).translate_batch([CAR], **options)
    assert len(result.hypotheses) == len(result.scores) == 5
    assert result.scores == sorted(result.scores, reverse=True)


@case
def score_api(library, folder, tmp_path):
    model = translator(library, folder)
    scores = model.score_batch(SOURCES, TARGETS)
    assert [score.tokens for score in scores] == [[*target, "</s>"] for target in TARGETS]
    assert [len(score.log_probs) for score in scores] == [7, 3]
    asynchronous = [score.result() for score in model.score_batch(SOURCES, TARGETS, asynchronous=True)]
    iterated = list(model.score_iterable(iter(SOURCES), iter(TARGETS)))
    for other_scores in (asynchronous, iterated):
        for score, other in zip(scores, other_scores, strict=True):
            np.testing.assert_allclose(other.log_probs, score.log_probs, rtol=1e-4)
    out = tmp_path / "out.txt"
    files = lines(tmp_path / "source.txt", *SOURCES), lines(tmp_path / "target.txt", *TARGETS), str(out)
    stats = model.score_file(*files, with_tokens_score=True)
    assert (stats.num_examples, stats.num_tokens) == (2, 10)
    for line, score in zip(out.read_text(encoding="utf-8").splitlines(), scores, strict=True):
        mean, tokens, values = line.split("|||")
        assert tokens.split() == score.tokens
        assert float(mean) == pytest.approx(np.mean(score.log_probs), rel=1e-3)
        assert list(map(float, values.split())) == pytest.approx(score.log_probs, rel=1e-3)
    assert model.score_batch([], []) == []
    with pytest.raises(ValueError, match="length"):
        next(model.score_iterable(iter([["▁a"]]), iter([])))
    with pytest.raises(StopIteration):
        next(model.score_iterable(iter([]), iter([])))
    for target in ([], AUTO):
        [empty] = model.score_batch([[]], [target])
        assert empty.tokens == [*target, "</s>"]
        assert empty.log_probs == [0] * (len(target) + 1)


@case
def model_unload(library, folder, tmp_path):
    for to_cpu in (False, True):
        model = translator(library, folder)
        model.unload_model(to_cpu=to_cpu)
        assert model.model_is_loaded == to_cpu
        if not to_cpu:
            with pytest.raises(RuntimeError, match="unloaded"):
                model.translate_batch([HELLO])
        model.load_model()
        assert model.model_is_loaded
        assert model.translate_batch([HELLO])[0].hypotheses == [HALLO]


@case
def model_unload_while_async_translation(library, folder, tmp_path):
    model = translator(library, folder)
    results = model.translate_batch([CAR] * 200, asynchronous=True)
    model.unload_model()
    assert model.model_is_loaded
    assert results[0].result().hypotheses == [AUTO]


@case
def load_model_from_memory(library, folder, tmp_path):
    for opened in (True, False):
        files = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
        files = {name: io.BytesIO(content) if opened else content for name, content in files.items()}
        model = translator(library, "aren", files=files)
        if opened:
            for handle in files.values():
                handle.close()
        assert model.translate_batch([HELLO])[0].hypotheses == [HALLO]
        model.unload_model()
        model.load_model()
        assert model.translate_batch([HELLO])[0].hypotheses == [HALLO]


@case
def model_load_does_not_leak_threads(library, folder, tmp_path):
    def load():
        library.Translator(folder, compute_type="int8", intra_threads=4)

    def load_on_thread():
        thread = threading.Thread(target=load)
        thread.start()
        thread.join()

    load_on_thread()
    thread_count = len(list(Path("/proc/self/task").iterdir()))
    for _ in range(5):
        load_on_thread()
    assert len(list(Path("/proc/self/task").iterdir())) - thread_count <= 4


@case
def strongly_biased_target_prefix(library, folder, tmp_path):
    for beam in (1, 2):
        first, second = translator(library, folder).translate_batch(
            SOURCES, target_prefix=[["▁Wir", "▁wollen"], None], beam_size=beam, prefix_bias_beta=0.9999999
        )
        assert first.hypotheses[0][:2] == ["▁Wir", "▁wollen"]
        assert second.hypotheses[0] == HALLO


@case
def weakly_biased_target_prefix(library, folder, tmp_path):
    model = translator(library, folder)
    for beam in (1, 2):
        free = model.translate_batch(SOURCES, beam_size=beam, return_scores=True)
        biased = model.translate_batch(
            SOURCES, target_prefix=[["▁Wir", "▁wollen"], ["▁Gut"]], beam_size=beam,
            prefix_bias_beta=0.0000001, return_scores=True,
        )  # fmt: skip
        for result, other in zip(biased, free, strict=True):
            assert result.hypotheses == other.hypotheses
            assert result.scores == pytest.approx(other.scores, abs=1e-5)


@case
def repetition_penalty_with_vmap(library, folder, tmp_path):
    model = translator(library, with_vmap(folder, tmp_path, AUTO))
    for beam in (1, 2):
        [result] = model.translate_batch(
            [[*CAR[:-1], *CAR]], repetition_penalty=100, max_decoding_length=5, beam_size=beam, use_vmap=True
        )
        [tokens] = result.hypotheses[:1]
        assert len(tokens) == len(set(tokens))


@case
def suppress_sequences_with_vmap(library, folder, tmp_path):
    model = translator(library, with_vmap(folder, tmp_path, [*AUTO, "▁einen", "▁Wagen"]))
    for beam in (1, 2):
        [result] = model.translate_batch(
            [CAR], suppress_sequences=[["▁möchte"], ["▁ein", "▁Auto"]], beam_size=beam, use_vmap=True
        )
        text = " ".join(result.hypotheses[0])
        assert "▁möchte" not in text and "▁ein ▁Auto" not in text


@case
def logging(library, folder, tmp_path):
    """The library logs to the stderr of its process, so the case runs in a child process."""
    program = (
        f"import logging, sys, {library.__name__} as library\n"
        f"library.Translator({folder!r}); before = library.get_log_level()\n"
        f"library.set_log_level(logging.INFO); library.Translator({folder!r})\n"
        "assert (before, library.get_log_level()) == (logging.WARNING, logging.INFO)\n"
        f"library.set_log_level(logging.WARNING); library.Translator({folder!r})"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert process.stderr and not process.stdout


NOT_APPLICABLE = {"test_shutdown_does_not_deadlock"}


@pytest.mark.parametrize(
    "library", [pytest.param(peer_ctranslate2, marks=pytest.mark.slow), uwaga_ctranslate2], ids=LIBRARIES
)
@pytest.mark.parametrize("name", CASES)
def test_compatibility_case_passes_in_both_libraries(name, library, folder, tmp_path):
    if name == "test_model_load_does_not_leak_threads" and not Path("/proc/self/task").exists():
        pytest.skip("threads are counted in /proc")
    CASES[name](library, folder, tmp_path)


def test_documentation_lists_all_compatibility_cases():
    rows = re.findall(r"^\| `(test_\w+)` \| (\w[\w ]*?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    outcomes = collections.defaultdict(set)
    for name, outcome in rows:
        outcomes[outcome].add(name)
    assert outcomes == {"passed": set(CASES), "not applicable": NOT_APPLICABLE}
    assert len(rows) == 45


TRANSLATION_CALLS = [
    {},
    {"beam_size": 1},
    {"beam_size": 4, "num_hypotheses": 3},
    {"beam_size": 5, "length_penalty": 0},
    {"beam_size": 3, "length_penalty": 0.6, "num_hypotheses": 2},
    {"beam_size": 2, "length_penalty": -1.5},
    {"target_prefix": [["▁Ein"], ["▁Gut"], None]},
    {"target_prefix": [["▁Ich", "▁will"], None, ["▁Wo"]], "beam_size": 4, "num_hypotheses": 4},
    {"target_prefix": [AUTO, AUTO, []], "max_decoding_length": 4},
    {"target_prefix": [["▁no-such-token"], None, None], "beam_size": 1},
    {"return_attention": True, "max_input_length": 4},
    {"return_attention": True, "num_hypotheses": 2, "return_end_token": True},
    {"return_attention": True, "beam_size": 1, "max_decoding_length": 3, "return_end_token": True},
    {"min_decoding_length": 9},
    {"max_decoding_length": 1},
    {"no_repeat_ngram_size": 1, "beam_size": 3},
    {"disable_unk": True, "suppress_sequences": [["▁Ich"], ["▁Hallo"]]},
    {"end_token": "</s>", "max_batch_size": 2},
    {"max_batch_size": 10, "batch_type": "tokens"},
    {"replace_unknowns": True, "suppress_sequences": [["."], ["▁Auto"]], "beam_size": 1},
    {"return_alternatives": True, "num_hypotheses": 4},
    {"return_alternatives": True, "num_hypotheses": 5, "beam_size": 1, "target_prefix": [["▁Ich"]] * 3},
    {"return_alternatives": True, "num_hypotheses": 6, "min_alternative_expansion_prob": 0.02},
    {"return_alternatives": True, "num_hypotheses": 2, "max_decoding_length": 2},
    {"sampling_topk": 0, "sampling_temperature": 0, "beam_size": 1},
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 2.5, "beam_size": 4, "num_hypotheses": 3, "target_prefix": [["▁Ich"]] * 3},
    {"repetition_penalty": 0.8, "beam_size": 1, "max_decoding_length": 12},
    {"suppress_sequences": [["▁ein", "▁Auto"], ["▁Hallo"], ["▁Wo", "▁ist", "▁der"]], "beam_size": 3},
    {"prefix_bias_beta": 0.4, "target_prefix": [["▁Wir", "▁wollen"], None, ["▁Wo"]], "beam_size": 3},
    {"prefix_bias_beta": 0.9, "target_prefix": [["▁Ich", "▁will"], ["▁Gut"], None], "beam_size": 1},
    # A bias also favours tokens that are otherwise suppressed, repeated or too early.
    {
        "prefix_bias_beta": 0.5, "target_prefix": [["▁Ich", "▁Ich"], ["▁Guten"], ["</s>"]],
        "no_repeat_ngram_size": 1, "suppress_sequences": [["▁Guten"], ["."]], "beam_size": 1,
    },
    {"suppress_sequences": [["</s>"]], "max_decoding_length": 9, "beam_size": 3, "num_hypotheses": 2},
]  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.numerical
@pytest.mark.parametrize("options", TRANSLATION_CALLS, ids=str)
def test_translations_match_ctranslate2(options, folder, translators):
    uwaga_model, peer_model = translators
    batches = [[CAR, HELLO, STATION], [HELLO, [], ["▁qwxyz", "</s>"]]]
    if "return_attention" in options:  # in a batch, CTranslate2 may return that of another text
        batches = [[text] for batch in batches for text in batch]
    for sources in batches:
        prefixes = options.get("target_prefix")
        call = options | ({"target_prefix": prefixes[: len(sources)]} if prefixes else {})
        call["suppress_sequences"] = options.get("suppress_sequences", []) + NEVER_GENERATED
        results, expected = (
            model.translate_batch(sources, return_scores=True, **call) for model in (uwaga_model, peer_model)
        )
        for result, other in zip(results, expected, strict=True):
            assert result.hypotheses == other.hypotheses
            assert result.scores == pytest.approx(other.scores, rel=TOLERANCE, abs=TOLERANCE)
            assert len(result.attention) == len(other.attention)
            for weights, other_weights in zip(result.attention, other.attention, strict=True):
                np.testing.assert_allclose(weights, other_weights, atol=1e-4)


@pytest.fixture(scope="module")
def translators(folder):
    return translator(uwaga_ctranslate2, folder), translator(peer_ctranslate2, folder)


@pytest.mark.numerical
@pytest.mark.parametrize("options", [{}, {"offset": 2}, {"max_input_length": 3}, {"max_input_length": 0}])
def test_scores_match_ctranslate2(options, translators):
    sources, targets = [*SOURCES, STATION, []], [*TARGETS, ["▁no-such-token"], ["▁Ein"]]
    scores, expected = (model.score_batch(sources, targets, **options) for model in translators)
    for score, other in zip(scores, expected, strict=True):
        assert score.tokens == other.tokens
        assert score.log_probs == pytest.approx(other.log_probs, rel=TOLERANCE, abs=TOLERANCE)


@pytest.mark.numerical
@pytest.mark.parametrize(
    "options",
    [
        {"sampling_topk": 8},
        {"sampling_topk": 20, "sampling_topp": 0.8},
        {"sampling_topk": 20, "target_prefix": [["▁Ich", "▁Ich"]], "repetition_penalty": 1.5},
    ],
    ids=str,
)
def test_samples_with_a_seed_match_ctranslate2(options, folder):
    """CTranslate2's threads use the seed at their start, so it is set before the translator is loaded."""
    drawn = []
    for library in (uwaga_ctranslate2, peer_ctranslate2):
        library.set_random_seed(46)
        model = translator(library, folder)
        [result] = model.translate_batch(
            [CAR], beam_size=1, num_hypotheses=6, sampling_temperature=1.3, max_decoding_length=8, **options
        )
        drawn.append(sorted(result.hypotheses))
    assert drawn[0] == drawn[1]


@pytest.mark.numerical
def test_generated_tokens_match_ctranslate2(translators):
    for prefix in (None, ["▁Wir", "▁wollen"]):
        steps = []
        for model in translators:
            options = {"max_decoding_length": 6, "suppress_sequences": NEVER_GENERATED}
            reported = model.generate_tokens(CAR, prefix, return_log_prob=True, **options)
            steps.append(list(reported))
        for step, other in zip(*steps, strict=True):
            assert step.log_prob == pytest.approx(other.log_prob, rel=TOLERANCE, abs=TOLERANCE)
            for name in ("step", "batch_id", "token_id", "hypothesis_id", "token", "logits", "is_last"):
                assert getattr(step, name) == getattr(other, name)
        assert repr(steps[0][0]).partition("log_prob")[0] == repr(steps[1][0]).partition("log_prob")[0]


@pytest.mark.numerical
def test_callback_stops_generation_as_in_ctranslate2(translators):
    stopped = {"beam_size": 1, "return_scores": True, "suppress_sequences": NEVER_GENERATED}
    stopped["callback"] = lambda step: step.step == 1
    results, expected = (model.translate_batch([*SOURCES, STATION], **stopped) for model in translators)
    for result, other in zip(results, expected, strict=True):
        assert result.hypotheses == other.hypotheses
        assert result.scores == pytest.approx(other.scores, rel=TOLERANCE, abs=TOLERANCE)


@pytest.mark.parametrize("quantisation", ["int8", "float16"])
def test_default_compute_type_matches_ctranslate2(folder, tmp_path, quantisation):
    model_folder = convert(Path(folder).parent / "pegasus", tmp_path / "model", quantisation)
    uwaga_model, peer_model = (
        library.Translator(model_folder) for library in (uwaga_ctranslate2, peer_ctranslate2)
    )
    assert uwaga_model.compute_type == peer_model.compute_type
    assert (
        uwaga_model.translate_batch([HELLO])[0].hypotheses
        == peer_model.translate_batch([HELLO])[0].hypotheses
    )


@pytest.mark.numerical
def test_vocabulary_map_restricts_targets_as_in_ctranslate2(folder, tmp_path):
    copy = tmp_path / "listed"
    shutil.copytree(folder, copy)
    common, car = "\t▁Ich ▁möchte .\n", "▁car\t▁ein ▁Auto\n▁buy\t▁kaufen\n"
    prefixed = {"target_prefix": [["▁wir", "▁haben"]]}  # CTranslate2 mistakes others for other tokens
    calls = ([HELLO], {}), ([CAR], {}), ([CAR], prefixed), ([CAR], prefixed | {"prefix_bias_beta": 0.3})
    for rules, message in ((common + car, None), (common + "▁a ▁car\t▁Auto\n", "line 2: .* n-grams")):
        (copy / "vmap.txt").write_text(rules, encoding="utf-8")
        uwaga_model, peer_model = (
            translator(library, str(copy)) for library in (uwaga_ctranslate2, peer_ctranslate2)
        )
        for source, call in calls:
            options = {"use_vmap": True, "beam_size": 3, "max_decoding_length": 12, "return_scores": True}
            if message:
                with pytest.raises(UwagaError, match=message):
                    uwaga_model.translate_batch(source, **options)
                continue
            options |= {"suppress_sequences": NEVER_GENERATED, **call}
            [result], [expected] = (
                model.translate_batch(source, **options) for model in (uwaga_model, peer_model)
            )
            assert result.hypotheses == expected.hypotheses
            assert result.scores == pytest.approx(expected.scores, rel=TOLERANCE, abs=TOLERANCE)


GENERATION_CALLS = [
    {"max_length": 6}, {"max_length": 7, "beam_size": 3, "num_hypotheses": 2}, {"max_length": 2},
    {"max_length": 6, "static_prompt": ["%", ")"]}, {"max_length": 9, "no_repeat_ngram_size": 2},
    {"max_length": 9, "min_length": 9, "beam_size": 4, "length_penalty": 0.5},
    {"max_length": 9, "return_alternatives": True, "num_hypotheses": 3},
    {"max_length": 7, "return_end_token": True, "suppress_sequences": [["j"]]},
]  # fmt: skip


@pytest.mark.numerical
@pytest.mark.parametrize("options", GENERATION_CALLS, ids=str)
@pytest.mark.parametrize("included", [True, False])
def test_continuations_match_ctranslate2(options, included, decoder):
    """One prompt at a time: without the prompt, results of CTranslate2 depend on the batch.

    The lengths of its alternatives then include the prompt, unlike in uwaga.
    """
    models = [
        library.Generator(decoder, compute_type="float32")
        for library in (uwaga_ctranslate2, peer_ctranslate2)
    ]
    for prompt in (["d", "f", "p"], ["%"], ["h", "fee"]):
        call = {"return_scores": True, "include_prompt_in_result": included, **options}
        [result], [expected] = (model.generate_batch([prompt], **call) for model in models)
        if "return_alternatives" in options and not included:
            counted = options["max_length"] - len(prompt)
            assert [text[:counted] for text in result.sequences] == [
                text[:counted] for text in expected.sequences
            ]
            continue
        assert result.sequences == expected.sequences
        assert result.sequences_ids == expected.sequences_ids
        assert result.scores == pytest.approx(expected.scores, abs=1e-4)


@pytest.mark.numerical
def test_generator_scores_and_tokens_match_ctranslate2(decoder):
    uwaga_model, peer_model = (
        library.Generator(decoder, compute_type="float32")
        for library in (uwaga_ctranslate2, peer_ctranslate2)
    )
    texts = [["d", "f", "p", "fee"], ["d"], [], ["no such token", "d"]]
    for options in ({}, {"max_input_length": 2}):
        for score, expected_score in zip(
            uwaga_model.score_batch(texts, **options), peer_model.score_batch(texts, **options), strict=True
        ):
            assert score.tokens == expected_score.tokens
            assert score.log_probs == pytest.approx(expected_score.log_probs, abs=1e-4)
    for prompt in (["d", "f"], [["d", "f"], ["h", "p"]]):
        steps, expected = (
            list(model.generate_tokens(prompt, max_length=4)) for model in (uwaga_model, peer_model)
        )
        assert sorted(map(repr, steps)) == sorted(map(repr, expected))
