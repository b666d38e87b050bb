"""Pipelines with the interface of transformers 4, which runs in another process from its own folder."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import gpt2_folders
import marian_folders
import pretrained_tokenisers
import pytest
import torch
from json_files import edit_json

import uwaga
from uwaga.errors import DataError, ModelError, SettingsError
from uwaga.tokenizers.subwords import BYTE_PIECES
from uwaga_compat.pipelines import search_options

transformers = pytest.importorskip("transformers")
PEER = Path(__file__).with_name("pipelines_peer.py")
VERSIONS = ("transformers==4.57.3", "huggingface-hub==0.36.2", "tokenizers==0.22.2")
TEXTS = ["the dog sees the cat", "Where is the station?", "a car"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return folders of random models of three kinds, by name."""
    folder = tmp_path_factory.mktemp("pipelines")
    generation = marian_folders.make(
        folder / "marian", shared=False, end=2.0, **marian_folders.SEPARATE
    ).generation_config
    # uwaga replaces bytes that complete no character, and writes line breaks as spaces.
    ids = json.loads((folder / "marian/target_vocab.json").read_text())
    generation.bad_words_ids = [*generation.bad_words_ids, *([ids[piece]] for piece in BYTE_PIECES)]
    generation.save_pretrained(folder / "marian")
    words = pretrained_tokenisers.older_format("bert")
    words.peer.save_pretrained(folder / "bert")
    torch.manual_seed(2)
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 30}
    config = transformers.BertConfig(
        vocab_size=words.ids.vocabulary, pad_token_id=words.peer.pad_token_id, **sizes
    )
    bert = transformers.BertForMaskedLM(config).eval()
    with torch.no_grad():
        for weight in bert.parameters():
            weight.add_(torch.randn_like(weight) * 0.3)
    bert.save_pretrained(folder / "bert")
    pieces = pretrained_tokenisers.older_format("gpt2")
    end = pieces.peer.eos_token_id
    gpt2_folders.make(folder / "gpt2", vocab_size=pieces.ids.vocabulary, bos_token_id=end, eos_token_id=end)
    pieces.peer.save_pretrained(folder / "gpt2")
    return {name: str(folder / name) for name in ("marian", "bert", "gpt2")}


def calls(models):
    """Return at least 60 calls of all tasks, each as task, model, inputs and arguments."""
    cases = []
    for task in ("translation", "summarization", "text2text-generation", "translation_en_to_de"):
        for options in (
            {},
            {"num_beams": 1},
            {"num_beams": 3, "num_return_sequences": 2},
            {"max_length": 8},
            {"max_new_tokens": 5, "num_beams": 2, "length_penalty": 0.5},
            {"no_repeat_ngram_size": 2, "early_stopping": True, "min_length": 4},
        ):
            for inputs in (TEXTS[0], TEXTS):
                cases.append((task, models["marian"], inputs, options))
        cases.append((task, models["marian"], {"each": TEXTS}, {"num_beams": 1}))
    for options in (
        {"max_new_tokens": 4, "do_sample": False},
        {"max_new_tokens": 6, "do_sample": False, "return_full_text": False},
        {"max_new_tokens": 5, "num_beams": 3, "num_return_sequences": 2, "do_sample": False},
    ):
        for inputs in (TEXTS[0], TEXTS, {"each": TEXTS}):
            cases.append(("text-generation", models["gpt2"], inputs, options))
    gaps = ["The [MASK] is here.", "[MASK] sees the dog"]
    for options in ({}, {"top_k": 2}, {"targets": ["the", "a"]}):
        for inputs in (gaps[0], gaps, gaps[:1], "[MASK] sees the [MASK] of a car"):
            cases.append(("fill-mask", models["bert"], inputs, options))
    return cases


def run_call(task, model, inputs, options, pipelines):
    """Return the result of uwaga's pipeline."""
    if (task, model) not in pipelines:
        pipelines[task, model] = uwaga.pipeline(task, model=model, device="cpu")
    arguments = (text for text in inputs["each"]) if isinstance(inputs, dict) else inputs
    result = pipelines[task, model](arguments, **options)
    return list(result) if isinstance(inputs, dict) else result


def shape(value):
    """Return the structure of a result: its types and keys without its texts and numbers."""
    if isinstance(value, list):
        return [shape(item) for item in value]
    return {key: type(field).__name__ for key, field in value.items()}


def texts(value):
    """Return the texts and token ids of a result, in order."""
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [field for key, field in value.items() if key != "score"]


@pytest.mark.release
def test_results_match_transformers_4(models, tmp_path):
    """Structures, texts and token ids are equal; scores of `fill-mask` are equal to float32 precision."""
    folder = tmp_path / "peer"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, *VERSIONS]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("transformers 4 cannot be installed")
    requests = calls(models)
    assert len(requests) >= 60
    environment = os.environ | {"PYTHONPATH": str(folder), "HF_HUB_OFFLINE": "1"}
    process = subprocess.run(
        [sys.executable, PEER], input=json.dumps(requests), capture_output=True, text=True, env=environment
    )
    assert process.returncode == 0, process.stderr[-2000:]
    version, expected = json.loads(process.stdout)
    assert version.startswith("4.57")
    pipelines = {}
    differing = []
    for (task, model, inputs, options), peer_result in zip(requests, expected, strict=True):
        result = run_call(task, model, inputs, options, pipelines)
        assert shape(result) == shape(peer_result), (task, inputs, options)
        if texts(result) != texts(peer_result):
            differing.append((task, inputs, options, result, peer_result))
    assert differing == []


def test_results_have_the_structure_of_transformers(models):
    pipe = uwaga.pipeline("translation", model=models["marian"], device=-1)
    result = pipe(TEXTS[0])
    assert list(result[0]) == ["translation_text"] and len(result) == 1
    assert pipe(TEXTS) == [pipe(text)[0] for text in TEXTS]
    assert list(pipe(text for text in TEXTS)) == [pipe(text) for text in TEXTS]
    assert pipe([]) == []
    alternatives = pipe(TEXTS, num_beams=3, num_return_sequences=2)
    assert [len(translations) for translations in alternatives] == [2, 2, 2]
    assert list(uwaga.pipeline("summarization", model=models["marian"])(TEXTS[0])[0]) == ["summary_text"]
    generated = uwaga.pipeline(model=models["gpt2"])(TEXTS[0], max_new_tokens=3, do_sample=False)
    assert generated[0]["generated_text"].startswith(TEXTS[0])
    [filled, *_] = uwaga.pipeline("fill-mask", models["bert"])("The [MASK] is here.")
    assert list(filled) == ["score", "token", "token_str", "sequence"]


def test_pipeline_arguments_serve_as_defaults(models):
    pipe = uwaga.pipeline("translation", model=models["marian"], num_beams=1, max_new_tokens=4)
    plain = uwaga.pipeline("translation", model=models["marian"])
    assert pipe(TEXTS) == plain(TEXTS, num_beams=1, max_new_tokens=4)
    assert pipe(TEXTS, num_beams=3) == plain(TEXTS, num_beams=3, max_new_tokens=4)


def test_pipelines_use_the_bundled_model_by_default():
    assert uwaga.pipeline("translation_en_to_de")("Hello.") == [{"translation_text": "Hallo."}]


def test_task_specific_params_serve_as_defaults(models, tmp_path):
    folder = shutil.copytree(models["marian"], tmp_path / "model")
    settings = {"summarization": {"num_beams": 1, "max_length": 6, "prefix": "a "}}
    edit_json(folder / "config.json", task_specific_params=settings)
    plain = uwaga.pipeline("summarization", model=models["marian"])
    expected = plain("a the dog", num_beams=1, max_length=6)
    assert uwaga.pipeline("summarization", model=folder)("the dog") == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"return_tensors": True}, "return_tensors=True: results are texts"),
        ({"truncation": True}, "truncation=True: texts are never truncated"),
        ({"num_beam": 2}, "unknown argument 'num_beam'; did you mean 'num_beams'"),
        ({"repetition_penalty": 1.5}, "repetition_penalty=1.5"),
        ({"do_sample": True, "num_beams": 4}, "do_sample cannot be combined with num_beams"),
        ({"bad_words_ids": [[1, 2]]}, "bad_words_ids"),
        ({"early_stopping": "now"}, "early_stopping='now'"),
        ({"num_beams": "four"}, "beam"),
    ],
)
def test_unsupported_arguments_are_refused(models, arguments, message):
    pipe = uwaga.pipeline("translation", model=models["marian"])
    with pytest.raises(SettingsError, match=message):
        pipe(TEXTS[0], **arguments)


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("sentiment-analysis", {}, "task 'sentiment-analysis': not supported; uwaga supports translation"),
        ("translation", {"trust_remote_code": True}, "uwaga never runs code of models"),
        ("translation", {"framework": "tf"}, "framework='tf'"),
        ("translation", {"tokenizer": "another"}, "tokenizer: the tokeniser of the model is always used"),
        ("translation", {"num_beam": 2}, "unknown argument 'num_beam'"),
        ("summarization", {"model": None}, "model: give a model for the task summarization"),
    ],
)
def test_invalid_pipelines_are_refused(models, task, options, message):
    with pytest.raises(SettingsError, match=message):
        uwaga.pipeline(task, **{"model": models["marian"], **options})
    with pytest.raises(ModelError):
        uwaga.pipeline("fill-mask", model=models["gpt2"])


def test_invalid_pipeline_inputs_are_refused(models):
    pipe = uwaga.pipeline("translation", model=models["marian"])
    with pytest.raises(DataError, match="text 2 is not a string but int"):
        pipe(["a", 3])
    with pytest.raises(DataError, match="text 3 is not a string but dict"):
        list(pipe(iter(["a", "b", {"text": "c"}])))
    with pytest.raises(DataError, match="not int"):
        pipe(3)
    generator = uwaga.pipeline("text-generation", model=models["gpt2"])
    with pytest.raises(DataError, match="which count towards max_length=2"):
        generator("the dog sees the cat", max_length=2)


def test_length_limits_are_reduced_by_the_number_of_prompt_tokens():
    assert search_options({"max_length": 9, "min_length": 3}, context_tokens=1) == {
        "max_length": 8,
        "min_length": 2,
    }
    assert search_options({"max_new_tokens": 9, "max_length": 3}, context_tokens=1) == {"max_length": 9}
    assert search_options({"min_length": 2}, context_tokens=5) == {"min_length": 0}
