"""Bahdanau's encoder and decoder during one step, with the numbers of the example by hand."""

import numpy as np
from drawing import Drawing

WORDS = ("buy", "a", "car")
FORWARD, BACKWARD = np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0])
STATE = np.array([1.0, 0.0])
COLUMNS = (136, 236, 336)
LABEL = 32


def draw() -> Drawing:
    """Draw the source at the top, then states, annotations, scores, weights, context, and the next word."""
    annotations = np.stack([FORWARD, BACKWARD], axis=1)  # (source, width)
    scores = np.tanh(STATE + annotations).sum(axis=1)
    weights = np.exp(scores) / np.exp(scores).sum()
    context = weights @ annotations
    figure = Drawing(
        400,
        626,
        "Bahdanau's machine while it writes Auto: annotations, scores, weights, context, state and word",
    )
    for y, name in ((72, "forward"), (112, "backward"), (166, "1 annotations")):
        figure.text(2, y, name, "small soft")
    for y, name in ((293, "softmax"), (330, "3 weights"), (404, "4 context"), (480, "5 state")):
        figure.text(LABEL, y, name, "small soft")
    states = zip(FORWARD, BACKWARD, strict=True)
    for x, word, name, (ahead, back) in zip(COLUMNS, WORDS, ("h₁", "h₂", "h₃"), states, strict=True):
        figure.text(x, 24, word, "middle bold source")
        figure.line((x, 32), (x, 52), look="source-line", arrow=True)
        figure.rectangle(x - 24, 54, 48, 28)
        figure.text(x, 73, f"{ahead:g}", "middle")
        figure.rectangle(x - 24, 94, 48, 28)
        figure.text(x, 113, f"{back:g}", "middle")
        if x != COLUMNS[-1]:
            figure.line((x + 26, 68), (x + 74, 68), look="source-line", arrow=True)
            figure.line((x + 74, 108), (x + 26, 108), look="source-line", arrow=True)
        figure.line((x, 124), (x, 144), look="source-line", arrow=True)
        figure.rectangle(x - 32, 146, 32, 30, "key", 0.22)
        figure.rectangle(x, 146, 32, 30, "value", 0.22)
        figure.text(x, 166, f"({ahead:g}, {back:g})", "middle")
        figure.text(x - 30, 141, name, "small")
    figure.text(2, 216, "2 scores", "small soft")
    figure.line((62, 232), (62, 220), (COLUMNS[-1] - 4, 220), look="query-line")
    figure.rectangle(2, 234, 78, 30, "query", 0.22)
    figure.text(41, 254, "sᵢ₋₁ = (1, 0)", "middle small")
    for x, score, weight in zip(COLUMNS, scores, weights, strict=True):
        figure.line((x - 20, 178), (x - 20, 232), look="key-line", arrow=True)
        figure.line((x - 4, 220), (x - 4, 232), look="query-line", arrow=True)
        figure.line((x + 34, 162), (x + 42, 162), (x + 42, 382), look="value-line", arrow=True)
        figure.rectangle(x - 32, 234, 60, 30)
        figure.text(x - 2, 254, f"{score:.3f}", "middle")
        figure.line((x - 2, 266), (x - 2, 308), arrow=True)
        figure.rectangle(x - 32, 310, 60, 30, "grid")
        figure.rectangle(x - 32, 310, 60 * weight, 30, "accent", 0.4)
        figure.text(x - 2, 330, f"{weight:.3f}", "middle")
        figure.line((x - 2, 342), (x - 2, 382), arrow=True)
    figure.rectangle(104, 384, 278, 30, "value", 0.22)
    figure.text(243, 404, f"cᵢ = ({context[0]:.3f}, {context[1]:.3f})", "middle")
    figure.line((20, 266), (20, 489), (98, 489), look="query-line", arrow=True)
    figure.line((138, 416), (138, 472), look="value-line", arrow=True)
    figure.rectangle(104, 474, 68, 30, "target", 0.22)
    figure.text(138, 494, "sᵢ", "middle")
    figure.text(LABEL, 573, "word", "small soft")
    figure.text(138, 574, "Auto", "middle bold target")
    figure.line((138, 506), (138, 556), look="target-line", arrow=True)
    figure.text(286, 494, "ein", "middle bold target")
    figure.text(306, 494, "last word", "small soft")
    figure.line((266, 489), (176, 489), look="target-line", arrow=True)
    figure.line((162, 569), (286, 569), (286, 504), look="target-line", arrow=True)
    figure.text(302, 556, "6 repeat with", "small soft")
    figure.text(302, 572, "the new word", "small soft")
    for x, name, look in ((2, "query", "query"), (82, "key", "key"), (146, "value", "value")):
        figure.rectangle(x, 606, 10, 10, look, 0.8)
        figure.text(x + 14, 615, name, "small")
    for x, name in ((212, "source"), (292, "target")):
        figure.rectangle(x, 606, 10, 10, name, 0.8)
        figure.text(x + 14, 615, name, "small")
    return figure


if __name__ == "__main__":
    draw().save()
