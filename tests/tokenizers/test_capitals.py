"""Recognition of texts in capital letters."""

import pytest

from uwaga.tokenizers.text import is_all_capitals


@pytest.mark.parametrize("text", ["I WANT A CAR.", "GO AWAY!", "ÜBER 100 ÄPFEL", "СТОЙ, КТО ИДЁТ"])
def test_upper_case_text_is_recognised(text: str) -> None:
    assert is_all_capitals(text)


@pytest.mark.parametrize("text", ["", "NATO", "I want", "123 456", "A4", "你好 世界", "NATO and EU", "X1 2"])
def test_mixed_case_uncased_and_one_word_texts_are_not_upper_case(text: str) -> None:
    assert not is_all_capitals(text)
