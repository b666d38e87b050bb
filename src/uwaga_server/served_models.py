"""The models that a server offers and the routes between their languages, read without loading the models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from uwaga.checkpoints.languages import Pairs
from uwaga.errors import SettingsError, UwagaError
from uwaga.languages.codes import MAX_CODE_CHARACTERS, same_language, with_script
from uwaga.languages.names import language_name, public_codes
from uwaga.library import routes
from uwaga.library.hub import find_model
from uwaga.library.installed import InstalledModel, installed_models, model_at
from uwaga.library.routes import LOWEST_RANK, LanguageGraph, Rank, find_route
from uwaga.translator.choose_models import choose_models, language_pair
from uwaga_server.settings import ModelSettings


@dataclass(frozen=True)
class ServedModel:
    """A model that is named in the server settings.

    Attributes:
        name: the name of the model in ``/v1/models``.
        settings: the settings of the model.
        sources: the source languages, in the model's own codes.
        targets: the target languages, in the model's own codes.
        problem: the reason why the model cannot be served; empty if it can be served.
        rank: the rank among models that translate the same languages.
    """

    name: str
    settings: ModelSettings
    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    problem: str = ""
    rank: Rank = LOWEST_RANK

    @property
    def languages(self) -> Pairs:
        """The source languages and the target languages, in the model's own codes."""
        return self.sources, self.targets

    @property
    def is_damaged(self) -> bool:
        """True if the model cannot be served."""
        return bool(self.problem)

    @property
    def has_single_pair(self) -> bool:
        """True if the model translates a single language pair."""
        return len(self.sources) == len(self.targets) == 1


ModelRoute = routes.Route[ServedModel]


@dataclass(frozen=True)
class ServedLanguage:
    """A source language, with its public code and name and the public codes of its target languages."""

    code: str
    name: str
    targets: tuple[str, ...]


def read_served_models(models: Sequence[ModelSettings]) -> list[ServedModel]:
    """Return the models that the settings name; a model that cannot be served has a ``problem``.

    Raises:
        SettingsError: no model can be served.
    """
    served_models: list[ServedModel] = []
    installed = installed_models()
    for settings in models:
        is_path = settings.name.startswith(("/", ".", "~"))
        name = settings.name.rstrip("/").rsplit("/", 1)[-1] if is_path else settings.name
        names = {model.name for model in served_models}
        candidates = (f"{name}{suffix}" for suffix in ("", *(f"-{number}" for number in range(2, 1000))))
        unique_name = next(candidate for candidate in candidates if candidate not in names)
        served_models.append(_read_model(unique_name, settings, installed))
    if all(model.problem for model in served_models):
        raise SettingsError("no model can be served: " + "; ".join(model.problem for model in served_models))
    return served_models


def _read_model(name: str, settings: ModelSettings, models: Sequence[InstalledModel]) -> ServedModel:
    served_model = ServedModel(name, settings)
    try:
        pair = language_pair(settings.name)
        if pair is not None:
            route = find_route(*pair, models)
            if route is None:
                choose_models(*pair)  # raises an error that says what to install
            rank = min((step.model.rank for step in route or ()), default=LOWEST_RANK)
            return replace(served_model, sources=pair[:1], targets=pair[1:], rank=rank)
        model = model_at(find_model(settings.name), models)
    except (UwagaError, OSError) as error:
        return replace(served_model, problem=f"{settings.name}: {error}")
    if model.is_damaged:
        return replace(served_model, problem=f"{settings.name}: {model.problems[0]}")
    sources = _select_codes(model.languages[0], settings.source)
    targets = _select_codes(model.languages[1], settings.target)
    if not sources or not targets:
        problem = (
            f"{settings.name}: states no languages; set `source` and `target` of the model in the settings"
        )
        return replace(served_model, problem=problem)
    return replace(served_model, sources=sources, targets=targets, rank=model.rank)


def _select_codes(codes: tuple[str, ...], requested_code: str | None) -> tuple[str, ...]:
    """Return the language codes of a model that the settings select; if none match, the requested language.

    Args:
        codes: the model's language codes.
        requested_code: the language that the settings name; None to select all.
    """
    if requested_code is None:
        return codes
    return tuple(code for code in codes if same_language(code, requested_code))[:1] or (requested_code,)


class ServedLanguages:
    """The languages that a list of models can translate, identified by public codes.

    Args:
        models: the models, in order of preference.

    Attributes:
        public: map from the models' own codes to public codes.
        codes: all public codes.
        sources: the source languages with their target languages.
    """

    def __init__(self, models: Iterable[ServedModel]) -> None:
        usable_models = [model for model in models if not model.problem]
        self.public = public_codes(
            [code for model in usable_models for code in (*model.sources, *model.targets)]
        )
        self._routes: dict[tuple[str, str], ModelRoute | None] = {}
        self._graph = LanguageGraph(usable_models)
        self.codes = tuple(dict.fromkeys(self.public.values()))
        self.sources = self._list_sources()

    def resolve(self, code: str) -> str | None:
        """Return the public code for any code of a language, or None if the language is not supported."""
        if len(code) > MAX_CODE_CHARACTERS:
            return None
        return next(
            (public for model_code, public in self.public.items() if code in (model_code, public)), None
        ) or next(
            (
                public
                for model_code, public in self.public.items()
                if same_language(model_code, with_script(code))
            ),
            None,
        )

    def route(self, source: str, target: str) -> ModelRoute | None:
        """Return the model or chain of models for a language pair, or None if none translates it.

        The models are chosen as on the command line.

        Args:
            source: public code of the source language.
            target: public code of the target language.
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
