"""Language selection by tokeniser, by forced first token, or by a token or text before each source."""

import dataclasses
import json
import shutil

import pytest
from command_line import run_uwaga

transformers = pytest.importorskip("transformers")

import huggingface_hub
from marian_folders import TEXTS, make
from pretrained_tokenisers import older_format

import uwaga
from uwaga.checkpoints.languages import Languages, resolve_languages, task_prefixes
from uwaga.errors import SettingsError
from uwaga.tokenizers.multilingual import read_m2m100_tokeniser, read_mbart_tokeniser

TASKS = {
    "task_specific_params": {
        "translation_en_to_de": {"prefix": "translate English to German: "},
        "translation_en_to_fr": {"prefix": "translate English to French: "},
        "summarization": {"prefix": "summarize: "},
    }
}


def direction_of(tokenisers, source=None, target=None, first=None, config=None):
    languages = Languages(
        tokenisers.source, tokenisers.target, first=first, tasks=task_prefixes(config or {}), location="here"
    )
    return languages.direction(source, target)


def test_language_pairs_of_multilingual_models_are_resolved_or_rejected():
    case = older_format("m2m100")
    plain = read_m2m100_tokeniser(case.folder, case.ids)
    direction = direction_of(plain, "en", "fr")
    assert direction.languages == ("en", "fr")
    assert direction.source.add_special_tokens([5])[0] == plain.source.languages["en"]
    assert (direction.first, direction.start) == (plain.source.languages["fr"], None)
    forced = direction_of(plain, "en", None, first=plain.source.languages["de"])
    assert (forced.languages, forced.first) == (("en", "de"), plain.source.languages["de"])
    changed = direction_of(plain, "en", "fr", first=plain.source.languages["de"])
    assert changed.first == changed.target.languages["fr"]
    with pytest.raises(SettingsError, match=r"multilingual model needs a source; choose .* af am ar"):
        direction_of(plain, None, "fr")
    with pytest.raises(SettingsError, match="needs a target; choose"):
        direction_of(plain, "en", None)
    with pytest.raises(SettingsError, match="no language 'xx'"):
        direction_of(plain, "en", "xx")


def test_mbart_target_starts_with_its_language_token():
    case = older_format("mbart")
    plain = read_mbart_tokeniser(case.folder, case.ids)
    direction = direction_of(plain, "en", "ro_RO", first=plain.target.languages["de_DE"])
    assert direction.start == direction.target.symbols.start == plain.target.languages["ro_RO"]
    assert direction.first is None  # a language forced besides would stand there twice


def test_languages_select_the_t5_task_prefix():
    tokenisers = older_format("t5").sides
    direction = direction_of(tokenisers, "en", "fr", config=TASKS)
    assert direction.source.encode("the dog") == tokenisers.source.encode(
        "translate English to French: the dog"
    )
    assert direction.target.encode("the dog") == tokenisers.target.encode("the dog")
    assert direction.languages == ("en", "fr")
    with pytest.raises(
        SettingsError, match=r"does not translate de to en; its config.json states en to de, en to fr"
    ):
        direction_of(tokenisers, "de", "en", config=TASKS)
    plain = direction_of(tokenisers, config=TASKS)
    assert plain.source.encode("the dog") == tokenisers.source.encode("the dog")


def test_bilingual_model_accepts_only_its_languages():
    assert resolve_languages(("en", "de"), None, None, "here") == ("en", "de")
    assert resolve_languages(("en", "de"), "en_GB", "de", "here") == ("en", "de")
    assert resolve_languages(("src", "tgt"), "en", None, "here") == ("en", "tgt")
    with pytest.raises(SettingsError, match="here: translates only en to de, not to 'fr'"):
        resolve_languages(("en", "de"), "en", "fr", "here")
    with pytest.raises(SettingsError, match="translates only en to de, not from 'de'"):
        uwaga.load("bundled", device="cpu", source="de", target="en")
    assert uwaga.load(device="cpu", source="en").languages == ("en", "de")


@pytest.fixture(scope="module")
def marian(tmp_path_factory):
    folder = tmp_path_factory.mktemp("languages") / "opus-mt-en-mul"
    make(folder)
    return folder


def test_marian_prepends_the_target_language_token(marian, tmp_path):
    plain = uwaga.load(marian, device="cpu")
    french = uwaga.load(marian, device="cpu", target="fra")
    assert french.languages == ("en", "fra")
    expected = plain.translate([f">>fra<< {text}" for text in TEXTS], placeholders=False)
    assert [translation.text for translation in french.translate(TEXTS, placeholders=False)] == [
        translation.text for translation in expected
    ]
    assert french.translate(f">>deu<< {TEXTS[0]}") == plain.translate(f">>deu<< {TEXTS[0]}")
    long = " ".join(TEXTS)
    tokens = french.translate(long, split="sentences").source_tokens
    assert tokens.count(">>fra<<") == tokens.count("</s>") + 1 > 1  # each of the sentences has it
    assert french.source.model_bytes != plain.source.model_bytes
    with pytest.raises(SettingsError, match="no target language 'xyz'; the model has deu fra"):
        uwaga.load(marian, device="cpu", target="xyz")
    text = "\n".join(TEXTS)
    (tmp_path / "in").write_text(text)
    run = run_uwaga("translate", "-m", marian, "--to", "fra", "-i", tmp_path / "in")
    assert run.stdout.splitlines() == [translation.text for translation in french.translate(TEXTS)]
    pair = tmp_path / "pair.tsv"
    pair.write_text("the dog\tein Hund\n")
    scored = run_uwaga("score", "-m", marian, "--from", "en", "--to", "fra", pair)
    assert float(scored.stdout.split()[0]) == pytest.approx(
        plain.score([(">>fra<< the dog", "ein Hund")])[0].log_prob, abs=1e-3
    )


def test_cached_opus_model_loads_without_a_network(marian, tmp_path, monkeypatch):
    """The cache has the layout that huggingface_hub uses."""
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
    translator = uwaga.load("Helsinki-NLP/opus-mt-en-de", device="cpu")
    assert translator.translate(TEXTS) == uwaga.load(marian, device="cpu").translate(TEXTS)
    result = run_uwaga("info", "Helsinki-NLP/opus-mt-en-de", "--json")
    document = json.loads(result.stdout)
    assert document["languages"]["target"] == ["deu", "fra"]
    assert document["weights"]["parameters"] > 1000


def test_copies_of_a_tokeniser_keep_its_language():
    tokeniser = older_format("m2m100").uwaga
    assert dataclasses.replace(tokeniser, clean=True).language == "de"
    assert tokeniser.with_language("fr").with_language("de") == tokeniser
