"""The npm package in Node and in a browser gives results bit-identical to Python's portable kernels."""

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
import unknown_options
from browser import chromium, serve_folder
from c_library import ROOT, check_answers, check_edits, search_whole
from fairseq_folders import MODEL_KINDS, PAIRS, model_folder
from marian_students import write_student
from pretrained_tokenisers import older_format
from recurrent_variants import VARIANTS
from safetensors.numpy import load_file, save_file
from search_inputs import inputs

import uwaga
from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.conversion.quantise import quantise
from uwaga.models.build import build_model
from uwaga.translator.attention import add_attentions
from uwaga.translator.text import Sentence

LIB = ROOT / "web" / "lib"
LINES = (ROOT / "src/uwaga/conversion/sentences.txt").read_text(encoding="utf-8").splitlines()
TEXTS = [line for line in LINES if line and not line.startswith("[")]

PREFIXES = [text[: max(len(text) * part // 25, 1)] for text in TEXTS for part in range(1, 26)]


class WebError(Exception):
    """An error code of the package and its message."""


class WebModel:
    """A model opened by the package in a Node process, with the methods of :class:`c_library.CModel`."""

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
        response = json.loads(line)
        if "answers" not in response:
            raise WebError(response["code"], response["message"])
        self.info = response["info"]
        for translation in (translation for nbest in response["answers"] for translation in nbest):
            translation["arrays"] = {name: _array(array) for name, array in translation["arrays"].items()}
            translation["text"] = translation["text"].partition("\0")[0]  # as in C
        return response["answers"]

    def close(self):
        with self.node:
            self.node.stdin.close()


def _array(array):
    return np.frombuffer(base64.b64decode(array["data"]), np.float32).reshape(array["shape"])


@pytest.fixture(scope="module")
def int8_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("web") / "int8"
    quantise(BUNDLED, folder)
    return folder


@pytest.fixture
def portable(monkeypatch):
    monkeypatch.setenv("UWAGA_ISA", "portable")


def check_translations(folder, texts, options):
    check_answers(WebModel(folder), uwaga.load(folder, device="cpu", threads=1), texts, options)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 5, "nbest": 2}])
def test_webassembly_translations_match_the_portable_kernels(portable, int8_folder, dtype, options):
    check_translations(BUNDLED if dtype == "float32" else int8_folder, TEXTS[:8], options)


def test_int4_model_translates_as_in_python(portable, tmp_path):
    tokeniser = tiny.tokeniser()
    model = build_model(tiny.TINY, tokeniser.symbols, tokeniser.size, tokeniser.size).eval()
    tiny.save(tmp_path / "m", model, tokeniser)
    quantise(tmp_path / "m", tmp_path / "int4", precision="int4")
    web_model = WebModel(tmp_path / "int4")
    translator = uwaga.load(tmp_path / "int4", device="cpu", threads=1)
    check_answers(web_model, translator, tiny.ENGLISH, {"beam": 2, "max_length": 12})
    assert web_model.info["precision"] == "int4"


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_options_of_newer_versions_are_listed_and_ignored(int8_folder, tmp_path, dtype):
    folder = BUNDLED if dtype == "float32" else int8_folder
    unknown_options.add(folder, tmp_path / "newer")
    newer, model = WebModel(tmp_path / "newer"), WebModel(folder)
    assert newer.translate(TEXTS[:3]) == model.translate(TEXTS[:3])
    assert newer.info == model.info | {"ignored_options": unknown_options.IGNORED}


@pytest.mark.release
@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("beam", [1, 5])
def test_translations_of_100_sentences_match_the_portable_kernels(portable, int8_folder, dtype, beam):
    check_translations(BUNDLED if dtype == "float32" else int8_folder, PREFIXES[:500:5], {"beam": beam})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_results_with_attention_edits_match_the_portable_kernels(portable, int8_folder, dtype):
    folder = BUNDLED if dtype == "float32" else int8_folder
    translator = uwaga.load(folder, device="cpu", threads=1)
    check_edits(WebModel(folder), translator, TEXTS[0], "Ein Hund läuft.", 0)


@pytest.mark.release
@pytest.mark.parametrize("seed", range(20))
def test_results_with_random_attention_edits_match_the_portable_kernels(portable, int8_folder, seed):
    translator = uwaga.load(int8_folder, device="cpu", threads=1)
    check_edits(WebModel(int8_folder), translator, TEXTS[seed % len(TEXTS)], "Ein Hund schläft.", seed + 3)


@pytest.mark.parametrize("kind", ["float32", "intgemm8"])
def test_firefox_model_translations_match_the_portable_kernels(portable, tmp_path, kind):
    write_student(tmp_path / "student", kind)
    check_translations(tmp_path / "student", tiny.ENGLISH, {"beam": 2, "max_length": 12})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", PAIRS)
def test_translations_by_multilingual_models_match_the_portable_kernels(
    portable, tmp_path, monkeypatch, kind
):
    monkeypatch.setitem(MODEL_KINDS, kind, (MODEL_KINDS[kind][0], older_format))
    model_folder(tmp_path / "m", kind)
    quantise(tmp_path / "m", tmp_path / "q", check=False)
    source, target = PAIRS[kind]
    model = WebModel(tmp_path / "q", source_language=source, target_language=target)
    translator = uwaga.load(tmp_path / "q", threads=1, source=source, target=target)
    check_answers(model, translator, TEXTS[:8], {"beam": 2})


def test_translations_by_a_recurrent_model_match_the_portable_kernels(portable, tmp_path):
    check_recurrent_model("bahdanau-conditional", tmp_path, tiny.ENGLISH)


@pytest.mark.release
@pytest.mark.parametrize("name", [name for name in VARIANTS if not name.startswith(("cho", "sutskever"))])
def test_results_of_recurrent_models_with_attention_match_the_portable_kernels(portable, name, tmp_path):
    check_recurrent_model(name, tmp_path, PREFIXES[:100])


def check_recurrent_model(name, tmp_path, texts):
    shape, tokeniser = VARIANTS[name].model_copy(update={"max_length": 60}), tiny.tokeniser()
    model = build_model(shape, tokeniser.symbols, tokeniser.size, tokeniser.size).eval()
    tiny.save(tmp_path / "m", model, tokeniser)
    quantise(tmp_path / "m", tmp_path / "int8", ("output",))
    for folder in (tmp_path / "m", tmp_path / "int8"):
        check_translations(folder, texts, {"beam": 3, "max_length": 30})


def test_errors_have_codes_and_messages(tmp_path):
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
        with pytest.raises(WebError) as error:
            model.translate(texts, **options)
        assert error.value.args[0] == code
        assert message in error.value.args[1]
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


STREAM_SCRIPT = """
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


def test_stream_stops_on_cancellation_or_exception(tmp_path):
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    script = STREAM_SCRIPT.replace("LIB", str(LIB)).replace("FOLDER", str(BUNDLED))
    process = subprocess.run(["node", "--input-type=module", "-e", script], capture_output=True, text=True)
    output = json.loads(process.stdout or process.stderr)
    assert output["seen"][-1] == output["after"] == "Ein Hund läuft."
    assert (output["stopped"], output["thrown"]) == ("cancelled", "mine")
    tokeniser = uwaga.load().target
    assert output["vocabulary"] == tokeniser.pieces(range(tokeniser.size))


DAMAGED_MODELS_SCRIPT = """
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


@pytest.mark.release
def test_damaged_models_translate_or_raise_errors_with_codes(tmp_path):
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    folders = json.dumps([str(folder) for folder in damaged_models.make(tmp_path, 90)])
    command = ["node", "--input-type=module", "-e", DAMAGED_MODELS_SCRIPT.replace("LIB", str(LIB))]
    done = subprocess.run(command, input=folders, capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) <= {"ok", "file", "model", "too long", "memory", "argument"}


FULL_MEMORY_SCRIPT = """
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


@pytest.mark.release
def test_running_out_of_memory_raises_an_error_and_open_models_still_translate():
    """A page may use 4 GiB; addresses above 2 GiB are negative in JavaScript."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    script = FULL_MEMORY_SCRIPT.replace("LIB", str(LIB)).replace("FOLDER", str(BUNDLED))
    process = subprocess.run(["node", "--input-type=module", "-e", script], capture_output=True, text=True)
    output = json.loads(process.stdout or process.stderr)
    assert output.pop("models") > 50
    assert output.pop("seen") == output["text"]
    assert output == {"full": "memory", "refused": "memory", "text": "Ein Hund läuft.", "same": True}


@pytest.fixture
def site(tmp_path):
    """Serve the package, its example and the bundled model."""
    shutil.copytree(LIB, tmp_path / "lib")
    shutil.copytree(ROOT / "web" / "examples", tmp_path / "examples")
    shutil.copytree(BUNDLED, tmp_path / "examples" / "model")
    with serve_folder(tmp_path) as url:
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


@pytest.mark.slow
def test_web_page_translates_in_a_web_worker(portable, site):
    translator = uwaga.load(device="cpu", threads=1, dtype="int8")
    expected = translator.translate(TEXTS[:5], attention="all")
    with chromium() as browser:
        page = browser.new_page()
        page.goto(f"{site}/examples/index.html")
        page.wait_for_function("document.querySelector('#target').value.startsWith('Ein Hund')")
        output = page.evaluate(PAGE, TEXTS[:5])
    assert output["texts"] == [translation.text for translation in expected]
    assert output["scores"] == [list(translation.token_scores) for translation in expected]
    assert output["cross"] == [translation.attentions.cross.ravel().tolist() for translation in expected]
    assert (output["left"], output["stopped"], output["closed"]) == ("left", "stopped", "the model is closed")
    assert output["wrong"] == ["UwagaError", "argument", "beem is unknown"]
    assert [token for token, _ in output["seen"]] == output["streamed"] == output["whole"]
    assert output["seen"][-1][1] == output["last"]


DIGESTS_SCRIPT = """async ([dtype, texts, beam]) => {
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


@pytest.mark.release
def test_translations_of_500_sentences_in_a_page_match_python(portable, site):
    """Attention matrices are compared by their digests."""
    with chromium() as browser:
        page = browser.new_page()
        page.goto(f"{site}/examples/index.html")
        for dtype in ("float32", "int8"):
            translator = uwaga.load(device="cpu", threads=1, dtype=dtype)
            tokeniser, texts = translator.source, PREFIXES[:500]
            sources = [tokeniser.add_special_tokens(tokeniser.encode(text)) for text in texts]
            for beam in (1, 5):
                digests = page.evaluate(DIGESTS_SCRIPT, [dtype, texts, beam])
                results = search_whole(translator, inputs(sources), replace(translator.decoding, beam=beam))
                sentences = [
                    Sentence(source, hypotheses=nbest) for source, nbest in zip(sources, results, strict=True)
                ]
                add_attentions(translator.decoder, sentences)
                for sentence, expected in zip(sentences, digests, strict=True):
                    [hypothesis] = sentence.hypotheses
                    tables = (
                        hypothesis.attentions.encoder,
                        hypothesis.attentions.decoder,
                        hypothesis.attentions.cross,
                    )
                    digest = hashlib.sha256(b"".join(table.tobytes() for table in tables)).digest()
                    text = translator.target.decode(hypothesis.tokens)
                    assert expected == [
                        text, list(hypothesis.tokens), list(hypothesis.token_scores), list(digest),
                    ]  # fmt: skip


def test_committed_javascript_equals_a_new_build(tmp_path):
    if shutil.which("node") is None or not (ROOT / "page/node_modules/esbuild").is_dir():
        pytest.skip("node or the page's tools are not installed: npm --prefix page ci")
    subprocess.run(["node", ROOT / "web/build.mjs", tmp_path], check=True, cwd=ROOT / "web")
    built_files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    committed_files = {path.name: path.read_bytes() for path in LIB.iterdir() if path.suffix != ".wasm"}
    assert built_files == committed_files, "web/lib is not what web/src makes: run `make web` and commit it"


def test_wasm_module_size_is_at_most_245_kilobytes():
    assert len(gzip.compress((LIB / "uwaga.wasm").read_bytes(), 9)) <= 245_000


@pytest.mark.release
def test_committed_wasm_module_equals_a_new_build(tmp_path):
    if shutil.which("em++") is None:
        pytest.skip("emscripten is not installed: apt-get install emscripten node-acorn")
    built, build = tmp_path / "uwaga.wasm", ROOT / "build" / "web"
    command = ["make", "-C", ROOT / "web", f"MODULE={built}", f"BUILD={build}", built]
    subprocess.run(command, check=True, capture_output=True)
    committed = (LIB / "uwaga.wasm").read_bytes()
    assert built.read_bytes() == committed, "run `make web` and commit web/lib/uwaga.wasm"
