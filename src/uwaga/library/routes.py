"""Choice of the models that translate between two languages: one model, or a chain of several.

The command line, :func:`uwaga.load` and the server all use :class:`LanguageGraph`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from uwaga.languages.codes import base_language, same_language
from uwaga.library.fields import same_spelling

MAX_MODELS = 4
"""Maximum number of models in a chain chosen by uwaga, since each model adds errors."""
PIVOT = "en"
"""The preferred intermediate language; most models, and the best ones, translate from or to English."""

Codes = tuple[str, ...]
Rank = tuple[bool, bool, float, int, float]
"""Sort key of models by preference: :attr:`uwaga.library.installed.InstalledModel.rank`."""
LOWEST_RANK: Rank = (False, False, 0.0, 0, 0.0)


class TranslationModel(Protocol):
    """A model that can be part of a route, such as an installed model or a model that a server offers."""

    @property
    def languages(self) -> tuple[Codes, Codes]:
        """Codes of the source languages and of the target languages."""

    @property
    def is_damaged(self) -> bool:
        """True if the model cannot be used."""

    @property
    def rank(self) -> Rank:
        """Sort key; preferred models have greater keys."""


M = TypeVar("M", bound=TranslationModel)


@dataclass(frozen=True)
class RouteStep(Generic[M]):
    """One model of a route, with the codes that the model uses for the source and the target language."""

    model: M
    source: str
    target: str


Route = tuple[RouteStep[M], ...]
"""The steps of a route, in the order in which they are applied."""


@dataclass(frozen=True)
class _ModelEdges(Generic[M]):
    """A model, with the codes of its source and target languages grouped by base language."""

    model: M
    sources: dict[str, list[str]]
    targets: dict[str, list[str]]


def find_route(source: str, target: str, models: Iterable[M], via: Sequence[str] = ()) -> Route[M] | None:
    """Return the best route between two languages; see :meth:`LanguageGraph.route`."""
    return LanguageGraph(models).route(source, target, via)


class LanguageGraph(Generic[M]):
    """The directed graph whose nodes are languages and whose edges are models.

    Args:
        models: the models to choose from. Among models of the same rank, the first is preferred. Damaged
            models, and models that do not state their languages, are ignored.
    """

    def __init__(self, models: Iterable[M]) -> None:
        self._edges: dict[str, list[_ModelEdges[M]]] = {}
        for model in models:
            if model.is_damaged or not all(model.languages):
                continue
            edges = _ModelEdges(model, *map(_group_by_base_language, model.languages))
            for base in edges.sources:
                self._edges.setdefault(base, []).append(edges)

    def route(self, source: str, target: str, via: Sequence[str] = ()) -> Route[M] | None:
        """Return the best route from one language to another.

        A model that translates directly is preferred to a chain, and a shorter chain to a longer one. Among
        chains of the same length, chains through English are preferred, then the chain whose lowest-ranked
        model has the highest rank.

        Args:
            source: code of the source language; ``en``, ``en_XX`` and ``eng_Latn`` are the same language.
            target: code of the target language.
            via: codes of all intermediate languages, in order; empty to let the graph choose.

        Returns:
            the steps of the route, or None if there is no route. Without ``via``, a route has at most
            :data:`MAX_MODELS` models.
        """
        if via:
            return self._route_through((source, *via, target))
        return None if same_language(source, target) else self._shortest(source, target)

    def _route_through(self, codes: Sequence[str]) -> Route[M] | None:
        """Return the best model for each pair of consecutive languages, or None if a pair has no model."""
        route: Route[M] = ()
        for target in codes[1:]:
            steps = list(self._steps(route[-1].target if route else codes[0], target))
            if not steps:
                return None
            route = (*route, max(steps, key=lambda step: step.model.rank))
        return route

    def _shortest(self, source: str, target: str) -> Route[M] | None:
        """Return the best of the shortest routes, found by breadth-first search, or None if there is none."""
        routes: dict[str, Route[M]] = {source: ()}
        visited_languages = {base_language(source)}
        for _ in range(MAX_MODELS):
            complete = [
                (*route, step) for code, route in routes.items() for step in self._steps(code, target)
            ]
            if complete:
                return max(complete, key=_route_rank)
            longer_routes: dict[str, Route[M]] = {}
            for code, route in routes.items():
                for step in self._steps(code):
                    extended_route = (*route, step)
                    if base_language(step.target) in visited_languages:
                        continue
                    best_route = longer_routes.get(step.target)
                    if best_route is None or _route_rank(extended_route) > _route_rank(best_route):
                        longer_routes[step.target] = extended_route
            routes = longer_routes
            visited_languages |= set(map(base_language, routes))
        return None

    def _steps(self, source: str, target: str | None = None) -> Iterator[RouteStep[M]]:
        """Yield all single-model steps from one language to another, or to any if ``target`` is None."""
        start = base_language(source)
        end = None if target is None else base_language(target)
        for edges in self._edges.get(start, ()):
            if target is None:
                targets = [code for codes in edges.targets.values() for code in codes]
            elif end in edges.targets and (selected_code := _select_code(target, edges.targets[end])):
                targets = [selected_code]
            else:
                continue
            code = _select_code(source, edges.sources[start])
            if code is not None:
                yield from (RouteStep(edges.model, code, other) for other in targets if other != code)


def _group_by_base_language(codes: Codes) -> dict[str, list[str]]:
    codes_by_base: dict[str, list[str]] = {}
    for code in codes:
        codes_by_base.setdefault(base_language(code), []).append(code)
    return codes_by_base


def _select_code(language: str, codes: list[str]) -> str | None:
    """Return the code that stands for a language, preferably spelt in the same way, or None if none does."""
    matches = [code for code in codes if same_language(code, language)]
    return next((code for code in matches if same_spelling(code, language)), next(iter(matches), None))


def _route_rank(route: Route[M]) -> tuple[bool, list[Rank]]:
    """Return a sort key for routes of the same length; preferred routes have greater keys."""
    uses_english = any(same_language(step.target, PIVOT) for step in route)
    return uses_english, sorted(step.model.rank for step in route)
