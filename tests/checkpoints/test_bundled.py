"""The bundled English→German model: there, small, attributed, and not easily upset."""

from __future__ import annotations

from pathlib import Path

import pytest

import uwaga
from uwaga.library.hub import find_model
from uwaga.translator import Translator

CAR = ("Ich will ein Auto kaufen.", "Ich möchte ein Auto kaufen.")
SENTENCES = [
    "Good morning!",
    "Where is the train station?",
    "I don't know what to say.",
    "She has been living in Boston for three years.",
    "Tom asked Mary whether she could help him on Monday.",
    "It's raining.",
    "My sister is older than me.",
    "Do you speak German?",
]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return uwaga.load()


def folder() -> Path:
    return find_model(None)


def test_the_car(translator: Translator) -> None:
    assert translator.translate("I want to buy a car.").text in CAR


@pytest.mark.parametrize("text", ["i want to buy a car.", "I want to buy a car", "i want to buy a car"])
def test_hurried_typing_keeps_the_meaning(translator: Translator, text: str) -> None:
    words = translator.translate(text).text.rstrip(".!").casefold().split()
    assert words[0] == "ich" and words[-3:] == ["ein", "auto", "kaufen"]


def test_capitals_translate_as_lower_case_does(translator: Translator) -> None:
    shouted = translator.translate("I WANT TO BUY A CAR.")
    assert shouted.text == translator.translate("i want to buy a car.").text
    [score] = translator.score([("I WANT TO BUY A CAR.", shouted.text)])
    assert score.source_tokens == shouted.source_tokens


def test_alone_equals_in_a_batch(translator: Translator) -> None:
    together = translator.translate(SENTENCES)
    for sentence, expected in zip(SENTENCES, together, strict=True):
        alone = translator.translate(sentence)
        assert alone.tokens == expected.tokens
        assert alone.score == pytest.approx(expected.score, abs=1e-5)


def test_E6_three_steps_by_hand_are_the_first_three_tokens(translator: Translator) -> None:
    import numpy as np

    from uwaga.decoder import Choice

    model, symbols = translator.decoder, translator.decoder.symbols
    source = [*translator.source.encode(SENTENCES[3]), symbols.end]
    state = model.start(model.encode([source]), 1)
    token, by_hand = symbols.start, []
    for _ in range(3):
        step = model.step(np.array([token]), state, Choice(1))
        token, state = int(step.tokens[0, 0]), step.state
        by_hand.append(token)
    greedy = translator.translate(SENTENCES[3], beam=1)
    assert tuple(translator.target.pieces(by_hand)) == greedy.tokens[:3]


def test_M20_scores_are_those_of_teacher_forcing(translator: Translator) -> None:
    found = translator.translate(SENTENCES[4], beam=4)
    [score] = translator.score([(SENTENCES[4], found.text)])
    if score.tokens == found.tokens:  # another segmentation of the same text is another event
        assert score.log_prob == pytest.approx(found.log_prob, abs=1e-4)


def test_a_right_translation_outscores_a_wrong_one(translator: Translator) -> None:
    right, wrong = translator.score(
        [
            ("Where is the train station?", "Wo ist der Bahnhof?"),
            ("Where is the train station?", "Wo ist der Hund?"),
        ]
    )
    assert right.log_prob > wrong.log_prob


def test_it_is_small_and_attributed() -> None:
    total = sum(path.stat().st_size for path in folder().iterdir())
    assert total <= 12_000_000
    card = (folder() / "card.md").read_text(encoding="utf-8")
    assert "CC BY 2.0" in card and "tatoeba.org" in card and "manythings.org" in card
