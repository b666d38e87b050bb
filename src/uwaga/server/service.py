"""Translation of texts and documents by the served models, for every dialect; no HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from uwaga.documents.document import DocumentOptions
from uwaga.documents.job import BATCH, NO_OPTIONS, DocumentReport
from uwaga.documents.translating import translate_file
from uwaga.engine import trim_heap
from uwaga.errors import DataError, MissingExtraError, NotInspectableError, shown
from uwaga.languages.detection import AUTO, detect_language, load_detector
from uwaga.results.translation import Translation
from uwaga.server.api_errors import ApiError, UnknownLanguageError, api_error, as_api_error, in_thread
from uwaga.server.models import ModelPool
from uwaga.server.served_models import Route, ServedLanguages, ServedModel
from uwaga.terms.glossary import Glossary
from uwaga.translator import Request, Translator
from uwaga.translator.plan import ALREADY
from uwaga.translator.request import failed

RARELY = 1 << 30
"""Threshold of collections of all objects. One stops every thread for 50 to 90 ms for each long text that is
being translated, and finds next to nothing: see :data:`COLLECT`."""
COLLECT = 600.0
"""Seconds between two collections of all objects."""
TRIM = 20.0
"""Seconds after which memory is returned to the system that large requests took: the C library keeps it."""
MARKUP = re.compile(r"<[^<>]*>")
GivenTerms = Glossary | Mapping[str, str]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Detected:
    """The most probable language of a text, by public code, and its probability."""

    code: str
    confidence: float


@dataclass(frozen=True)
class TextAnswer:
    """Translations in the order of the texts.

    Attributes:
        translations: the translations of the texts; one that failed has an ``error`` and no text.
        sources: the public code of each text's language; empty if it was not detected.
        detected: the detected language of each text; None where the request named it, or it was not detected.
        model: names of the models used.
    """

    translations: tuple[Translation, ...]
    sources: tuple[str, ...]
    detected: tuple[Detected | None, ...]
    model: str

    def raise_first(self) -> None:
        """Raise the first text's error, for dialects without errors of single texts."""
        for translation in self.translations:
            if translation.error is not None:
                raise api_error(translation.error)


class Service:
    """Translates with the served models.

    Args:
        models: in the order of preference.
        pool: loads them.
        translated: called with a model's name, the characters of a request, and its translations.

    Attributes:
        ready: True once the models to preload are loaded, until the service closes.
        languages: that the models translate between.
    """

    def __init__(
        self,
        models: Sequence[ServedModel],
        pool: ModelPool,
        translated: Callable[[str, int, Sequence[Translation]], None] | None = None,
    ) -> None:
        self._translated = translated
        self.served, self.pool, self.languages = list(models), pool, ServedLanguages(models)
        self.ready = False
        self._alone: dict[str, Service] = {}
        self._thresholds = gc.get_threshold()

    def only(self, name: str) -> Service:
        """Return a service that translates with a single one of the models, and shares it."""
        usable = {model.name: model for model in self.served if not model.problem}
        if name not in usable:
            message = f"there is no model {shown(name)}; available: {', '.join(list(usable)[:20])}"
            raise ApiError(400, "unknown_model", message, "model")
        if name not in self._alone:
            self._alone[name] = Service([usable[name]], self.pool, self._translated)
        return self._alone[name]

    async def start(self) -> None:
        """Load the models to preload, then what detects languages."""
        await self.pool.preload(self.served)
        gc.collect()
        gc.freeze()  # what is there now stays, and need not be collected again and again
        gc.set_threshold(*self._thresholds[:2], RARELY)
        self.ready = True
        with contextlib.suppress(MissingExtraError):
            await asyncio.to_thread(load_detector)

    async def collect(self) -> None:
        """Return freed memory to the system, and now and then collect garbage, until cancelled."""
        while True:
            for _ in range(round(COLLECT / TRIM)):
                await asyncio.sleep(TRIM)
                trim_heap()
            gc.collect()

    async def close(self) -> None:
        """Finish the running requests, then unload the models."""
        self.ready = False
        await self.pool.close()
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()  # what is frozen would outlive the interpreter, the compiled core's functions among it
        gc.collect()  # requests that failed are in cycles, and the command freezes what is left when it ends

    async def translate(
        self, requests: Sequence[Request], *, client: str = "", deadline: float | None = None
    ) -> TextAnswer:
        """Translate texts from one language, or each from its own, to one language.

        Args:
            requests: with public codes of languages; all have the same ``source`` and ``target``. A
                ``source`` that is None or ``auto`` is detected for each text.
            client: the name of the client, for fairness.
            deadline: the time limit in seconds.
        """
        if not requests:
            return TextAnswer((), (), (), "")
        first = requests[0]
        target = self.language(first.target or "", "target")
        detected = await self.sources(requests)
        sources = tuple("" if language is None else language.code for language in detected)
        named = first.source is not None and first.source != AUTO
        groups: dict[str, list[int]] = {}
        for number, code in enumerate(sources):
            groups.setdefault(code, []).append(number)
        parts = await _gather(
            self._translate_group([requests[number] for number in numbers], code, target, client, deadline)
            for code, numbers in groups.items()
        )
        by_number: dict[int, Translation] = {}
        for numbers, (translations, _) in zip(groups.values(), parts, strict=True):
            by_number.update(zip(numbers, translations, strict=True))
        return TextAnswer(
            tuple(by_number[number] for number in range(len(sources))),
            sources,
            tuple(None if named else language for language in detected),
            ", ".join(dict.fromkeys(model for _, model in parts if model)),
        )

    async def stream(
        self, request: Request, *, client: str = "", deadline: float | None = None
    ) -> AsyncGenerator[str, None]:
        """Translate a text greedily, and yield its translation piece by piece; with a glossary, as one."""
        target = self.language(request.target or "", "target")
        [source] = await self.sources([request])
        if source is None:
            raise api_error(self._unknown_language())
        if source.code == target and self.languages.route(source.code, target) is None:
            yield request.text
            return
        route = self.route(source.code, target)
        async with self.pool.translator(route) as translator:
            stream = translator.run_stream(_for_model(request, route), client=client, deadline=deadline)
            with as_api_error():
                async with aclosing(stream) as pieces:
                    async for piece in pieces:
                        yield piece

    async def inspect(
        self,
        request: Request,
        work: Callable[[str, str, str, Translator], Result],
        *,
        client: str = "",
        deadline: float | None = None,
    ) -> Result:
        """Call a function with the model of a request's languages; such calls take turns.

        Args:
            request: with public codes of languages.
            work: called in a thread with the model's name, the public codes of its source and target
                language, and its translator, which does not share the model's batch.
            client: name of the client, for fairness.
            deadline: the time limit in seconds.
        """
        target = self.language(request.target or "", "target")
        [source] = await self.sources([request])
        if source is None:
            raise api_error(self._unknown_language())
        route = self.route(source.code, target)
        if len(route) > 1:
            names = " and ".join(step.model.name for step in route)
            message = f"{names} translate one after the other here: only a single model can be inspected"
            raise api_error(NotInspectableError(message))
        languages = _languages(route)
        async with self.pool.translator(route) as loaded:

            def inspected(_: Translator) -> Result:
                own = loaded.translator
                if languages:
                    own = own.between(languages["source"], languages["target"])
                return work(route[0].model.name, source.code, target, own)

            with as_api_error():
                return await loaded.call(inspected, client=client, deadline=deadline, long=True)

    async def detect(self, text: str) -> list[Detected]:
        """Return the most probable served language of a text; none for a text without letters."""
        return await in_thread(self._detect, text)

    async def run_document(
        self,
        document: Path,
        output: Path,
        *,
        source: str | None,
        target: str,
        format: str | None = None,  # noqa: A002 (as in the library)
        options: DocumentOptions = NO_OPTIONS,
        glossary: GivenTerms | None = None,
        batch: int = BATCH,
        client: str = "",
        deadline: float | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> DocumentReport:
        """Translate a document into a file, atomically; see :func:`uwaga.documents.translate_file`.

        Args:
            document: file of the document.
            output: file of the translation; an interrupted translation is resumed.
            source: public code of the document's language.
            target: public code of the translation's language.
            format: name of the document's format; None to infer it from the file name.
            options: how to read the document; its languages are set.
            glossary: required translations of terms.
            batch: the number of texts that are translated together, after which ``progress`` is called.
            client: name of the client, for fairness.
            deadline: the time limit in seconds.
            progress: called from another thread with the number of translated segments and of all segments.
        """
        to = self.language(target, "target")
        route = self.route(self.language(source or "", "source"), to)
        languages = _languages(route)
        options = replace(options, source=route[0].source, target=route[-1].target)

        def work(translator: Translator) -> DocumentReport:
            between = translator.between(languages.get("source"), languages.get("target"))
            terms = Request("", glossary=glossary)
            return translate_file(
                between,
                document,
                output,
                format=format,
                options=options,
                request=terms,
                batch=batch,
                progress=progress,
            )

        async with self.pool.translator(route) as translator:
            with as_api_error():
                return await translator.call(work, client=client, deadline=deadline)

    def language(self, code: str, parameter: str) -> str:
        """Return the public code of a language that a request names."""
        known = self.languages.known(code)
        if known is None:
            codes = self.languages.codes
            available = ", ".join(codes[:20]) + (", ..." if len(codes) > 20 else "")
            message = f"{parameter} language {code[:20]!r} is not available; available: {available}"
            raise ApiError(400, "unsupported_language", message, parameter)
        return known

    async def sources(self, requests: Sequence[Request]) -> list[Detected | None]:
        """Return the language of each text, detected unless the first request names that of all.

        It is None for a text in another language than the served ones. A text without letters, which has
        nothing to translate, has the target language.
        """
        source = requests[0].source
        if source is not None and source != AUTO:
            code = self.language(source, "source")
            return [Detected(code, 1.0)] * len(requests)
        target = Detected(self.language(requests[0].target or "", "target"), 0.0)

        def detected(request: Request) -> Detected | None:
            text = request.text if request.format == "text" else MARKUP.sub(" ", request.text)
            if not any(map(str.isalpha, text)):
                return target
            return next(iter(self._detect(text, target.code)), None)

        return await in_thread(lambda: [detected(request) for request in requests])

    def _unknown_language(self) -> UnknownLanguageError:
        codes = ", ".join(self.languages.codes[:20])
        return UnknownLanguageError(f"the language of the text was not detected among {codes}: name it")

    def _detect(self, text: str, target: str | None = None) -> list[Detected]:
        try:
            detected = detect_language([text], self.languages.codes, target)
        except DataError:
            return []  # no letter
        code = self.languages.known(detected.language)
        return [] if code is None else [Detected(code, detected.probability)]

    def route(self, source: str, target: str) -> Route:
        """Return the models from one language to another, by public codes."""
        route = self.languages.route(source, target)
        if route is None:
            message = f"no model here translates {source} to {target}"
            if source == target:
                message = f"Source and target language are equal: {source}"
            raise ApiError(400, "unsupported_languages", message, "target")
        return route

    async def _translate_group(
        self,
        requests: Sequence[Request],
        source: str,
        target: str,
        client: str,
        deadline: float | None,
    ) -> tuple[list[Translation], str]:
        """Return the translations of texts in one language, and the names of the models."""
        if not source:
            return [failed("", self._unknown_language(), "return") for _ in requests], ""
        if source == target and self.languages.route(source, target) is None:
            return [_copied(request.text) for request in requests], ""
        route = self.route(source, target)
        for_model = [_for_model(replace(request, on_error="return"), route) for request in requests]
        async with self.pool.translator(route) as translator:
            with as_api_error():
                translations = await translator.run(for_model, client=client, deadline=deadline)
        name = " + ".join(step.model.name for step in route)
        if self._translated is not None:
            characters = sum(len(request.text) for request in requests)
            self._translated(name, characters, translations)
        return translations, name


async def _gather(works: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Run coroutines concurrently and return their results; if one fails, cancel the others and raise it."""
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
    """The languages that a call to the models must name: none if they have one pair."""
    if len(route) > 1 or route[0].model.one_pair:
        return {}
    return {"source": route[0].source, "target": route[0].target}


def _for_model(request: Request, route: Route) -> Request:
    """Return a request with the model's own codes of its languages."""
    codes = _languages(route)
    return replace(request, source=codes.get("source"), target=codes.get("target"))


def _copied(text: str) -> Translation:
    return Translation(text, 0.0, (), (), source=text, warnings=(ALREADY,))
