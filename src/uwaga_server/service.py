"""Translation of texts and documents by the served models, for all dialects; independent of HTTP."""

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

from uwaga.engine import trim_heap
from uwaga.errors import DataError, MissingExtraError, NotInspectableError, quoted
from uwaga.languages.detection import AUTO, detect_language, load_detector
from uwaga.results.translation import Translation
from uwaga.terms.glossary import Glossary
from uwaga.translator import Request, Translator
from uwaga.translator.layers.failures import failed_translation
from uwaga.translator.layers.untranslated import copy_text
from uwaga_documents.document import DocumentOptions
from uwaga_documents.job import BATCH_TEXTS, DocumentReport
from uwaga_documents.translating import translate_file
from uwaga_server.api_errors import ApiError, UnknownLanguageError, api_error, as_api_error, run_in_thread
from uwaga_server.models import ModelPool
from uwaga_server.served_models import ModelRoute, ServedLanguages, ServedModel

FULL_COLLECTION_THRESHOLD = 1 << 30
"""Threshold of full garbage collections, which stop all threads for 50 to 90 ms during long translations
and find almost nothing: see :data:`COLLECTION_INTERVAL`."""
COLLECTION_INTERVAL = 600.0
"""Seconds between two full garbage collections."""
TRIM_INTERVAL = 20.0
"""Seconds between two returns of freed memory to the system, which the C library would keep."""
MARKUP = re.compile(r"<[^<>]*>")
Terms = Glossary | Mapping[str, str]
Result = TypeVar("Result")


@dataclass(frozen=True)
class DetectedLanguage:
    """The most probable language of a text, by public code, and its probability."""

    code: str
    confidence: float


@dataclass(frozen=True)
class TranslatedText:
    """A text's translation and language.

    Attributes:
        translation: the translation; if it failed, it has an ``error`` and no text.
        source: the public code of the text's language; empty if it was not detected.
        detected: the detected language; None if the request named it, or it was not detected.
    """

    translation: Translation
    source: str
    detected: DetectedLanguage | None


@dataclass(frozen=True)
class TextAnswer:
    """The translated texts of a request, in their order, and the names of the models used."""

    texts: tuple[TranslatedText, ...]
    model: str

    @property
    def translations(self) -> list[Translation]:
        """The translations of the texts."""
        return [text.translation for text in self.texts]

    def raise_first(self) -> None:
        """Raise the first error, for dialects that cannot report errors of single texts."""
        for translation in self.translations:
            if translation.error is not None:
                raise api_error(translation.error)


class Service:
    """Translates with the served models.

    Args:
        models: the models, in order of preference.
        pool: loads the models.
        on_translated: called with a model's name, the characters of a request, and its translations.

    Attributes:
        ready: True once the models to preload are loaded, until the service closes.
        languages: the languages that the models translate between.
    """

    def __init__(
        self,
        models: Sequence[ServedModel],
        pool: ModelPool,
        on_translated: Callable[[str, int, Sequence[Translation]], None] | None = None,
    ) -> None:
        self._on_translated = on_translated
        self.served, self.pool, self.languages = list(models), pool, ServedLanguages(models)
        self.ready = False
        self._single_model_services: dict[str, Service] = {}
        self._thresholds = gc.get_threshold()

    def for_model(self, name: str) -> Service:
        """Return a service that translates with only one of the models, which it shares."""
        usable = {model.name: model for model in self.served if not model.problem}
        if name not in usable:
            message = f"there is no model {quoted(name)}; available: {', '.join(list(usable)[:20])}"
            raise ApiError(400, "unknown_model", message, "model")
        if name not in self._single_model_services:
            self._single_model_services[name] = Service([usable[name]], self.pool, self._on_translated)
        return self._single_model_services[name]

    async def start(self) -> None:
        """Load the models to preload, then the language detector."""
        await self.pool.preload(self.served)
        gc.collect()
        gc.freeze()  # the current objects stay alive: exclude them from collections
        gc.set_threshold(*self._thresholds[:2], FULL_COLLECTION_THRESHOLD)
        self.ready = True
        with contextlib.suppress(MissingExtraError):
            await asyncio.to_thread(load_detector)

    async def collect(self) -> None:
        """Return freed memory to the system and collect garbage periodically, until cancelled."""
        while True:
            for _ in range(round(COLLECTION_INTERVAL / TRIM_INTERVAL)):
                await asyncio.sleep(TRIM_INTERVAL)
                trim_heap()
            gc.collect()

    async def close(self) -> None:
        """Finish the running requests, then unload the models."""
        self.ready = False
        await self.pool.close()
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()  # frozen objects, such as functions of the compiled core, would outlive the interpreter
        gc.collect()  # failed requests are in cycles, and the command freezes the rest at its end

    async def translate(
        self, requests: Sequence[Request], *, client: str = "", deadline: float | None = None
    ) -> TextAnswer:
        """Translate texts to one language.

        Args:
            requests: the texts, with public codes of languages; all have the same ``target``. If ``source``
                is None or ``auto``, the language of the text is detected.
            client: the name of the client, for fairness.
            deadline: the time limit in seconds.
        """
        if not requests:
            return TextAnswer((), "")
        target = self.language(requests[0].target or "", "target")
        sources = await self.sources(requests)
        codes = ["" if language is None else language.code for language in sources]
        groups: dict[str | None, list[int]] = {}
        for index, request in enumerate(requests):
            is_copied = not _states_source(request) and not _has_letters(request)
            groups.setdefault(None if is_copied else codes[index], []).append(index)
        results = await _gather(
            self._translate_group([requests[index] for index in indices], code, target, client, deadline)
            for code, indices in groups.items()
        )
        by_index: dict[int, Translation] = {}
        for indices, (translations, _) in zip(groups.values(), results, strict=True):
            by_index.update(zip(indices, translations, strict=True))
        texts = tuple(
            TranslatedText(by_index[index], codes[index], None if _states_source(request) else sources[index])
            for index, request in enumerate(requests)
        )
        return TextAnswer(texts, ", ".join(dict.fromkeys(model for _, model in results if model)))

    async def stream(
        self, request: Request, *, client: str = "", deadline: float | None = None
    ) -> AsyncGenerator[str, None]:
        """Translate a text greedily and yield its translation in pieces; with a glossary, as one piece."""
        target = self.language(request.target or "", "target")
        [source] = await self.sources([request])
        if source is None:
            raise api_error(self._unknown_language_error())
        is_target = source.code == target and self.languages.route(source.code, target) is None
        if is_target or (not _states_source(request) and not _has_letters(request)):
            yield request.text
            return
        route = self.route(source.code, target)
        async with self.pool.translator(route) as translator:
            stream = translator.run_stream(
                _with_model_codes(request, route), client=client, deadline=deadline
            )
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
        """Call a function with the model of a request's languages; such calls run one at a time.

        Args:
            request: the request, with public codes of languages.
            work: called in a thread with the model's name, the public codes of its source and target
                language, and its translator, which does not use the model's batch.
            client: name of the client, for fairness.
            deadline: the time limit in seconds.
        """
        target = self.language(request.target or "", "target")
        [source] = await self.sources([request])
        if source is None:
            raise api_error(self._unknown_language_error())
        route = self.route(source.code, target)
        if len(route) > 1:
            names = " and ".join(step.model.name for step in route)
            message = f"{names} form a chain here: only a single model can be inspected"
            raise api_error(NotInspectableError(message))
        languages = _model_languages(route)
        async with self.pool.translator(route) as loaded:

            def inspect_model(_: Translator) -> Result:
                translator = loaded.translator
                if languages:
                    translator = translator.between(languages["source"], languages["target"])
                return work(route[0].model.name, source.code, target, translator)

            with as_api_error():
                return await loaded.call(inspect_model, client=client, deadline=deadline, long=True)

    async def detect(self, text: str) -> list[DetectedLanguage]:
        """Return the most probable served language of a text; an empty list for a text without letters."""
        return await run_in_thread(self._detect, text)

    async def run_document(
        self,
        document: Path,
        output: Path,
        options: DocumentOptions,
        *,
        request: Request | None = None,
        batch: int = BATCH_TEXTS,
        client: str = "",
        progress: Callable[[int, int], None] | None = None,
    ) -> DocumentReport:
        """Translate a document into a file, atomically; see :func:`uwaga_documents.translate_file`.

        Args:
            document: file of the document.
            output: file of the translation; an interrupted translation is resumed.
            options: how to read the document, with the public codes of both languages.
            request: how its texts are translated, such as their ``glossary`` and ``memory``.
            batch: number of texts to translate together, after which ``progress`` is called.
            client: name of the client, for fairness.
            progress: called from another thread with the number of translated segments and the total.
        """
        target = self.language(options.target or "", "target")
        route = self.route(self.language(options.source or "", "source"), target)
        languages = _model_languages(route)
        options = replace(options, source=route[0].source, target=route[-1].target)

        def work(translator: Translator) -> DocumentReport:
            pair_translator = translator.between(languages.get("source"), languages.get("target"))
            return translate_file(
                pair_translator,
                document,
                output,
                options=options,
                request=request,
                batch=batch,
                progress=progress,
            )

        async with self.pool.translator(route) as translator:
            with as_api_error():
                return await translator.call(work, client=client)

    def language(self, code: str, parameter: str) -> str:
        """Return the public code of a language of a request."""
        public = self.languages.resolve(code)
        if public is None:
            codes = self.languages.codes
            available = ", ".join(codes[:20]) + (", ..." if len(codes) > 20 else "")
            message = f"{parameter} language {code[:20]!r} is not available; available: {available}"
            raise ApiError(400, "unsupported_language", message, parameter)
        return public

    async def sources(self, requests: Sequence[Request]) -> list[DetectedLanguage | None]:
        """Return the language of each text, which is detected unless its request names it.

        It is None for a text in a language that is not served. A text without letters, which needs no
        translation, has the language of the first other detected text, else the first language that is
        translated to the target language, with a confidence of 0.
        """
        named = [
            DetectedLanguage(self.language(request.source or "", "source"), 1.0)
            if _states_source(request)
            else None
            for request in requests
        ]
        if all(named):
            return list(named)
        target = self.language(requests[0].target or "", "target")

        def detect_sources() -> list[DetectedLanguage | None]:
            detected = {
                number: next(iter(self._detect(_words(request), target)), None)
                for number, request in enumerate(requests)
                if named[number] is None and _has_letters(request)
            }
            code = next(
                (language.code for language in detected.values() if language is not None),
                next((source.code for source in self.languages.sources if target in source.targets), target),
            )
            return [
                language or detected.get(number, DetectedLanguage(code, 0.0))
                for number, language in enumerate(named)
            ]

        return await run_in_thread(detect_sources)

    def _unknown_language_error(self) -> UnknownLanguageError:
        codes = ", ".join(self.languages.codes[:20])
        return UnknownLanguageError(f"the language of the text was not detected among {codes}: name it")

    def _detect(self, text: str, target: str | None = None) -> list[DetectedLanguage]:
        try:
            detected = detect_language([text], self.languages.codes, target)
        except DataError:
            return []  # no letter
        code = self.languages.resolve(detected.language)
        return [] if code is None else [DetectedLanguage(code, detected.probability)]

    def route(self, source: str, target: str) -> ModelRoute:
        """Return the models that translate one language to another, by public codes."""
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
        source: str | None,
        target: str,
        client: str,
        deadline: float | None,
    ) -> tuple[list[Translation], str]:
        """Return the translations of texts in one language (None for copies) and the names of the models."""
        if source == "":
            return [failed_translation("", self._unknown_language_error(), "return") for _ in requests], ""
        if source is None or (source == target and self.languages.route(source, target) is None):
            return [copy_text(request.text) for request in requests], ""
        route = self.route(source, target)
        model_requests = [_with_model_codes(request, route, on_error="return") for request in requests]
        async with self.pool.translator(route) as translator:
            with as_api_error():
                translations = await translator.run(model_requests, client=client, deadline=deadline)
        name = " + ".join(step.model.name for step in route)
        if self._on_translated is not None:
            characters = sum(len(request.text) for request in requests)
            self._on_translated(name, characters, translations)
        return translations, name


async def _gather(coroutines: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Run coroutines concurrently and return their results; if one fails, cancel the others and raise it."""
    pending = list(coroutines)
    if len(pending) == 1:
        return [await pending[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in pending]
    except ExceptionGroup as group_error:
        raise group_error.exceptions[0] from None
    return [task.result() for task in tasks]


def _model_languages(route: ModelRoute) -> dict[str, str]:
    """Return the languages that a call to the models must name: none if they have a single pair."""
    if len(route) > 1 or route[0].model.has_single_pair:
        return {}
    return {"source": route[0].source, "target": route[0].target}


def _with_model_codes(request: Request, route: ModelRoute, **changes: Any) -> Request:
    """Return a request with the model's own language codes, and with other changes."""
    codes = _model_languages(route)
    return replace(request, source=codes.get("source"), target=codes.get("target"), **changes)


def _states_source(request: Request) -> bool:
    return request.source is not None and request.source != AUTO


def _words(request: Request) -> str:
    """Return the text of a request without its tags."""
    return request.text if request.format == "text" else MARKUP.sub(" ", request.text)


def _has_letters(request: Request) -> bool:
    return any(map(str.isalpha, _words(request)))
