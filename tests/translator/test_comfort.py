"""What a result and a loaded model say of themselves, and what ``help`` says of loading one."""

from __future__ import annotations

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


def test_I11_19_a_translation_is_its_text_equal_to_its_like_and_can_be_hashed(numbers):
    one, other = (numbers.translate("forty-two", beam=4, nbest=2, attention=True) for _ in range(2))
    assert str(one) == f"{one}" == one.text
    assert (one == other) is True and hash(one) == hash(other) and len({one, other}) == 1
    looked = dataclasses.replace(one, attention=one.attention + 1)
    for changed in (looked, dataclasses.replace(one, attention=None), dataclasses.replace(one, text="x")):
        assert (one == changed) is False and (changed == one) is False
    assert one != "forty-two" and one != one.alternatives[0]
    assert one.source == "forty-two" == one.alternatives[0].source
    assert one.to_dict()["source"] == "forty-two"
    assert json.loads(one.to_json()) == one.to_dict()


def test_I11_19_the_source_is_the_text_as_it_was_given(numbers):
    texts = ["  one \n two", "", "three"]
    assert [one.source for one in numbers.translate(texts)] == texts
    assert numbers.attend("one").source == numbers.attend("one", "eins").source == "one"
    [score] = numbers.score([("one", "eins")])
    assert (score.source, score.target) == ("one", "eins")


def test_I11_19_a_repr_is_short(numbers):
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


def test_I11_19_what_holds_arrays_is_compared_and_hashed_too():
    for make in (
        lambda last: Hypothesis((1,), -1.0, -1.0, (-1.0,), attention=np.array([[1.0, last]], np.float32)),
        lambda last: Encoding(("a",), np.array([[1.0, last]], np.float32)),
        lambda last: Score(last, ("a",), (last,), ("b",)),
        lambda last: Continuation("p", "t", last, last, ("t",), (last,), False),
        lambda last: Filling("a", last, "an a"),
    ):
        assert (make(0.5) == make(0.5)) is True and len({make(0.5), make(0.5)}) == 1
        assert (make(0.5) == make(0.25)) is False and (make(0.5) == 3) is False


def test_I11_19_every_result_is_a_line_of_json():
    for one in (
        Translation("ä", -1.0, ("ä",), (-1.0,)),
        Score(-1.0, ("a",), (-1.0,), ("b",), "ö", "ä"),
        Continuation("p", "ä", -1.0, -1.0, ("t",), (-1.0,), False),
        Filling("ä", 0.5, "an ä"),
    ):
        assert "ä" in one.to_json() and "\n" not in one.to_json()
        assert json.loads(one.to_json()) == one.to_dict()


def test_I11_19_a_loaded_model_says_what_it_is(numbers):
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
def test_I11_19_help_explains_every_parameter_of_loading(load):
    text = inspect.getdoc(load)
    for name in inspect.signature(load).parameters:
        said = re.search(rf"^    \*{{0,2}}{name}: (.+?)(?=^    \w+: |^$)", text, re.MULTILINE | re.DOTALL)
        assert said, name
        assert len(said[1]) > 20 and not said[1].startswith("as "), name


def test_I11_19_no_docstring_sends_its_reader_elsewhere():
    sources = sorted((ROOT / "src/uwaga").rglob("*.py"))
    found = [path.name for path in sources if re.search(r": as there\b", path.read_text(encoding="utf-8"))]
    assert found == []
