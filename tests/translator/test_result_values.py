"""Equality, hashes, representations and JSON of results, and ``help`` on loading."""

import dataclasses
import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest

import uwaga
from uwaga import Continuation, Encoding, Filling, Hypothesis, Score, Translation

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = ROOT / "tests/support/models/numbers-en-de"


@pytest.fixture(scope="module")
def numbers():
    return uwaga.load(NUMBERS, threads=1)


def test_translations_are_compared_and_hashed_by_value(numbers):
    translation, duplicate = (
        numbers.translate("forty-two", beam=4, nbest=2, attention=True) for _ in range(2)
    )
    assert str(translation) == f"{translation}" == translation.text
    assert (
        (translation == duplicate) is True
        and hash(translation) == hash(duplicate)
        and len({translation, duplicate}) == 1
    )
    shifted = dataclasses.replace(translation, attention=translation.attention + 1)
    for changed in (
        shifted,
        dataclasses.replace(translation, attention=None),
        dataclasses.replace(translation, text="x"),
    ):
        assert (translation == changed) is False and (changed == translation) is False
    assert translation != "forty-two" and translation != translation.alternatives[0]
    assert translation.source == "forty-two" == translation.alternatives[0].source
    assert translation.to_dict()["source"] == "forty-two"
    assert json.loads(translation.to_json()) == translation.to_dict()


def test_result_source_is_the_original_text(numbers):
    texts = ["  one \n two", "", "three"]
    assert [translation.source for translation in numbers.translate(texts)] == texts
    assert numbers.attend("one").source == numbers.attend("one", "eins").source == "one"
    [score] = numbers.score([("one", "eins")])
    assert (score.source, score.target) == ("one", "eins")


def test_result_repr_is_short(numbers):
    long = numbers.translate("one " * 7, beam=4, nbest=3, attention=True, split="never")
    assert len(repr(long)) < 160
    assert re.fullmatch(r"Translation\('.*', score=-\S+, \d+ tokens, .*2 alternatives\)", repr(long))
    continuation = Continuation("p" * 99, "t", -1.5, -3.0, ("t",), (-3.0,), True)
    assert repr(continuation) == f"Continuation('{'p' * 59}…', 't', score=-1.5, 1 tokens, truncated)"
    assert str(continuation) == "t"
    assert repr(Score(-2.0, ("a",), (-1.0, -1.0), ("b",), "b", "a")) == (
        "Score('a', log_prob=-2, perplexity=2.718, 1 tokens)"
    )
    assert str(Filling("a", 0.5, "an a")) == "an a"


def test_results_with_arrays_can_be_compared_and_hashed():
    for make in (
        lambda last: Hypothesis((1,), -1.0, -1.0, (-1.0,), attention=np.array([[1.0, last]], np.float32)),
        lambda last: Encoding(("a",), np.array([[1.0, last]], np.float32)),
        lambda last: Score(last, ("a",), (last,), ("b",)),
        lambda last: Continuation("p", "t", last, last, ("t",), (last,), False),
        lambda last: Filling("a", last, "an a"),
    ):
        assert (make(0.5) == make(0.5)) is True and len({make(0.5), make(0.5)}) == 1
        assert (make(0.5) == make(0.25)) is False and (make(0.5) == 3) is False


def test_results_are_serialised_to_one_line_of_json():
    for result in (
        Translation("ä", -1.0, ("ä",), (-1.0,)),
        Score(-1.0, ("a",), (-1.0,), ("b",), "ö", "ä"),
        Continuation("p", "ä", -1.0, -1.0, ("t",), (-1.0,), False),
        Filling("ä", 0.5, "an ä"),
    ):
        assert "ä" in result.to_json() and "\n" not in result.to_json()
        assert json.loads(result.to_json()) == result.to_dict()


def test_translator_repr_describes_the_model_and_the_engine(numbers):
    isa = numbers.decoder.isa
    assert (
        repr(numbers)
        == f"Translator({str(NUMBERS)!r}, en → de, Transformer, native float32 on {isa}, 1 thread)"
    )
    assert "native int8 on" in repr(uwaga.load(NUMBERS, dtype="int8", threads=2))
    assert repr(uwaga.load(NUMBERS, dtype="int8", threads=2)).endswith("2 threads)")
    pytest.importorskip("torch")
    on_torch = repr(uwaga.load(NUMBERS, engine="torch", device="cpu", threads=3))
    assert on_torch.endswith("en → de, Transformer, torch float32 on cpu, 3 threads)")
    assert "ensemble of 2: Transformer, native float32" in repr(uwaga.load([NUMBERS, NUMBERS]))


@pytest.mark.parametrize(
    "load", [uwaga.load, uwaga.Translator.load, uwaga.TextGenerator.load, uwaga.MaskFiller.load]
)
def test_help_documents_every_load_parameter(load):
    text = inspect.getdoc(load)
    for name in inspect.signature(load).parameters:
        description = re.search(
            rf"^    \*{{0,2}}{name}: (.+?)(?=^    \w+: |^$)", text, re.MULTILINE | re.DOTALL
        )
        assert description, name
        assert len(description[1]) > 20 and not description[1].startswith("as "), name


def test_docstrings_do_not_refer_to_other_docstrings():
    sources = sorted((ROOT / "src").rglob("*.py"))
    referring = [
        path.name for path in sources if re.search(r": as there\b", path.read_text(encoding="utf-8"))
    ]
    assert referring == []
