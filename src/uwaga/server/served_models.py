"""The models that a server serves, and the routes between their languages; nothing is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from uwaga.checkpoints.languages import Pairs
from uwaga.errors import SettingsError, UwagaError
from uwaga.languages.codes import LONGEST_CODE, same_language, with_script
from uwaga.languages.names import language_name, offered_codes
from uwaga.library import routes
from uwaga.library.hub import find_model
from uwaga.library.installed import InstalledModel, installed_models, model_at
from uwaga.library.routes import LOWEST_RANK, LanguageGraph, Rank, find_route
from uwaga.server.settings import ModelSettings
from uwaga.translator.choose_models import choose_models, language_pair


@dataclass(frozen=True)
class ServedModel:
    """A model of the settings.

    Attributes:
        name: as ``/v1/models`` lists it.
        settings: the settings of the model.
        sources: the model's own codes of its source languages.
        targets: the model's own codes of its target languages.
        problem: why it cannot be served; empty if it can.
        rank: orders models that translate the same languages.
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
        """True if the model cannot be served."""
        return bool(self.problem)

    @property
    def one_pair(self) -> bool:
        """True if it translates between two languages only."""
        return len(self.sources) == len(self.targets) == 1


Route = routes.Route[ServedModel]


@dataclass(frozen=True)
class ServedLanguage:
    """A source language and its target languages, by public codes."""

    code: str
    name: str
    targets: tuple[str, ...]


def read_served_models(models: Sequence[ModelSettings]) -> list[ServedModel]:
    """Describe the models of the settings; one that cannot be served has its problem."""
    served: list[ServedModel] = []
    installed = installed_models()
    for settings in models:
        is_path = settings.name.startswith(("/", ".", "~"))
        name = settings.name.rstrip("/").rsplit("/", 1)[-1] if is_path else settings.name
        taken = {model.name for model in served}
        numbered = (f"{name}{suffix}" for suffix in ("", *(f"-{number}" for number in range(2, 1000))))
        unique = next(candidate for candidate in numbered if candidate not in taken)
        served.append(_read_model(unique, settings, installed))
    if all(model.problem for model in served):
        raise SettingsError("no model can be served: " + "; ".join(model.problem for model in served))
    return served


def _read_model(name: str, settings: ModelSettings, installed: Sequence[InstalledModel]) -> ServedModel:
    served = ServedModel(name, settings)
    try:
        pair = language_pair(settings.name)
        if pair is not None:
            route = find_route(*pair, installed)
            if route is None:
                choose_models(*pair)  # raises an error that says what to install
            rank = min((step.model.rank for step in route or ()), default=LOWEST_RANK)
            return replace(served, sources=pair[:1], targets=pair[1:], rank=rank)
        model = model_at(find_model(settings.name), installed)
    except (UwagaError, OSError) as error:
        return replace(served, problem=f"{settings.name}: {error}")
    if model.damaged:
        return replace(served, problem=f"{settings.name}: {model.problems[0]}")
    sources = _narrowed(model.languages[0], settings.source)
    targets = _narrowed(model.languages[1], settings.target)
    if not sources or not targets:
        problem = f"{settings.name}: states no languages; set its `source` and `target` in the settings"
        return replace(served, problem=problem)
    return replace(served, sources=sources, targets=targets, rank=model.rank)


def _narrowed(stated: tuple[str, ...], chosen: str | None) -> tuple[str, ...]:
    """The model's code of the language that the settings name, or all codes that the model states."""
    if chosen is None:
        return stated
    return tuple(code for code in stated if same_language(code, chosen))[:1] or (chosen,)


class ServedLanguages:
    """Languages that the models translate between, by public codes.

    Args:
        models: in the order of preference.

    Attributes:
        public: the public code of each model's own code.
        codes: all public codes.
        sources: source languages with their targets.
    """

    def __init__(self, models: Iterable[ServedModel]) -> None:
        usable = [model for model in models if not model.problem]
        self.public = offered_codes([code for model in usable for code in (*model.sources, *model.targets)])
        self._routes: dict[tuple[str, str], Route | None] = {}
        self._graph = LanguageGraph(usable)
        self.codes = tuple(dict.fromkeys(self.public.values()))
        self.sources = self._list_sources()

    def known(self, code: str) -> str | None:
        """Return the public code of a language however a request writes it; None if it is not served."""
        if len(code) > LONGEST_CODE:
            return None
        return next((public for own, public in self.public.items() if code in (own, public)), None) or next(
            (public for own, public in self.public.items() if same_language(own, with_script(code))), None
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

    def _list_sources(self) -> tuple[ServedLanguage, ...]:
        codes = sorted(self.codes)
        languages = []
        for source in codes:
            targets = tuple(code for code in codes if code != source and self.route(source, code))
            if targets:
                languages.append(ServedLanguage(source, language_name(source), targets))
        return tuple(languages)
