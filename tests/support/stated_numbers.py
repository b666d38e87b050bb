"""Comparison of numbers in the course with values computed from the repository.

Most belong to the bundled model: its settings, weights and results. Samples and figures show many
more of its numbers, and are checked by themselves.
"""

import atexit
import gc
import importlib
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path

import numpy as np
import pytest
import yaml
from safetensors import safe_open

import uwaga
from uwaga.checkpoints.formats.uwaga.names import BUNDLED, CONFIG, WEIGHTS
from uwaga.decoder import Symbols
from uwaga.engine.interventions import Positions
from uwaga.inspection import look_inside
from uwaga.inspection.interventions import intervene
from uwaga.models.transformer import Transformer
from uwaga.settings import TransformerSettings
from uwaga.translator import Translator

ROOT = Path(__file__).resolve().parents[2]
WORDS = [
    *("zero", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen"),
]
SHARES = {"third": 3, "ninth": 9}
NUMBER = re.compile(
    rf"[-−]?\d+(?:\{{?,\}}?\d{{3}})*(?:\.\d+)?|\b(?:{'|'.join([*WORDS, *SHARES])})\b", re.IGNORECASE
)
CAR = "I want to buy a car."


@dataclass(frozen=True)
class Matrix:
    """An attention matrix: the pieces of its rows and columns, and weights (head, row, column)."""

    rows: Sequence[str]
    columns: Sequence[str]
    weights: np.ndarray

    def heads(self, row: str, column: str, last: bool = False) -> np.ndarray:
        """Return the weight of each head in the first, or the last, row with the given piece."""
        rows = [index for index, piece in enumerate(self.rows) if piece == row]
        return self.weights[:, rows[-1 if last else 0], self.columns.index(column)]


class Model:
    """The bundled model, loaded as in Python and as in the laboratory."""

    def __init__(self) -> None:
        if not BUNDLED.exists():
            pytest.skip("this source tree holds no bundled model")
        config = json.loads((BUNDLED / CONFIG).read_text(encoding="utf-8"))
        self.layers, self.decoding = config["model"], config["decoding"]
        self.width, self.heads = self.layers["width"], self.layers["heads"]
        self.encoder, self.decoder = self.layers["encoder_layers"], self.layers["decoder_layers"]
        self.head_width, self.hidden = self.width // self.heads, self.layers["feed_forward"]
        self.pieces = config["vocabulary"]["source"]

    @cached_property
    def python(self) -> Translator:
        return uwaga.load()

    @cached_property
    def laboratory(self) -> Translator:
        return uwaga.load(dtype="int8")

    @cached_property
    def million_weights(self) -> float:
        with safe_open(BUNDLED / WEIGHTS, "numpy") as file:
            names = [name for name in file.keys() if "scales" not in name]  # noqa: SIM118
            return sum(np.prod(file.get_slice(name).get_shape()) for name in names) / 1e6

    def matrix(self, translator: Translator, text: str, layer: str) -> Matrix:
        """Return the attention matrix of all heads of a layer."""
        inside = look_inside(translator, text, names=[f"{layer}.weights"])
        source = [piece.strip("▁") for piece in inside.source]
        written = [piece.strip("▁") for piece in inside.predicted]
        rows = written if layer.startswith("cross") else source
        return Matrix(rows, source, inside.arrays[f"{layer}.weights"])

    def probabilities(self, source: str, target: str) -> np.ndarray:
        """Return the probability of each piece of a target, and of the end symbol."""
        return np.exp(self.laboratory.score([(source, target)])[0].token_scores)

    def neighbour(self, layer: int, head: int, offset: int, shift: int = 0) -> float:
        """Return a head's mean weight on a neighbour, in chapter 9's sentences, with shifted positions."""
        model = intervene(self.python, Positions("source", tuple(range(shift, shift + 40))))
        texts = [text for text, _ in figure("c09_loss").PAIRS]
        matrices = [self.matrix(model, text, f"encoder.{layer}").weights[head - 1] for text in texts]
        return float(np.concatenate([np.diagonal(weights, offset) for weights in matrices]).mean())


def figure(name: str):
    """Return the module of the script that draws a figure of the course."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs/figures"))
        patch.syspath_prepend(str(ROOT / "docs/figures/learn"))
        return importlib.import_module(name)


def buy_weights(model: Model) -> np.ndarray:
    """Return the weight on *buy* of each head of the last layer, while *kaufen* is written."""
    return model.matrix(model.laboratory, CAR, "cross.2").heads("kaufen", "buy")


def verb_probabilities(model: Model) -> list[float]:
    """Return the probabilities of *möchte* and *will*, and those of *ein* after each."""
    first, second = (model.probabilities(CAR, f"Ich {verb} ein Auto kaufen.") for verb in ("möchte", "will"))
    return [first[1], second[1], first[2], second[2]]


def noun_weight(model: Model, name: str) -> float:
    """Return the weight that head 2 of the first encoder layer gives to the noun after an article."""
    matrix = model.matrix(model.laboratory, f"The man reads the {name}.", "encoder.1")
    return matrix.heads("the", name, last=True)[1]


def full_stop_shares(model: Model) -> list[float]:
    """Return the percentages of the full stop and the end symbol in the row that writes a full stop."""
    matrix = model.matrix(model.python, "The man reads the letter.", "cross.2")
    return [100 * matrix.heads(".", piece).mean() for piece in (".", "</s>")]


def largest_weight_of_to(model: Model) -> float:
    """Return the largest weight of *to* in chapter 0's picture."""
    matrix = model.matrix(model.python, CAR, "cross.2")
    return matrix.weights.mean(axis=0)[:, matrix.columns.index("to")].max()


def end_symbol_scores(model: Model, *targets: str) -> list[float]:
    """Return the log-probability of the end symbol after each translation of *It is raining today.*"""
    pairs = [("It is raining today.", target) for target in targets]
    return [score.token_scores[-1] for score in model.python.score(pairs)]


def empty_translation(model: Model) -> list[float]:
    """Return the pieces of chapter 13's sentence found by a beam of 5, and its log-probability for each."""
    [text] = re.findall(r'^texts = \[\n    "(.*)",$', page("13-choosing-words.md"), re.MULTILINE)
    found = model.python.translate(text, beam=5, length_formula="none")
    pieces = len(found.tokens) + 1  # with the end symbol
    return [pieces, found.log_prob / pieces]


def share_of_bleu_in_long_sentences() -> list[float]:
    """Return the percentage of its BLEU that each model of chapter 2 keeps in the longest sentences."""
    buckets = json.loads(figure("c02_lengths").MEASURED.read_text(encoding="utf-8"))["buckets"]
    shortest, longest = (bucket["systems"] for bucket in (buckets[0], buckets[-1]))
    return [100 * longest[name]["bleu"] / shortest[name]["bleu"] for name in ("Cho", "Bahdanau")]


def deletion_agreement(model: Model) -> list[int]:
    """Return how many target words have their largest weight on the most important word, and the total."""
    chapter = figure("c15_three")
    agreed = []
    for text in chapter.TEXTS:
        rows, (attention, lost) = chapter.matrices(model.python, None, text)
        words = range(len(rows) - 1)  # without the full stop
        agreed += [attention[index].argmax() == lost[index].argmax() for index in words]
    return [sum(agreed), len(agreed)]


def page(name: str) -> str:
    return (ROOT / "docs/learn" / name).read_text(encoding="utf-8")


def window_sizes() -> list[int]:
    """Return the window sizes that chapter 4 derives from the output of its second sample."""
    text = page("04-other-ways.md")
    looks, needs = (
        [*map(int, re.findall(rf"^{name} (.*)$", text, re.MULTILINE)[0].split())]
        for name in ("looks", "needs")
    )
    assert all(need <= look for need, look in zip(needs, looks, strict=True))  # "None needs more."
    same = sum(need == look for need, look in zip(needs, looks, strict=True))
    return [max(needs), same, len(looks), len(looks) - same, looks[4], needs[4]]


def times_by_length() -> dict[int, list[float]]:
    """Return chapter 6's table of times: million multiplications and milliseconds, by words."""
    text = page("06-without-recurrence.md")
    rows = re.findall(r"^ +\| (\d+) \| ([\d.]+(?: \| [\d.]+){3}) \|$", text, re.MULTILINE)
    return {int(words): [*map(float, cells.split(" | "))] for words, cells in rows}


def time_ratios() -> list[float]:
    """Return how many times as long the GRU took, each with the number of words."""
    return [
        number for n in (8, 128, 512) for number in (times_by_length()[n][2] / times_by_length()[n][3], n)
    ]


def multiplications(n: int) -> list[float]:
    """Return the million multiplications of a GRU, and of self-attention with four matrices, of width 256."""
    return [6 * n * 256**2 / 1e6, (4 * n * 256**2 + 2 * n**2 * 256) / 1e6]


def chapter_18_run_sizes() -> list[int]:
    """Return the sentences, dev pairs, weights and updates of chapter 18's run."""
    [text] = re.findall(r'^SETTINGS = """\n(.*?)"""$', page("18-your-own.md"), re.MULTILINE | re.DOTALL)
    settings = yaml.safe_load(text.replace("RATE", "0.01"))
    pieces = settings["text"]["size"]
    symbols = Symbols(start=2, end=3, pad=0, unknown=1)
    model = Transformer(TransformerSettings(**settings["model"]), symbols, pieces, pieces)
    sentences = sum(math.perm(7, size) for size in (2, 3, 4))
    weights = sum(parameter.numel() for parameter in model.parameters())
    return [sentences, 100, weights, settings["training"]["steps"]]


def layer_removal_loss() -> list[float]:
    """Return the loss without the heads of layer 2 in chapter 9, as a difference and as a factor."""
    [loss] = re.findall(r"^cross 2 .* all four: ([\d.]+)$", page("09-heads.md"), re.MULTILINE)
    return [float(loss), math.exp(float(loss))]


Expected = Callable[[Model], float | bool | Sequence[float] | np.ndarray]
N = r"([\w.,−-]*\w)"
STATEMENTS: dict[str, Expected] = {
    # sizes
    rf"has {N} pieces for English and German": lambda m: m.pieces,
    rf"bundled model's vectors have {N} numbers": lambda m: m.width,
    rf"English–German model has vectors of {N} numbers": lambda m: m.width,
    rf"does the same with {N} pieces": lambda m: m.pieces,
    rf"with {N} pieces there are \$(\d+)\^": lambda m: [m.pieces, m.pieces],
    rf"one table of {N} embeddings": lambda m: m.pieces,
    rf"vectors of width {N} become five rows of {N} logits": lambda m: [m.width, m.pieces],
    rf"product with the table gives {N} logits": lambda m: m.pieces,
    rf"bundled model adds sinusoids of width {N}\.": lambda m: m.width,
    rf"bundled model has {N} layers of self-attention with {N} heads": lambda m: [m.encoder, m.heads],
    rf"has {N} encoder layers, {N} decoder layers and {N} layers of cross-attention, with {N} heads each\. "
    rf"That makes {N} ": lambda m: [
        m.encoder, m.decoder, m.decoder, m.heads, m.heads * (m.encoder + 2 * m.decoder),
    ],
    rf"has {N} encoder layers and {N} decoder layers, with {N} heads":
        lambda m: [m.encoder, m.decoder, m.heads],
    rf"heads of the bundled model have width {N}\.": lambda m: m.head_width,
    rf"at most \$d_k\$: {N} of {N} in every head": lambda m: [m.head_width, m.width],
    rf"bundled model has {N} million weights\. They are in {N} attention layers, in {N} feed-forward": (
        lambda m: [m.million_weights, m.encoder + 2 * m.decoder, m.encoder + m.decoder]
    ),
    rf"{N} of them in each block of the bundled model": lambda m: m.hidden,
    rf"bundled model has \$d = {N}\$ and \$d_\{{ff\}} = {N}\$": lambda m: [m.width, m.hidden],
    rf"bundled model has {N} and {N}\. Only the lowest": lambda m: [m.encoder, m.decoder],
    rf"bundled model has {N} encoder blocks and {N} decoder blocks": lambda m: [m.encoder, m.decoder],
    rf"bundled one has {N} blocks and {N}\.": lambda m: [m.encoder, m.decoder],
    rf"bundled model has {N} decoder layers with {N} heads of width {N} and numbers of four bytes\. It keeps "
    r"\$[^$]* = (\S+)\$ bytes": (
        lambda m: [m.decoder, m.heads, m.head_width, 2 * m.decoder * m.heads * m.head_width * 4]
    ),
    rf"{N} times the pieces of the source, plus {N}\.": (
        lambda m: [m.decoding["max_ratio"], m.decoding["max_extra"]]
    ),
    rf"reads \*I want to buy a car\.\* as {N} pieces": lambda m: len(m.python.source.encode(CAR)) + 1,
    rf"the model \({N} MB\) is loaded once":
        lambda m: (sum(file.stat().st_size for file in BUNDLED.iterdir()) / 1e6),
    # weights and probabilities
    r"the four heads of layer 2 give \*buy\* ([\d., and]+)\.": buy_weights,
    rf"Head 1 of layer 2 gives `</s>` more than half, and \*buy\* only {N}\.": lambda m: buy_weights(m)[0],
    rf"The other three give \*buy\* between {N} and {N}\.":
        lambda m: [min(buy_weights(m)[1:]), max(buy_weights(m)[1:])],
    rf"\*to\* gets at most {N} in any row": largest_weight_of_to,
    (
        rf"at step 2 \*möchte\* has {N} and \*will\* {N}\. "
        rf"\*ein\* has {N} after \*möchte\*, and {N} after"
    ): verb_probabilities,
    rf"\*will\* \(want to\) came second, with {N}\.": lambda m: verb_probabilities(m)[1],
    r"After \*Heute\* this factor is less than one in a hundred thousand": (
        lambda m: end_symbol_scores(m, "Heute")[0] < np.log(1e-5)
    ),
    rf"the end symbol has a log-probability near {N}\.": lambda m: end_symbol_scores(m, "Heute regnet es"),
    rf"the second \*the\* gives \*letter\* {N} of its weight and \*book\* {N}\.": (
        lambda m: [noun_weight(m, "letter"), noun_weight(m, "book")]
    ),
    rf"head 2 gives \*letter\* {N} of the weight of \*the\*": lambda m: noun_weight(m, "letter"),
    rf"layer 1, head 2 gives the next piece {N}%": lambda m: 100 * m.neighbour(1, 2, 1),
    rf"layer 3, head 4 gives the previous piece {N}%": lambda m: 100 * m.neighbour(3, 4, -1),
    rf"a head's weight on the previous piece falls from {N} to {N}\]": (
        lambda m: [m.neighbour(3, 4, -1), m.neighbour(3, 4, -1, shift=50)]
    ),
    rf"the other one, with {N} pieces, gets {N}\.": empty_translation,
    # conclusions from what a page shows, and counts
    rf"With \$D = {N}\$, all of these translations stay the same\. The two numbers agree for {N} of the {N} "
    rf"sentences\. {N} need less: the fifth looks {N} pieces away and needs {N}\. None needs more": (
        lambda _: window_sizes()
    ),
    rf"the GRU took {N} times as long as self-attention over {N} words, {N} times over {N}, and {N} times "
    rf"over {N}\.": lambda _: time_ratios(),
    rf"At {N} words self-attention has more multiplications than the GRU and still took a (\w+) of its": (
        lambda _: (
            [512, times_by_length()[512][2] / times_by_length()[512][3]]
            if times_by_length()[512][1] > times_by_length()[512][0]
            else False
        )
    ),
    **{
        rf"\| {n} \| {N} \| {N} \| [\d.]+ \| [\d.]+ \|": partial(lambda n, _: multiplications(n), n)
        for n in (8, 32, 128, 512)
    },
    rf"Without all four it loses {N}, so the geometric mean of the tokens' probabilities falls to a (\w+)": (
        lambda _: layer_removal_loss()
    ),
    rf"writes {N} sentences of two to four different letters, holds {N} out, and trains {N} weights for {N} "
    "updates": lambda _: chapter_18_run_sizes(),
    rf"Cho's model keeps {N}% of its BLEU, and Bahdanau's, the subject of chapter 3, {N}%": (
        lambda _: share_of_bleu_in_long_sentences()
    ),
    rf"For {N} of {N} target words, the largest attention was on the word whose deletion": deletion_agreement,
    rf"The full stop and the end symbol get {N}% and {N}% of the row": full_stop_shares,
}  # fmt: skip
"""Patterns of statements, with numbers in groups, and functions that compute these numbers."""


@cache
def bundled_model() -> Model:
    atexit.register(release_model)
    return Model()


def release_model() -> None:
    """Free the model before the interpreter exits, since the engine reports leaks."""
    bundled_model.cache_clear()
    gc.collect()


@cache
def expected(pattern: str) -> list[float] | bool:
    value = STATEMENTS[pattern](bundled_model())
    return bool(value) if isinstance(value, bool | np.bool_) else [float(x) for x in np.atleast_1d(value)]


def read(number: str) -> float:
    """Return the value of a number that is written in digits or as a word."""
    word = number.lower()
    if word in WORDS or word in SHARES:
        return SHARES[word] if word in SHARES else WORDS.index(word)
    return float(number.translate(str.maketrans("−", "-", "{},")))


def agrees(number: str, value: float) -> bool:
    """Return True if a number is a value rounded, with a tolerance for differences between processors."""
    digits = len(number.partition(".")[2])
    return abs(read(number) - value) <= 0.55 * 10**-digits


@cache
def statements(text: str) -> list[tuple[str, re.Match[str]]]:
    """Return the statements of a text that match a known pattern, with their patterns."""
    text = " ".join(text.split())
    return [(pattern, match) for pattern in STATEMENTS for match in re.finditer(pattern, text)]


def wrong_statements(text: str) -> list[str]:
    """Return the statements of a text whose numbers differ from those of the repository."""
    wrong = []
    for pattern, match in statements(text):
        values = expected(pattern)
        numbers = NUMBER.findall(" ".join(match.groups()))
        if isinstance(values, bool):
            right = values
        else:
            right = len(numbers) == len(values) and all(map(agrees, numbers, values))
        if not right:
            wrong.append(f"{match[0]!r}: {values}")
    return wrong
