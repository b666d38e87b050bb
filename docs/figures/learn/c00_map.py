"""The map of the course: its chapters in six parts, and the path of an afternoon."""

from drawing import Drawing

PARTS = (
    ("First look", (0, 1)),
    ("Before attention", (2,)),
    ("Attention", (3, 4, 5)),
    ("Self-attention", (6, 7, 8, 9)),
    ("The Transformer", (10, 11, 12)),
    ("At work", (13, 14, 15)),
    ("Other models, and yours", (16, 17, 18)),
)
AFTERNOON = {0, 1, *range(6, 13)}
RADIUS, STEP, HIGH = 15, 42, 46


def draw() -> Drawing:
    """Draw a row of circles for each part, filled if the chapter is on the short path."""
    title = "The course as a map: nineteen chapters in seven parts, with nine on the path of an afternoon"
    figure = Drawing(400, HIGH * len(PARTS) + 56, title)
    for row, (name, chapters) in enumerate(PARTS):
        y = 30 + HIGH * row
        figure.text(10, y + 5, name)
        for column, chapter in enumerate(chapters):
            x = 220 + STEP * column
            if column:
                figure.line((x - STEP + RADIUS, y), (x - RADIUS, y), look="grid")
            filled = chapter in AFTERNOON
            figure.parts.append(
                f'<circle cx="{x}" cy="{y}" r="{RADIUS}" class="{"accent" if filled else "box"}" '
                f'fill-opacity="{0.3 if filled else 1}"/>'
            )
            figure.text(x, y + 5, str(chapter), "middle bold" if filled else "middle")
    y = 30 + HIGH * len(PARTS)
    figure.parts.append(f'<circle cx="24" cy="{y}" r="10" class="accent" fill-opacity="0.3"/>')
    figure.text(42, y + 5, "in an afternoon", "small")
    figure.circle(190, y, 10, "box")
    figure.text(208, y + 5, "the whole course", "small")
    return figure


if __name__ == "__main__":
    draw().save()
