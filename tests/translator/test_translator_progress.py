"""Progress of many texts, and alignments that show their words."""

import pytest

from uwaga.results.translation import WordAlignment
from uwaga.translator.translator import PROGRESS_WINDOW


@pytest.mark.parametrize("count", [1, PROGRESS_WINDOW, PROGRESS_WINDOW * 2 + 1])
def test_reported_progress_reaches_the_number_of_texts(translator, count):
    texts, calls = [f"A dog sees {number} cats." for number in range(count)], []
    translations = translator.translate(texts, progress=lambda *counts: calls.append(counts), beam=1)
    assert translations == translator.translate(texts, beam=1)
    completed, totals = zip(*calls, strict=True)
    assert set(totals) == {count} and completed[-1] == count
    assert list(completed) == sorted(set(completed)) and len(calls) == -(-count // PROGRESS_WINDOW)


def test_progress_is_reported_once_for_one_text_and_never_for_an_empty_list(translator):
    calls = []
    translator.translate("A dog.", progress=lambda *counts: calls.append(counts))
    assert translator.translate([], progress=lambda *counts: calls.append(counts)) == []
    assert calls == [(1, 1)]


@pytest.mark.parametrize(
    ("text", "options"),
    [("A dog sees a cat.", {}), ("A dog sees {name} and a cat.", {}), ("Two sentences. A dog – 😀.", {})],
)
def test_alignment_repr_shows_the_words(translator, text, options):
    translation = translator.translate(text, alignment=True, **options)
    alignment = translation.alignment
    assert alignment.texts == (translation.source, translation.text)
    shown = repr(alignment).removeprefix("WordAlignment(").removesuffix(")")
    for (source, target), part in zip(alignment.links, shown.split(", "), strict=True):
        (left, left_end), (right, right_end) = alignment.source[source], alignment.target[target]
        assert part == f"{translation.source[left:left_end]} → {translation.text[right:right_end]}"
    assert alignment == WordAlignment(alignment.source, alignment.target, alignment.links)
    assert set(alignment.to_dict()) == {"source", "target", "links"}


def test_alignment_repr_without_texts_shows_indices():
    alignment = WordAlignment(((0, 1),) * 60, ((0, 1),) * 60, tuple((word, word) for word in range(60)))
    assert repr(alignment).startswith("WordAlignment(0-0 1-1")
