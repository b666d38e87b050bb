"""What every dialect calls: texts in, translations out. It knows nothing of HTTP."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from uwaga.documents.document import DocumentOptions
from uwaga.documents.job import DocumentReport
from uwaga.documents.translating import translate_file
from uwaga.errors import DataError
from uwaga.languages.detection import AUTO, detect_language
from uwaga.results.translation import Translation
from uwaga.server.api_errors import ApiError, api_error
from uwaga.server.models import ModelPool
from uwaga.server.served_models import Route, ServedLanguage, ServedLanguages, ServedModel
from uwaga.terms.glossary import Glossary
from uwaga.translator import Request, Translator

ALREADY = "the text is in the target language already"
GivenTerms = Glossary | Mapping[str, str]
Made = TypeVar("Made")


@dataclass(frozen=True)
class Detected:
    """The likeliest language of a text by the server's own code, and its probability."""

    code: str
    confidence: float


@dataclass(frozen=True)
class TextAnswer:
    """Translations in the order of the texts; one that failed has its ``error`` and no text.

    ``sources``: the public code of each text's language. ``detected``: how it was found, None where the
    request named it. ``model``: the names of the models that were used.
    """

    translations: tuple[Translation, ...]
    sources: tuple[str, ...]
    detected: tuple[Detected | None, ...]
    model: str

    def raise_first(self) -> None:
        """Fail as a whole where a text failed, for dialects that know no errors of single texts.

        Raises:
            ApiError: of the first text that failed.
        """
        for one in self.translations:
            if one.error is not None:
                raise api_error(one.error)


class Service:
    """Models on offer, and what can be asked of them.

    Args:
        offers: the models, in the order of preference.
        models: those that are loaded.
        answered: told a model's name, how many characters it was given and how many tokens it made.
    """

    def __init__(
        self,
        offers: Sequence[ServedModel],
        models: ModelPool,
        answered: Callable[[str, int, int], None] | None = None,
    ) -> None:
        self._answered = answered
        self.served, self.pool, self.graph = list(offers), models, ServedLanguages(offers)
        self.ready = False

    async def start(self) -> None:
        """Load what is to be there at start."""
        await self.pool.preload(self.served)
        gc.collect()
        gc.freeze()  # what is there now stays: it need not be looked through again and again
        self.ready = True

    async def close(self) -> None:
        """Answer what was taken, then let the models go."""
        self.ready = False
        await self.pool.close()

    def pairs(self) -> tuple[ServedLanguage, ...]:
        """The languages that can be translated from, each with those it can be translated to."""
        return self.graph.languages

    async def translate(
        self, requests: Sequence[Request], *, client: str = "", deadline: float | None = None
    ) -> TextAnswer:
        """Translate texts from one language, or each from its own, to one language.

        Args:
            requests: with public codes of languages; all have the same ``source`` and ``target``. A
                ``source`` that is None or ``auto`` is detected for each text.
            client: the name of the client, for fairness.
            deadline: in seconds.

        Raises:
            ApiError: the request as a whole cannot be answered.
        """
        asked = requests[0]
        target = self.language(asked.target or "", "target")
        detected = await self.sources(requests)
        sources = tuple(one.code for one in detected)
        told = asked.source is not None and asked.source != AUTO
        groups: dict[str, list[int]] = {}
        for number, code in enumerate(sources):
            groups.setdefault(code, []).append(number)
        parts = await _together(
            self._group([requests[number] for number in numbers], code, target, client, deadline)
            for code, numbers in groups.items()
        )
        made: list[Translation | None] = [None] * len(sources)
        for numbers, (translations, _) in zip(groups.values(), parts, strict=True):
            for number, one in zip(numbers, translations, strict=True):
                made[number] = one
        return TextAnswer(
            tuple(one for one in made if one is not None),
            sources,
            tuple(None if told else one for one in detected),
            ", ".join(dict.fromkeys(model for _, model in parts if model)),
        )

    async def stream(
        self, request: Request, *, client: str = "", deadline: float | None = None
    ) -> AsyncGenerator[str, None]:
        """Translate one text and give its translation piece by piece; greedy. With terms it is one piece.

        Raises:
            ApiError: as :meth:`translate`, before the first piece or between two.
        """
        target = self.language(request.target or "", "target")
        [found] = await self.sources([request])
        if found.code == target and self.graph.route(found.code, target) is None:
            yield request.text
            return
        route = self._route(found.code, target)
        async with self.pool.translator(route) as translator:
            grown = translator.run_stream(_for_model(request, route), client=client, deadline=deadline)
            try:
                async with aclosing(grown) as pieces:
                    async for piece in pieces:
                        yield piece
            except Exception as error:
                raise api_error(error) from error

    async def detect(self, text: str) -> list[Detected]:
        """The likeliest language of a text, as far as the server knows it; none without letters.

        Raises:
            ApiError: languages cannot be told apart here.
        """
        return await asyncio.to_thread(self._detected, text)

    async def run_document(
        self,
        document: Path,
        output: Path,
        *,
        source: str | None,
        target: str,
        format: str | None = None,  # noqa: A002 (what the library calls it too)
        glossary: GivenTerms | None = None,
        client: str = "",
        deadline: float | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> DocumentReport:
        """Translate a document into a file, whole or not at all; see :func:`uwaga.documents.translate_file`.

        Args:
            document: the document.
            output: where the translation goes; work that was done for it before is not done again.
            source: public code of its language; a document's is not found out here.
            target: likewise.
            format: what it is, None for what its name says.
            glossary: terms to hold to.
            client: who asks.
            deadline: in seconds.
            progress: told how many texts are done, and of how many, from another thread.

        Raises:
            ApiError: the languages are not on offer, or the document is not what it should be.
        """
        to = self.language(target, "target")
        route = self._route(self.language(source or "", "source"), to)
        languages = _languages(route)
        options = DocumentOptions(source=route[0].source, target=route[-1].target)

        def work(translator: Translator) -> DocumentReport:
            ours = translator.between(languages.get("source"), languages.get("target"))
            how = Request("", glossary=glossary)
            return translate_file(
                ours, document, output, format=format, options=options, request=how, progress=progress
            )

        async with self.pool.translator(route) as translator:
            try:
                report: DocumentReport = await translator.call(work, client=client, deadline=deadline)
            except Exception as error:
                raise api_error(error) from error
        return report

    def language(self, code: str, parameter: str) -> str:
        """The public code of a language that a request names.

        Raises:
            ApiError: there is none such on offer; names those there are.
        """
        found = self.graph.known(code)
        if found is None:
            known = ", ".join(self.graph.codes[:20]) + (", ..." if len(self.graph.codes) > 20 else "")
            message = f"{code[:20]!r} is no language of this server; it has {known}"
            raise ApiError(400, "unsupported_language", message, parameter)
        return found

    async def sources(self, requests: Sequence[Request]) -> list[Detected]:
        """The language of each text, found out unless the first request names that of all.

        Raises:
            ApiError: the named one is not on offer.
        """
        source = requests[0].source
        if source is not None and source != AUTO:
            code = self.language(source, "source")
            return [Detected(code, 1.0)] * len(requests)
        return await asyncio.to_thread(lambda: [self._first(request.text) for request in requests])

    def _first(self, text: str) -> Detected:
        return next(iter(self._detected(text)), Detected(self.graph.languages[0].code, 0.0))

    def _detected(self, text: str) -> list[Detected]:
        try:
            found = detect_language([text])
        except DataError:
            return []  # no letter
        except Exception as error:
            raise api_error(error) from error
        code = self.graph.known(found.language)
        if code is None:
            return []
        return [Detected(code, found.probability)]

    def _route(self, source: str, target: str) -> Route:
        route = self.graph.route(source, target)
        if route is None:
            message = f"no model here translates {source} to {target}"
            raise ApiError(400, "unsupported_languages", message, "target")
        return route

    async def _group(
        self,
        requests: Sequence[Request],
        source: str,
        target: str,
        client: str,
        deadline: float | None,
    ) -> tuple[list[Translation], str]:
        """The translations of texts of one language, and what made them."""
        if source == target and self.graph.route(source, target) is None:
            return [_copied(request.text) for request in requests], ""
        route = self._route(source, target)
        ours = [_for_model(replace(request, on_error="return"), route) for request in requests]
        async with self.pool.translator(route) as translator:
            try:
                made = await translator.run(ours, client=client, deadline=deadline)
            except Exception as error:
                raise api_error(error) from error
        name = " + ".join(hop.model.name for hop in route)
        if self._answered is not None:
            characters = sum(len(request.text) for request in requests)
            self._answered(name, characters, sum(len(one.tokens) for one in made))
        return made, name


async def _together(works: Iterable[Coroutine[Any, Any, Made]]) -> list[Made]:
    """What each makes, side by side; where one fails the others are given up, and it is what failed."""
    every = list(works)
    if len(every) == 1:
        return [await every[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in every]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


def _languages(route: Route) -> dict[str, str]:
    """What a call must say of the languages: nothing where the model knows no others."""
    if len(route) > 1 or route[0].model.one_pair:
        return {}
    return {"source": route[0].source, "target": route[0].target}


def _for_model(request: Request, route: Route) -> Request:
    """A request with the languages as the model of a route calls them."""
    codes = _languages(route)
    return replace(request, source=codes.get("source"), target=codes.get("target"))


def _copied(text: str) -> Translation:
    return Translation(text, 0.0, (), (), source=text, warnings=(ALREADY,))
