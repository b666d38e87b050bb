"""Translator: properties that hold for any model, tested on a random one."""

import re
import sys

import numpy as np
import pytest
import tiny_models as tiny
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from precision import tolerance
from waiting import in_threads

import uwaga
from uwaga.decoder import Choice
from uwaga.engine import NativeModel
from uwaga.errors import DataError, MissingExtraError, ModelError, SettingsError, TextTooLongError
from uwaga.search import SearchOptions
from uwaga.translator import Model, Request, Translator
from uwaga.translator.checks import is_language_independent

LINE_BREAK = re.compile(r"(\r\n|\n|\r)")
JOINT = tiny.tokeniser()
SHAPE = tiny.TINY.model_copy(update={"tie": "none"})
MODEL = tiny.transformer(SHAPE, JOINT, JOINT)
TEXTS = [
    *tiny.ENGLISH[:5], "Hi", "?", "the the the the the the the", "the Ünïcödé 你好 dog", "", "a b",
    "A small river.",
]  # fmt: skip
TEXT_PARTS = st.text(max_size=12) | st.sampled_from(
    ["\n", "\r\n", "\r", " ", "a", "the dog", "\u2028", "\x00", "\u00ad"]
)


@pytest.fixture
def translator():
    return Translator(Model(MODEL, JOINT, JOINT, tiny.SEARCH, ("en", "de")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("translator") / "model"
    tiny.save(folder, MODEL, JOINT)
    return folder


def assert_same(actual, expected):
    assert (actual.text, actual.tokens, actual.truncated) == (
        expected.text,
        expected.tokens,
        expected.truncated,
    )
    np.testing.assert_allclose(actual.token_scores, expected.token_scores, **tolerance(expected.token_scores))
    sums = [expected.score, expected.log_prob]
    np.testing.assert_allclose([actual.score, actual.log_prob], sums, **tolerance(sums))
    assert len(actual.alternatives) == len(expected.alternatives)
    for alternative, expected_alternative in zip(actual.alternatives, expected.alternatives, strict=True):
        assert_same(alternative, expected_alternative)


@pytest.mark.numerical
@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1},
        {"beam": 4, "nbest": 3},
        {"beam": 3, "length_penalty": 0.0, "no_repeat_ngram": 2},
        {"sample": True, "nbest": 2, "seed": 5, "top_k": 9, "temperature": 1.5},
    ],
)
def test_translations_do_not_depend_on_the_batch(translator, options):
    texts = TEXTS[::2]
    batch = translator.translate(texts, **options)
    for text, translation in zip(texts[1::2], batch[1::2], strict=True):
        assert_same(translator.translate(text, **options), translation)
    for actual, expected in zip(
        translator.translate(texts[::-1], batch_tokens=60, **options), batch[::-1], strict=True
    ):
        assert_same(actual, expected)


def test_E6_greedy_steps_give_the_tokens_of_the_translation(translator):
    text = "The dog sees the cat."
    ids = [*JOINT.encode(text), JOINT.symbols.end]
    state = MODEL.start(MODEL.encode([ids]), 1)
    token, tokens = JOINT.symbols.start, []
    for _ in range(3):
        step = MODEL.step(np.array([token]), state, Choice(count=1))
        token, state = int(step.tokens[0, 0]), step.state
        tokens.append(token)
    assert JOINT.pieces(tokens) == list(translator.translate(text, beam=1).tokens[:3])


def test_model_settings_are_used_as_default_options(translator):
    plain = translator.translate(TEXTS)
    for default, explicit in zip(plain, translator.translate(TEXTS, beam=3, max_length=8), strict=True):
        assert_same(default, explicit)
    limited = Translator(Model(MODEL, JOINT, JOINT, SearchOptions(beam=1, max_length=7)))
    assert [len(result.token_scores) for result in limited.translate(TEXTS[:4], split="never")] == [7] * 4


def test_length_limits_are_respected_and_truncation_is_reported(translator):
    short, long = translator.translate([TEXTS[0]] * 2, beam=1, max_length=3)[0], None
    assert short.truncated
    assert len(short.tokens) == len(short.token_scores) == 3
    for text in TEXTS:
        long = translator.translate(text, min_length=6)
        assert len(long.tokens) >= 6 or is_language_independent(text)
        assert long.truncated or len(long.token_scores) == len(long.tokens) + (
            0 if is_language_independent(text) else 1
        )
        free = translator.translate(text, no_repeat_ngram=1, split="never")
        assert len(set(free.tokens)) == len(free.tokens)


def test_M24_alternatives_are_sorted_and_distinct_and_do_not_change_the_translation(translator):
    best = translator.translate(TEXTS, beam=5)
    for single, translation in zip(best, translator.translate(TEXTS, beam=5, nbest=5), strict=True):
        hypotheses = [translation, *translation.alternatives]
        assert (translation.text, translation.score) == (single.text, single.score)
        scores = [hypothesis.score for hypothesis in translation.alternatives]
        assert scores == sorted(scores, reverse=True)
        assert len({hypothesis.tokens for hypothesis in hypotheses}) == len(hypotheses)
        assert all(hypothesis.alternatives == () for hypothesis in translation.alternatives)
        assert all(hypothesis.source_tokens == translation.source_tokens for hypothesis in hypotheses)


def test_M25_seed_determines_the_sampled_translation(translator):
    first = translator.translate(TEXTS[:5], sample=True, seed=1)
    assert first == translator.translate(TEXTS[:5], sample=True, seed=1)
    assert first != translator.translate(TEXTS[:5], sample=True, seed=2)
    samples = {translator.translate(TEXTS[0], sample=True).text for _ in range(4)}
    assert len(samples) > 1


def test_translation_starts_with_the_prefix(translator):
    for translation in translator.translate(TEXTS[:4], prefix=" Der Hund ", nbest=3):
        for hypothesis in (translation, *translation.alternatives):
            assert hypothesis.text.startswith("Der Hund")
    translations = translator.translate(TEXTS[:3], prefix=["Wir", "", "Er ist"])
    assert translations[0].text.startswith("Wir")
    assert_same(translations[1], translator.translate(TEXTS[1]))
    assert translations[2].text.startswith("Er ist")
    with pytest.raises(SettingsError, match="2 prefixes for 3 texts"):
        translator.translate(TEXTS[:3], prefix=["a", "b"])


@pytest.mark.parametrize("beam", [1, 3])
def test_M1_attention_has_a_row_per_target_token_and_a_column_per_source_token(translator, beam):
    for translation in translator.translate(
        [text for text in TEXTS if not is_language_independent(text)], attention=True, beam=beam
    ):
        assert translation.attention is not None
        assert translation.attention.shape == (
            len(translation.token_scores),
            len(translation.source_tokens) + 1,
        )
        np.testing.assert_allclose(translation.attention.sum(axis=1), 1.0, **tolerance(1.0))
    assert translator.translate("Hi").attention is None


@pytest.mark.parametrize("text", ["", " ", "\t \u3000", "\u00ad", "\ufeff\u200b", "\x00"])
def test_blank_text_gives_an_empty_translation(translator, text):
    translation = translator.translate(text, attention=True, nbest=3)
    assert translation.text.strip() == ""
    assert translation.tokens == translation.token_scores == translation.source_tokens == ()
    assert (translation.score, translation.log_prob, translation.truncated) == (0.0, 0.0, False)
    assert translation.attention is None
    assert "".join(translator.stream(text)) == translation.text


def test_empty_list_of_texts_gives_no_translations(translator):
    assert translator.translate([]) == []
    assert translator.score([]) == []
    assert list(translator.run([])) == []


def test_additional_spaces_do_not_change_translations(translator):
    assert_same(translator.translate("  The  dog\t sees.  "), translator.translate("The dog sees."))


@given(st.lists(TEXT_PARTS, max_size=5).map("".join))
@example("\r \n")
@example("a\r \nb")
@example("%@0A\n")
@example("@0A%@")
@example("%s dogs\n")
@example("A 0\n")
def test_any_text_is_translated_with_its_line_breaks(text):
    translator = Translator(Model(MODEL, JOINT, JOINT, SearchOptions(beam=1, max_length=6)))
    try:
        translation = translator.translate(text)
    except TextTooLongError:
        assert len(JOINT.encode(text)) >= MODEL.max_source
        return
    assert LINE_BREAK.findall(translation.text) == LINE_BREAK.findall(text)
    assert len(translation.tokens) <= len(translation.token_scores) + 1
    for line in LINE_BREAK.split(translation.text)[::2]:
        assert not line.strip() or text.strip()


def test_lines_are_translated_separately(translator):
    text = "\n\nThe dog sees.\r\n \nWe are home.\r"
    first, second = translator.translate(["The dog sees.", "We are home."])
    assert translator.translate(text).text == f"\n\n{first.text}\r\n\n{second.text}\r"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"prefix": "Der Hund"},
        {"sample": True, "seed": 3},
        {"sample": True, "seed": 4, "temperature": 2.0},
    ],
)
def test_M23_stream_equals_the_greedy_translation(translator, options):
    for text in [*TEXTS[::6], "The dog. The cat.\n\nWe go.\r\n", " ".join(tiny.ENGLISH[:4])]:
        pieces = list(translator.stream(text, **options))
        assert "".join(pieces) == translator.translate(text, beam=1, **options).text
        assert all(pieces)


def test_stream_keeps_placeholders_and_terms(translator):
    for text in ("The dog {name} sees.", "We go to https://example.org/a?b=c now.\nThe %s.", "{a}"):
        expected = translator.translate(text, beam=1).text
        assert list(translator.stream(text)) == [expected]
        assert "".join(translator.stream(text, placeholders=False)) == (
            translator.translate(text, beam=1, placeholders=False).text
        )
    terms = {"dog": "Hund"}
    streamed = "".join(translator.stream("The dog.", glossary=terms))
    assert streamed == translator.translate("The dog.", beam=1, glossary=terms).text
    with pytest.raises(TextTooLongError):
        translator.stream("The dog {name} sees. " * 99, split="never")


def test_stream_yields_pieces_incrementally(translator):
    steps = []

    class CountingModel:
        def __getattr__(self, name):
            return getattr(MODEL, name)

        def step(self, tokens, state, choice):
            steps.append(len(steps))
            return MODEL.step(tokens, state, choice)

    counting = Translator(Model(CountingModel(), JOINT, JOINT, tiny.SEARCH))
    text = "I want to buy a car."
    progress = [(len(steps), piece) for piece in counting.stream(text, max_length=12, sample=True, seed=0)]
    assert len(progress) >= 5
    assert len({count for count, _ in progress}) == len(progress)


def test_concurrent_threads_get_equal_translations(translator):
    texts = TEXTS[::3]
    serial = translator.translate(texts, nbest=2)

    def work(_):
        return [translator.translate(texts, nbest=2), *map(translator.translate, texts[:2])]

    results = in_threads(work, range(2))
    separate = [translator.translate(text) for text in texts[:2]]
    for batch, *singles in results:
        for actual, expected in zip([*batch, *singles], [*serial, *separate], strict=True):
            assert_same(actual, expected)


def test_iterable_of_requests_is_read_lazily(translator):
    consumed = []

    def lines():
        for number in range(100):
            consumed.append(number)
            yield TEXTS[number % len(TEXTS)]

    options = {"beam": 1, "max_length": 4}
    translations = translator.run((Request(line, search=options) for line in lines()), window=10)
    first = next(translations)
    assert len(consumed) == 10
    assert_same(first, translator.translate(TEXTS[0], beam=1, max_length=4))
    assert len(list(translations)) == 99


# --- errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 2, "nbest": 3}, "nbest 3 is more than beam 2"),
        ({"beam": 0}, "beam"),
        ({"temperature": 0.5}, "sample"),
        ({"min_length": 30, "max_length": 20}, "min_length 30"),
        ({"split": "words"}, "split must be one of auto, sentences, never"),
    ],
)
def test_invalid_options_are_rejected(translator, options, message):
    with pytest.raises(SettingsError, match=message):
        translator.translate("Hi", **options)
    with pytest.raises(SettingsError, match=r"'lenght_penalty'.*'length_penalty'"):
        translator.options(lenght_penalty=1)


def test_invalid_texts_are_rejected(translator):
    with pytest.raises(DataError, match="text 2 is not a string but int"):
        translator.translate(["a", 3])
    with pytest.raises(DataError, match="surrogate"):
        translator.translate("a\ud800")


def test_model_with_nan_weights_is_rejected():
    broken = tiny.transformer(SHAPE, JOINT, JOINT)
    with torch.no_grad():
        broken.output.weight.fill_(float("nan"))
    with pytest.raises(ModelError, match="not numbers"):
        Translator(Model(broken, JOINT, JOINT)).translate("Hi")


# --- loading


def test_loaded_translator_equals_the_original(translator, folder):
    loaded = uwaga.load(folder, device="cpu")
    assert loaded.languages == ("en", "de")
    assert (loaded.decoding, loaded.model.text) == (tiny.SEARCH, tiny.TEXT)
    for actual, expected in zip(loaded.translate(TEXTS), translator.translate(TEXTS), strict=True):
        assert_same(actual, expected)
    assert isinstance(loaded, uwaga.Translator)


def test_transformer_runs_natively_by_default(folder):
    assert isinstance(uwaga.load(folder, device="cpu").decoder, NativeModel)
    assert uwaga.load(folder, dtype="int8").decoder.precision == "int8"
    for options in ({"engine": "torch"}, {"dtype": "float16", "device": "cpu"}):
        assert isinstance(uwaga.load(folder, **options).decoder, torch.nn.Module)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_torch_models_translate_with_16_bit_weights(folder, dtype):
    loaded = uwaga.load(folder, device="cpu", dtype=dtype, engine="torch")
    assert next(loaded.decoder.parameters()).dtype == getattr(torch, dtype)
    assert len(loaded.translate(TEXTS, max_length=5)) == len(TEXTS)
    assert loaded.score([("Hi", "Du")])[0].log_prob < 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "tpu"}, "device must be auto, cpu, cuda or cuda:N, not 'tpu'"),
        ({"device": "cuda:x"}, "device must be"),
        ({"device": "cuda:99"}, "usable GPUs"),
        ({"dtype": "int3"}, "dtype must be one of auto, float32, float16, bfloat16"),
        ({"threads": -1}, "threads"),
        ({"engine": "tensorflow"}, "engine must be one of auto, native, torch"),
        ({"engine": "native", "dtype": "float16"}, "native engine runs on the CPU .* not dtype float16"),
        ({"engine": "native", "device": "cuda"}, "native engine runs on the CPU .* not device 'cuda'"),
        ({"engine": "torch", "dtype": "int8"}, "int8 and int4 need the native engine"),
    ],
)
def test_invalid_load_options_are_rejected(folder, options, message):
    with pytest.raises(SettingsError, match=message):
        uwaga.load(folder, **options)


def test_torch_thread_count_is_set_only_during_calls(folder, monkeypatch):
    default_threads, set_num_threads, thread_counts = torch.get_num_threads(), torch.set_num_threads, []
    monkeypatch.setattr(
        torch, "set_num_threads", lambda threads: (thread_counts.append(threads), set_num_threads(threads))
    )
    plain = uwaga.load(folder, engine="torch")
    expected = plain.translate(tiny.ENGLISH), plain.score([("the dog", "der Hund")])
    assert thread_counts == []
    limited = uwaga.load(folder, threads=3, engine="torch")
    assert thread_counts == []
    assert [translation.text for translation in limited.translate(tiny.ENGLISH)] == [
        translation.text for translation in expected[0]
    ]
    assert limited.score([("the dog", "der Hund")])[0].tokens == expected[1][0].tokens
    assert set(thread_counts) == {3, default_threads} and (thread_counts[0], thread_counts[-1]) == (
        3,
        default_threads,
    )
    assert torch.get_num_threads() == default_threads
    with pytest.raises(IndexError):
        limited.decoder.encode([[10**6]])
    assert torch.get_num_threads() == default_threads


def test_missing_torch_error_names_the_extra(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"uwaga\[train\]"):
        uwaga.load(folder, engine="torch")


def test_package_lists_its_names_and_refuses_others():
    assert set(dir(uwaga)) >= {"load", "Translator", "Score", "Translation"}
    with pytest.raises(AttributeError, match="no attribute 'transalte'"):
        _ = uwaga.transalte


def test_long_sentence_error_states_the_length_and_the_limit(translator):
    with pytest.raises(TextTooLongError, match=r"text 2: the sentence .* has \d+ tokens.* at most 40"):
        translator.translate(["fine", "house " * 60], split="never")
    with pytest.raises(TextTooLongError, match="line 7"):
        list(translator.run([Request("fine"), Request("house " * 60, split="never", name="line 7")]))
    with pytest.raises(TextTooLongError):
        translator.stream("house " * 60, split="never")
