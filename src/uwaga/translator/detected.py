"""The source language of a call, found out where it is asked to be."""

from __future__ import annotations

from collections.abc import Sequence

from uwaga.checkpoints.languages import LanguagePair
from uwaga.errors import SettingsError
from uwaga.languages.codes import same_language
from uwaga.languages.detection import AUTO, detect_language

MOST_SHOWN = 8


def known_source(source: str | None, text: str | Sequence[str], languages: LanguagePair) -> str | None:
    """The source language as a model calls it; ``auto`` is that of the texts, which are taken to be of one.

    Args:
        source: as the call has it.
        text: what is to be translated: one text, or several.
        languages: those of the model.

    Raises:
        SettingsError: the texts are of a language that the model does not translate from, or it states none.
        DataError: there is no letter in the texts.
        MissingExtraError: py3langid is not installed.
    """
    if not isinstance(source, str) or source != AUTO:
        return source
    if not languages.sources:
        raise SettingsError("source 'auto' needs a model that states its languages; name the language")
    found = detect_language([text] if isinstance(text, str) else text)
    for code in languages.sources:
        if same_language(code, found.language):
            return code
    some = ", ".join(languages.sources[:MOST_SHOWN]) + (
        ", ..." if len(languages.sources) > MOST_SHOWN else ""
    )
    raise SettingsError(
        f"the text is in {found.language!r} (probability {found.probability:.2f}), and this model translates "
        f"from {some}: choose a model for it, or name the language if that is wrong"
    )
