"""Numbers that the course's calculators show; they must occur in the texts for use without JavaScript."""

import itertools
import re
from collections.abc import Iterator

import numpy as np

PARAMETERS = re.compile(r"[-−]?\d+(?:\.\d+)?")


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def shown_numbers(inputs: dict, text: str) -> Iterator[float]:
    """Yield the numbers that a calculator can show for the parameter values that the text names."""
    parameters = {float(number.replace("−", "-")) for number in PARAMETERS.findall(text)}
    whole = {int(value) for value in parameters if value.is_integer()}
    if "gru" in inputs:
        for u in whole:
            yield from gru_states(inputs["gru"], u)
    elif "positions" in inputs:
        widths = {inputs["positions"]["width"], *(width for width in whole if width > 0 and width % 2 == 0)}
        for width, distance in itertools.product(widths, range(inputs["positions"]["count"])):
            rates = 10000 ** (-np.arange(0, width, 2) / width)
            yield float(np.cos(rates * distance).sum())
    elif "softmax" in inputs:
        scores = np.array(inputs["softmax"]["scores"], float)
        for index, value in itertools.product(range(len(scores)), whole):
            changed = softmax(np.where(np.arange(len(scores)) == index, value, scores))
            yield from (*changed, *-np.log(changed))
    elif "queries" in inputs:
        temperatures = {1.0, *parameters} if inputs.get("temperature") else {1.0}
        for temperature in temperatures - {0.0}:
            yield from attention_numbers(inputs, temperature)


def gru_states(inputs: dict, u: float) -> Iterator[float]:
    """Yield the states of the GRU with a single unit in chapter 2."""
    h, w = 0.0, inputs["w"]
    for x in inputs["inputs"]:
        gate = 1 / (1 + np.exp(-w * x - u * h))
        h = gate * h + (1 - gate) * np.tanh(w * x + u * gate * h)
        yield float(h)


def attention_numbers(inputs: dict, temperature: float) -> Iterator[float]:
    """Yield scores, weights and contexts of dot-product attention, with and without scaling."""
    queries, keys = np.array(inputs["queries"], float), np.array(inputs["keys"], float)
    values = np.array(inputs.get("values", inputs["keys"]), float)
    for divisor in (1, np.sqrt(queries.shape[1])):
        scores = queries @ keys.T / divisor / temperature
        weights = softmax(scores)
        yield from (*scores.flat, *weights.flat, *(weights @ values).flat)


def sums_of_exponentials(scores: list[list[float]]) -> Iterator[float]:
    for row in scores:
        yield from (*np.exp(row), np.exp(row).sum())


BY_HAND: dict[str, list[float]] = {
    "02": [1 / (1 + np.exp(-x)) for x in (1, 0.20487, 0.16308)],
    "03": [np.tanh(1), *np.exp([np.tanh(2), 2 * np.tanh(1), np.tanh(1) + np.tanh(2)])],
    "04": [np.tanh(2), 2 * np.tanh(1), np.tanh(1) + np.tanh(2)],
    "05": [1 / (1 + np.exp(-16)), 1 / (1 + np.exp(16))],
    "07": [*np.array([4, 2]) / np.sqrt(2), *sums_of_exponentials([[4 / np.sqrt(2), 0, 2 / np.sqrt(2)]])],
    "08": [0, 1, np.sin(3), np.cos(3), np.sin(0.03), 2 + 2 * np.log(1.5) / np.log(8)],
    "09": [2 / np.sqrt(2)],
    "10": [(9 - 4) / 3, (3 - 4) / 3],
    "11": [*sums_of_exponentials([[0.7], [0.1, 0.6], [0.1, 0.3, 0.6], [0.1, 0.3, 0.3, 0.3]])],
    "13": [*np.log([0.36, 0.27, 0.21, 0.12, 0.04])],
}
"""Numbers by chapter that its tables calculate by hand and no sample prints."""
MEASURED = {
    "13": (
        "11.9", "20.4", "24.1", "24.2", "35.7", "48.2", "49.6", "50.4",
    ),  # the chapter's commands, on Multi30k
    "18": ("1.05", "1.67", "1.98", "2.05", "99.7"),  # runs of the chapter's sample
}  # fmt: skip
"""Measured numbers in tables of chapters, which no test repeats."""
