"""The beginnings that a beam of three keeps at each step of the bundled model, and the best translation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from drawing import Drawing

import uwaga
from uwaga.decoder import Choice
from uwaga.translator import Translator

TEXT, WIDTH, STEPS = "I want to buy a car.", 3, 7
ACROSS, DOWN, WIDE, HIGH, TOP = 78, 66, 62, 44, 42

Beginning = tuple[list[int], float]


def longer(translator: Translator, beginnings: Sequence[Beginning]) -> list[tuple[Beginning, int]]:
    """Return the best extensions of all beginnings by one piece, each with the index of its beginning."""
    decoder = translator.decoder
    source = translator.source.add_special_tokens(translator.source.encode(TEXT))
    found = []
    for parent, (pieces, log_prob) in enumerate(beginnings):
        state = decoder.start(decoder.encode([source]), beams=1)
        for piece in [decoder.symbols.start, *pieces]:
            step = decoder.step(np.array([piece]), state, Choice(count=WIDTH))
            state = step.state
        for piece, score in zip(step.tokens[0].tolist(), step.log_probs[0].tolist(), strict=True):
            found.append((([*pieces, piece], log_prob + score), parent))
    return sorted(found, key=lambda extension: -extension[0][1])[:WIDTH]


def draw() -> Drawing:
    """Draw a column for each step, with a line from each beginning to those that extend it."""
    translator = uwaga.load()
    end = translator.decoder.symbols.end
    best = [*translator.target.encode(translator.translate(TEXT, beam=WIDTH).text), end]
    title = "The three best beginnings at each step of a translation, with their log-probabilities"
    figure = Drawing(ACROSS * STEPS + 8, TOP + DOWN * WIDTH + 12, title, model=True)
    beginnings: list[Beginning] = [([], 0.0)]
    rows = [1]
    for step in range(STEPS):
        x = 12 + ACROSS * step
        figure.text(x + WIDE / 2, 22, str(step + 1), "middle soft")
        extensions = longer(translator, beginnings)
        running, running_rows = [], []
        for row, ((pieces, log_prob), parent) in enumerate(extensions):
            y = TOP + DOWN * row
            is_best = pieces == best[: len(pieces)]
            if step:
                above = TOP + DOWN * rows[parent] + HIGH / 2
                look = "target-line" if is_best else "line"
                figure.line((x - ACROSS + WIDE, above), (x, y + HIGH / 2), look=look)
            figure.rectangle(x, y, WIDE, HIGH)
            if is_best:
                figure.rectangle(x, y, WIDE, HIGH, "target", 0.3)
            name = translator.target.pieces(pieces[-1:])[0].replace("▁", "")
            figure.text(x + WIDE / 2, y + 19, name, "middle small bold" if is_best else "middle small")
            figure.text(x + WIDE / 2, y + 36, f"{log_prob:.1f}".replace("-", "−"), "middle small soft")
            if pieces[-1] != end:
                running.append((pieces, log_prob))
                running_rows.append(row)
        beginnings, rows = running, running_rows
    return figure


if __name__ == "__main__":
    draw().save()
