"""The plural forms of languages: expressions for gettext, and the plural categories of Unicode CLDR."""

from __future__ import annotations

import gettext
import re
from collections.abc import Mapping

from uwaga.languages.codes import base_language

ONE_FORM = "nplurals=1; plural=0;"
TWO_FORMS = "nplurals=2; plural=(n != 1);"
EXPRESSIONS: Mapping[str, str] = {
    **dict.fromkeys(("ja", "zh", "ko", "vi", "th", "id", "ms", "lo", "my", "jv", "su", "yo"), ONE_FORM),
    **dict.fromkeys(
        ("fr", "pt_BR", "oc", "br", "mg", "ln", "fil", "tl", "wa"), "nplurals=2; plural=(n > 1);"
    ),
    **dict.fromkeys(
        ("ru", "uk", "be", "sr", "hr", "bs"),
        "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : "
        "n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);",
    ),
    **dict.fromkeys(("cs", "sk"), "nplurals=3; plural=(n==1) ? 0 : (n>=2 && n<=4) ? 1 : 2;"),
    "pl": "nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);",
    "ro": "nplurals=3; plural=(n==1 ? 0 : (n==0 || (n%100 > 0 && n%100 < 20)) ? 1 : 2);",
    "lt": "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2);",
    "lv": "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2);",
    "sl": "nplurals=4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3);",
    "ga": "nplurals=5; plural=(n==1 ? 0 : n==2 ? 1 : n<7 ? 2 : n<11 ? 3 : 4);",
    "cy": "nplurals=4; plural=(n==1) ? 0 : (n==2) ? 1 : (n != 8 && n != 11) ? 2 : 3;",
    "mt": (
        "nplurals=4; plural=(n==1 ? 0 : n==0 || (n%100>1 && n%100<11) ? 1 : (n%100>10 && n%100<20) ? 2 : 3);"
    ),
    "is": "nplurals=2; plural=(n%10!=1 || n%100==11);",
    "mk": "nplurals=2; plural=(n%10==1 && n%100!=11) ? 0 : 1;",
    "ar": (
        "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5);"
    ),
}
"""The ``Plural-Forms`` of languages, from the GNU gettext manual, section 12.6; other languages have two
forms."""
CATEGORIES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("ja", "zh", "ko", "vi", "th", "id", "ms", "lo", "my", "jv", "su", "yo"), ("other",)),
    **dict.fromkeys(("ru", "uk", "be", "pl"), ("one", "few", "many", "other")),
    **dict.fromkeys(("cs", "sk", "lt"), ("one", "few", "many", "other")),
    **dict.fromkeys(("sr", "hr", "bs", "ro"), ("one", "few", "other")),
    **dict.fromkeys(("fr", "es", "it", "pt", "ca"), ("one", "many", "other")),
    "lv": ("zero", "one", "other"),
    "sl": ("one", "two", "few", "other"),
    "he": ("one", "two", "other"),
    "ga": ("one", "two", "few", "many", "other"),
    "mt": ("one", "two", "few", "many", "other"),
    "cy": ("zero", "one", "two", "few", "many", "other"),
    "ar": ("zero", "one", "two", "few", "many", "other"),
}
"""The plural categories of languages in CLDR 46, for integers and other numbers; other languages have ``one``
and ``other``."""
PLURAL_HEADER = re.compile(r"nplurals\s*=\s*(\d{1,2})\s*;\s*plural\s*=\s*([^;]+);?")
MAX_FORMS = 10
"""Maximum number of plural forms that a header may declare."""


def plural_expression(language: str) -> str:
    """Return the value of ``Plural-Forms`` in a PO file for a language."""
    code = language.replace("-", "_")
    return EXPRESSIONS.get(code) or EXPRESSIONS.get(base_language(language), TWO_FORMS)


def plural_categories(language: str) -> tuple[str, ...]:
    """Return the plural categories of a language, in the order of CLDR."""
    return CATEGORIES.get(base_language(language), ("one", "other"))


def singular_forms(header: str) -> tuple[bool, ...] | None:
    """Return, for each form of a ``Plural-Forms`` header, whether the form is used only for the number 1.

    Return None if the header cannot be parsed.
    """
    match = PLURAL_HEADER.search(header)
    if match is None or not 1 <= int(match[1]) <= MAX_FORMS:
        return None
    try:
        form_of_1, form_of_5 = _forms(match, 1, 5)
    except (ValueError, RecursionError, ZeroDivisionError, OverflowError):
        return None
    return tuple(form == form_of_1 and form_of_1 != form_of_5 for form in range(int(match[1])))


def repeats_singular(header: str) -> bool:
    """Return whether the numbers 1 and 21 have the same form, as in Russian.

    The header must be one that :func:`singular_forms` can parse.
    """
    match = PLURAL_HEADER.search(header)
    if match is None:
        return True
    form_of_1, form_of_21 = _forms(match, 1, 21)
    return form_of_1 == form_of_21


def _forms(header: re.Match[str], *numbers: int) -> list[int]:
    """Return the form of each number, given a match of :data:`PLURAL_HEADER`."""
    index = gettext.c2py(header[2].strip())
    return [index(number) for number in numbers]
