"""Two steps of Luong's decoder, with the arrow of input feeding from the first to the second."""

from drawing import Drawing

STEP = 202


def draw() -> Drawing:
    """Draw each step from the bottom up: input, state, attention, attentional vector, word."""
    figure = Drawing(
        400,
        390,
        "Two steps of a decoder: state, attention, attentional vector, word; input feeding passes the "
        "attentional vector on",
    )
    for step, (index, before) in enumerate((("₁", "₀"), ("₂", "₁"))):
        left = 8 + STEP * step
        centre = left + 64
        figure.text(centre, 26, f"word y{index}", "middle target")
        figure.line((centre, 70), (centre, 36), look="target-line", arrow=True)
        figure.rectangle(left, 72, 128, 36)
        figure.text(centre, 95, f"s̃{index} = tanh(W [c; s])", "middle small")
        figure.line((centre - 30, 246), (centre - 30, 112), look="query-line", arrow=True)
        figure.rectangle(left + 76, 156, 98, 36, "value", 0.22)
        figure.text(left + 125, 179, f"attention: c{index}", "middle small")
        figure.line((left + 110, 246), (left + 110, 196), look="query-line", arrow=True)
        figure.line((left + 110, 154), (left + 110, 112), look="value-line", arrow=True)
        figure.rectangle(left, 250, 128, 36, "query", 0.22)
        figure.text(centre, 273, f"state s{index}", "middle")
        figure.line((centre + 34, 350), (centre + 34, 290), look="target-line", arrow=True)
        figure.text(centre + 34, 370, f"word y{before}", "middle target")
    figure.line((138, 268), (206, 268), arrow=True)
    figure.text(172, 260, "LSTM", "middle small soft")
    x = 8 + STEP + 34
    figure.line((138, 90), (192, 90), (192, 330), (x, 330), (x, 290), look="accent-line", arrow=True)
    figure.text(214, 348, "input feeding", "end small accent")
    figure.line((42, 330), (42, 290), look="accent-line", arrow=True)
    figure.text(42, 347, "s̃₀ = 0", "middle small accent")
    return figure


if __name__ == "__main__":
    draw().save()
