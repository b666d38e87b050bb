"""A checkpoint whose generation_config.json says ``do_sample``: it samples, unless the best is asked for."""

import json

import marian_folders as marian
import pytest
from typer.testing import CliRunner

import uwaga
from uwaga.cli.main import app
from uwaga.errors import SettingsError
from uwaga.translator import Request

TEXTS = marian.TEXTS


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The same model twice; the second has ``do_sample`` (and so, as transformers has it, ``top_k`` 50)."""
    place = tmp_path_factory.mktemp("sampling")
    for name in ("searching", "sampling"):
        marian.make(place / name, end=1.0)
    path = place / "sampling" / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"do_sample": True, "num_beams": 1}))
    return place / "searching", place / "sampling"


@pytest.fixture(scope="module", params=["native", "torch"])
def translators(request, folders):
    return [uwaga.Translator.load(folder, device="cpu", engine=request.param) for folder in folders]


def texts(translations):
    return [one.text for one in translations]


def test_it_samples_as_its_settings_say(translators):
    searching, sampling = translators
    assert (sampling.decoding.sample, sampling.decoding.top_k) == (True, 50)
    drawn = texts(sampling.translate(TEXTS, seed=3))
    assert drawn == texts(sampling.translate(TEXTS, seed=3)) != texts(sampling.translate(TEXTS, seed=4))
    assert drawn == texts(searching.translate(TEXTS, sample=True, top_k=50, seed=3))
    assert len({sampling.translate(TEXTS[2]).text for _ in range(5)}) > 1  # a seed of its own each time
    assert len(sampling.translate(TEXTS[0], nbest=3).alternatives) == 2  # three samples


def test_who_asks_for_the_best_gets_it(translators):
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


def test_a_stream_follows_it_too(translators):
    searching, sampling = translators
    for text in TEXTS:
        assert "".join(sampling.stream(text, seed=3)) == sampling.translate(text, seed=3).text
        assert "".join(sampling.stream(text, beam=1)) == searching.translate(text, beam=1).text


def test_the_command_line_follows_it_too(folders, translators):
    searching, sampling = translators
    engine = "native" if hasattr(sampling.decoder, "precision") else "torch"

    def run(*words):
        settings = ["--model", str(folders[1]), "--device", "cpu", "--engine", engine]
        done = CliRunner().invoke(app, ["translate", *settings, *map(str, words), *TEXTS])
        assert done.exit_code == 0, done.output
        return done.stdout.splitlines()

    drawn = texts(sampling.translate(TEXTS, seed=3))
    assert run("--seed", 3) == run("--seed", 3, "--stream") == run("--sample", "--seed", 3) == drawn
    greedy = texts(searching.translate(TEXTS, beam=1))
    assert run("--beam", 1) == run("--stream", "--beam", 1) == greedy
    assert run("--beam", 5) == texts(searching.translate(TEXTS, beam=5))
