"""What the cache of a model like Llama 3 8B needs for each token, by the number of its keys and values."""

from drawing import Drawing

LAYERS, WIDTH, BYTES = 32, 128, 2
ROWS = ((32, "32: one for each head"), (8, "8: Llama 3 8B"), (1, "1: multi-query"))
LEFT, FULL = 20, 270


def cache(heads: int) -> int:
    """Return the bytes for each token: keys and values of all layers."""
    return 2 * LAYERS * heads * WIDTH * BYTES


def draw() -> Drawing:
    """Draw a bar for each number of keys and values in a layer."""
    title = "KiB of cache for each token of a model with 32 layers: 512, 128 and 16, by its heads for keys"
    figure = Drawing(400, 196, title)
    figure.text(LEFT, 20, "heads for keys and values, of 32 heads", "soft small")
    for index, (heads, label) in enumerate(ROWS):
        y = 34 + index * 52
        figure.text(LEFT, y + 14, label)
        wide = FULL * cache(heads) / cache(32)
        figure.rectangle(LEFT, y + 22, wide / 2, 18, "key", 0.6)
        figure.rectangle(LEFT + wide / 2, y + 22, wide / 2, 18, "value", 0.6)
        figure.text(LEFT + wide + 10, y + 36, f"{cache(heads) // 1024} KiB")
    figure.text(LEFT + 210, 68 + 104, "keys", "key small")
    figure.text(LEFT + 250, 68 + 104, "values", "value small")
    return figure


if __name__ == "__main__":
    draw().save()
