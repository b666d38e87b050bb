"""``to_dict`` of results: valid JSON with the values of the result."""

import json
import math

import numpy as np
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from uwaga import Continuation, Filling, Score, Translation
from uwaga.results.translation import json_number

scores = st.floats(max_value=0.0, allow_nan=False, width=32)
rows = st.lists(st.tuples(st.text(max_size=5), scores), max_size=4)


def through_json(document: object) -> object:
    return json.loads(json.dumps(document, allow_nan=False))


def is_rounded(value: float | None, number: float) -> bool:
    return value is None if math.isinf(number) else value == round(number, 6)


@hypothesis_settings(deadline=None)
@given(pairs=rows, score=scores, truncated=st.booleans())
def test_translation_is_converted_to_a_dict_with_rounded_values(pairs, score, truncated):
    tokens, log_probs = tuple(text for text, _ in pairs), tuple(value for _, value in pairs)
    attention = np.full((len(pairs), 3), 1 / 3, dtype=np.float32)
    alternative = Translation("o", score, tokens, log_probs)
    translation = Translation(
        "t", score, tokens, log_probs, score, truncated, ("a", "b"), attention, (alternative,)
    )
    document = translation.to_dict()
    assert through_json(document) == document
    assert (document["text"], document["tokens"], document["truncated"]) == ("t", list(tokens), truncated)
    assert is_rounded(document["score"], score) and is_rounded(document["log_prob"], score)
    assert all(map(is_rounded, document["token_scores"], log_probs))
    assert document["source_tokens"] == ["a", "b"]
    assert document["attention"] == [[0.333333] * 3] * len(pairs)
    assert document["alternatives"] == [alternative.to_dict()]
    assert not {"attention", "alternatives"} & set(alternative.to_dict())


@hypothesis_settings(deadline=None)
@given(pairs=rows, score=scores)
def test_continuation_is_converted_to_a_dict_with_rounded_values(pairs, score):
    tokens, log_probs = tuple(text for text, _ in pairs), tuple(value for _, value in pairs)
    alternative = Continuation("p", "o", score, score, tokens, log_probs, True)
    document = Continuation("p", "t", score, score, tokens, log_probs, False, (alternative,)).to_dict()
    assert through_json(document) == document
    assert (document["prompt"], document["text"], document["truncated"]) == ("p", "t", False)
    assert is_rounded(document["score"], score) and all(map(is_rounded, document["token_scores"], log_probs))
    assert document["alternatives"] == [alternative.to_dict()]


def test_score_is_converted_to_a_dict_with_none_for_infinite_values():
    document = Score(-math.inf, ("a",), (-math.inf, -0.25), ("b",)).to_dict()
    assert through_json(document) == document
    assert document == {
        "source": "", "target": "", "log_prob": None, "mean": None, "perplexity": None, "tokens": ["a"],
        "token_scores": [None, -0.25], "source_tokens": ["b"],
    }  # fmt: skip


def test_filling_is_converted_to_a_dict_with_a_rounded_probability():
    document = Filling("a", 1 / 3, "a b").to_dict()
    assert through_json(document) == document == {"token": "a", "probability": 0.333333, "text": "a b"}
    assert json_number(math.nan) is None
