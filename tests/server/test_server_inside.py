"""`POST /v1/inside`: the numbers of Python and of the npm package, to the bit, and refusals."""

from __future__ import annotations

import base64
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest
import tiny_models as tiny
from c_library import random_edits, same_arrays
from page_visit import BUNDLED, other_way
from recurrent_variants import VARIANTS
from running_server import RunningServer, running_server

import uwaga
from uwaga.checkpoints.formats.uwaga.folder import save_model
from uwaga.engine.interventions import KINDS
from uwaga.inspection import look_inside, trace
from uwaga.inspection.interventions import intervene
from uwaga.models.build import build_model

ROOT = Path(__file__).resolve().parents[2]
TEXTS = [
    line
    for line in (ROOT / "src/uwaga/conversion/sentences.txt").read_text(encoding="utf-8").splitlines()
    if line.isascii()
]
TEXT = "I want to buy a car."


@pytest.fixture(scope="module")
def portable():
    """Python, the server and WebAssembly compute with the same kernels."""
    before = os.environ.get("UWAGA_ISA")
    os.environ["UWAGA_ISA"] = "portable"
    yield
    os.environ.pop("UWAGA_ISA")
    if before is not None:
        os.environ["UWAGA_ISA"] = before


@pytest.fixture(scope="module")
def server(portable, tmp_path_factory):
    """The bundled model, a chain from English over German to Polish, and a recurrent model to Spanish."""
    folder = tmp_path_factory.mktemp("server")
    words = tiny.tokeniser()
    shape = VARIANTS["bahdanau-conditional"].model_copy(update={"max_length": 60})
    model = build_model(shape, words.symbols, words.size, words.size).eval()
    save_model(folder / "recurrent", model, shape, tiny.DECODING, words, words, ("en", "es"), "# card\n")
    models = ["bundled", str(other_way(folder, "de", "pl")), str(folder / "recurrent")]
    with running_server(folder, models=models, limits={"characters": 20_000}) as running:
        yield running


@pytest.fixture(scope="module")
def translator(portable):
    return uwaga.load(device="cpu", threads=1)


def ask(server: RunningServer, **body) -> httpx.Response:
    return httpx.post(
        f"{server.url}/v1/inside", json={"text": TEXT, "source": "en", "target": "de"} | body, timeout=60
    )


def array(given: dict) -> np.ndarray:
    return np.frombuffer(base64.b64decode(given["data"]), "<f4").reshape(given["shape"])


def arrays(one: dict) -> dict[str, np.ndarray]:
    """The arrays of a translation by the names of the C library."""
    found = {f"attention.{kind}": of for kind, of in one.get("attention", {}).items()}
    return {name: array(of) for name, of in (found | one.get("insight", {})).items()}


@pytest.mark.parametrize("seed", range(6))
def test_arrays_and_scores_are_those_of_python(server, translator, seed):
    drawn, text = random.Random(seed), TEXTS[seed][:60].strip()
    edits, interventions = random_edits(translator.decoder.settings, seed) if seed else ([], [])
    edited = intervene(translator, *interventions) if seed else translator
    forced = drawn.choice([None, "Ein Hund läuft."])
    names = ["cross.2.weights", "encoder.1.scores", "decoder.2.value", "logits"]
    given = {} if forced is None else {"forced": forced}
    answer = ask(server, text=text, edits=edits, insight=names, attention=True, beam=1, **given)
    assert answer.status_code == 200, answer.text
    [one] = answer.json()["candidates"]
    wanted = edited.translate(text, beam=1, split="never") if forced is None else None
    made = wanted.text if wanted is not None else forced
    assert one["text"] == made
    [score] = edited.score([(text, made)])
    assert one["log_probs"] == list(score.token_scores if wanted is None else wanted.token_scores)
    attended = edited.attend(text, made).attentions
    maps = {f"attention.{kind}": getattr(attended, kind) for kind in KINDS}
    same_arrays(arrays(one), dict(look_inside(edited, text, made, names).arrays) | maps)


def test_the_best_candidates_of_each_step_are_the_softmax_of_the_logits(server, translator):
    made = ask(server, steps=5, insight=["logits"]).json()
    [best] = made["candidates"]
    logits = array(best["insight"]["logits"]).astype(np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    assert len(made["steps"]) == len(best["log_probs"]) == len(logits)
    for step, row in zip(made["steps"], log_probs, strict=True):
        tokens = [one["token"] for one in step]
        assert sorted(row[tokens]) == sorted(np.sort(row)[-5:])
        np.testing.assert_allclose([one["log_prob"] for one in step], row[tokens], atol=1e-4)
        assert [made["vocabulary"][str(token)] for token in tokens] == translator.target.pieces(tokens)


def test_the_tree_holds_the_n_best_list(server):
    made = ask(server, beam=4, nbest=4, tree=True).json()
    tree = array(made["tree"])
    for one in made["candidates"]:
        wanted = [*one["tokens"], made["model"]["end"]]
        ends = [at for at, row in enumerate(tree) if row[1] == wanted[-1]]
        assert any(path(tree, at) == wanted for at in ends), one["text"]


def path(tree: np.ndarray, at: int) -> list[int]:
    tokens: list[int] = []
    while at >= 0:
        tokens.insert(0, int(tree[at, 1]))
        at = int(tree[at, 0])
    return tokens


def test_sampling_is_pythons(server, translator):
    options = {"sample": True, "temperature": 1.3, "top_k": 20, "top_p": 0.9, "seed": 7}
    [one] = ask(server, **options).json()["candidates"]
    wanted = translator.translate(TEXT, split="never", **options)
    assert (one["text"], one["log_probs"]) == (wanted.text, list(wanted.token_scores))


@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 3, "nbest": 3}, {"forced": "Ich will ein Auto."}])
def test_the_shape_and_numbers_are_those_of_the_npm_package(server, options):
    edits = [{"layer": 2, "head": 1, "weights": "uniform"}, {"side": "source", "places": [1, 0]}]
    asked = {"attention": True, "insight": ["cross.1"], "edits": edits, "tree": True}
    made = ask(server, **asked, **options).json()
    web = {key: value for key, value in options.items() if key != "forced"}
    web |= {"targets": [options["forced"]]} if "forced" in options else {}
    script = ROOT / "tests/support/web_translations.mjs"
    command = ["node", script, ROOT / "web/lib", BUNDLED, "{}"]
    request = json.dumps({"texts": [TEXT], "options": asked | web})
    done = subprocess.run(command, input=request + "\n", capture_output=True, text=True)
    [theirs] = json.loads(done.stdout)["answers"]
    assert len(theirs) == len(made["candidates"])
    for one, other in zip(made["candidates"], theirs, strict=True):
        assert (one["text"], one["score"], one["truncated"]) == (
            other["text"],
            other["score"],
            other["truncated"],
        )
        assert one["log_probs"] == other["log_probs"]
        assert (one["tokens"], one["pieces"]) == (other["target"], other["target_pieces"])
        assert (made["source"]["tokens"], made["source"]["pieces"]) == (
            other["source"],
            other["source_pieces"],
        )
        same_arrays(arrays(one), {name: array(of) for name, of in other["arrays"].items() if name != "tree"})
    tree, theirs = array(made["tree"]), array(theirs[0]["arrays"]["tree"])
    alive = theirs[:, 2] > -np.inf
    np.testing.assert_array_equal(tree[tree[:, 2] > -np.inf], theirs[alive])


@pytest.mark.parametrize(
    ("body", "status", "code", "said"),
    [
        ({"text": "word " * 3000}, 400, "text_too_long", "the model accepts"),
        ({"text": "a" * 30_000}, 413, "text_too_large", "send at most"),
        ({"text": "  "}, 400, "invalid_text", "nothing to read"),
        ({"forced": "Wort " * 3000}, 400, "text_too_long", "the model accepts"),
        ({"insight": ["cross.99.weights"]}, 400, "invalid_option", "cross.99.weights"),
        ({"insight": ["nothing"]}, 400, "invalid_option", "nothing"),
        ({"edits": [{"layer": 99, "weights": "silent"}]}, 400, "invalid_option", "layer 99"),
        ({"edits": [{"head": 9, "weights": "silent"}]}, 400, "invalid_option", "head 9"),
        ({"edits": [{"weights": "alone"}]}, 400, "invalid_option", "name the head"),
        ({"edits": [{"weights": [[1.0], [1.0, 2.0]]}]}, 400, "invalid_option", "differ in length"),
        ({"edits": [{"mask": [[True]]}]}, 400, "invalid_option", ""),
        ({"edits": [{"weights": [[]]}]}, 400, "invalid_option", "shape"),
        ({"edits": [{"side": "source", "places": [99999]}]}, 400, "invalid_option", "position 99999"),
        ({"edits": [{"weights": "loud"}]}, 422, "invalid_request", "edits"),
        ({"edits": [{"scale": 1e300}]}, 422, "invalid_request", "edits"),
        ({"edits": [{"kind": "self"}]}, 422, "invalid_request", "edits"),
        ({"edits": [{"side": "left", "places": [0]}]}, 422, "invalid_request", "edits"),
        ({"edits": [{"weights": "silent"}] * 65}, 422, "invalid_request", "edits"),
        ({"beam": 17}, 422, "invalid_request", "beam"),
        ({"steps": 65}, 422, "invalid_request", "steps"),
        ({"layers": 3}, 422, "invalid_request", "layers"),
        ({"target": "tlh"}, 400, "unsupported_language", "tlh"),
        ({"target": "pl"}, 400, "not_inspectable", "one after the other"),
        ({"target": "es"}, 400, "not_inspectable", "Transformer"),
        ({"text": "word " * 200, "insight": []}, 400, "invalid_option", "bytes"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(server, body, status, code, said):
    answer = ask(server, **body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
    assert said in answer.json()["error"]["message"]


def test_numbers_that_overflow_are_no_mistake_of_the_server(server):
    edits = [{"kind": kind, "scale": 1e6} for kind in KINDS] + [
        {"kind": kind, "weights": [[1e6] * 64] * 64} for kind in KINDS
    ]
    for chosen in (edits[:3], edits[3:], edits):
        assert ask(server, edits=chosen).status_code in (200, 400)


def test_torch_and_matplotlib_stay_out():
    program = (
        "import sys, uwaga; from uwaga.inspection import trace;"
        "import uwaga.server.dialects.v1_inside;"
        "trace(uwaga.load(threads=1), 'A dog runs.', tree=True, candidates=3, attention=True, names=[]);"
        "print([name for name in ('torch', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_trace_of_a_call_without_wishes_has_the_translation_alone(translator):
    made = trace(translator, TEXT)
    assert (made.tree, made.steps) == (None, ())
    assert made.translations[0].attentions is None and not made.translations[0].arrays
    assert made.translations[0].text == translator.translate(TEXT, split="never").text
