"""The bundled English→German model: translations, robustness, size and attribution."""

from pathlib import Path

import pytest

from uwaga.library.hub import find_model
from uwaga.translator import Translator

CAR = ("Ich will ein Auto kaufen.", "Ich möchte ein Auto kaufen.")
SENTENCES = [
    "Good morning!", "Where is the train station?", "I don't know what to say.",
    "She has been living in Boston for three years.", "Tom asked Mary whether she could help him on Monday.",
    "It's raining.", "My sister is older than me.", "Do you speak German?",
]  # fmt: skip


def bundled_folder() -> Path:
    return find_model(None)


def test_example_sentence_translates_as_expected(translator: Translator) -> None:
    assert translator.translate("I want to buy a car.").text in CAR


@pytest.mark.parametrize("text", ["i want to buy a car.", "I want to buy a car", "i want to buy a car"])
def test_text_without_capitals_or_full_stop_is_translated_correctly(translator, text) -> None:
    words = translator.translate(text).text.rstrip(".!").casefold().split()
    assert words[0] == "ich" and words[-3:] == ["ein", "auto", "kaufen"]


def test_upper_case_text_translates_like_lower_case(translator: Translator) -> None:
    capitals = translator.translate("I WANT TO BUY A CAR.")
    assert capitals.text == translator.translate("i want to buy a car.").text
    [score] = translator.score([("I WANT TO BUY A CAR.", capitals.text)])
    assert score.source_tokens == capitals.source_tokens


def test_batch_translations_equal_single_translations(translator: Translator) -> None:
    batch = translator.translate(SENTENCES)
    for sentence, expected in zip(SENTENCES, batch, strict=True):
        single = translator.translate(sentence)
        assert single.tokens == expected.tokens
        assert single.score == pytest.approx(expected.score, abs=1e-5)


def test_E6_three_manual_decoding_steps_match_greedy_search(translator: Translator) -> None:
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


def test_M20_scores_match_teacher_forcing(translator: Translator) -> None:
    translation = translator.translate(SENTENCES[4], beam=4)
    [score] = translator.score([(SENTENCES[4], translation.text)])
    if score.tokens == translation.tokens:  # another segmentation of the same text is another event
        assert score.log_prob == pytest.approx(translation.log_prob, abs=1e-4)


def test_correct_translation_scores_higher_than_an_incorrect_one(translator: Translator) -> None:
    correct, incorrect = translator.score(
        [
            ("Where is the train station?", "Wo ist der Bahnhof?"),
            ("Where is the train station?", "Wo ist der Hund?"),
        ]
    )
    assert correct.log_prob > incorrect.log_prob


def test_bundled_model_is_small_and_credits_its_data_sources() -> None:
    total = sum(path.stat().st_size for path in bundled_folder().iterdir())
    assert total <= 12_000_000
    card = (bundled_folder() / "card.md").read_text(encoding="utf-8")
    assert "CC BY 2.0" in card and "tatoeba.org" in card and "manythings.org" in card


def test_M1_word_with_a_low_attention_weight_can_change_the_translation(translator: Translator) -> None:
    """The weight of *letter* for *den* is below 0.01, yet replacing this noun changes the article."""
    text, target = "The man reads the letter.", "Der Mann liest den Brief."
    found = translator.translate(text, attention=True)
    assert found.text == target
    assert found.attention is not None
    article = found.attention[3]  # The man read s the letter . </s>
    assert article[4] > 0.85 and article[5] < 0.01
    [before], [after] = (
        translator.score([(source, target)]) for source in (text, "The man reads the newspaper.")
    )
    assert before.token_scores[3] - after.token_scores[3] > 2  # nats of "den"
    assert translator.translate("The man reads the newspaper.").text == "Der Mann liest die Zeitung."
