"""`POST /v1/inside` returns the numbers of Python and of the npm package, or an error."""

import base64
import json
import os
import random
import subprocess
from pathlib import Path

import httpx
import numpy as np
import pytest
import tiny_models as tiny
from c_library import check_arrays, random_edits
from recurrent_variants import VARIANTS
from running_server import RunningServer, running_server
from server_page import BUNDLED, copy_bundled_model

import uwaga
from uwaga.engine.interventions import ATTENTION_KINDS
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
def portable_kernels():
    """Use the portable kernels, which are the same in Python, the server and WebAssembly."""
    before = os.environ.get("UWAGA_ISA")
    os.environ["UWAGA_ISA"] = "portable"
    yield
    os.environ.pop("UWAGA_ISA")
    if before is not None:
        os.environ["UWAGA_ISA"] = before


@pytest.fixture(scope="module")
def server(portable_kernels, tmp_path_factory):
    """A server with the bundled model, a chain from English via German to Polish, and a recurrent model."""
    folder = tmp_path_factory.mktemp("server")
    words = tiny.tokeniser()
    shape = VARIANTS["bahdanau-conditional"].model_copy(update={"max_length": 60})
    model = build_model(shape, words.symbols, words.size, words.size).eval()
    tiny.save(folder / "recurrent", model, words, languages=("en", "es"))
    models = ["bundled", str(copy_bundled_model(folder, "de", "pl")), str(folder / "recurrent")]
    with running_server(folder, models=models, limits={"characters": 20_000}) as running:
        yield running


@pytest.fixture(scope="module")
def translator(portable_kernels):
    return uwaga.load(device="cpu", threads=1)


def post_inside(server: RunningServer, **body) -> httpx.Response:
    return server.post("/v1/inside", json={"text": TEXT, "source": "en", "target": "de"} | body)


def array(packed: dict) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["data"]), "<f4").reshape(packed["shape"])


def arrays(candidate: dict) -> dict[str, np.ndarray]:
    """Return the activations of a candidate translation by their names in the C library."""
    attention = {f"attention.{kind}": matrix for kind, matrix in candidate.get("attention", {}).items()}
    return {name: array(packed) for name, packed in (attention | candidate.get("insight", {})).items()}


@pytest.mark.parametrize("seed", range(6))
def test_activations_and_scores_match_python(server, translator, seed):
    rng, text = random.Random(seed), TEXTS[seed][:60].strip()
    edits, interventions = random_edits(translator.decoder.settings, seed) if seed else ([], [])
    edited = intervene(translator, *interventions) if seed else translator
    forced = rng.choice([None, "Ein Hund läuft."])
    names = ["cross.2.weights", "encoder.1.scores", "decoder.2.value", "logits"]
    options = {} if forced is None else {"forced": forced}
    response = post_inside(server, text=text, edits=edits, insight=names, attention=True, beam=1, **options)
    assert response.status_code == 200, response.text
    [candidate] = response.json()["candidates"]
    expected = edited.translate(text, beam=1, split="never") if forced is None else None
    translation = expected.text if expected is not None else forced
    assert candidate["text"] == translation
    [score] = edited.score([(text, translation)])
    assert candidate["log_probs"] == list(score.token_scores if expected is None else expected.token_scores)
    attentions = edited.attend(text, translation).attentions
    maps = {f"attention.{kind}": getattr(attentions, kind) for kind in ATTENTION_KINDS}
    check_arrays(arrays(candidate), dict(look_inside(edited, text, translation, names).arrays) | maps)


def test_step_candidates_match_the_softmax_of_logits(server, translator):
    body = post_inside(server, steps=5, insight=["logits"]).json()
    [best] = body["candidates"]
    logits = array(best["insight"]["logits"]).astype(np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    assert len(body["steps"]) == len(best["log_probs"]) == len(logits)
    for step, row in zip(body["steps"], log_probs, strict=True):
        tokens = [candidate["token"] for candidate in step]
        assert sorted(row[tokens]) == sorted(np.sort(row)[-5:])
        np.testing.assert_allclose([candidate["log_prob"] for candidate in step], row[tokens], atol=1e-4)
        assert [body["vocabulary"][str(token)] for token in tokens] == translator.target.pieces(tokens)


def test_search_tree_contains_the_n_best_list(server):
    body = post_inside(server, beam=4, nbest=4, tree=True).json()
    tree = array(body["tree"])
    for candidate in body["candidates"]:
        expected = [*candidate["tokens"], body["model"]["end"]]
        ends = [node for node, row in enumerate(tree) if row[1] == expected[-1]]
        assert any(path(tree, node) == expected for node in ends), candidate["text"]


def path(tree: np.ndarray, node: int) -> list[int]:
    tokens: list[int] = []
    while node >= 0:
        tokens.insert(0, int(tree[node, 1]))
        node = int(tree[node, 0])
    return tokens


def test_trace_of_sampling_matches_python(server, translator):
    options = {"sample": True, "temperature": 1.3, "top_k": 20, "top_p": 0.9, "seed": 7}
    [candidate] = post_inside(server, **options).json()["candidates"]
    expected = translator.translate(TEXT, split="never", **options)
    assert (candidate["text"], candidate["log_probs"]) == (expected.text, list(expected.token_scores))


@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 3, "nbest": 3}, {"forced": "Ich will ein Auto."}])
def test_trace_response_matches_the_npm_package(server, options):
    edits = [{"layer": 2, "head": 1, "weights": "uniform"}, {"side": "source", "places": [1, 0]}]
    requested = {"attention": True, "insight": ["cross.1"], "edits": edits, "tree": True}
    body = post_inside(server, **requested, **options).json()
    web = {key: value for key, value in options.items() if key != "forced"}
    web |= {"targets": [options["forced"]]} if "forced" in options else {}
    script = ROOT / "tests/support/web_translations.mjs"
    command = ["node", script, ROOT / "web/lib", BUNDLED, "{}"]
    request = json.dumps({"texts": [TEXT], "options": requested | web})
    result = subprocess.run(command, input=request + "\n", capture_output=True, text=True)
    [npm_candidates] = json.loads(result.stdout)["answers"]
    assert len(npm_candidates) == len(body["candidates"])
    for candidate, npm_candidate in zip(body["candidates"], npm_candidates, strict=True):
        assert (candidate["text"], candidate["score"], candidate["truncated"]) == (
            npm_candidate["text"],
            npm_candidate["score"],
            npm_candidate["truncated"],
        )
        assert candidate["log_probs"] == npm_candidate["log_probs"]
        assert (candidate["tokens"], candidate["pieces"]) == (
            npm_candidate["target"],
            npm_candidate["target_pieces"],
        )
        assert (body["source"]["tokens"], body["source"]["pieces"]) == (
            npm_candidate["source"],
            npm_candidate["source_pieces"],
        )
        check_arrays(
            arrays(candidate),
            {name: array(packed) for name, packed in npm_candidate["arrays"].items() if name != "tree"},
        )
    tree, npm_tree = array(body["tree"]), array(npm_candidates[0]["arrays"]["tree"])
    is_finite = npm_tree[:, 2] > -np.inf
    np.testing.assert_array_equal(tree[tree[:, 2] > -np.inf], npm_tree[is_finite])


@pytest.mark.parametrize(
    ("body", "status", "code", "message"),
    [
        ({"text": "word " * 3000}, 400, "text_too_long", "the model accepts"),
        ({"text": "a" * 30_000}, 413, "text_too_large", "send at most"),
        ({"text": "  "}, 400, "invalid_text", "no tokens to read"),
        ({"forced": "Wort " * 3000}, 400, "text_too_long", "the model accepts"),
        ({"insight": ["cross.99.weights"]}, 400, "invalid_option", "cross.99.weights"),
        ({"insight": ["nothing"]}, 400, "invalid_option", "nothing"),
        ({"edits": [{"layer": 99, "weights": "silent"}]}, 400, "invalid_option", "layer 99"),
        ({"edits": [{"head": 9, "weights": "silent"}]}, 400, "invalid_option", "head 9"),
        ({"edits": [{"weights": "alone"}]}, 400, "invalid_option", "set head"),
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
        ({"target": "pl"}, 400, "not_inspectable", "form a chain"),
        ({"target": "es"}, 400, "not_inspectable", "Transformer"),
        ({"text": "word " * 200, "forced": "Wort " * 200, "insight": []}, 400, "invalid_option", "bytes"),
    ],
)
def test_invalid_requests_are_refused(server, body, status, code, message):
    response = post_inside(server, **body)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code), response.text
    assert message in response.json()["error"]["message"]


def test_overflowing_activations_cause_no_server_error(server):
    edits = [{"kind": kind, "scale": 1e6} for kind in ATTENTION_KINDS] + [
        {"kind": kind, "weights": [[1e6] * 64] * 64} for kind in ATTENTION_KINDS
    ]
    for subset in (edits[:3], edits[3:], edits):
        assert post_inside(server, edits=subset).status_code in (200, 400)


def test_trace_without_options_contains_only_the_translation(translator):
    traced = trace(translator, TEXT)
    assert (traced.tree, traced.steps) == (None, ())
    assert traced.translations[0].attentions is None and not traced.translations[0].arrays
    assert traced.translations[0].text == translator.translate(TEXT, split="never").text
