"""Codes of languages: which mean the same."""

from __future__ import annotations

import pytest

from uwaga.languages.codes import M2M100, MBART50, NLLB200, TWO_LETTERS, base_language, same_language


@pytest.mark.parametrize("code", ["en", "EN", "en_XX", "en-GB", "eng", "eng_Latn"])
def test_a_language_has_one_base(code):
    assert base_language(code) == "en"
    assert same_language(code, "en") and same_language("en_US", code)
    assert not same_language(code, "de")


def test_what_has_no_code_of_two_letters_stays():
    assert base_language("ceb_Latn") == "ceb" and base_language("yue") == "yue" and base_language("") == ""


def test_regions_do_not_count_and_scripts_do():
    assert (
        same_language("pt_BR", "pt-PT") and same_language("zh", "zho_Hant") and same_language("zh_CN", "zh")
    )
    assert not same_language("zho_Hans", "zho_Hant") and not same_language("sr-Latn", "sr_Cyrl")


def test_every_base_is_its_own_base():
    for short in TWO_LETTERS.values():
        assert len(short) == 2 and base_language(short) == short


def test_the_families_call_their_languages_alike():
    """Every language of mBART-50 is one of M2M-100's, and nearly every one of those is NLLB's."""
    bases = [set(map(base_language, codes)) for codes in (MBART50, M2M100, NLLB200)]
    assert bases[0] - bases[1] == {"te"}  # Telugu, which M2M-100 lacks
    assert bases[1] - bases[2] == {"br", "fy", "no", "ns"}  # Norwegian is two languages there; ns is nso
