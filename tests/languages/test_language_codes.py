"""Language codes: which of them denote the same language."""

import pytest

from uwaga.languages.codes import M2M100, MBART50, NLLB200, TWO_LETTER_CODES, base_language, same_language


@pytest.mark.parametrize("code", ["en", "EN", "en_XX", "en-GB", "eng", "eng_Latn"])
def test_base_language_ignores_script_and_region(code):
    assert base_language(code) == "en"
    assert same_language(code, "en") and same_language("en_US", code)
    assert not same_language(code, "de")


def test_base_language_keeps_codes_without_a_two_letter_form():
    assert base_language("ceb_Latn") == "ceb" and base_language("yue") == "yue" and base_language("") == ""


def test_same_language_ignores_regions_but_not_scripts():
    assert (
        same_language("pt_BR", "pt-PT") and same_language("zh", "zho_Hant") and same_language("zh_CN", "zh")
    )
    assert not same_language("zho_Hans", "zho_Hant") and not same_language("sr-Latn", "sr_Cyrl")


def test_base_language_is_idempotent():
    for short in TWO_LETTER_CODES.values():
        assert len(short) == 2 and base_language(short) == short


def test_model_families_share_most_languages():
    """The languages of mBART-50 are languages of M2M-100, and nearly all of those are languages of NLLB."""
    bases = [set(map(base_language, codes)) for codes in (MBART50, M2M100, NLLB200)]
    assert bases[0] - bases[1] == {"te"}  # Telugu, which M2M-100 lacks
    assert bases[1] - bases[2] == {"br", "fy", "no", "ns"}  # Norwegian is two languages there; ns is nso
