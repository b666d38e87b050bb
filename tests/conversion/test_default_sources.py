"""The default sentences on which int8 and float32 are compared."""

import unicodedata
from pathlib import Path

import pytest

from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.checkpoints.registry import read
from uwaga.checkpoints.to_engine import to_engine
from uwaga.conversion.quantise import (
    bundled_languages,
    bundled_sentences,
    default_sources,
    nearest_language,
    quantise,
)

NUMBERS = Path(__file__).parents[1] / "support/models/numbers-en-de"
SCRIPTS = {
    **dict.fromkeys(("en", "de", "fr", "es", "pl", "pt"), "LATIN"),
    **dict.fromkeys(("ru", "uk"), "CYRILLIC"),
    **{"el": "GREEK", "ar": "ARABIC", "he": "HEBREW", "hi": "DEVANAGARI", "zh": "CJK", "ko": "HANGUL"},
    "ja": "HIRAGANA",
}


def test_default_sentences_use_the_script_of_their_language():
    assert set(bundled_sentences()) == set(SCRIPTS)
    for code, lines in bundled_sentences().items():
        assert len(lines) == len(set(lines)) == 20
        for line in lines:
            names = [unicodedata.name(letter, "") for letter in line if letter.isalpha()]
            if SCRIPTS[code] == "HIRAGANA":
                names = [name.replace("CJK", "HIRAGANA").replace("KATAKANA", "HIRAGANA") for name in names]
            assert all(SCRIPTS[code] in name or "PROLONGED" in name for name in names), line
            assert unicodedata.is_normalized("NFC", line) and line == line.strip()


def test_language_codes_of_other_styles_are_recognised():
    assert bundled_languages(["en_XX", "zho_Hans", "eng_Latn", "xx", "pt-BR"]) == ["en", "zh", "pt"]


@pytest.mark.skipif(not BUNDLED.exists(), reason="this source tree holds no bundled model")
def test_agreement_is_measured_on_sentences_of_the_source_language(tmp_path):
    checkpoint = read(BUNDLED)
    exact = to_engine(checkpoint, "float32", threads=1)
    sources, description = default_sources(checkpoint, exact)
    tokeniser = checkpoint.source
    assert description == "sentences that come with uwaga in en (no --sample)"
    assert [tokeniser.decode(ids) for ids in sources] == [
        tokeniser.decode(tokeniser.encode(line)) for line in bundled_sentences()["en"]
    ]
    assert nearest_language(tokeniser) in ("en", "de")  # it is that of both sides
    agreement = quantise(BUNDLED, tmp_path / "int8")
    assert agreement.measured_on == description and agreement.sentences == 20
    sampled = quantise(BUNDLED, tmp_path / "again", sample=bundled_sentences()["en"])
    assert (agreement.same, agreement.tokens, agreement.difference) == (
        sampled.same,
        sampled.tokens,
        sampled.difference,
    )


def test_default_sources_without_usable_sentences_are_valid_and_reproducible():
    checkpoint = read(NUMBERS)
    exact = to_engine(checkpoint, "float32", threads=1)
    sources, description = default_sources(checkpoint, exact)
    assert sources and description.endswith("(no --sample)")
    assert all(0 < len(ids) <= exact.max_source and max(ids) < exact.source_vocabulary for ids in sources)
    assert default_sources(checkpoint, exact) == (sources, description)
