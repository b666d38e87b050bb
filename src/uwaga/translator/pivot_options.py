"""How each model of several that translate one after the other searches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from uwaga.search import SearchOptions

LAST = ("nbest", "min_length", "max_length", "start", "first", "banned")
"""What a call asks of the translation that it gets, and so of the last model alone."""


@dataclass(frozen=True)
class PivotOptions(SearchOptions):
    """The options of the last model, and in ``earlier`` those of the models before it.

    A call's options count for every model, but those for the last alone that are about its own vocabulary
    (``start``, ``first``, ``banned``) or about the translation that comes out: ``nbest``, ``min_length`` and
    ``max_length``.
    """

    earlier: tuple[SearchOptions, ...] = ()

    @classmethod
    def of(cls, steps: Sequence[SearchOptions]) -> PivotOptions:
        """Of the options of every model, in their order."""
        last = {one.name: getattr(steps[-1], one.name) for one in fields(SearchOptions)}
        return cls(**last, earlier=tuple(steps[:-1]))

    @property
    def steps(self) -> tuple[SearchOptions, ...]:
        """The options of every model, in their order."""
        values = {one.name: getattr(self, one.name) for one in fields(SearchOptions)}
        return (*self.earlier, SearchOptions(**values))

    def changed(self, overrides: Mapping[str, Any]) -> PivotOptions:
        """As :meth:`uwaga.search.SearchOptions.changed`, every model's."""
        return self._each(overrides, lambda options, asked: options.changed(asked))

    def for_stream(self, overrides: Mapping[str, Any]) -> PivotOptions:
        """As :meth:`uwaga.search.SearchOptions.for_stream`, every model's."""
        return self._each(overrides, lambda options, asked: options.for_stream(asked))

    def _each(
        self,
        overrides: Mapping[str, Any],
        change: Callable[[SearchOptions, Mapping[str, Any]], SearchOptions],
    ) -> PivotOptions:
        *earlier, last = self.steps
        changed = change(last, overrides)  # first, as it checks every name
        shared = {name: value for name, value in overrides.items() if name not in LAST}
        if changed.sample and changed.seed is not None:
            shared["seed"] = changed.seed
        before = [replace(change(one, shared), nbest=1) for one in earlier]
        return PivotOptions.of([*before, changed])
