"""The tree of the chapter's five sentences: what greedy search and a beam of two find in it."""

from drawing import Drawing

FIRST = [("the", 0.6, 110), ("a", 0.4, 290)]
SECOND = [
    ("the", "cat", 0.45, 50),
    ("the", "dog", 0.35, 110),
    ("the", "</s>", 0.2, 170),
    ("a", "cat", 0.9, 260),
    ("a", "</s>", 0.1, 320),
]
BEST, GREEDY = ("a", "cat"), ("the", "cat")


def draw() -> Drawing:
    """Draw start, first words, second words and the end, with the probability of each beginning."""
    figure = Drawing(
        720,
        372,
        "A tree of five sentences: greedy search goes by 0.6 to 0.27, the best sentence by 0.4 to 0.36",
    )
    for x, name in ((50, "start"), (218, "first word"), (420, "second word"), (620, "end")):
        figure.text(x, 20, name, "middle soft")
    figure.rectangle(10, 182, 80, 36)
    figure.text(50, 205, "1.00", "middle")
    roots = {}
    for word, p, y in FIRST:
        look = "second-line" if word == BEST[0] else "accent-line"
        figure.line((90, 200), (158, y), look=look, arrow=True)
        figure.text(112, 200 + (y - 200) * 0.62 + (-8 if y < 200 else 18), f"{p:.1f}", "end small")
        figure.rectangle(160, y - 18, 116, 36)
        figure.rectangle(160, y - 18, 116, 36, "second" if word == BEST[0] else "accent", 0.3)
        figure.text(218, y + 5, f"{word}  {p:.2f}", "middle bold")
        roots[word] = (p, y)
    for first, word, p, y in SECOND:
        before, offset = roots[first]
        path = (first, word)
        look = "second-line" if path == BEST else "accent-line" if path == GREEDY else "line"
        figure.line((276, offset), (358, y), look=look, arrow=True)
        figure.text(340, offset + (y - offset) * 0.78 + (20 if y > offset else -8), f"{p:.2f}", "end small")
        total = before * p
        survives = path in (BEST, GREEDY)
        colour = "second" if path == BEST else "accent" if path == GREEDY else "box"
        figure.rectangle(360, y - 18, 120, 36)
        if survives:
            figure.rectangle(360, y - 18, 120, 36, colour, 0.3)
        figure.text(420, y + 5, f"{word}  {total:.2f}", "middle bold" if survives else "middle")
        if word == "</s>":
            figure.text(492, y + 5, "ended", "small soft")
            continue
        figure.line((480, y), (558, y), look=look, arrow=True)
        figure.text(519, y - 8, "1.00", "middle small")
        figure.rectangle(560, y - 18, 120, 36)
        if survives:
            figure.rectangle(560, y - 18, 120, 36, colour, 0.3)
        figure.text(620, y + 5, f"</s>  {total:.2f}", "middle bold" if survives else "middle")
    figure.text(10, 360, "green: greedy search", "small accent")
    figure.text(160, 360, "orange: the most probable sentence", "small second")
    figure.text(410, 360, "coloured boxes: kept by a beam of 2", "small soft")
    return figure


if __name__ == "__main__":
    draw().save()
