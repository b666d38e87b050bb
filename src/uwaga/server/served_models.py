"""The models that a server has on offer, and the ways between languages. Nothing is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from uwaga.checkpoints.description import Pairs
from uwaga.errors import SettingsError, UwagaError
from uwaga.languages.codes import same_language
from uwaga.languages.names import language_name, offered_codes
from uwaga.library import routes
from uwaga.library.hub import find_model
from uwaga.library.installed import InstalledModel, installed_models, model_at
from uwaga.library.routes import LOWEST_RANK, LanguageGraph, Rank, find_route
from uwaga.server.settings import ModelSettings
from uwaga.translator.by_language import language_pair


@dataclass(frozen=True)
class ServedModel:
    """A model on offer.

    ``name`` is what ``/v1/models`` calls it; ``sources`` and ``targets`` are the model's own codes;
    ``problem`` is why it cannot serve, empty if it can; ``rank`` orders models that translate the same.
    """

    name: str
    settings: ModelSettings
    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    problem: str = ""
    rank: Rank = LOWEST_RANK

    @property
    def languages(self) -> Pairs:
        """The model's codes of the source languages and of the target languages."""
        return self.sources, self.targets

    @property
    def damaged(self) -> bool:
        """True if the model cannot serve."""
        return bool(self.problem)

    @property
    def one_pair(self) -> bool:
        """Whether it translates between two languages only."""
        return len(self.sources) == len(self.targets) == 1


Route = routes.Route[ServedModel]


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
    installed = installed_models()
    for one in models:
        name = one.name.rstrip("/").rsplit("/", 1)[-1] if one.name.startswith(("/", ".", "~")) else one.name
        taken = {other.name for other in offers}
        shown = next(
            f"{name}{n}" for n in ("", *(f"-{k}" for k in range(2, 1000))) if f"{name}{n}" not in taken
        )
        offers.append(_read_offer(shown, one, installed))
    if all(one.problem for one in offers):
        raise SettingsError("no model can be served: " + "; ".join(one.problem for one in offers))
    return offers


def _read_offer(shown: str, settings: ModelSettings, installed: Sequence[InstalledModel]) -> ServedModel:
    offer = ServedModel(shown, settings)
    try:
        pair = language_pair(settings.name)
        if pair is not None:
            route = find_route(*pair, installed) or ()
            rank = min((step.model.rank for step in route), default=LOWEST_RANK)
            return replace(offer, sources=pair[:1], targets=pair[1:], rank=rank)
        model = model_at(find_model(settings.name), installed)
    except (UwagaError, OSError) as error:
        return replace(offer, problem=f"{settings.name}: {error}")
    if model.damaged:
        return replace(offer, problem=f"{settings.name}: {model.problems[0]}")
    sources = _narrowed(model.languages[0], settings.source)
    targets = _narrowed(model.languages[1], settings.target)
    if not sources or not targets:
        return replace(
            offer,
            problem=f"{settings.name}: states no languages; give its `source` and `target` in the settings",
        )
    return replace(offer, sources=sources, targets=targets, rank=model.rank)


def _narrowed(stated: tuple[str, ...], asked: str | None) -> tuple[str, ...]:
    """The codes of a side: the one that the settings name as the model calls it, or all that it states."""
    if asked is None:
        return stated
    return tuple(code for code in stated if same_language(code, asked))[:1] or (asked,)


class ServedLanguages:
    """Which languages the offers translate between, and by which models.

    Args:
        offers: in the order in which they are preferred.
    """

    def __init__(self, offers: Iterable[ServedModel]) -> None:
        self.offers = [one for one in offers if not one.problem]
        codes = [code for one in self.offers for code in (*one.sources, *one.targets)]
        self.public = offered_codes(codes)
        self._routes: dict[tuple[str, str], Route | None] = {}
        self._graph = LanguageGraph(self.offers)
        self.languages = self._listed()
        self.codes = tuple(dict.fromkeys(self.public.values()))

    def known(self, code: str) -> str | None:
        """What the server calls a language that a request names in any way; None of one it does not know."""
        return next((public for own, public in self.public.items() if code in (own, public)), None) or next(
            (public for own, public in self.public.items() if same_language(own, code)), None
        )

    def route(self, source: str, target: str) -> Route | None:
        """Return the models from one language to another, chosen as the command line chooses; None if none.

        Args:
            source: a public code.
            target: a public code.
        """
        pair = source, target
        if pair not in self._routes:
            self._routes[pair] = self._graph.route(source, target)
        return self._routes[pair]

    def _listed(self) -> tuple[ServedLanguage, ...]:
        every = sorted(set(self.public.values()))
        found = []
        for source in every:
            targets = tuple(one for one in every if one != source and self.route(source, one) is not None)
            if targets:
                found.append(ServedLanguage(source, language_name(source), targets))
        return tuple(found)
