"""Which of the installed models translate from one language to another, alone or one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from uwaga.languages.codes import base_language, same_language

if TYPE_CHECKING:
    from uwaga.library.installations import InstalledModel

MOST_MODELS = 4
"""One after the other, unless a user names the languages between: each loses something."""
PIVOT = "en"
"""The language through which most is translated, and best."""

Rank = tuple[bool, bool, float, int, float]


@dataclass(frozen=True)
class Leg:
    """A model, and the codes that it has for the languages that it is to translate between."""

    model: InstalledModel
    source: str
    target: str


Route = tuple[Leg, ...]
"""Models one after the other."""


def find_route(
    source: str, target: str, models: Iterable[InstalledModel], via: Sequence[str] = ()
) -> Route | None:
    """The best way from one language to another, None where there is none.

    One model that translates directly comes before several, and few before many. Of several ways as short one
    through English comes first, then that whose weakest model is the best; see :func:`model_rank`.

    Args:
        source: code of a language; ``en``, ``en_XX`` and ``eng_Latn`` are the same.
        target: code of a language.
        models: to choose from. Damaged ones, and those that state no languages, are left out.
        via: codes of all the languages between, in their order; empty for any or none.
    """
    usable = [one for one in models if all(one.languages) and not one.damaged]
    if via:
        return _through((source, *via, target), usable)
    return _shortest(source, target, usable)


def model_rank(model: InstalledModel) -> Rank:
    """What the better of two models has more of, the most important first.

    The demonstration that comes with uwaga is the last choice; a model of one pair comes before one of many
    languages, then the one with the better scores, as far as its catalogue states any, then the one with more
    weights, then the one that was installed last.
    """
    dedicated = all(len(set(map(base_language, codes))) == 1 for codes in model.languages)
    try:
        installed = Path(model.place).stat().st_mtime
    except OSError:
        installed = 0.0
    return model.kind != "bundled", dedicated, mean_score(model.metrics), model.size, installed


def mean_score(metrics: Mapping[str, float]) -> float:
    """The mean of stated chrF, BLEU and COMET, each as a share of its highest value; 0 of none."""
    scores = [
        value / (1.0 if value <= 1.0 else 100.0)
        for name, value in metrics.items()
        if re.search(r"bleu|chrf|comet", name, re.IGNORECASE)
    ]
    return sum(scores) / len(scores) if scores else 0.0


def _through(codes: Sequence[str], models: Sequence[InstalledModel]) -> Route | None:
    """The best direct model of every part of the way."""
    route: Route = ()
    for target in codes[1:]:
        here = route[-1].target if route else codes[0]
        legs = list(_legs(here, target, models))
        if not legs:
            return None
        route = (*route, max(legs, key=lambda leg: model_rank(leg.model)))
    return route


def _shortest(source: str, target: str, models: Sequence[InstalledModel]) -> Route | None:
    """Breadth first: of the ways to a language that are as long as the shortest one the best is kept."""
    ways: dict[str, Route] = {source: ()}
    reached = {base_language(source)}
    for _ in range(MOST_MODELS):
        arrived = [(*way, leg) for here, way in ways.items() for leg in _legs(here, target, models)]
        if arrived:
            return max(arrived, key=_route_rank)
        further: dict[str, Route] = {}
        for here, way in ways.items():
            for leg in _legs(here, None, models):
                code, longer = leg.target, (*way, leg)
                if base_language(code) in reached:
                    continue
                if code not in further or _route_rank(longer) > _route_rank(further[code]):
                    further[code] = longer
        ways = further
        reached |= set(map(base_language, ways))
    return None


def _legs(source: str, target: str | None, models: Iterable[InstalledModel]) -> Iterator[Leg]:
    """The models from a language to another, None for any."""
    for model in models:
        sources, targets = model.languages
        code = _code(source, sources)
        if target is not None:
            targets = tuple(one for one in (_code(target, targets),) if one is not None)
        if code is not None:
            yield from (Leg(model, code, one) for one in targets if one != code)


def _code(asked: str, codes: Sequence[str]) -> str | None:
    """What a model calls a language: of several codes the one that is asked for, or the first."""
    same = [one for one in codes if same_language(one, asked)]
    exact = [one for one in same if one.replace("_", "-").lower() == asked.replace("_", "-").lower()]
    return next(iter(exact or same), None)


def _route_rank(route: Route) -> tuple[bool, list[Rank]]:
    """What the better of two ways of one length has more of; the weakest model counts first."""
    english = any(same_language(leg.target, PIVOT) for leg in route)
    return english, sorted(model_rank(leg.model) for leg in route)
