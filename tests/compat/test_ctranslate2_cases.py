"""The cases of CTranslate2's own ``test_translator.py``, of a model of ours: each passes in both libraries.

The names are those of its tests; docs/guides/ctranslate2.md lists all of them, and is held to this file.
"""

import collections
import inspect
import io
import re
import shutil
import threading
from pathlib import Path

import gpt2_folders
import numpy as np
import pretrained_tokenisers
import pytest

import uwaga.compat.ctranslate2 as ours
from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.conversion.export import export
from uwaga.errors import UwagaError

pytest.importorskip("transformers")
theirs = pytest.importorskip("ctranslate2")
LIBRARIES = {"ctranslate2": theirs, "uwaga": ours}
PAGE = Path(__file__).parents[2] / "docs" / "guides" / "ctranslate2.md"
CAR = ["▁I", "▁want", "▁to", "▁buy", "▁a", "▁car", ".", "</s>"]
AUTO = ["▁Ich", "▁möchte", "▁ein", "▁Auto", "▁kaufen", "."]
HELLO, HALLO = ["▁Hello", ".", "</s>"], ["▁Hallo", "."]
STATION = ["▁Where", "▁is", "▁the", "▁station", "?", "</s>"]
SOURCES, TARGETS = [CAR, HELLO], [AUTO, HALLO]
CLOSE = 2e-3
"""Of scores: uwaga keeps keys and values in float16 while it searches."""


def converted(place, out, quantisation=None):
    from ctranslate2.converters import TransformersConverter

    TransformersConverter(str(place)).convert(str(out), quantization=quantisation)
    return str(out)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The bundled model, by uwaga's exporter and CTranslate2's converter."""
    place = tmp_path_factory.mktemp("ctranslate2")
    export(BUNDLED, place / "pegasus", "pegasus")
    return converted(place / "pegasus", place / "model")


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    """A random GPT-2 in CTranslate2's format."""
    place = tmp_path_factory.mktemp("gpt2")
    pieces = pretrained_tokenisers.older("gpt2")
    end = pieces.peer.eos_token_id
    sizes = {"vocab_size": pieces.ids.vocabulary, "bos_token_id": end, "eos_token_id": end}
    gpt2_folders.make(place / "gpt2", **sizes)
    pieces.peer.save_pretrained(place / "gpt2")
    return converted(place / "gpt2", place / "model")


def translator(library, folder, **options):
    return library.Translator(folder, **{"compute_type": "float32", "intra_threads": 1, **options})


def with_vmap(folder, tmp_path, tokens):
    place = tmp_path / "listed"
    shutil.copytree(folder, place)
    (place / "vmap.txt").write_text(f"\t{' '.join(tokens)}\n", encoding="utf-8")
    return str(place)


def lines(path, *rows):
    path.write_text("".join(f"{' '.join(row)}\n" for row in rows), encoding="utf-8")
    return str(path)


CASES = {}
"""The cases by the names of CTranslate2's tests; each takes a library, a folder and a place for files."""


def case(function):
    CASES[f"test_{function.__name__}"] = function
    return function


@case
def invalid_model_path(library, folder, tmp_path):
    with pytest.raises(RuntimeError, match="open file"):
        library.Translator("xxx")


@case
def unicode_path(library, folder, tmp_path):
    place = tmp_path / "测试" / "model"
    shutil.copytree(folder, place)
    assert translator(library, str(place)).translate_batch([HELLO])[0].hypotheses == [HALLO]


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
    made = library.Translator(folder, inter_threads=2)
    assert made.model_is_loaded
    assert (made.device, made.device_index) == ("cpu", [0])
    assert (made.num_translators, made.num_queued_batches) == (2, 0)


@case
def compute_type(library, folder, tmp_path):
    with pytest.raises(ValueError, match="compute type"):
        library.Translator(folder, compute_type="float64")
    with pytest.raises(TypeError):
        library.Translator(folder, compute_type=["int8", "int16"])
    for kind in ("int8", {"cuda": "float16", "cpu": "int8"}):
        assert library.Translator(folder, compute_type=kind).compute_type == "int8_float32"


@case
def batch_translation(library, folder, tmp_path):
    for size in (0, 1):
        found = translator(library, folder).translate_batch(SOURCES, max_batch_size=size, return_scores=True)
        assert [one.hypotheses for one in found] == [[target] for target in TARGETS]
        first, second = found
        assert first.scores[0] < 0
        assert not first.attention
        shown = f"hypotheses={first.hypotheses}, scores={first.scores}, attention=[], logits=[]"
        assert repr(first) == f"TranslationResult({shown})"
        assert len(first) == len(second) == 1
        assert first[0]["tokens"] == AUTO and first[0]["score"] < 0
        assert "attention" not in first[0]


@case
def batch_translation_async(library, folder, tmp_path):
    made = translator(library, folder)
    results = made.translate_batch(SOURCES, asynchronous=True)
    assert made.num_active_batches <= 1
    assert [one.result().hypotheses for one in results] == [[target] for target in TARGETS]
    assert all(one.done() for one in results)


@case
def iterable_translation(library, folder, tmp_path):
    made = translator(library, folder)
    results = made.translate_iterable(iter(SOURCES), return_scores=True)
    assert inspect.isgenerator(results)
    results = list(results)
    assert [one.hypotheses for one in results] == [[target] for target in TARGETS]
    assert all(one.scores for one in results)
    prefixes = [["▁Wir", "▁wollen"], ["▁Wir"]]
    results = list(made.translate_iterable(iter(SOURCES), iter(prefixes)))
    for one, prefix in zip(results, prefixes, strict=True):
        assert one.hypotheses[0][: len(prefix)] == prefix
        assert not one.scores
    with pytest.raises(ValueError, match="length"):
        next(made.translate_iterable(iter(SOURCES), iter(prefixes[:1])))
    with pytest.raises(StopIteration):
        next(made.translate_iterable(iter([])))


@case
def token_streaming(library, folder, tmp_path):
    made = translator(library, folder)
    expected = made.translate_batch([CAR], return_scores=True)[0]
    for scored in (True, False):
        results = made.generate_tokens(CAR, return_log_prob=scored)
        assert inspect.isgenerator(results)
        results = list(results)
        assert all(isinstance(one, library.GenerationStepResult) for one in results)
        assert [one.token for one in results] == [*expected.hypotheses[0], "</s>"]
        assert [one.is_last for one in results] == [False] * (len(results) - 1) + [True]
        if scored:
            mean = sum(one.log_prob for one in results) / len(results)
            assert mean == pytest.approx(expected.scores[0], abs=1e-5)
        else:
            assert {one.log_prob for one in results} == {None}


@case
def token_streaming_exception(library, folder, tmp_path):
    made = translator(library, folder)
    results = made.generate_tokens(CAR, min_decoding_length=2, max_decoding_length=1)
    with pytest.raises(ValueError, match="decoding length"):
        list(results)


@case
def callback_hypothesis_id(library, folder, tmp_path):
    tokens = collections.defaultdict(list)

    def callback(one):
        assert one.batch_id == 0
        tokens[one.hypothesis_id].append(one.token)

    sampled = {"beam_size": 1, "sampling_topk": 20, "num_hypotheses": 3}
    translator(library, folder).translate_batch([HELLO], callback=callback, **sampled)
    assert len(tokens) == 3


@case
def callback_batch_id(library, folder, tmp_path):
    sources = [["▁car"] * length for length in (1, 2, 3)]
    prefixes = [["▁ein"], ["▁Auto"], ["."]]
    seen = []

    def callback(one):
        seen.append(one.batch_id)
        assert one.token == prefixes[one.batch_id][0]
        return True

    greedy = {"max_batch_size": 2, "beam_size": 1, "callback": callback}
    translator(library, folder).translate_batch(sources, prefixes, **greedy)
    assert sorted(seen) == [0, 1, 2]


@case
def file_translation(library, folder, tmp_path):
    source, out = lines(tmp_path / "in.txt", *SOURCES), tmp_path / "out.txt"
    stats = translator(library, folder).translate_file(source, str(out))
    assert out.read_text(encoding="utf-8").splitlines() == [" ".join(target) for target in TARGETS]
    assert (stats.num_tokens, stats.num_examples) == (len(AUTO) + len(HALLO), 2)
    assert isinstance(stats.total_time_in_ms, float)
    counted = f"num_tokens=8, num_examples=2, total_time_in_ms={stats.total_time_in_ms}"
    assert repr(stats) == f"ExecutionStats({counted})"


def words(line):
    return [f"▁{word}" for word in line.removesuffix(".").split()] + [".", "</s>"]


def text(tokens):
    return "".join(tokens).replace("▁", " ").strip()


@case
def raw_file_translation(library, folder, tmp_path):
    source, out = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("I want to buy a car.\nHello.\n", encoding="utf-8")
    made = translator(library, folder)
    for function in ({"source_tokenize_fn": words}, {"target_detokenize_fn": text}):
        with pytest.raises(ValueError, match="source_tokenize_fn and target_detokenize_fn"):
            made.translate_file(str(source), str(out), **function)
    made.translate_file(str(source), str(out), source_tokenize_fn=words, target_detokenize_fn=text)
    assert out.read_text(encoding="utf-8").splitlines() == [text(target) for target in TARGETS]


@case
def file_translation_with_prefix(library, folder, tmp_path):
    made, out = translator(library, folder), tmp_path / "out.txt"
    source, target = lines(tmp_path / "in.txt", *SOURCES), lines(tmp_path / "target.txt", ["▁Wir"])
    with pytest.raises(RuntimeError, match="has less examples"):
        made.translate_file(source, str(out), target_path=target)
    lines(tmp_path / "target.txt", ["▁Wir"], [])
    made.translate_file(source, str(out), target_path=target)
    first, second = out.read_text(encoding="utf-8").splitlines()
    assert first.startswith("▁Wir ")
    assert second == " ".join(HALLO)


@case
def raw_file_translation_with_prefix(library, folder, tmp_path):
    made, source, out = translator(library, folder), tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("I want to buy a car.\nHello.\n", encoding="utf-8")
    target = lines(tmp_path / "target.txt", ["riW"], [])
    functions = {"source_tokenize_fn": words, "target_detokenize_fn": text}
    with pytest.raises(ValueError, match="target_tokenize_fn"):
        made.translate_file(str(source), str(out), target_path=target, **functions)
    functions["target_tokenize_fn"] = lambda line: [f"▁{line[::-1]}"] if line else []
    made.translate_file(str(source), str(out), target_path=target, **functions)
    first, second = out.read_text(encoding="utf-8").splitlines()
    assert first.startswith("Wir ")
    assert second == "Hallo."


@case
def empty_translation(library, folder, tmp_path):
    assert translator(library, folder).translate_batch([]) == []


IMPOSSIBLE = {"min_decoding_length": 10, "max_decoding_length": 5}


@case
def invalid_translation_options(library, folder, tmp_path):
    with pytest.raises(ValueError, match="is greater than"):
        translator(library, folder).translate_batch([CAR], **IMPOSSIBLE)


@case
def invalid_translation_options_async(library, folder, tmp_path):
    [result] = translator(library, folder).translate_batch([CAR], **IMPOSSIBLE, asynchronous=True)
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
    made = translator(library, with_vmap(folder, tmp_path, AUTO[2:]))
    for beam in (1, 2):
        prefix = {"target_prefix": [AUTO[:2]], "beam_size": beam, "use_vmap": True}
        assert made.translate_batch([CAR], **prefix)[0].hypotheses == [AUTO]


@case
def no_repeat_ngram_size_with_vmap(library, folder, tmp_path):
    made = translator(library, with_vmap(folder, tmp_path, AUTO))
    for beam in (1, 2):
        options = {"no_repeat_ngram_size": 3, "beam_size": beam, "use_vmap": True}
        [tokens] = made.translate_batch([["▁car"] * 50], **options)[0].hypotheses
        ngrams = [tuple(tokens[at : at + 3]) for at in range(len(tokens) - 2)]
        assert len(ngrams) == len(set(ngrams))
        assert set(tokens) <= {*AUTO, "<unk>", "<pad>"}


@case
def num_hypotheses(library, folder, tmp_path):
    found = translator(library, folder).translate_batch([CAR], beam_size=4, num_hypotheses=2)
    assert len(found[0].hypotheses) == 2


@case
def max_decoding_length(library, folder, tmp_path):
    found = translator(library, folder).translate_batch([CAR], max_decoding_length=2)
    assert found[0].hypotheses == [AUTO[:2]]


@case
def min_decoding_length(library, folder, tmp_path):
    found = translator(library, folder).translate_batch([CAR], min_decoding_length=len(AUTO) + 1)
    assert len(found[0].hypotheses[0]) > len(AUTO)


@case
def min_decoding_length_with_vmap(library, folder, tmp_path):
    made = translator(library, with_vmap(folder, tmp_path, AUTO))
    for beam in (1, 2):
        options = {"min_decoding_length": 1, "beam_size": beam, "use_vmap": True}
        assert made.translate_batch([CAR], **options)[0].hypotheses == [AUTO]


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
    found = translator(library, folder).translate_batch([CAR], beam_size=1, return_scores=False)
    assert not found[0].scores


@case
def return_alternatives(library, folder, tmp_path):
    prefix = {"target_prefix": [AUTO[:2]], "num_hypotheses": 10, "return_alternatives": True}
    [found] = translator(library, folder).translate_batch([CAR], **prefix)
    assert len(found.hypotheses) == 10
    assert found.hypotheses[0] == AUTO
    assert len({tuple(one[:3]) for one in found.hypotheses}) == 10


@case
def return_alternatives_with_vmap(library, folder, tmp_path):
    made = translator(library, with_vmap(folder, tmp_path, [*AUTO[2:], "▁einen"]))
    options = {"num_hypotheses": 2, "return_alternatives": True, "use_vmap": True}
    [found] = made.translate_batch([CAR], target_prefix=[AUTO[:2]], **options)
    assert len(found.hypotheses) == 2
    assert found.hypotheses[0] == AUTO


@case
def random_sampling(library, folder, tmp_path):
    library.set_random_seed(46)
    options = {"beam_size": 1, "sampling_topk": 0, "num_hypotheses": 5, "return_scores": True}
    [found] = translator(library, folder).translate_batch([CAR], **options)
    assert len(found.hypotheses) == len(found.scores) == 5
    assert found.scores == sorted(found.scores, reverse=True)


@case
def score_api(library, folder, tmp_path):
    made = translator(library, folder)
    found = made.score_batch(SOURCES, TARGETS)
    assert [one.tokens for one in found] == [[*target, "</s>"] for target in TARGETS]
    assert [len(one.log_probs) for one in found] == [7, 3]
    waited = [one.result() for one in made.score_batch(SOURCES, TARGETS, asynchronous=True)]
    read = list(made.score_iterable(iter(SOURCES), iter(TARGETS)))
    for other in (waited, read):
        for one, same in zip(found, other, strict=True):
            np.testing.assert_allclose(same.log_probs, one.log_probs, rtol=1e-4)
    out = tmp_path / "out.txt"
    files = lines(tmp_path / "source.txt", *SOURCES), lines(tmp_path / "target.txt", *TARGETS), str(out)
    stats = made.score_file(*files, with_tokens_score=True)
    assert (stats.num_examples, stats.num_tokens) == (2, 10)
    for line, one in zip(out.read_text(encoding="utf-8").splitlines(), found, strict=True):
        mean, tokens, scores = line.split("|||")
        assert tokens.split() == one.tokens
        assert float(mean) == pytest.approx(np.mean(one.log_probs), rel=1e-3)
        assert list(map(float, scores.split())) == pytest.approx(one.log_probs, rel=1e-3)
    assert made.score_batch([], []) == []
    with pytest.raises(ValueError, match="length"):
        next(made.score_iterable(iter([["▁a"]]), iter([])))
    with pytest.raises(StopIteration):
        next(made.score_iterable(iter([]), iter([])))
    for target in ([], AUTO):
        [nothing] = made.score_batch([[]], [target])
        assert nothing.tokens == [*target, "</s>"]
        assert nothing.log_probs == [0] * (len(target) + 1)


@case
def model_unload(library, folder, tmp_path):
    for to_cpu in (False, True):
        made = translator(library, folder)
        made.unload_model(to_cpu=to_cpu)
        assert made.model_is_loaded == to_cpu
        if not to_cpu:
            with pytest.raises(RuntimeError, match="unloaded"):
                made.translate_batch([HELLO])
        made.load_model()
        assert made.model_is_loaded
        assert made.translate_batch([HELLO])[0].hypotheses == [HALLO]


@case
def model_unload_while_async_translation(library, folder, tmp_path):
    made = translator(library, folder)
    results = made.translate_batch([CAR] * 200, asynchronous=True)
    made.unload_model()
    assert made.model_is_loaded
    assert results[0].result().hypotheses == [AUTO]


@case
def load_model_from_memory(library, folder, tmp_path):
    for opened in (True, False):
        files = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
        files = {name: io.BytesIO(content) if opened else content for name, content in files.items()}
        made = translator(library, "aren", files=files)
        if opened:
            for handle in files.values():
                handle.close()
        assert made.translate_batch([HELLO])[0].hypotheses == [HALLO]
        made.unload_model()
        made.load_model()
        assert made.translate_batch([HELLO])[0].hypotheses == [HALLO]


@case
def model_load_does_not_leak_threads(library, folder, tmp_path):
    def load():
        library.Translator(folder, compute_type="int8", intra_threads=4)

    def on_a_thread():
        thread = threading.Thread(target=load)
        thread.start()
        thread.join()

    on_a_thread()
    before = len(list(Path("/proc/self/task").iterdir()))
    for _ in range(5):
        on_a_thread()
    assert len(list(Path("/proc/self/task").iterdir())) - before <= 4


REFUSED = {
    "test_strongly_biased_target_prefix": {"prefix_bias_beta": 0.9999999},
    "test_weakly_biased_target_prefix": {"prefix_bias_beta": 0.0000001},
    "test_repetition_penalty_with_vmap": {"repetition_penalty": 100},
    "test_suppress_sequences_with_vmap": {"suppress_sequences": [["▁ein"], ["▁Auto", "▁kaufen"]]},
}
"""The option of each case that uwaga does not have."""
NOT_APPLICABLE = {"test_logging", "test_shutdown_does_not_deadlock"}


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
@pytest.mark.parametrize("name", CASES)
def test_a_case_passes_in_both_libraries(name, library, folder, tmp_path):
    if name == "test_model_load_does_not_leak_threads" and not Path("/proc/self/task").exists():
        pytest.skip("threads are counted in /proc")
    CASES[name](library, folder, tmp_path)


@pytest.mark.parametrize("name", REFUSED)
def test_a_case_of_an_option_that_uwaga_lacks_is_refused_by_its_name(name, folder):
    options = REFUSED[name]
    with pytest.raises(UwagaError, match=next(iter(options))):
        translator(ours, folder).translate_batch([CAR], **options)
    assert translator(theirs, folder).translate_batch([CAR], **options)


def test_seventy_percent_of_the_cases_that_apply_pass_and_the_page_lists_all():
    rows = re.findall(r"^\| `(test_\w+)` \| (\w[\w ]*?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    listed = collections.defaultdict(set)
    for name, outcome in rows:
        listed[outcome].add(name)
    assert listed == {
        "passed": set(CASES),
        "refused by name": set(REFUSED),
        "not applicable": NOT_APPLICABLE,
    }
    assert len(rows) == 45
    assert len(CASES) >= 0.7 * (len(CASES) + len(REFUSED))


CALLS = [
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
]


@pytest.mark.numerical
@pytest.mark.parametrize("options", CALLS, ids=str)
def test_translations_equal_those_of_ctranslate2(options, folder, translators):
    mine, other = translators
    batches = [[CAR, HELLO, STATION], [HELLO, [], ["▁qwxyz", "</s>"]]]
    if "return_attention" in options:  # of a batch, CTranslate2 may return the first token's of another text
        batches = [[text] for batch in batches for text in batch]
    for sources in batches:
        begun = options.get("target_prefix")
        call = options | ({"target_prefix": begun[: len(sources)]} if begun else {})
        found, wanted = (one.translate_batch(sources, return_scores=True, **call) for one in (mine, other))
        for one, same in zip(found, wanted, strict=True):
            assert one.hypotheses == same.hypotheses
            assert one.scores == pytest.approx(same.scores, rel=CLOSE, abs=CLOSE)
            assert len(one.attention) == len(same.attention)
            for weights, others in zip(one.attention, same.attention, strict=True):
                np.testing.assert_allclose(weights, others, atol=1e-4)


@pytest.fixture(scope="module")
def translators(folder):
    return translator(ours, folder), translator(theirs, folder)


@pytest.mark.numerical
@pytest.mark.parametrize("options", [{}, {"offset": 2}, {"max_input_length": 3}, {"max_input_length": 0}])
def test_scores_equal_those_of_ctranslate2(options, translators):
    sources, targets = [*SOURCES, STATION, []], [*TARGETS, ["▁no-such-token"], ["▁Ein"]]
    found, wanted = (one.score_batch(sources, targets, **options) for one in translators)
    for one, same in zip(found, wanted, strict=True):
        assert one.tokens == same.tokens
        assert one.log_probs == pytest.approx(same.log_probs, rel=CLOSE, abs=CLOSE)


@pytest.mark.numerical
def test_tokens_are_reported_as_by_ctranslate2(translators):
    for prefix in (None, ["▁Wir", "▁wollen"]):
        steps = []
        for one in translators:
            reported = one.generate_tokens(CAR, prefix, return_log_prob=True, max_decoding_length=6)
            steps.append(list(reported))
        for mine, same in zip(*steps, strict=True):
            assert mine.log_prob == pytest.approx(same.log_prob, rel=CLOSE, abs=CLOSE)
            for name in ("step", "batch_id", "token_id", "hypothesis_id", "token", "logits", "is_last"):
                assert getattr(mine, name) == getattr(same, name)
        assert repr(steps[0][0]).partition("log_prob")[0] == repr(steps[1][0]).partition("log_prob")[0]


@pytest.mark.numerical
def test_a_callback_stops_translations_as_in_ctranslate2(translators):
    stopped = {"beam_size": 1, "return_scores": True, "callback": lambda one: one.step == 1}
    found, wanted = (one.translate_batch([*SOURCES, STATION], **stopped) for one in translators)
    for one, same in zip(found, wanted, strict=True):
        assert one.hypotheses == same.hypotheses
        assert one.scores == pytest.approx(same.scores, rel=CLOSE, abs=CLOSE)


@pytest.mark.parametrize("quantisation", ["int8", "float16"])
def test_the_number_format_by_default_is_that_of_ctranslate2(folder, tmp_path, quantisation):
    place = converted(Path(folder).parent / "pegasus", tmp_path / "model", quantisation)
    mine, other = (library.Translator(place) for library in (ours, theirs))
    assert mine.compute_type == other.compute_type
    assert mine.translate_batch([HELLO])[0].hypotheses == other.translate_batch([HELLO])[0].hypotheses


@pytest.mark.numerical
def test_a_vocabulary_map_lists_tokens_by_the_words_of_a_text(folder, tmp_path):
    place = tmp_path / "listed"
    shutil.copytree(folder, place)
    common, car = "\t▁Ich ▁möchte .\n", "▁car\t▁ein ▁Auto\n▁buy\t▁kaufen\n"
    for rules, complaint in ((common + car, None), (common + "▁a ▁car\t▁Auto\n", "line 2: .* n-grams")):
        (place / "vmap.txt").write_text(rules, encoding="utf-8")
        mine, other = (translator(library, str(place)) for library in (ours, theirs))
        for source in ([CAR], [HELLO]):
            options = {"use_vmap": True, "beam_size": 3, "max_decoding_length": 12, "return_scores": True}
            if complaint:
                with pytest.raises(UwagaError, match=complaint):
                    mine.translate_batch(source, **options)
                continue
            # CTranslate2 may produce the start token.
            options["suppress_sequences"] = [["<pad>"]]
            [one], [same] = (each.translate_batch(source, **options) for each in (mine, other))
            assert one.hypotheses == same.hypotheses
            assert one.scores == pytest.approx(same.scores, rel=CLOSE, abs=CLOSE)


CONTINUED = [
    {"max_length": 6},
    {"max_length": 7, "beam_size": 3, "num_hypotheses": 2},
    {"max_length": 2},
    {"max_length": 6, "static_prompt": ["%", ")"]},
    {"max_length": 9, "no_repeat_ngram_size": 2},
    {"max_length": 9, "min_length": 9, "beam_size": 4, "length_penalty": 0.5},
    {"max_length": 9, "return_alternatives": True, "num_hypotheses": 3},
    {"max_length": 7, "return_end_token": True, "suppress_sequences": [["j"]]},
]


@pytest.mark.numerical
@pytest.mark.parametrize("options", CONTINUED, ids=str)
@pytest.mark.parametrize("included", [True, False])
def test_continuations_equal_those_of_ctranslate2(options, included, decoder):
    """Prompt by prompt: without the prompt, a result of CTranslate2 depends on the others of its batch.

    The lengths of its alternatives then count the prompt, in uwaga they do not.
    """
    made = [library.Generator(decoder, compute_type="float32") for library in (ours, theirs)]
    for prompt in (["d", "f", "p"], ["%"], ["h", "fee"]):
        call = {"return_scores": True, "include_prompt_in_result": included, **options}
        [one], [same] = (each.generate_batch([prompt], **call) for each in made)
        if "return_alternatives" in options and not included:
            counted = options["max_length"] - len(prompt)
            assert [text[:counted] for text in one.sequences] == [text[:counted] for text in same.sequences]
            continue
        assert one.sequences == same.sequences
        assert one.sequences_ids == same.sequences_ids
        assert one.scores == pytest.approx(same.scores, abs=1e-4)


@pytest.mark.numerical
def test_generators_score_and_stream_as_ctranslate2(decoder):
    mine, other = (library.Generator(decoder, compute_type="float32") for library in (ours, theirs))
    texts = [["d", "f", "p", "fee"], ["d"], [], ["no such token", "d"]]
    for options in ({}, {"max_input_length": 2}):
        for one, same in zip(
            mine.score_batch(texts, **options), other.score_batch(texts, **options), strict=True
        ):
            assert one.tokens == same.tokens
            assert one.log_probs == pytest.approx(same.log_probs, abs=1e-4)
    for prompt in (["d", "f"], [["d", "f"], ["h", "p"]]):
        found, wanted = (list(one.generate_tokens(prompt, max_length=4)) for one in (mine, other))
        assert sorted(map(repr, found)) == sorted(map(repr, wanted))
