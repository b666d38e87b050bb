"""Length of the bundled model's translations by width of the beam, with length normalisation and without."""

from drawing import Drawing

import uwaga

TEXTS = [
    "The committee rejected the proposal because its authors had not explained how it would be paid for.",
    "Two children are playing football in the park while their parents are sitting on a bench and talking.",
    "Our neighbours have a big dog that barks whenever somebody walks past their house.",
    "The price of bread has risen by ten percent since the beginning of the year.",
    "The museum is closed on Mondays, but visitors can still walk in the garden behind the building.",
    "The doctor said that I should drink more water and sleep at least eight hours each night.",
]
WIDTHS = [1, 2, 5, 10, 20, 50]


def draw() -> Drawing:
    """Draw two lines: words of all translations together, by width."""
    translator = uwaga.load()
    figure = Drawing(
        680,
        300,
        "Words of six translations by width of the beam: level with a division by length, falling without",
        model=True,
    )
    left, right, top, bottom, maximum = 60, 480, 30, 240, 100

    def point(index: int, words: int) -> tuple[float, float]:
        return left + (right - left) * index / (len(WIDTHS) - 1), bottom - (bottom - top) * words / maximum

    for words in range(0, maximum + 1, 20):
        figure.line(point(0, words), point(len(WIDTHS) - 1, words), look="grid")
        figure.text(left - 10, point(0, words)[1] + 4, str(words), "end small soft")
    for column, width in enumerate(WIDTHS):
        figure.text(point(column, 0)[0], bottom + 22, str(width), "middle small")
    figure.text((left + right) / 2, bottom + 46, "width of the beam", "middle small soft")
    figure.text(12, 16, "words of six translations", "small soft")
    for formula, name, look in (
        ("average", "divided by length", "accent"),
        ("none", "not divided", "second"),
    ):
        points = []
        for column, width in enumerate(WIDTHS):
            translations = translator.translate(TEXTS, beam=width, length_formula=formula)
            words = sum(len(translation.text.split()) for translation in translations)
            points.append(point(column, words))
            if width == WIDTHS[-1] or (width == 1 and formula == "average"):
                figure.text(points[-1][0], points[-1][1] - 10, str(words), "middle small")
        figure.line(*points, look=f"{look}-line")
        for x, y in points:
            figure.rectangle(x - 3, y - 3, 6, 6, look)
        figure.text(points[-1][0] + 14, points[-1][1] + 5, name, look)
    return figure


if __name__ == "__main__":
    draw().save()
