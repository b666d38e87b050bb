"""Function words, which often have no counterpart in a translation."""

from __future__ import annotations

import re
from functools import lru_cache

FUNCTION_WORDS = {
    "de": "das dass dem den denn der des die doch eben ein eine einem einen einer eines für haben habe hat "
    "hatte hatten ich ihm ihn ihr ist mal mit sein seine sich sie sind uns und von war waren wegen werde "
    "werden wir wird wurde wurden zum zur",
    "en": "and are been being can could did does down either for from had has have her him his into its may "
    "might must our shall she should that the their them there these they this those unto upon was were "
    "which while who whom whose will with would you your|"
    "would like|d like|in order to|in order that|so that|as well as|in terms of|such as|at all",
    "es": "con del desde ella ellas ellos está están era eran fue fueron han hay las los les para pero por "
    "que ser son sus una unas uno unos|ya que|a fin de|con el fin de",
    "fr": "aux avec ces cette dans des elle elles est était étaient été être fut les leur leurs lui ont "
    "par pour que qui sera ses son sont sur une vous|afin de|il y a",
    "it": "agli alla alle allo con dal dalla degli dei del della delle dello era erano essere fra gli hanno "
    "nel nella nelle per sono stata stato sua suo una uno|al fine di",
    "pt": "aos com das dos ela elas eles era eram essa esse está estão foi foram havia mas nas nos "
    "para pela pelas pelo pelos por que são ser seu seus sua suas uma umas uns|a fim de|já que",
}
"""Function words of at least three letters, and phrases after ``|``, by language, excluding negations and
quantifiers."""

NON_FINAL_WORDS = {
    language: frozenset(words.split())
    for language, words in {
        "de": "das dem den der des eine einem einen einer eines oder und zum zur",
        "en": "a an and of or the",
        "es": "con de del el en la las los o para por un una y",
        "fr": "au aux avec dans de des du en et la le les ou par pour un une",
        "it": "con da dei del della di e gli i il in la lo o per un una",
        "pt": "ao aos as com da das de do dos e em na nas no nos o os ou para pela pelo por um uma",
    }.items()
}
"""Words that do not end a sentence or a title, by language."""


def function_words(text: str, language: str) -> frozenset[int]:
    """Return the start positions of the function words of a text.

    Args:
        text: the text.
        language: its language, as a two-letter code.
    """
    pattern = _pattern(language)
    if pattern is None:
        return frozenset()
    return frozenset(
        match.start() + word.start()
        for match in pattern.finditer(text)
        for word in re.finditer(r"\w+", match[0])
    )


@lru_cache(maxsize=32)
def _pattern(language: str) -> re.Pattern[str] | None:
    words, *phrases = FUNCTION_WORDS.get(language, "").split("|")
    alternatives = "|".join((*phrases, *words.split()))
    return re.compile(rf"\b(?:{alternatives})\b", re.IGNORECASE) if alternatives else None
