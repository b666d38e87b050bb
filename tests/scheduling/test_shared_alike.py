"""Sentences that all end in one step: the batch is empty before the next are let in."""

import uwaga


def test_more_sentences_than_there_are_places_that_all_end_at_once():
    translator = uwaga.Translator.load(threads=1)
    texts = [f"The weather is nice today. {number:03}" for number in range(600)]
    [first, last] = translator.translate([texts[0], texts[-1]])
    made = translator.shared().translate(texts)
    assert (made[0].text, made[-1].text, len(made)) == (first.text, last.text, len(texts))
