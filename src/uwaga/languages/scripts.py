"""Which letters the languages are written in."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from uwaga.languages.codes import base_language

ROMAN = (
    "en de fr es it pt nl sv da no nb nn fi et lv lt pl cs sk sl hr ro hu "
    "tr sq is ga id ms vi tl ca gl eu mt cy af sw eng deu fra spa ita por nld pol ces"
)
"""Languages in Latin letters."""
LATIN, CYRILLIC, ARABIC, DEVANAGARI = ("LATIN",), ("CYRILLIC",), ("ARABIC",), ("DEVANAGARI",)
HAN = ("CJK", "IDEOGRAPHIC", "KANGXI", "BOPOMOFO")
SCRIPTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(ROMAN.split(), LATIN),
    **dict.fromkeys(["ru", "uk", "bg", "be", "mk", "rus", "ukr", "bul", "bel", "mkd"], CYRILLIC),
    **dict.fromkeys(["ar", "fa", "ur", "ps", "ug", "ckb", "ara", "arb", "fas", "pes", "urd"], ARABIC),
    **dict.fromkeys(["hi", "mr", "ne", "sa", "hin", "mar", "npi"], DEVANAGARI),
    **dict.fromkeys(["zh", "yue", "zho", "cmn"], HAN),
    **dict.fromkeys(["ja", "jpn"], (*HAN, "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA")),
    **dict.fromkeys(["ko", "kor"], ("HANGUL", *HAN)),
    **dict.fromkeys(["el", "ell"], ("GREEK",)),
    **dict.fromkeys(["he", "yi", "heb"], ("HEBREW",)),
    **dict.fromkeys(["ka", "kat"], ("GEORGIAN",)),
    **dict.fromkeys(["hy", "hye"], ("ARMENIAN",)),
    **dict.fromkeys(["bn", "as", "ben", "asm"], ("BENGALI",)),
    **dict.fromkeys(["ta", "tam"], ("TAMIL",)),
    **dict.fromkeys(["te", "tel"], ("TELUGU",)),
    **dict.fromkeys(["th", "tha"], ("THAI",)),
    **dict.fromkeys(["am", "ti", "amh", "tir"], ("ETHIOPIC",)),
}
"""How Unicode's names of a language's letters begin; a language that is not here is not checked."""


def scripts_of(language: str) -> tuple[str, ...] | None:
    """How the names of a language's letters begin; None of a language that is not known here."""
    return SCRIPTS.get(base_language(language))


@lru_cache(1 << 16)
def script_of(character: str) -> str:
    """How Unicode's name of a letter begins, empty for what is no letter."""
    return unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""
