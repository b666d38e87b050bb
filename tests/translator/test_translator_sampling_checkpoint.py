"""Checkpoints with ``do_sample`` in generation_config.json sample unless beam search is requested."""

import json

import marian_folders as marian
import pytest
from command_line import run_uwaga

import uwaga
from uwaga.errors import SettingsError
from uwaga.translator import Request

TEXTS = marian.TEXTS


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return two folders of one model; the second has ``do_sample`` (thus ``top_k`` 50 in transformers)."""
    parent = tmp_path_factory.mktemp("sampling")
    for name in ("searching", "sampling"):
        marian.make(parent / name, end=1.0)
    path = parent / "sampling" / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"do_sample": True, "num_beams": 1}))
    return parent / "searching", parent / "sampling"


@pytest.fixture(scope="module", params=["native", "torch"])
def translators(request, folders):
    return [uwaga.Translator.load(folder, device="cpu", engine=request.param) for folder in folders]


def texts(translations):
    return [translation.text for translation in translations]


def test_translate_uses_the_sampling_settings_of_the_model(translators):
    searching, sampling = translators
    assert (sampling.decoding.sample, sampling.decoding.top_k) == (True, 50)
    samples = texts(sampling.translate(TEXTS, seed=3))
    assert samples == texts(sampling.translate(TEXTS, seed=3)) != texts(sampling.translate(TEXTS, seed=4))
    assert samples == texts(searching.translate(TEXTS, sample=True, top_k=50, seed=3))
    assert len({sampling.translate(TEXTS[2]).text for _ in range(5)}) > 1  # each call draws a new seed
    assert len(sampling.translate(TEXTS[0], nbest=3).alternatives) == 2  # three samples


def test_model_with_sampling_settings_uses_beam_search_on_request(translators):
    searching, sampling = translators
    assert texts(sampling.translate(TEXTS, beam=5)) == texts(searching.translate(TEXTS, beam=5))
    greedy = texts(searching.translate(TEXTS, beam=1))
    assert texts(sampling.translate(TEXTS, beam=1)) == greedy
    assert texts(sampling.translate(TEXTS, sample=False)) == greedy
    beam = sampling.options(beam=5)
    assert texts(sampling.run(Request(text, search=beam) for text in TEXTS)) == texts(
        searching.translate(TEXTS, beam=5)
    )
    assert sampling.attend(TEXTS[0]).tokens == searching.translate(TEXTS[0], beam=1).tokens
    with pytest.raises(
        SettingsError, match="temperature, top_k and top_p apply to sampling only: set sample"
    ):
        sampling.translate(TEXTS, beam=5, top_k=9)


def test_stream_uses_the_sampling_settings_of_the_model(translators):
    searching, sampling = translators
    for text in TEXTS:
        assert "".join(sampling.stream(text, seed=3)) == sampling.translate(text, seed=3).text
        assert "".join(sampling.stream(text, beam=1)) == searching.translate(text, beam=1).text


def test_command_line_uses_the_sampling_settings_of_the_model(folders, translators):
    searching, sampling = translators
    engine = "native" if hasattr(sampling.decoder, "precision") else "torch"

    def run(*arguments):
        settings = ["--model", str(folders[1]), "--device", "cpu", "--engine", engine]
        result = run_uwaga("translate", *settings, *arguments, *TEXTS)
        return result.stdout.removesuffix("\n").split("\n")

    samples = texts(sampling.translate(TEXTS, seed=3))
    assert run("--seed", 3) == run("--seed", 3, "--stream") == run("--sample", "--seed", 3) == samples
    greedy = texts(searching.translate(TEXTS, beam=1))
    assert run("--beam", 1) == run("--stream", "--beam", 1) == greedy
    assert run("--beam", 5) == texts(searching.translate(TEXTS, beam=5))
