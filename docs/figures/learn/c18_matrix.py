"""The cross-attention of chapter 18's model for one sentence, after 200 updates.

The numbers are those of the run of ``c18_curve.py`` with the peak rate 0.01, rounded to two digits:

    python -c "import uwaga; t = uwaga.load('runs/0.01-curve/model');
    print(t.translate('g e b d', attention=True).attention.round(2).tolist())"
"""

from drawing import Drawing

SOURCE = ["g", "e", "b", "d", "</s>"]
TARGET = ["D", "B", "E", "G", "</s>"]
WEIGHTS = [
    [0.00, 0.00, 0.07, 0.93, 0.00],
    [0.01, 0.10, 0.88, 0.00, 0.00],
    [0.15, 0.85, 0.00, 0.00, 0.00],
    [0.89, 0.10, 0.01, 0.00, 0.00],
    [0.06, 0.87, 0.03, 0.01, 0.03],
]


def draw() -> Drawing:
    """Draw the matrix (predicted, source) with its words."""
    figure = Drawing(
        400,
        226,
        "Cross-attention of the reversing model: four words lie on the diagonal from the top right",
    )
    figure.text(250, 20, "source", "middle source bold")
    figure.text(16, 140, "predicted", "target bold")
    figure.table(125, 58, WEIGHTS, TARGET, SOURCE, cell=50)
    return figure


if __name__ == "__main__":
    draw().save()
