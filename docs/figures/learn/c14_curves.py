"""Loss, and rows that look at the right word, by update: all compared models that have frames."""

import math

from drawing import Drawing
from recorded import read_recording

NAMES = {"cho": "Cho", "bahdanau": "Bahdanau", "luong": "Luong", "transformer": "Transformer"}
LOOKS = {
    "cho": ("line", "soft"),
    "bahdanau": ("second-line", "second"),
    "luong": ("line", ""),
    "transformer": ("accent-line", "accent"),
}
DASHES = {"cho": "2 3", "luong": "7 4"}
LEFT, WIDTH, TOP, HEIGHT = 60, 250, 50, 220
FIRST, LAST = 50, 4000


def across(update: float, left: float) -> float:
    """Return the horizontal position of an update on a logarithmic axis."""
    return left + WIDTH * math.log(update / FIRST) / math.log(LAST / FIRST)


def panel(
    figure: Drawing, left: float, title: str, ticks: tuple[float, ...], maximum: float, percent: bool
) -> None:
    """Draw the axes of a panel."""
    figure.text(left, TOP - 18, title, "small bold")
    for tick in ticks:
        y = TOP + HEIGHT * (1 - tick / maximum)
        figure.line((left, y), (left + WIDTH, y), look="grid")
        figure.text(left - 8, y + 4, f"{tick:.0%}" if percent else f"{tick:g}", "end small soft")
    for update in (50, 150, 500, 1500, 4000):
        figure.text(across(update, left), TOP + HEIGHT + 18, f"{update:,}", "middle small soft")
    figure.text(left + WIDTH / 2, TOP + HEIGHT + 38, "updates", "middle small soft")


def curve(figure: Drawing, name: str, points: list[tuple[float, float]]) -> None:
    """Draw the line of a model, dashed for two of them."""
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    dash = f' stroke-dasharray="{DASHES[name]}"' if name in DASHES else ""
    figure.parts.append(f'<path d="{path}" class="{LOOKS[name][0]}"{dash}/>')


def draw() -> Drawing:
    """Draw both panels with a legend below."""
    recorded_runs = read_recording()
    figure = Drawing(
        680,
        350,
        "Loss on dev pairs by update, and share of pieces that look at the right word: the loss falls first, "
        "then the share rises",
    )
    other = LEFT + WIDTH + 90
    panel(figure, LEFT, "loss in nats per piece", (0, 2, 4, 8), 9, percent=False)
    panel(figure, other, "pieces that look at the right word", (0, 0.25, 0.5, 0.75, 1), 1, percent=True)
    y = TOP + HEIGHT * (1 - recorded_runs["without"]["alone"] / 9)
    figure.line((LEFT, y), (LEFT + WIDTH, y), look="grid")
    figure.text(LEFT + WIDTH, y - 5, "frequencies alone", "end small soft")
    for number, (name, run) in enumerate(recorded_runs["runs"].items()):
        indexes = [index for index, update in enumerate(run["updates"]) if update >= FIRST]
        x = [across(run["updates"][index], LEFT) for index in indexes]
        curve(
            figure,
            name,
            [
                (x_value, TOP + HEIGHT * (1 - run["loss"][index] / 9))
                for x_value, index in zip(x, indexes, strict=True)
            ],
        )
        view = run["views"].get("mean") or run["views"].get("head")
        if view:
            shares = [view["linked"][index] for index in indexes]
            curve(
                figure,
                name,
                [
                    (x_value - LEFT + other, TOP + HEIGHT * (1 - share))
                    for x_value, share in zip(x, shares, strict=True)
                ],
            )
        legend = LEFT + 150 * number
        curve(figure, name, [(legend, 336), (legend + 30, 336)])
        figure.text(legend + 36, 340, NAMES[name], f"small {LOOKS[name][1]}")
    return figure


if __name__ == "__main__":
    draw().save()
