"""Two steps of Luong's decoder, with the arrow of input feeding from the first to the second."""

from drawing import Drawing

STEP = 330


def draw() -> Drawing:
    """Draw each step from the bottom up: input, state, attention, attentional vector, word."""
    figure = Drawing(
        700,
        390,
        "Two steps of a decoder: state, attention, attentional vector, word; input feeding passes the "
        "attentional vector on",
    )
    for step, (index, before) in enumerate((("₁", "₀"), ("₂", "₁"))):
        left = 60 + STEP * step
        centre = left + 70
        figure.text(centre, 26, f"word y{index}", "middle")
        figure.line((centre, 70), (centre, 36), arrow=True)
        figure.rectangle(left, 72, 140, 36, "box")
        figure.text(centre, 95, f"s̃{index} = tanh(W [c; s])", "middle small")
        figure.line((centre, 246), (centre, 112), arrow=True)
        figure.rectangle(left + 100, 156, 130, 36)
        figure.text(left + 165, 179, f"attention: c{index}", "middle small")
        figure.line((left + 140, 254), (left + 165, 196), arrow=True)
        figure.line((left + 165, 154), (left + 130, 112), arrow=True)
        figure.rectangle(left, 250, 140, 36)
        figure.text(centre, 273, f"state s{index}", "middle")
        figure.line((centre + 30, 350), (centre + 30, 290), arrow=True)
        figure.text(centre + 30, 370, f"word y{before}", "middle")
    figure.line((204, 268), (386, 268), arrow=True)
    figure.text(295, 260, "LSTM", "middle small soft")
    x = 60 + STEP + 40
    figure.line((202, 90), (330, 90), (330, 330), (x, 330), (x, 290), look="accent-line", arrow=True)
    figure.text(322, 318, "input feeding: s̃₁", "end small accent")
    figure.line((100, 330), (100, 290), look="accent-line", arrow=True)
    figure.text(100, 347, "s̃₀ = 0", "middle small accent")
    return figure


if __name__ == "__main__":
    draw().save()
