"""Choosing languages: through the tokeniser, the forced first token, a mark or a text before each source."""

import dataclasses
import json
import shutil

import pytest

transformers = pytest.importorskip("transformers")

import huggingface_hub
from marian_folders import TEXTS, make
from pretrained_tokenisers import older
from typer.testing import CliRunner

import uwaga
from uwaga.checkpoints.languages import Languages, resolve_languages, task_prefixes
from uwaga.cli.main import app
from uwaga.errors import SettingsError
from uwaga.tokenizers.multilingual import read_m2m100_tokeniser, read_mbart_tokeniser

TASKS = {
    "task_specific_params": {
        "translation_en_to_de": {"prefix": "translate English to German: "},
        "translation_en_to_fr": {"prefix": "translate English to French: "},
        "summarization": {"prefix": "summarize: "},
    }
}


def chosen(sides, source=None, target=None, first=None, config=None):
    known = Languages(
        sides.source, sides.target, first=first, tasks=task_prefixes(config or {}), where="here"
    )
    return known.direction(source, target)


def test_languages_that_tokens_choose():
    case = older("m2m100")
    plain = read_m2m100_tokeniser(case.folder, case.ids)
    found = chosen(plain, "en", "fr")
    assert found.languages == ("en", "fr")
    assert found.source.add_special_tokens([5])[0] == plain.source.languages["en"]
    assert (found.first, found.start) == (plain.source.languages["fr"], None)
    stated = chosen(plain, "en", None, first=plain.source.languages["de"])
    assert (stated.languages, stated.first) == (("en", "de"), plain.source.languages["de"])
    changed = chosen(plain, "en", "fr", first=plain.source.languages["de"])
    assert changed.first == changed.target.languages["fr"]
    with pytest.raises(SettingsError, match=r"several languages without a source; choose .* af am ar"):
        chosen(plain, None, "fr")
    with pytest.raises(SettingsError, match="without a target; choose"):
        chosen(plain, "en", None)
    with pytest.raises(SettingsError, match="no language 'xx'"):
        chosen(plain, "en", "xx")


def test_mbart_starts_from_the_target_language():
    case = older("mbart")
    plain = read_mbart_tokeniser(case.folder, case.ids)
    found = chosen(plain, "en", "ro_RO", first=plain.target.languages["de_DE"])
    assert found.start == found.target.symbols.start == plain.target.languages["ro_RO"]
    assert found.first is None  # a language forced besides would stand there twice


def test_tasks_of_t5():
    sides = older("t5").sides
    found = chosen(sides, "en", "fr", config=TASKS)
    assert found.source.encode("the dog") == sides.source.encode("translate English to French: the dog")
    assert found.target.encode("the dog") == sides.target.encode("the dog")
    assert found.languages == ("en", "fr")
    with pytest.raises(
        SettingsError, match=r"does not translate de to en; its config.json knows en to de, en to fr"
    ):
        chosen(sides, "de", "en", config=TASKS)
    plain = chosen(sides, config=TASKS)
    assert plain.source.encode("the dog") == sides.source.encode("the dog")


def test_a_model_of_one_pair():
    assert resolve_languages(("en", "de"), None, None, "here") == ("en", "de")
    assert resolve_languages(("en", "de"), "en_GB", "de", "here") == ("en", "de")
    assert resolve_languages(("src", "tgt"), "en", None, "here") == ("en", "tgt")
    with pytest.raises(SettingsError, match="here: translates en to de only, to 'fr' it cannot"):
        resolve_languages(("en", "de"), "en", "fr", "here")
    with pytest.raises(SettingsError, match="translates en to de only, from 'de'"):
        uwaga.load("bundled", device="cpu", source="de", target="en")
    assert uwaga.load(device="cpu", source="en").languages == ("en", "de")


@pytest.fixture(scope="module")
def marian(tmp_path_factory):
    folder = tmp_path_factory.mktemp("languages") / "opus-mt-en-mul"
    make(folder)
    return folder


def test_marian_puts_the_mark_before_texts(marian, tmp_path):
    plain = uwaga.load(marian, device="cpu")
    french = uwaga.load(marian, device="cpu", target="fra")
    assert french.languages == ("en", "fra")
    wanted = plain.translate([f">>fra<< {text}" for text in TEXTS])
    assert [one.text for one in french.translate(TEXTS)] == [one.text for one in wanted]
    assert french.translate(f">>deu<< {TEXTS[0]}") == plain.translate(f">>deu<< {TEXTS[0]}")
    long = " ".join(TEXTS)
    tokens = french.translate(long, split="sentences").source_tokens
    assert tokens.count(">>fra<<") == tokens.count("</s>") + 1 > 1  # each of the sentences has it
    assert french.source.model_bytes != plain.source.model_bytes
    with pytest.raises(SettingsError, match="no target language 'xyz'; the model has deu fra"):
        uwaga.load(marian, device="cpu", target="xyz")
    text = "\n".join(TEXTS)
    (tmp_path / "in").write_text(text)
    run = CliRunner().invoke(app, ["translate", "-m", str(marian), "--to", "fra", "-i", str(tmp_path / "in")])
    assert run.stdout.splitlines() == [one.text for one in wanted]
    pair = tmp_path / "pair.tsv"
    pair.write_text("the dog\tein Hund\n")
    scored = CliRunner().invoke(app, ["score", "-m", str(marian), "--from", "en", "--to", "fra", str(pair)])
    assert float(scored.stdout.split()[0]) == pytest.approx(
        plain.score([(">>fra<< the dog", "ein Hund")])[0].log_prob, abs=1e-3
    )


def test_a_cached_opus_model_needs_no_network(marian, tmp_path, monkeypatch):
    """A cache laid out as huggingface_hub lays it out, filled on another day."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "cache/models--Helsinki-NLP--opus-mt-en-de"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs/main").write_text(commit)
    shutil.copytree(marian, repository / "snapshots" / commit)
    real = huggingface_hub.snapshot_download

    def download(name, *, allow_patterns, local_files_only=False):
        assert local_files_only, "the network was asked"
        return real(name, allow_patterns=allow_patterns, local_files_only=True, cache_dir=tmp_path / "cache")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    found = uwaga.load("Helsinki-NLP/opus-mt-en-de", device="cpu")
    assert found.translate(TEXTS) == uwaga.load(marian, device="cpu").translate(TEXTS)
    shown = CliRunner().invoke(app, ["info", "Helsinki-NLP/opus-mt-en-de", "--json"])
    document = json.loads(shown.stdout)
    assert document["languages"]["target"] == ["deu", "fra"]
    assert document["weights"]["parameters"] > 1000


def test_a_chosen_language_is_kept_by_every_copy():
    ours = older("m2m100").ours
    assert dataclasses.replace(ours, clean=True).language == "de"
    assert ours.with_language("fr").with_language("de") == ours
