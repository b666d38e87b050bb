"""Sentences in capital letters."""

import pytest

from uwaga.tokenizers.text import is_capitalised


@pytest.mark.parametrize("text", ["I WANT A CAR.", "GO AWAY!", "ÜBER 100 ÄPFEL", "СТОЙ, КТО ИДЁТ"])
def test_capitalised_words_are_recognised(text: str) -> None:
    assert is_capitalised(text)


@pytest.mark.parametrize("text", ["", "NATO", "I want", "123 456", "A4", "你好 世界", "NATO and EU", "X1 2"])
def test_other_words_are_not_capitalised(text: str) -> None:
    assert not is_capitalised(text)
