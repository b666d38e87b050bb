"""The service that translates texts and documents for all dialects; it is independent of HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import re
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from uwaga.engine import trim_heap
from uwaga.errors import DataError, MissingExtraError, NotInspectableError, quoted
from uwaga.languages.detection import AUTO, detect_language, load_detector
from uwaga.results.translation import Translation
from uwaga.scheduling.call_context import Progress
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
"""Garbage collection threshold of the oldest generation, so high that no full collection starts by itself.

A full collection stops all threads for 50 to 90 ms during long translations and frees almost nothing; see
:data:`COLLECTION_INTERVAL`.
"""
COLLECTION_INTERVAL = 600.0
"""Seconds between two full garbage collections."""
TRIM_INTERVAL = 20.0
"""Seconds between two calls that return freed memory to the system, since the C library would retain it."""
TAG_PATTERN = re.compile(r"<[^<>]*>")
Terms = Glossary | Mapping[str, str]
Result = TypeVar("Result")


@dataclass(frozen=True)
class DetectedLanguage:
    """A detected language: its public code and its probability."""

    code: str
    confidence: float


@dataclass(frozen=True)
class TranslatedText:
    """The translation and the source language of a text.

    Attributes:
        translation: the translation; if it failed, its ``error`` is set and its text is empty.
        source: the public code of the source language; empty if the language was not detected.
        detected: the detected language; None if the request named the language, or it was not detected.
    """

    translation: Translation
    source: str
    detected: DetectedLanguage | None


@dataclass(frozen=True)
class TextAnswer:
    """The translated texts of a request, in order, and the names of the models that were used."""

    texts: tuple[TranslatedText, ...]
    model: str

    @property
    def translations(self) -> list[Translation]:
        """The translations of the texts."""
        return [text.translation for text in self.texts]

    def raise_first(self) -> None:
        """Raise the error of the first failed translation, for dialects that report no errors per text."""
        for translation in self.translations:
            if translation.error is not None:
                raise api_error(translation.error)


class Service:
    """Translation service with several models.

    Args:
        models: the models, in order of preference.
        pool: the pool that loads the models.
        on_translated: called with the name of a model, the number of characters, and the translations.

    Attributes:
        ready: True from when the models to preload are loaded until the service is closed.
        languages: the languages that the models can translate.
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
        self._original_thresholds = gc.get_threshold()

    def for_model(self, name: str) -> Service:
        """Return a service that uses only the model with this name, from the same pool."""
        usable_models = {model.name: model for model in self.served if not model.problem}
        if name not in usable_models:
            message = f"there is no model {quoted(name)}; available: {', '.join(list(usable_models)[:20])}"
            raise ApiError(400, "unknown_model", message, "model")
        if name not in self._single_model_services:
            self._single_model_services[name] = Service([usable_models[name]], self.pool, self._on_translated)
        return self._single_model_services[name]

    async def start(self) -> None:
        """Load the models that are to be preloaded, and then the language detector."""
        await self.pool.preload(self.served)
        gc.collect()
        gc.freeze()  # the current objects are permanent: exclude them from collections
        gc.set_threshold(*self._original_thresholds[:2], FULL_COLLECTION_THRESHOLD)
        self.ready = True
        with contextlib.suppress(MissingExtraError):
            await asyncio.to_thread(load_detector)

    async def collect(self) -> None:
        """Return freed memory to the system and collect garbage periodically, until the task is cancelled."""
        while True:
            for _ in range(round(COLLECTION_INTERVAL / TRIM_INTERVAL)):
                await asyncio.sleep(TRIM_INTERVAL)
                trim_heap()
            gc.collect()

    async def close(self) -> None:
        """Finish the running requests, and unload the models."""
        self.ready = False
        await self.pool.close()
        gc.set_threshold(*self._original_thresholds)
        gc.unfreeze()  # frozen objects, such as functions of the compiled core, would outlive the interpreter
        gc.collect()  # failed requests are in reference cycles

    async def translate(
        self,
        requests: Sequence[Request],
        *,
        client: str = "",
        deadline: float | None = None,
        progress: Progress | None = None,
    ) -> TextAnswer:
        """Translate texts, all of them to the same target language.

        Args:
            requests: the texts, with public language codes and the same ``target``. If ``source`` is None or
                ``auto``, the language of the text is detected.
            client: the name of the client, for fair scheduling.
            deadline: the time limit in seconds.
            progress: function that is called, in another thread, with the number of translated sentences and
                the number of sentences known so far.
        """
        if not requests:
            return TextAnswer((), "")
        target = self.language(requests[0].target or "", "target")
        sources = await self.sources(requests)
        codes = ["" if language is None else language.code for language in sources]
        groups: dict[str | None, list[int]] = {}
        for index, request in enumerate(requests):
            is_copied = not _has_source(request) and not _has_letters(request)
            groups.setdefault(None if is_copied else codes[index], []).append(index)
        counts, lock = dict[str | None, tuple[int, int]](), threading.Lock()

        def add_progress(code: str | None, completed_count: int, total: int) -> None:
            with lock:  # the groups report from different threads
                counts[code] = completed_count, total
                if progress is not None:
                    progress(*map(sum, zip(*counts.values(), strict=True)))

        results = await _run_concurrently(
            self._translate_group(
                [requests[index] for index in indices],
                code,
                target,
                client=client,
                deadline=deadline,
                progress=None if progress is None else partial(add_progress, code),
            )
            for code, indices in groups.items()
        )
        by_index: dict[int, Translation] = {}
        for indices, (translations, _) in zip(groups.values(), results, strict=True):
            by_index.update(zip(indices, translations, strict=True))
        texts = tuple(
            TranslatedText(by_index[index], codes[index], None if _has_source(request) else sources[index])
            for index, request in enumerate(requests)
        )
        return TextAnswer(texts, ", ".join(dict.fromkeys(model for _, model in results if model)))

    async def stream(
        self,
        request: Request,
        *,
        client: str = "",
        deadline: float | None = None,
        on_truncated: Callable[[], object] | None = None,
    ) -> AsyncGenerator[str, None]:
        """Translate a text greedily and yield the translation in pieces; with a glossary, in one piece.

        Args:
            request: the text, as for :meth:`translate`.
            client: the name of the client, for fair scheduling.
            deadline: the time limit in seconds.
            on_truncated: called after the last piece if a length limit truncated the translation.
        """
        target = self.language(request.target or "", "target")
        [source] = await self.sources([request])
        if source is None:
            raise api_error(self._unknown_language_error())
        is_same_language = source.code == target and self.languages.route(source.code, target) is None
        if is_same_language or (not _has_source(request) and not _has_letters(request)):
            yield request.text
            return
        route = self.route(source.code, target)
        async with self.pool.translator(route) as translator:
            stream = translator.run_stream(
                _with_model_codes(request, route),
                client=client,
                deadline=deadline,
                on_truncated=on_truncated,
            )
            with as_api_error():
                async with aclosing(stream) as pieces:
                    async for piece in pieces:
                        yield piece

    async def inspect(
        self,
        request: Request,
        function: Callable[[str, str, str, Translator], Result],
        *,
        client: str = "",
        deadline: float | None = None,
    ) -> Result:
        """Call a function with the model for the languages of a request; such calls run one at a time.

        Args:
            request: the request, with public language codes.
            function: called in a thread with the name of the model, the public codes of the source and target
                language, and a translator that does not use the shared batch.
            client: the name of the client, for fair scheduling.
            deadline: the time limit in seconds.

        Raises:
            ApiError: the languages require a chain of models, or the call fails.
        """
        target = self.language(request.target or "", "target")
        [source] = await self.sources([request])
        if source is None:
            raise api_error(self._unknown_language_error())
        route = self.route(source.code, target)
        if len(route) > 1:
            names = " and ".join(step.model.name for step in route)
            message = f"{names} form a chain of models, but only a single model can be inspected"
            raise api_error(NotInspectableError(message))
        languages = _model_languages(route)
        async with self.pool.translator(route) as loaded_model:

            def inspect_model(_: Translator) -> Result:
                translator = loaded_model.translator
                if languages:
                    translator = translator.between(languages["source"], languages["target"])
                return function(route[0].model.name, source.code, target, translator)

            with as_api_error():
                return await loaded_model.call(inspect_model, client=client, deadline=deadline, is_long=True)

    async def detect(self, text: str) -> list[DetectedLanguage]:
        """Return a list with the language of a text, which is one of the supported languages.

        The list is empty if the text has no letters.
        """
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
        progress: Progress | None = None,
    ) -> DocumentReport:
        """Translate a document and write the translation atomically; an interrupted translation is resumed.

        See :func:`uwaga_documents.translate_file`.

        Args:
            document: the file of the document.
            output: the file of the translation.
            options: options for reading the document, with the public codes of both languages.
            request: options for translating the texts, such as ``glossary`` and ``memory``.
            batch: number of texts that are translated together, after which ``progress`` is called.
            client: the name of the client, for fair scheduling.
            progress: called from another thread with the number of translated segments and the total number
                of segments.
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
        """Return the public code of a language that a request names.

        Args:
            code: any code of the language.
            parameter: ``source`` or ``target``, for the error message.

        Raises:
            ApiError: the language is not supported.
        """
        public = self.languages.resolve(code)
        if public is None:
            codes = self.languages.codes
            code_list = ", ".join(codes[:20]) + (", ..." if len(codes) > 20 else "")
            message = f"{parameter} language {code[:20]!r} is not available; available: {code_list}"
            raise ApiError(400, "unsupported_language", message, parameter)
        return public

    async def sources(self, requests: Sequence[Request]) -> list[DetectedLanguage | None]:
        """Return the source language of each text: the language that its request names, or the detected one.

        The language is None if the text is in an unsupported language. A text without letters, which needs no
        translation, is assigned the first language detected in another text or, failing that, the first
        language that can be translated to the target language, with a confidence of 0.
        """
        named_sources = [
            DetectedLanguage(self.language(request.source or "", "source"), 1.0)
            if _has_source(request)
            else None
            for request in requests
        ]
        if all(named_sources):
            return list(named_sources)
        target = self.language(requests[0].target or "", "target")

        def detect_sources() -> list[DetectedLanguage | None]:
            languages_by_index = {
                index: next(iter(self._detect(_text_without_tags(request), target)), None)
                for index, request in enumerate(requests)
                if named_sources[index] is None and _has_letters(request)
            }
            code = next(
                (language.code for language in languages_by_index.values() if language is not None),
                next((source.code for source in self.languages.sources if target in source.targets), target),
            )
            return [
                language or languages_by_index.get(index, DetectedLanguage(code, 0.0))
                for index, language in enumerate(named_sources)
            ]

        return await run_in_thread(detect_sources)

    def _unknown_language_error(self) -> UnknownLanguageError:
        codes = ", ".join(self.languages.codes[:20])
        return UnknownLanguageError(
            f"the language of the text was not detected among {codes}; state the source language"
        )

    def _detect(self, text: str, target: str | None = None) -> list[DetectedLanguage]:
        try:
            detected_language = detect_language([text], self.languages.codes, target)
        except DataError:
            return []  # no letter
        code = self.languages.resolve(detected_language.language)
        return [] if code is None else [DetectedLanguage(code, detected_language.probability)]

    def route(self, source: str, target: str) -> ModelRoute:
        """Return the model or chain of models that translates between two languages, by public codes.

        Raises:
            ApiError: no model or chain of models translates between the languages.
        """
        route = self.languages.route(source, target)
        if route is None:
            if source == target:
                message = f"Source and target language are equal: {source}"
                raise ApiError(400, "equal_languages", message, "target")
            message = f"no model on this server translates {source} to {target}"
            raise ApiError(400, "unsupported_languages", message, "target")
        return route

    async def _translate_group(
        self,
        requests: Sequence[Request],
        source: str | None,
        target: str,
        *,
        client: str,
        deadline: float | None,
        progress: Progress | None,
    ) -> tuple[list[Translation], str]:
        """Translate texts with the same source language; return the translations and the model names.

        Args:
            requests: the texts.
            source: the source language; empty if it was not detected, None to copy the texts.
            target: the target language.
            client: the name of the client, for fair scheduling.
            deadline: the time limit in seconds.
            progress: as for :meth:`translate`.
        """
        if source == "":
            return [failed_translation("", self._unknown_language_error(), "return") for _ in requests], ""
        if source is None or (source == target and self.languages.route(source, target) is None):
            return [copy_text(request.text) for request in requests], ""
        route = self.route(source, target)
        model_requests = [_with_model_codes(request, route, on_error="return") for request in requests]
        async with self.pool.translator(route) as translator:
            with as_api_error():
                translations = await translator.run(
                    model_requests, client=client, deadline=deadline, progress=progress
                )
        name = " + ".join(step.model.name for step in route)
        if self._on_translated is not None:
            characters = sum(len(request.text) for request in requests)
            self._on_translated(name, characters, translations)
        return translations, name


async def _run_concurrently(coroutines: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Run coroutines concurrently and return their results.

    If a coroutine raises an exception, the other coroutines are cancelled and the exception is raised.
    """
    pending_coroutines = list(coroutines)
    if len(pending_coroutines) == 1:
        return [await pending_coroutines[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in pending_coroutines]
    except ExceptionGroup as group_error:
        raise group_error.exceptions[0] from None
    return [task.result() for task in tasks]


def _model_languages(route: ModelRoute) -> dict[str, str]:
    """Return the language arguments for a route's model; empty for a chain or a model with a single pair."""
    if len(route) > 1 or route[0].model.has_single_pair:
        return {}
    return {"source": route[0].source, "target": route[0].target}


def _with_model_codes(request: Request, route: ModelRoute, **changes: Any) -> Request:
    """Return a request with the language codes of the model, and with the given fields replaced."""
    codes = _model_languages(route)
    return replace(request, source=codes.get("source"), target=codes.get("target"), **changes)


def _has_source(request: Request) -> bool:
    return request.source is not None and request.source != AUTO


def _text_without_tags(request: Request) -> str:
    """Return the text of a request without tags."""
    return request.text if request.format == "text" else TAG_PATTERN.sub(" ", request.text)


def _has_letters(request: Request) -> bool:
    return any(map(str.isalpha, _text_without_tags(request)))
