"""The models that a server has on offer, and the ways between languages. Nothing is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from uwaga.checkpoints import registry as formats
from uwaga.errors import SettingsError, UwagaError
from uwaga.languages.codes import base_language, same_language
from uwaga.languages.names import language_name, offered_codes
from uwaga.library.hub import find_model
from uwaga.server.settings import ModelSettings
from uwaga.translator.by_language import language_pair

MOST_LEGS = 3
"""Models one after the other: each loses something."""
PIVOT = "en"
"""The language that is gone through before all others."""


@dataclass(frozen=True)
class ServedModel:
    """A model on offer.

    ``name`` is what ``/v1/models`` calls it; ``sources`` and ``targets`` are the model's own codes;
    ``problem`` is why it cannot serve, empty if it can.
    """

    name: str
    settings: ModelSettings
    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    problem: str = ""

    @property
    def one_pair(self) -> bool:
        """Whether it translates between two languages only."""
        return len(self.sources) == len(self.targets) == 1


@dataclass(frozen=True)
class RouteStep:
    """A model, and its own codes of the languages that it is to translate between."""

    model: ServedModel
    source: str
    target: str


Route = tuple[RouteStep, ...]


@dataclass(frozen=True)
class ServedLanguage:
    """A language that can be translated from, and those that it can be translated to, by public codes."""

    code: str
    name: str
    targets: tuple[str, ...]


def read_served_models(models: Sequence[ModelSettings]) -> list[ServedModel]:
    """What the settings put on offer; a model that cannot be described is there with its problem.

    Raises:
        SettingsError: nothing at all can be offered; says why of each.
    """
    offers: list[ServedModel] = []
    for one in models:
        name = one.name.rstrip("/").rsplit("/", 1)[-1] if one.name.startswith(("/", ".", "~")) else one.name
        taken = {other.name for other in offers}
        shown = next(
            f"{name}{n}" for n in ("", *(f"-{k}" for k in range(2, 1000))) if f"{name}{n}" not in taken
        )
        offers.append(_read_offer(shown, one))
    if all(one.problem for one in offers):
        raise SettingsError("no model can be served: " + "; ".join(one.problem for one in offers))
    return offers


def _read_offer(shown: str, settings: ModelSettings) -> ServedModel:
    offer = ServedModel(shown, settings)
    try:
        pair = language_pair(settings.name)
        if pair is not None:
            return replace(offer, sources=pair[:1], targets=pair[1:])
        sources, targets = formats.describe(find_model(settings.name)).languages
    except (UwagaError, OSError) as error:
        return replace(offer, problem=f"{settings.name}: {error}")
    sources = _narrowed(sources, settings.source)
    targets = _narrowed(targets, settings.target)
    if not sources or not targets:
        return replace(
            offer,
            problem=f"{settings.name}: states no languages; give its `source` and `target` in the settings",
        )
    return replace(offer, sources=sources, targets=targets)


def _narrowed(stated: tuple[str, ...], asked: str | None) -> tuple[str, ...]:
    """The codes of a side: the one that the settings name as the model calls it, or all that it states."""
    if asked is None:
        return stated
    return tuple(code for code in stated if same_language(code, asked))[:1] or (asked,)


class LanguageGraph:
    """Which languages the offers translate between, and by which models.

    Args:
        offers: in the order in which they are preferred.
    """

    def __init__(self, offers: Iterable[ServedModel]) -> None:
        self.offers = [one for one in offers if not one.problem]
        codes = [code for one in self.offers for code in (*one.sources, *one.targets)]
        self.public = offered_codes(codes)
        self._routes: dict[tuple[str, str], Route | None] = {}
        self.languages = self._listed()
        self.codes = tuple(dict.fromkeys(self.public.values()))

    def known(self, code: str) -> str | None:
        """What the server calls a language that a request names in any way; None of one it does not know."""
        return next((public for own, public in self.public.items() if code in (own, public)), None) or next(
            (public for own, public in self.public.items() if same_language(own, code)), None
        )

    def route(self, source: str, target: str) -> Route | None:
        """The models from one language to another: one if there is one, else few; None if there is no way.

        Args:
            source: a public code.
            target: a public code.
        """
        pair = source, target
        if pair not in self._routes:
            self._routes[pair] = self._found(source, target)
        return self._routes[pair]

    def _found(self, source: str, target: str) -> Route | None:
        ways: list[Route] = [()]
        seen = {source}
        for _ in range(MOST_LEGS):
            longer: list[Route] = []
            for way in ways:
                here = self.public[way[-1].target] if way else source
                for leg in self._legs(here):
                    there = self.public[leg.target]
                    if there == target:
                        return (*way, leg)
                    if there not in seen:
                        seen.add(there)
                        longer.append((*way, leg))
            ways = sorted(longer, key=lambda way: base_language(way[-1].target) != PIVOT)
        return None

    def _legs(self, source: str) -> Iterator[RouteStep]:
        """The models from a language, and where to, in the order of preference."""
        for offer in self.offers:
            own = next((code for code in offer.sources if self.public[code] == source), None)
            if own is not None:
                yield from (RouteStep(offer, own, target) for target in offer.targets if target != own)

    def _listed(self) -> tuple[ServedLanguage, ...]:
        every = sorted(set(self.public.values()))
        found = []
        for source in every:
            targets = tuple(one for one in every if one != source and self.route(source, one) is not None)
            if targets:
                found.append(ServedLanguage(source, language_name(source), targets))
        return tuple(found)
