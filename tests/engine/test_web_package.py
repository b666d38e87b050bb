"""The npm package in Node and in a browser: the answers of Python's portable kernels, to the bit."""

import base64
import gzip
import hashlib
import json
import shutil
import subprocess
import weakref
from dataclasses import replace

import damaged_models
import numpy as np
import pytest
import tiny_models as tiny
from browser import chromium, served
from c_library import ROOT, check_answers, check_inside
from marian_students import write_student
from recurrent_variants import VARIANTS
from safetensors.numpy import load_file, save_file

import uwaga
from uwaga.checkpoints.formats.uwaga.folder import save_model
from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.conversion.quantise import quantise
from uwaga.models.build import build_model
from uwaga.search import search
from uwaga.translator.attention import with_attentions

LIB = ROOT / "web" / "lib"
TEXTS = (ROOT / "src/uwaga/conversion/sentences.txt").read_text(encoding="utf-8").splitlines()

BEGINNINGS = [text[: max(len(text) * part // 25, 1)] for text in TEXTS for part in range(1, 26)]


class WebError(Exception):
    """A code of the package and its message."""


class WebModel:
    """A folder as the package reads it in a Node of its own; the methods of :class:`c_library.CModel`."""

    def __init__(self, folder, **options):
        if shutil.which("node") is None:
            pytest.skip("node is not installed")
        script = ROOT / "tests/support/web_translations.mjs"
        command = ["node", script, LIB, str(folder), json.dumps(options)]
        self.node = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        weakref.finalize(self, self.node.kill)

    def translate(self, texts, **options):
        self.node.stdin.write(json.dumps({"texts": list(texts), "options": options}) + "\n")
        self.node.stdin.flush()
        line = self.node.stdout.readline()
        assert line, f"Node ended with {self.node.wait()}"
        found = json.loads(line)
        if "answers" not in found:
            raise WebError(found["code"], found["message"])
        self.info = found["info"]
        for one in (one for ways in found["answers"] for one in ways):
            one["arrays"] = {name: _array(array) for name, array in one["arrays"].items()}
            one["text"] = one["text"].partition("\0")[0]  # as in C
        return found["answers"]

    def close(self):
        with self.node:
            self.node.stdin.close()


def _array(given):
    return np.frombuffer(base64.b64decode(given["data"]), np.float32).reshape(given["shape"])


@pytest.fixture(scope="module")
def int8_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("web") / "int8"
    quantise(BUNDLED, folder)
    return folder


@pytest.fixture
def portable(monkeypatch):
    monkeypatch.setenv("UWAGA_ISA", "portable")


def check(place, texts, options):
    check_answers(WebModel(place), uwaga.load(place, device="cpu", threads=1), texts, options)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 5, "nbest": 2}])
def test_answers_are_those_of_the_portable_kernels(portable, int8_folder, dtype, options):
    check(BUNDLED if dtype == "float32" else int8_folder, TEXTS[:8], options)


def test_an_int4_folder_is_read(portable, tmp_path):
    words = tiny.tokeniser()
    model = build_model(tiny.TINY, words.symbols, words.size, words.size).eval()
    save_model(tmp_path / "m", model, tiny.TINY, tiny.DECODING, words, words, ("en", "de"), "# card\n")
    quantise(tmp_path / "m", tmp_path / "int4", precision="int4")
    read = WebModel(tmp_path / "int4")
    translator = uwaga.load(tmp_path / "int4", device="cpu", threads=1)
    check_answers(read, translator, tiny.ENGLISH, {"beam": 2, "max_length": 12})
    assert read.info["precision"] == "int4"


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("beam", [1, 5])
def test_100_sentences(portable, int8_folder, dtype, beam):
    check(BUNDLED if dtype == "float32" else int8_folder, BEGINNINGS[:500:5], {"beam": beam})


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_edits_insight_and_targets_are_those_of_the_portable_kernels(portable, int8_folder, dtype):
    place = BUNDLED if dtype == "float32" else int8_folder
    translator = uwaga.load(place, device="cpu", threads=1)
    for seed in range(3):
        check_inside(WebModel(place), translator, TEXTS[seed], "Ein Hund läuft.", seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_random_edits(portable, int8_folder, seed):
    translator = uwaga.load(int8_folder, device="cpu", threads=1)
    check_inside(WebModel(int8_folder), translator, TEXTS[seed % len(TEXTS)], "Ein Hund schläft.", seed + 3)


@pytest.mark.parametrize("kind", ["float32", "intgemm8"])
def test_firefox_s_models_load_as_they_are(portable, tmp_path, kind):
    write_student(tmp_path / "student", kind)
    check(tmp_path / "student", tiny.ENGLISH, {"beam": 2, "max_length": 12})


def test_answers_of_recurrent_models_are_those_of_the_portable_kernels(portable, tmp_path):
    check_recurrent("bahdanau-conditional", tmp_path, tiny.ENGLISH)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in VARIANTS if not name.startswith(("cho", "sutskever"))])
def test_every_recurrent_model_with_attention(portable, name, tmp_path):
    check_recurrent(name, tmp_path, BEGINNINGS[:100])


def check_recurrent(name, tmp_path, texts):
    shape, words = VARIANTS[name].model_copy(update={"max_length": 60}), tiny.tokeniser()
    model = build_model(shape, words.symbols, words.size, words.size).eval()
    save_model(tmp_path / "m", model, shape, tiny.DECODING, words, words, ("en", "de"), "# card\n")
    quantise(tmp_path / "m", tmp_path / "int8", ("output",))
    for place in (tmp_path / "m", tmp_path / "int8"):
        check(place, texts, {"beam": 3, "max_length": 30})


def test_what_is_wrong_is_an_error_that_names_it(tmp_path):
    model = WebModel(BUNDLED)
    for texts, options, code, message in [
        (["a"], {"beem": 1}, "argument", "beem is unknown"),
        (["a"], {"target_language": "fr"}, "language", "translates from en to de"),
        (["word " * 400], {}, "too long", "256"),
        (["a\ud800"], {}, "text", "lone surrogate"),
        (["a"], {"memory": 100}, "memory", "bound of memory"),
        (["a"], {"insight": ["x"]}, "argument", "no array has the name 'x'"),
        (["a"], {"edits": [{"layer": 7}]}, "argument", "edits[0]: layer 7: the model has 2"),
        (["a", "b"], {"targets": ["a"]}, "argument", "targets: there are 1 for 2 texts"),
    ]:
        with pytest.raises(WebError) as caught:
            model.translate(texts, **options)
        assert caught.value.args[0] == code
        assert message in caught.value.args[1]
    with pytest.raises(WebError, match=r"config\.json: not found; give the URL of a folder"):
        WebModel(tmp_path).translate(["a"])
    damaged = tmp_path / "damaged"
    shutil.copytree(BUNDLED, damaged)
    weights = (damaged / "model.safetensors").read_bytes()
    (damaged / "model.safetensors").write_bytes(weights[:1000])
    with pytest.raises(WebError, match=r"model\.safetensors"):
        WebModel(damaged).translate(["a"])
    arrays = load_file(BUNDLED / "model.safetensors")
    arrays["output_weight"] = np.full_like(arrays["output_weight"], np.nan)
    save_file(arrays, damaged / "model.safetensors")
    with pytest.raises(WebError, match=r"model\.safetensors|output_weight"):
        WebModel(damaged).translate(["a"])
    with pytest.raises(WebError, match="bound"):
        WebModel(BUNDLED, memory=1_000_000).translate(["a"])


STREAM = """
import { Uwaga } from "LIB/index.js";
const model = await Uwaga.load("FOLDER");
const seen = [];
await model.translate("A dog runs.", { onToken: ({ text }) => { seen.push(text); } });
const stopped = await model.translate("A dog runs.", { onToken: () => false }).catch((error) => error.code);
const fail = () => { throw new Error("mine"); };
const thrown = await model.translate("A dog runs.", { onToken: fail }).catch((error) => error.message);
const after = await model.translate("A dog runs.");
const vocabulary = await model.vocabulary("target");
console.log(JSON.stringify({ seen, stopped, thrown, after: after.text, vocabulary }));
"""


def test_a_stream_can_be_stopped_and_its_function_may_throw(tmp_path):
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    script = STREAM.replace("LIB", str(LIB)).replace("FOLDER", str(BUNDLED))
    done = subprocess.run(["node", "--input-type=module", "-e", script], capture_output=True, text=True)
    found = json.loads(done.stdout or done.stderr)
    assert found["seen"][-1] == found["after"] == "Ein Hund läuft."
    assert (found["stopped"], found["thrown"]) == ("cancelled", "mine")
    words = uwaga.load().target
    assert found["vocabulary"] == words.pieces(range(words.size))


DAMAGED = """
import { readFileSync } from "node:fs";
import { Uwaga } from "LIB/index.js";
const codes = [];
for (const folder of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    const model = await Uwaga.load(folder);
    await model.translate("one two three", { beam: 2, alignment: true, attention: true, max_length: 20 });
    codes.push("ok");
  } catch (error) {
    codes.push(error.name === "UwagaError" && error.message ? error.code : `${folder}: ${error}`);
  }
}
console.log(JSON.stringify(codes));
"""


@pytest.mark.slow
def test_damaged_files_are_errors_not_traps(tmp_path):
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    folders = json.dumps([str(folder) for folder in damaged_models.make(tmp_path, 90)])
    command = ["node", "--input-type=module", "-e", DAMAGED.replace("LIB", str(LIB))]
    done = subprocess.run(command, input=folders, capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) <= {"ok", "file", "model", "too long", "memory", "argument"}


FULL = """
import { readFileSync, readdirSync } from "node:fs";
import { Engine } from "LIB/shared.js";
const engine = await Engine.create(await WebAssembly.compile(readFileSync("LIB/uwaga.wasm")));
const files = Object.fromEntries(readdirSync("FOLDER").map((name) => [name, readFileSync(`FOLDER/${name}`)]));
const models = [];
let full;
while (full === undefined && models.length < 1000) {
  try {
    models.push(engine.open(files));
  } catch (error) {
    full = error.code;
  }
}
models.pop().close(); // room for a call, at the end of the memory
const seen = [];
const options = { attention: true, insight: ["cross.2.weights"] };
const [whole] = models[0].translate(["A dog runs."], options, ({ text }) => void seen.push(text));
for (const model of models.slice(1)) model.close();
const [again] = models[0].translate(["A dog runs."], { ...options, beam: 1 });
const weights = (one) => one.insight["cross.2.weights"].data;
const numbers = (one) => JSON.stringify([...one.logProbs, ...weights(one), ...one.attention.encoder.data]);
const same = numbers(whole) === numbers(again);
const huge = { ...files, "model.safetensors": new Uint8Array(4.2e9) };
let refused;
try {
  engine.open(huge);
} catch (error) {
  refused = error.code;
}
const { length } = models;
console.log(JSON.stringify({ models: length, full, refused, seen: seen.at(-1), text: whole.text, same }));
"""


@pytest.mark.compiled
@pytest.mark.slow
def test_a_full_memory_is_an_error_and_an_open_model_still_translates():
    """4 GiB, which a page may have; addresses above 2 GiB are negative in JavaScript."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    script = FULL.replace("LIB", str(LIB)).replace("FOLDER", str(BUNDLED))
    done = subprocess.run(["node", "--input-type=module", "-e", script], capture_output=True, text=True)
    found = json.loads(done.stdout or done.stderr)
    assert found.pop("models") > 50
    assert found.pop("seen") == found["text"]
    assert found == {"full": "memory", "refused": "memory", "text": "Ein Hund läuft.", "same": True}


@pytest.fixture
def site(tmp_path):
    """The package, its example and the bundled model, on a server."""
    shutil.copytree(LIB, tmp_path / "lib")
    shutil.copytree(ROOT / "web" / "examples", tmp_path / "examples")
    shutil.copytree(BUNDLED, tmp_path / "examples" / "model")
    with served(tmp_path) as url:
        yield url


PAGE = """async (texts) => {
  const { Uwaga } = await import("/lib/index.js");
  const gone = new AbortController();
  gone.abort(new Error("left"));
  const left = await Uwaga.load("/examples/model", { signal: gone.signal }).catch((error) => error.message);
  const model = await Uwaga.load("/examples/model", { dtype: "int8" });
  const late = new AbortController();
  const pending = model.translate(texts, { signal: late.signal }).catch((error) => error.message);
  late.abort(new Error("stopped"));
  const stopped = await pending;
  const made = await model.translate(texts, { attention: true });
  const parts = (error) => [error.name, error.code, error.message];
  const wrong = await model.translate("a", { beem: 2 }).catch(parts);
  const seen = [];
  const onToken = ({ token, text }) => void seen.push([token, text]);
  const streamed = await model.translate(texts[0], { onToken });
  const whole = await model.translate(texts[0], { beam: 1 });
  model.close();
  const closed = await model.translate("a").catch((error) => error.message);
  const scores = made.map((one) => Array.from(one.logProbs));
  const cross = made.map((one) => Array.from(one.attention.cross.data));
  const stream = { seen, streamed: [...streamed.tokens], whole: [...whole.tokens], last: whole.text };
  return { left, stopped, texts: made.map((one) => one.text), scores, cross, wrong, closed, ...stream };
}"""


def test_a_page_translates_in_a_worker(portable, site):
    translator = uwaga.load(device="cpu", threads=1, dtype="int8")
    expected = translator.translate(TEXTS[:5], attention="all")
    with chromium() as browser:
        page = browser.new_page()
        page.goto(f"{site}/examples/index.html")
        page.wait_for_function("document.querySelector('#target').value.startsWith('Ein Hund')")
        found = page.evaluate(PAGE, TEXTS[:5])
    assert found["texts"] == [one.text for one in expected]
    assert found["scores"] == [list(one.token_scores) for one in expected]
    assert found["cross"] == [one.attentions.cross.ravel().tolist() for one in expected]
    assert (found["left"], found["stopped"], found["closed"]) == ("left", "stopped", "the model is closed")
    assert found["wrong"] == ["UwagaError", "argument", "beem is unknown"]
    assert [token for token, _ in found["seen"]] == found["streamed"] == found["whole"]
    assert found["seen"][-1][1] == found["last"]


DIGESTS = """async ([dtype, texts, beam]) => {
  const { Uwaga } = await import("/lib/index.js");
  const model = await Uwaga.load("/examples/model", { dtype });
  const made = [];
  for (const one of await model.translate(texts, { beam, attention: true })) {
    const tables = ["encoder", "decoder", "cross"].map((kind) => one.attention[kind].data);
    const all = await new Blob(tables).arrayBuffer();
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", all));
    made.push([one.text, Array.from(one.tokens), Array.from(one.logProbs), Array.from(digest)]);
  }
  model.close();
  return made;
}"""


@pytest.mark.compiled
@pytest.mark.slow
def test_500_sentences_in_a_page(portable, site):
    """All attention matrices by their digest."""
    with chromium() as browser:
        page = browser.new_page()
        page.goto(f"{site}/examples/index.html")
        for dtype in ("float32", "int8"):
            translator = uwaga.load(device="cpu", threads=1, dtype=dtype)
            words, texts = translator.source, BEGINNINGS[:500]
            sources = [words.add_special_tokens(words.encode(text)) for text in texts]
            for beam in (1, 5):
                found = page.evaluate(DIGESTS, [dtype, texts, beam])
                made = search(translator.decoder, sources, replace(translator.decoding, beam=beam))
                for (one,), theirs in zip(
                    with_attentions(translator.decoder, sources, made), found, strict=True
                ):
                    tables = (one.attentions.encoder, one.attentions.decoder, one.attentions.cross)
                    digest = hashlib.sha256(b"".join(table.tobytes() for table in tables)).digest()
                    text = translator.target.decode(one.tokens)
                    assert theirs == [text, list(one.tokens), list(one.token_scores), list(digest)]


def test_what_is_committed_is_what_the_sources_make(tmp_path):
    if shutil.which("node") is None or not (ROOT / "page/node_modules/esbuild").is_dir():
        pytest.skip("node or the page's tools are not installed: npm --prefix page ci")
    subprocess.run(["node", ROOT / "web/build.mjs", tmp_path], check=True, cwd=ROOT / "web")
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    kept = {path.name: path.read_bytes() for path in LIB.iterdir() if path.suffix != ".wasm"}
    assert made == kept, "web/lib is not what web/src makes: run `make web` and commit it"


def test_a_page_loads_at_most_220_kilobytes():
    assert len(gzip.compress((LIB / "uwaga.wasm").read_bytes(), 9)) <= 220_000


@pytest.mark.compiled
@pytest.mark.slow
def test_the_committed_module_is_what_the_compiler_makes(tmp_path):
    if shutil.which("em++") is None:
        pytest.skip("emscripten is not installed: apt-get install emscripten node-acorn")
    made, build = tmp_path / "uwaga.wasm", ROOT / "build" / "web"
    command = ["make", "-C", ROOT / "web", f"MODULE={made}", f"BUILD={build}", made]
    subprocess.run(command, check=True, capture_output=True)
    committed = (LIB / "uwaga.wasm").read_bytes()
    assert made.read_bytes() == committed, "run `make web` and commit web/lib/uwaga.wasm"
