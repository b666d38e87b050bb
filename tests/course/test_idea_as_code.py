"""The NumPy program of the course: its length, its agreement with the engine, and its chapters."""

import ast
import importlib
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import uwaga
from uwaga.checkpoints.formats.uwaga.names import BUNDLED

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "examples" / "attention.py"
SOURCE = FILE.read_text(encoding="utf-8")
FUNCTIONS = {node.name: node for node in ast.parse(SOURCE).body if isinstance(node, ast.FunctionDef)}
CHAPTERS = sorted((ROOT / "docs" / "learn").glob("[0-9]*.md"))
pytestmark = pytest.mark.skipif(not BUNDLED.exists(), reason="this source tree holds no bundled model")


def functions_of(page: Path) -> list[str]:
    """Return the functions of the program that a chapter shows, in the order of the page."""
    return re.findall(r"^ *examples/attention\.py::(\w+)$", page.read_text(encoding="utf-8"), re.MULTILINE)


def namespace_after_chapter(last: int) -> dict:
    """Return the namespace after the code of all chapters up to the given number has been run."""
    names = {name for page in CHAPTERS if int(page.name[:2]) <= last for name in functions_of(page)}
    functions = [node for name, node in FUNCTIONS.items() if name in names]
    namespace = {"np": np}
    exec(compile(ast.Module(functions, []), FILE, "exec"), namespace)
    return namespace


@pytest.fixture(scope="module")
def code():
    pytest.MonkeyPatch().syspath_prepend(str(FILE.parent))
    return importlib.import_module("attention")


@pytest.fixture(scope="module")
def model(code):
    return code.load()


def test_course_program_is_short_and_computes_only_with_numpy():
    assert len(SOURCE.splitlines()) <= 60
    imports = re.findall(r"^(?:import|from) (\w+)", SOURCE, re.MULTILINE)
    assert imports == ["numpy", "safetensors", "uwaga"]  # the last two load the weights and the tokeniser


def test_chapters_show_every_function_of_the_program_exactly_once():
    names = [name for page in CHAPTERS for name in functions_of(page)]
    assert sorted(names) == sorted(FUNCTIONS)


def log_prob(state, model, source, target):
    """Return the log-probability of a target (with start and end symbols) according to a namespace."""
    memory = state["stack"](model, "encoder", 4, source)
    mask = state["look_ahead"](len(target) - 1)
    rows = state["stack"](model, "decoder", 2, target[:-1], memory, mask)
    probabilities = state["softmax"](rows @ model["output_weight"].T)
    return float(np.log(probabilities[range(len(target) - 1), target[1:]]).sum())


SUBJECTS = ("I", "The old man", "My sister", "A dog", "Two women", "Nobody", "A teacher", "We", "They", "You")
VERBS = (
    "want to buy a car", "will read the newspaper", "could not find the keys", "saw the letter on the table",
    "had to wait for the train", "forgot to close the window at night", "did not know the answer", "sang",
    "would like some more tea, please", "asked: why is it so cold",
)  # fmt: skip


@pytest.mark.slow
def test_course_program_scores_100_sentences_like_the_engine(code, model, translator):
    decoder, largest = translator.decoder, 0.0
    sources = [f"{subject} {verb}." for subject in SUBJECTS for verb in VERBS]
    assert len(sources) == 100
    targets = translator.translate(sources, beam=1)
    scores = translator.score([(text, target.text) for text, target in zip(sources, targets, strict=True)])
    for text, target, score in zip(sources, targets, scores, strict=True):
        source = translator.source.add_special_tokens(translator.source.encode(text))
        ids = [decoder.symbols.start, *translator.target.encode(target.text), decoder.symbols.end]
        difference = abs(log_prob(vars(code), model, source, ids) - score.log_prob)
        largest = max(largest, difference / len(ids))  # for each token
    assert largest < 1e-5


def test_course_program_translates_like_greedy_search(code, model, translator):
    for text in ("I want to buy a car.", "The old man sits on the bench.", "Thank you."):
        source = translator.source.add_special_tokens(translator.source.encode(text))
        ids = code.translate(model, source)
        translation = translator.translate(text, beam=1)
        assert translator.target.decode([int(token) for token in ids]) == translation.text


def test_chapter_3_code_matches_hand_calculation():
    scores = namespace_after_chapter(3)["additive"](
        np.array([1, 0]), np.array([[1, 0], [0, 1], [1, 1]]), np.eye(2), np.eye(2), np.ones(2)
    )
    assert scores == pytest.approx([math.tanh(2), 2 * math.tanh(1), math.tanh(2) + math.tanh(1)])


@settings(deadline=None)
@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=8))
def test_chapter_5_softmax_handles_any_scale(scores):
    weights = namespace_after_chapter(5)["softmax"](np.array([scores]))
    assert weights.sum() == pytest.approx(1) and (weights >= 0).all()
    assert np.argmax(scores) in np.flatnonzero(weights[0] == weights.max())


def test_code_of_chapters_7_to_9_matches_package_layers(model):
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(0)
    q, k, v = random.normal(size=(3, 8)), random.normal(size=(5, 8)), random.normal(size=(5, 4))
    expected = torch.nn.functional.scaled_dot_product_attention(*map(torch.tensor, (q, k, v)))
    assert np.allclose(namespace_after_chapter(7)["attention"](q, k, v), expected)

    from uwaga.models.layers.positions import sinusoids

    assert np.allclose(namespace_after_chapter(8)["positions"](50, 256), sinusoids(50, 256), atol=1e-5)
    with torch.no_grad():
        network = uwaga.load(engine="torch").decoder
        x = random.normal(size=(6, 256))
        layer = network.encoder[0]
        rows = torch.tensor(x, dtype=torch.float32)[None]
        context, _ = layer.attention(rows, layer.attention.project(rows))
        assert np.allclose(
            namespace_after_chapter(9)["heads"](model, "encoder.0.attention", x, x), context[0], atol=1e-5
        )


def test_chapter_11_mask_gives_later_positions_no_weight(model):
    state = namespace_after_chapter(11)
    mask = state["look_ahead"](6)
    x = np.random.default_rng(0).normal(size=(6, 256))
    changed = x.copy()
    changed[4:] += 1
    memory = x[:3]
    before = state["block"](model, "decoder.0", x, memory, mask)
    after = state["block"](model, "decoder.0", changed, memory, mask)
    assert (before[:4] == after[:4]).all() and (before[4:] != after[4:]).any()


def test_chapter_12_code_scores_a_translation_like_the_engine(model, translator):
    state = namespace_after_chapter(12)
    source = translator.source.add_special_tokens(translator.source.encode("Thank you."))
    target = [2, *translator.target.encode("Danke."), 3]
    expected = translator.score([("Thank you.", "Danke.")])[0].log_prob
    assert log_prob(state, model, source, target) == pytest.approx(expected, abs=1e-4)
