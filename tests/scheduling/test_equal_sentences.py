"""Sentences that all finish in the same step leave the batch empty before further sentences enter."""

import uwaga


def test_many_sentences_that_finish_at_the_same_step_are_translated():
    translator = uwaga.Translator.load(threads=1)
    texts = [f"The weather is nice today. {i:03}" for i in range(600)]
    [first, last] = translator.translate([texts[0], texts[-1]])
    results = translator.shared().translate(texts)
    assert (results[0].text, results[-1].text, len(results)) == (first.text, last.text, len(texts))
