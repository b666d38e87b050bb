"""Three matrices of one translation: attention, words deleted one by one, and integrated gradients."""

import numpy as np
from drawing import Drawing
from numpy.typing import NDArray

import uwaga
from uwaga.inspection.attribution import attribute
from uwaga.translator import Translator

TEXT = "The man reads the letter."
TEXTS = [
    TEXT,
    "I want to buy a car.",
    "A dog chases a cat.",
    "Nobody knows why he sold his house.",
    "We have to go home now.",
    "She gave him the book.",
    "The girl is standing behind the boy.",
    "A man sleeps.",
]
"""Sentences of the count in the chapter; each word of their translations is one piece."""
Matrix = NDArray[np.floating]


def words_of(text: str) -> list[str]:
    """Return the words of a sentence and its full stop."""
    return [*text[:-1].split(), "."]


def deletion_losses(translator: Translator, text: str, target: str) -> Matrix:
    """Return the nats (target, source word) that each target token loses without a word of the source."""
    words = words_of(text)
    full_scores = np.array(translator.score([(text, target)])[0].token_scores)
    lost = []
    for index in range(len(words)):
        shortened = " ".join(words[:index] + words[index + 1 :]).replace(" .", ".")
        lost.append(full_scores - np.array(translator.score([(shortened, target)])[0].token_scores))
    return np.array(lost).T


def matrices(native: Translator, torch: Translator | None, text: str) -> tuple[list[str], list[Matrix]]:
    """Return the target tokens, and the matrices (target, source word) of attention, deletion and, with
    torch, gradients.
    """
    translation = native.translate(text, attention=True)
    assert translation.attention is not None
    assert translation.source_tokens is not None
    pieces = translation.source_tokens
    word_starts = [index for index, piece in enumerate(pieces) if piece.startswith("▁") or piece == "."]

    def merge_subwords(values: Matrix) -> Matrix:  # pieces of a word are added; the end symbol is left out
        return np.add.reduceat(values[:, : len(pieces)], word_starts, axis=1)

    rows = [piece.replace("▁", "") for piece in translation.tokens]
    tables = [merge_subwords(translation.attention), deletion_losses(native, text, translation.text)]
    if torch is not None:
        tables.append(merge_subwords(attribute(torch, text, translation.text).values))
    return rows, tables


def agreement() -> tuple[int, int, int]:
    """Return the number of target words, and how often attention and attribution find the most costly source
    word.
    """
    native, torch = uwaga.load(), Translator.load(engine="torch")
    total, attended, attributed = 0, 0, 0
    for text in TEXTS:
        rows, (attention, lost, gradients) = matrices(native, torch, text)
        for index in range(len(rows) - 1):  # without the full stop
            total += 1
            attended += int(attention[index].argmax() == lost[index].argmax())
            attributed += int(gradients[index].argmax() == lost[index].argmax())
    return total, attended, attributed


def draw() -> Drawing:
    """Draw the three matrices one below another."""
    rows, tables = matrices(uwaga.load(), Translator.load(engine="torch"), TEXT)
    title = f"Attention, deletion and integrated gradients of the bundled model for “{TEXT}”"
    cell, words = 50, words_of(TEXT)
    height = 30 * len(rows) + 82
    figure = Drawing(380, height * len(tables), title, model=True)
    names = ("attention", "word deleted", "integrated gradients")
    units = ("mean of the heads of layer 2", "loss in nats", "contribution in nats")
    for index, (values, name, unit) in enumerate(zip(tables, names, units, strict=True)):
        y, digits = height * index, 1 if index else 2
        # a number that rounds to zero has no sign
        rounded = (np.round(values[: len(rows)].astype(float), digits) + 0.0).tolist()
        figure.text(66, y + 20, name, "bold")
        figure.text(66, y + 38, unit, "small soft")
        figure.table(66, y + 66, rounded, rows, words, cell=cell, digits=digits, largest=(1, 10, 10)[index])
    return figure


if __name__ == "__main__":
    draw().save()
    print(agreement())  # noqa: T201
