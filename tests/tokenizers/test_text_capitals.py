"""What counts as a sentence in capitals."""

import pytest

from uwaga.tokenizers.text import in_capitals


@pytest.mark.parametrize("text", ["I WANT A CAR.", "GO AWAY!", "ÜBER 100 ÄPFEL", "СТОЙ, КТО ИДЁТ"])
def test_shouted(text: str) -> None:
    assert in_capitals(text)


@pytest.mark.parametrize("text", ["", "NATO", "I want", "123 456", "A4", "你好 世界", "NATO and EU", "X1 2"])
def test_not_shouted(text: str) -> None:
    assert not in_capitals(text)
