"""Handling of texts that cannot be translated, so that they do not affect other texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from uwaga.errors import DataError, UwagaError
from uwaga.markup.inline import Tag
from uwaga.results.translation import Translation
from uwaga.translator.request import OnError
from uwaga.translator.text import Layer, Text


class FailedTextsError(DataError):
    """An error for one or more texts that cannot be translated, each with its own error."""

    def __init__(self, errors: dict[Text, DataError]) -> None:
        super().__init__(str(next(iter(errors.values()))))
        self.errors = errors

    def take_first(self) -> DataError:
        """Return the error of the first text, and clear all errors to break reference cycles between them."""
        first_error = next(iter(self.errors.values()))
        self.errors.clear()
        return first_error


class Failures:
    """A layer that calls the next layer and, if a text fails, stores the error in the text's translation.

    Args:
        layer: the next layer.
        on_error: how to handle failures; with ``raise``, the error of the first text that fails is raised.
    """

    def __init__(self, layer: Layer, on_error: OnError) -> None:
        self._layer, self._on_error = layer, on_error

    def translate(self, texts: Sequence[Text]) -> None:
        if self._on_error == "raise":
            try:
                self._layer.translate(texts)
            except FailedTextsError as failure:
                raise failure.take_first() from None
            return
        for text, error in translate_separately(self._layer, texts).items():
            text.error = error
            text.translation = failed_translation(text.words, error, self._on_error)


def translate_separately(layer: Layer, texts: Sequence[Text]) -> dict[Text, DataError]:
    """Translate texts, and return the errors of the texts that fail.

    Texts that a layer names as the cause of an error are left out, and the remaining texts are translated
    again. If no text is named, each half of the texts is translated separately.
    """
    try:
        layer.translate(texts)
    except FailedTextsError as failure:
        candidates = frozenset(texts)
        errors = {_ancestor(text, candidates): error for text, error in failure.errors.items()}
        remaining_texts = [text for text in texts if text not in errors]
        return errors | (translate_separately(layer, remaining_texts) if remaining_texts else {})
    except DataError as error:
        if len(texts) == 1:
            return {texts[0]: error}
        half = len(texts) // 2
        return translate_separately(layer, texts[:half]) | translate_separately(layer, texts[half:])
    return {}


def for_each(texts: Iterable[Text], function: Callable[[Text], None]) -> None:
    """Call ``function`` with each text, then raise FailedTextsError if texts failed."""
    errors: dict[Text, DataError] = {}
    for text in texts:
        try:
            function(text)
        except DataError as error:
            errors[text] = error.with_traceback(None)  # its frames would keep the errors alive
    if errors:
        raise FailedTextsError(errors)


def check_string(text: Text) -> None:
    """Raise DataError if a text is not a string."""
    for part in text.content:
        if not isinstance(part, str | Tag):
            raise DataError(f"{text.name} is not a string but {type(part).__name__}")


def failed_translation(text: object, error: UwagaError, on_error: OnError) -> Translation:
    """Return a translation that contains an error and, if ``on_error`` is ``copy``, a copy of the text."""
    copy = text if on_error == "copy" and isinstance(text, str) else ""
    return Translation(copy, 0.0, (), (), error=error)


def _ancestor(text: Text, texts: frozenset[Text]) -> Text:
    """Return the member of ``texts`` from which a text was derived."""
    while text not in texts and text.parent is not None:
        text = text.parent
    return text
