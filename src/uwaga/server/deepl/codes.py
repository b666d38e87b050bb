"""Languages as DeepL calls them: ``EN-US``, ``PT-BR``, ``ZH-HANS``."""

from __future__ import annotations

from dataclasses import dataclass

from uwaga.languages.codes import base_language
from uwaga.languages.names import language_name
from uwaga.server.service import Service

VARIANTS = {
    "en": (("EN-GB", "English (British)"), ("EN-US", "English (American)")),
    "pt": (("PT-BR", "Portuguese (Brazilian)"), ("PT-PT", "Portuguese (European)")),
}
"""Targets that DeepL's clients ask for by their variant alone; a model has one of them, whichever it is."""
OTHER_NAMES = {"no": "NB"}


@dataclass(frozen=True)
class ListedLanguage:
    """A language as a list has it: ``code`` as DeepL's, ``own`` as the server's."""

    code: str
    name: str
    own: str


def listed_code(own: str) -> str:
    """The code of a language of the server's as DeepL writes it: ``EN``, ``ZH-HANT``."""
    return OTHER_NAMES.get(own, own.upper())


def source_languages(service: Service) -> list[ListedLanguage]:
    """The languages that can be translated from."""
    return [ListedLanguage(listed_code(one.code), one.name, one.code) for one in service.pairs()]


def target_languages(service: Service) -> list[ListedLanguage]:
    """The languages that can be translated to, English and Portuguese by their variants."""
    found: list[ListedLanguage] = []
    for own in sorted({target for one in service.pairs() for target in one.targets}):
        usual = ((listed_code(own), language_name(own)),)
        for code, name in VARIANTS.get(base_language(own), usual):
            found.append(ListedLanguage(code, name, own))
    return found


def glossary_pairs(service: Service) -> list[tuple[str, str]]:
    """The pairs of languages that one model translates between: a glossary holds for one model."""
    return [
        (one.code, target)
        for one in service.pairs()
        for target in one.targets
        if len(service.atlas.route(one.code, target) or ()) == 1
    ]
