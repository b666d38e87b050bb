"""The matrices of attention with their shapes: each product meets at the corner of its two factors."""

from drawing import Drawing

M, N, D_K, D_V = 3, 5, 2, 4
CELL = 20


def matrix(figure: Drawing, x: float, y: float, shape: tuple[int, int], look: str) -> None:
    """Draw a matrix of empty cells in a colour."""
    rows, columns = shape
    figure.rectangle(x, y, columns * CELL, rows * CELL, look, 0.3)
    for row in range(rows + 1):
        figure.line((x, y + row * CELL), (x + columns * CELL, y + row * CELL), look=f"{look}-line")
    for column in range(columns + 1):
        figure.line((x + column * CELL, y), (x + column * CELL, y + rows * CELL), look=f"{look}-line")


def draw() -> Drawing:
    """Draw Q and Kᵀ around the weights, and the weights and V around the result."""
    figure = Drawing(
        390,
        320,
        "Q is m by d_k, K transposed d_k by n, their product m by n; V is n by d_v, the result m by d_v",
    )
    left, middle, right, top, bottom = 24, 124, 282, 64, 208
    matrix(figure, left, bottom, (M, D_K), "query")
    matrix(figure, middle, top + (N - D_K) * CELL, (D_K, N), "key")
    matrix(figure, right, top, (N, D_V), "value")
    matrix(figure, middle, bottom, (M, N), "accent")
    matrix(figure, right, bottom, (M, D_V), "accent")
    for x, y, name, shape, look in (
        (left + CELL * D_K / 2, bottom - 30, "Q", "m × dₖ", "query"),
        (middle + CELL * N / 2, top + (N - D_K) * CELL - 30, "Kᵀ", "dₖ × n", "key"),
        (right + CELL * D_V / 2, top - 30, "V", "n × dᵥ", "value"),
        (middle + CELL * N / 2, bottom + CELL * M + 22, "weights", "m × n", "accent"),
        (right + CELL * D_V / 2, bottom + CELL * M + 22, "result", "m × dᵥ", "accent"),
    ):
        figure.text(x, y, name, f"middle bold {look}")
        figure.text(x, y + 18, shape, "middle")
    y = bottom + CELL * M / 2
    figure.line((left + CELL * D_K + 8, y), (middle - 8, y), arrow=True)
    figure.line((middle + CELL * N + 8, y), (right - 8, y), arrow=True)
    return figure


if __name__ == "__main__":
    draw().save()
