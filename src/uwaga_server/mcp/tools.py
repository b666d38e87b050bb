"""Tools that translate texts and documents, list languages, and use glossaries and translation memories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mcp.types import Tool as ListedTool
from mcp.types import ToolAnnotations
from pydantic import BaseModel

from uwaga.errors import DataError, SettingsError, quoted
from uwaga.files.atomic import new_file
from uwaga.languages.detection import AUTO
from uwaga.results.translation import shorten
from uwaga.scheduling.call_context import Progress
from uwaga.terms import Glossary, Term
from uwaga.terms.files import SEPARATOR
from uwaga.translator import Request
from uwaga_documents import DocumentOptions, document_job, find_format, job_texts
from uwaga_memory import Memory, Pair
from uwaga_server.api_errors import ApiError, api_error, run_in_thread
from uwaga_server.auth import Client
from uwaga_server.context import ServerContext
from uwaga_server.dialects.documents import document_suffixes
from uwaga_server.dialects.v1 import text_contexts
from uwaga_server.document_worker import MAX_MEMBER_BYTES, detection_sample
from uwaga_server.mcp import schema
from uwaga_server.mcp.folders import Folders
from uwaga_server.service import Service

BATCH_SIZE = 32
"""Number of texts that are translated between two progress notifications."""
MAX_DOUBTS = 20
"""Maximum number of doubtful translations that are listed for a document."""
MAX_LISTED_TERMS = 1000
"""Maximum number of terms that are listed for a glossary."""
MAX_LISTED_PAIRS = 1000
"""Maximum number of language pairs in a list; longer lists omit the target languages."""
GLOSSARY_SUFFIXES = (".tsv", ".csv", ".tbx")
MEMORY_SUFFIX = ".uwm"
MAX_MEMORY_BYTES = 1 << 40
"""Maximum size of a translation memory in bytes; a look-up reads only a small part of the file."""


@dataclass(frozen=True)
class Call:
    """The context of a tool call.

    Attributes:
        context: the service, the limits and the usage.
        folders: the folders whose files the client may access.
        client: the client that calls the tool.
        progress: called from any thread with the number of translated texts and the total number of texts;
            None if the client does not request progress.
    """

    context: ServerContext
    folders: Folders
    client: Client
    progress: Progress | None = None

    def service(self, model: str | None) -> Service:
        """Return the translation service; if ``model`` is given, the service uses only this model."""
        service = self.context.service
        return service if model is None else service.for_model(model)

    async def terms(
        self, name: str | None, terms: Mapping[str, str | list[str]] | None, languages: LanguagePair
    ) -> Glossary | None:
        """Return the terms of a glossary file and of the call as one glossary; None if both are missing.

        Args:
            name: the path of the glossary file; None for no file.
            terms: the terms of the call; None for no terms.
            languages: the source and target language.
        """

        def read() -> Glossary:
            stored_terms = () if name is None else self.read_glossary(name, languages).terms
            return Glossary([*stored_terms, *Glossary.from_argument(terms or {}).terms])

        return None if name is None and not terms else await run_in_thread(read)

    def read_glossary(self, name: str, languages: LanguagePair) -> Glossary:
        """Return the glossary that a file contains.

        Args:
            name: the path of the file.
            languages: the source and target language, which a TBX file requires.
        """
        path = self.folders.input_path(name, self.context.settings.limits.body_bytes, GLOSSARY_SUFFIXES)
        if (
            path.suffix.lower() not in GLOSSARY_SUFFIXES
        ):  # the uncompressed size of a compressed file is not limited
            raise DataError(f"{quoted(name)}: a glossary must be a {', '.join(GLOSSARY_SUFFIXES)} file")
        source, target = languages
        return Glossary.read(path, None if source is None or target is None else (source, target))

    async def memory(self, name: str | None) -> Memory | None:
        """Return the translation memory in the file ``name``; None if ``name`` is None."""
        return None if name is None else await run_in_thread(self.read_memory, name)

    def read_memory(self, name: str) -> Memory:
        """Return the translation memory in the file ``name``; the call blocks while it reads the file."""
        path = self.folders.input_path(name, MAX_MEMORY_BYTES, (MEMORY_SUFFIX,))
        if path.suffix != MEMORY_SUFFIX:
            raise DataError(f"{quoted(name)}: a translation memory must be a {MEMORY_SUFFIX} file")
        return Memory(path)


LanguagePair = tuple[str | None, str | None]
"""Codes of the source and the target language; None for a language that the client does not state."""


async def translate(call: Call, arguments: schema.TranslateArguments) -> schema.TranslateResult:
    """Translate texts; the result of each text is a translation or an error."""
    texts = [arguments.text] if isinstance(arguments.text, str) else arguments.text
    characters = call.context.admit_texts(call.client, texts)
    service = call.service(arguments.model)
    shared_request = Request(
        "",
        source=arguments.source,
        target=arguments.target,
        format=arguments.format,
        glossary=await call.terms(arguments.glossary, arguments.terms, (arguments.source, arguments.target)),
        glossary_mode=arguments.glossary_mode,
        ignore_tags=arguments.ignore_tags,
        placeholders=arguments.placeholders,
        memory=await call.memory(arguments.memory),
        threshold=arguments.threshold,
    )
    contexts = text_contexts(arguments.context, len(texts))
    requests = [
        replace(
            shared_request,
            text=text,
            name="the text" if len(texts) == 1 else f"text {number}",
            context=context,
        )
        for number, (text, context) in enumerate(zip(texts, contexts, strict=True), start=1)
    ]
    async with call.context.charge_or_refund(call.client, characters):
        answer = await service.translate(
            requests, client=call.client.name, deadline=call.context.settings.limits.deadline
        )
    if all(translation.error is not None for translation in answer.translations):
        answer.raise_first()
    return schema.TranslateResult(
        translations=[
            schema.TranslatedText(
                text=(translation := text.translation).text,
                source=text.source or None,
                warnings=list(translation.warnings),
                error=None if translation.error is None else api_error(translation.error).message,
                memory=[schema.MemoryUse(**vars(use)) for use in translation.memory] or None,
            )
            for text in answer.texts
        ],
        model=answer.model,
    )


async def translate_file(call: Call, arguments: schema.FileArguments) -> schema.FileResult:
    """Translate a document into a new file; repeating an interrupted call resumes it."""
    service = call.service(arguments.model)
    target = service.language(arguments.target, "target")
    document, output = await run_in_thread(_document_paths, call, arguments, target)
    options = DocumentOptions(
        columns=tuple(arguments.columns),
        keys=tuple(arguments.keys),
        retranslate=arguments.retranslate,
        target=target,
        max_member_bytes=MAX_MEMBER_BYTES,
    )

    def texts() -> Iterator[str]:
        return job_texts(document_job(document, output, options))

    if arguments.source in (None, AUTO):
        detected_language = await service.detect(await run_in_thread(lambda: detection_sample(texts())))
        if not detected_language:
            message = "the language of the document cannot be detected; state the source language"
            raise ApiError(400, "unknown_language", message, "source")
        source = detected_language[0].code
    else:
        source = service.language(arguments.source or "", "source")
    route = service.route(source, target)
    request = Request(
        "",
        glossary=await call.terms(arguments.glossary, arguments.terms, (source, target)),
        memory=await call.memory(arguments.memory),
        threshold=arguments.threshold,
    )
    characters = await run_in_thread(lambda: sum(map(len, texts())))
    async with call.context.charge_or_refund(call.client, characters, 1):
        report = await service.run_document(
            document,
            output,
            replace(options, source=source),
            request=request,
            batch=BATCH_SIZE,
            client=call.client.name,
            progress=call.progress,
        )
    return schema.FileResult(
        output=call.folders.name_of(output),
        folder=call.folders.folder_of(output).name,
        format=report.format,
        source=source,
        target=target,
        model=" + ".join(step.model.name for step in route),
        texts=report.texts,
        resumed=report.resumed,
        doubtful=len(report.doubtful),
        doubts=[
            schema.DoubtfulText(number=doubt.number, text=shorten(doubt.text), reasons=list(doubt.reasons))
            for doubt in report.doubtful[:MAX_DOUBTS]
        ],
        untranslated=dict(report.untranslated),
        memory=None if arguments.memory is None else dict(Counter(use.used for use in report.memory)),
    )


def _document_paths(call: Call, arguments: schema.FileArguments, target: str) -> tuple[Path, Path]:
    """Return the paths of a document and its translation, after checking that their formats are the same."""
    suffixes, max_bytes = document_suffixes(), call.context.settings.limits.document_bytes
    document = call.folders.input_path(arguments.document, max_bytes, suffixes)
    default_output = document.with_name(f"{document.stem}.{target}{document.suffix}")
    output = call.folders.output_path(arguments.output or str(default_output), arguments.overwrite, document)
    try:
        same_format = find_format(document) is find_format(output)
    except SettingsError:
        message = f"{document.name} or {output.name}: unknown file format; supported: {', '.join(suffixes)}"
        raise ApiError(400, "unsupported_format", message) from None
    if not same_format:
        message = (
            f"{output.name}: the translation must have the same format as {document.name}; name it "
            f"{default_output.name}"
        )
        raise ApiError(400, "other_format", message, "output")
    return document, output


async def languages(call: Call, arguments: schema.LanguagesArguments) -> schema.LanguagesResult:
    """List the supported languages and the models that translate them."""
    service = call.context.service
    source = None if arguments.source is None else service.language(arguments.source, "source")
    target = None if arguments.target is None else service.language(arguments.target, "target")
    listed_models = [
        language
        for language in service.languages.sources
        if source in (None, language.code) and (target is None or target in language.targets)
    ]
    count = sum(len(language.targets) for language in listed_models)
    is_summary = count > MAX_LISTED_PAIRS and source is None
    return schema.LanguagesResult(
        languages=[
            schema.SourceLanguage(
                code=language.code, name=language.name, targets=None if is_summary else list(language.targets)
            )
            for language in listed_models
        ],
        models=[
            schema.ModelLanguages(name=model.name, sources=list(model.sources), targets=list(model.targets))
            for model in service.served
            if not model.problem
        ],
        note=f"{count} language pairs; state a source language to list its targets" if is_summary else None,
    )


async def glossary(call: Call, arguments: schema.GlossaryArguments) -> schema.GlossaryResult:
    """List the glossaries, show the terms of a glossary, or create a glossary."""
    if arguments.name is None and arguments.terms is not None:
        raise ApiError(400, "name_missing", "set name to the .tsv file of the new glossary", "name")
    return await run_in_thread(_run_glossary, call, arguments)


def _run_glossary(call: Call, arguments: schema.GlossaryArguments) -> schema.GlossaryResult:
    folders = call.folders
    if arguments.name is None:
        folders.check()
        glossaries = [schema.GlossaryTerms(name=name) for name in folders.files(GLOSSARY_SUFFIXES)]
        return schema.GlossaryResult(glossaries=glossaries)
    if arguments.terms is not None:
        path = _write_glossary(call, arguments.name, arguments.terms, arguments.overwrite)
        description = schema.GlossaryTerms(name=folders.name_of(path), count=len(Glossary.read(path)))
        return schema.GlossaryResult(glossaries=[description])
    glossary = call.read_glossary(arguments.name, (arguments.source, arguments.target))
    terms = {term.source: list(term.targets) for term in glossary.terms[:MAX_LISTED_TERMS]}
    shown_glossary = schema.GlossaryTerms(name=arguments.name, count=len(glossary), terms=terms)
    return schema.GlossaryResult(glossaries=[shown_glossary])


def _write_glossary(call: Call, name: str, terms: Mapping[str, str | list[str]], overwrite: bool) -> Path:
    """Write a new glossary to a file, and return its path."""
    path = call.folders.output_path(name, overwrite)
    if path.suffix.lower() != ".tsv":
        message = (
            "the name of a new glossary must end with .tsv, such as "
            f"{quoted(str(Path(name).with_suffix('.tsv')))}"
        )
        raise ApiError(400, "other_format", message, "name")
    entries = Glossary.from_argument(terms).terms
    if not entries:
        raise DataError("there are no terms; provide at least one term with its translation")
    with new_file(path) as file:
        file.write("\n".join(["source\ttarget", *map(_format_term, entries), ""]).encode())
    return path


def _format_term(term: Term) -> str:
    if term.source.startswith("#"):
        raise DataError(f"{quoted(term.source)}: a term may not begin with #, which starts a comment")
    return f"{term.source}\t{SEPARATOR.join(term.targets)}"


async def memory(call: Call, arguments: schema.MemoryArguments) -> schema.MemoryResult:
    """List the translation memories, describe one of them, or look up a text in one."""
    if arguments.name is None and arguments.text is not None:
        raise ApiError(400, "name_missing", "set name to the memory in which to look up the text", "name")
    if arguments.text is not None:
        call.context.admit_texts(call.client, [arguments.text])
    return await run_in_thread(_run_memory, call, arguments)


def _run_memory(call: Call, arguments: schema.MemoryArguments) -> schema.MemoryResult:
    if arguments.name is None:
        call.folders.check()
        names = call.folders.files((MEMORY_SUFFIX,))
        return schema.MemoryResult(memories=[schema.MemoryDescription(name=name) for name in names])
    with call.read_memory(arguments.name) as memory:
        source, target = memory.languages
        description = schema.MemoryDescription(
            name=arguments.name, source=source, target=target, count=len(memory)
        )
        if arguments.text is not None:
            [context] = text_contexts(arguments.context, 1)
            matches = memory.matches(
                arguments.text, context, threshold=arguments.threshold, limit=arguments.limit
            )
            description.matches = [
                schema.MemoryPair(
                    source=match.source,
                    target=match.target,
                    score=match.score,
                    origin=match.origin,
                    created=match.created,
                )
                for match in matches
            ]
    return schema.MemoryResult(memories=[description])


async def confirm(call: Call, arguments: schema.ConfirmArguments) -> schema.ConfirmResult:
    """Add a confirmed translation to a translation memory."""
    call.context.admit_texts(call.client, [arguments.text, arguments.translation])
    return await run_in_thread(_run_confirm, call, arguments)


def _run_confirm(call: Call, arguments: schema.ConfirmArguments) -> schema.ConfirmResult:
    [context] = text_contexts(arguments.context, 1)
    pair = Pair(arguments.text, arguments.translation, arguments.origin, *(context or ()))
    with _open_or_create(call, arguments) as memory:
        counts = memory.confirm([pair])
        if counts.skipped:
            raise DataError(f"the translation was not added: {', '.join(counts.skipped)}")
        return schema.ConfirmResult(memory=arguments.memory, count=len(memory), known=bool(counts.known))


def _open_or_create(call: Call, arguments: schema.ConfirmArguments) -> Memory:
    """Open the memory that a call names, or create it if it is missing and the call states its languages."""
    name, languages = arguments.memory, arguments.create
    try:
        return call.read_memory(name)
    except ApiError as error:
        if error.code != "no_file" or languages is None:
            raise
    path = call.folders.output_path(name, overwrite=False)
    if path.suffix != MEMORY_SUFFIX:
        renamed = quoted(str(Path(name).with_suffix(MEMORY_SUFFIX)))
        message = f"the name of a new translation memory must end with {MEMORY_SUFFIX}, such as {renamed}"
        raise ApiError(400, "other_format", message, "memory")
    return Memory.create(path, languages.source, languages.target)


@dataclass(frozen=True)
class Tool:
    """A tool of the Model Context Protocol.

    Attributes:
        run: the handler, which takes a call and its arguments and returns the result.
        title: title to show to users.
        description: description for language models.
        arguments: the pydantic model of the arguments.
        result: the pydantic model of the result.
        writes: whether the tool may write files.
    """

    run: Callable[[Call, Any], Awaitable[BaseModel]]
    title: str
    description: str
    arguments: type[BaseModel]
    result: type[BaseModel]
    writes: bool = False

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.run.__name__

    def to_protocol(self) -> ListedTool:
        """Return the description of the tool in the format of the protocol."""
        return ListedTool(
            name=self.name,
            title=self.title,
            description=self.description,
            inputSchema=self.arguments.model_json_schema(),
            outputSchema=self.result.model_json_schema(),
            annotations=ToolAnnotations(
                title=self.title,
                readOnlyHint=not self.writes,
                destructiveHint=self.writes,  # a file is replaced if the client asks for it
                idempotentHint=True,
                openWorldHint=False,
            ),
        )


_TOOL_LIST: Sequence[Tool] = (
    Tool(
        translate,
        "Translate texts",
        "Translate a text or a list of texts with a machine translation model on this server. Tags, "
        "placeholders and required terms are preserved. The translation of each text is independent of the "
        "others.",
        schema.TranslateArguments,
        schema.TranslateResult,
    ),
    Tool(
        translate_file,
        "Translate a document",
        "Translate a document in a folder of this server into a new file, preserving layout and markup: txt, "
        "Markdown, HTML, SRT, VTT, PO, XLIFF, Android and Apple strings, JSON, ARB, YAML, CSV, docx, pptx, "
        "xlsx, OpenDocument and EPUB. An existing file is replaced only with `overwrite`. To resume "
        "an interrupted call, repeat it.",
        schema.FileArguments,
        schema.FileResult,
        writes=True,
    ),
    Tool(
        languages,
        "List languages",
        "List the source languages with their target languages, and the models.",
        schema.LanguagesArguments,
        schema.LanguagesResult,
    ),
    Tool(
        glossary,
        "List, show or create glossaries",
        "Without arguments, list the glossaries in the folders of this server. With `name`, show the terms "
        "of a glossary; with `name` and `terms`, create a glossary, which the argument `glossary` of other "
        "tools can name.",
        schema.GlossaryArguments,
        schema.GlossaryResult,
        writes=True,
    ),
    Tool(
        memory,
        "List or search translation memories",
        "Without arguments, list the translation memories in the folders of this server. With `name`, show "
        "the languages and the size of a memory; with `name` and `text`, find the most similar sentences in "
        "the memory, with their translations.",
        schema.MemoryArguments,
        schema.MemoryResult,
    ),
    Tool(
        confirm,
        "Remember a translation",
        "Add a translation that a person has confirmed or corrected to a translation memory. Later "
        "translations with this memory use it. With `create`, a missing memory is created.",
        schema.ConfirmArguments,
        schema.ConfirmResult,
        writes=True,
    ),
)
TOOLS = {tool.name: tool for tool in _TOOL_LIST}
