"""What a translator of whole texts offers to those that work around sentences, such as markup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from uwaga.checkpoints.languages import LanguagePair
from uwaga.results.translation import Translation
from uwaga.search import SearchOptions
from uwaga.translator.pipeline import OnError
from uwaga.translator.segmentation import Split


class TextPath(Protocol):
    """A :class:`uwaga.translator.Translator`, or several models one after the other."""

    languages: LanguagePair

    @property
    def aligns(self) -> bool:
        """Whether it can tell which words of a translation mean which of its text."""
        ...

    def options(self, **options: Any) -> SearchOptions:
        """The model's own decoding settings with what a call asks for instead."""
        ...

    def translate_named(
        self,
        texts: Sequence[str],
        names: Sequence[str],
        options: SearchOptions,
        *,
        prefix: str | Sequence[str] | None = ...,
        split: Split = ...,
        on_error: OnError = ...,
    ) -> list[Translation]:
        """Translate texts, called ``names`` in messages."""
        ...
