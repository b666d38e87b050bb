"""The sentences on which int8 is compared with float32 where a user gives none."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.checkpoints.registry import read
from uwaga.checkpoints.to_engine import to_engine
from uwaga.conversion.quantise import nearest_language, own_sources, quantise, shipped, shipped_codes

NUMBERS = Path(__file__).parents[1] / "support/models/numbers-en-de"
SCRIPTS = {
    **dict.fromkeys(("en", "de", "fr", "es", "pl", "pt"), "LATIN"),
    **dict.fromkeys(("ru", "uk"), "CYRILLIC"),
    **{"el": "GREEK", "ar": "ARABIC", "he": "HEBREW", "hi": "DEVANAGARI", "zh": "CJK", "ko": "HANGUL"},
    "ja": "HIRAGANA",
}


def test_I11_22_there_are_sentences_of_every_script_and_each_is_in_its_own():
    assert set(shipped()) == set(SCRIPTS)
    for code, lines in shipped().items():
        assert len(lines) == len(set(lines)) == 20
        for line in lines:
            names = [unicodedata.name(letter, "") for letter in line if letter.isalpha()]
            if SCRIPTS[code] == "HIRAGANA":
                names = [name.replace("CJK", "HIRAGANA").replace("KATAKANA", "HIRAGANA") for name in names]
            assert all(SCRIPTS[code] in name or "PROLONGED" in name for name in names), line
            assert unicodedata.is_normalized("NFC", line) and line == line.strip()


def test_I11_22_codes_of_other_styles_find_them():
    assert shipped_codes(["en_XX", "zho_Hans", "eng_Latn", "xx", "pt-BR"]) == ["en", "zh", "pt"]


@pytest.mark.skipif(not BUNDLED.exists(), reason="this source tree holds no bundled model")
def test_I11_22_a_model_is_measured_on_sentences_of_its_language(tmp_path):
    checkpoint = read(BUNDLED)
    exact = to_engine(checkpoint, "float32", threads=1)
    sources, what = own_sources(checkpoint, exact)
    tokeniser = checkpoint.source
    assert what == "sentences that come with uwaga in en (no --sample)"
    assert [tokeniser.decode(ids) for ids in sources] == [
        tokeniser.decode(tokeniser.encode(line)) for line in shipped()["en"]
    ]
    assert nearest_language(tokeniser) in ("en", "de")  # it is that of both sides
    found = quantise(BUNDLED, tmp_path / "int8")
    assert found.measured_on == what and found.sentences == 20
    given = quantise(BUNDLED, tmp_path / "again", sample=shipped()["en"])
    assert (found.same, found.tokens, found.difference) == (given.same, given.tokens, given.difference)


def test_I11_22_a_model_of_no_such_language_is_measured_on_what_it_can_take():
    checkpoint = read(NUMBERS)
    exact = to_engine(checkpoint, "float32", threads=1)
    sources, what = own_sources(checkpoint, exact)
    assert sources and what.endswith("(no --sample)")
    assert all(0 < len(ids) <= exact.max_source and max(ids) < exact.source_vocabulary for ids in sources)
    assert own_sources(checkpoint, exact) == (sources, what)
