"""Translation of a document by a model, with tags and placeholders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from uwaga.documents.document import DocumentOptions
from uwaga.documents.job import (
    BATCH,
    DocumentReport,
    Progress,
    TranslateInlines,
    document_job,
    run_document_job,
)
from uwaga.markup import Inline, Tag
from uwaga.markup.inline import joined

if TYPE_CHECKING:
    from uwaga.translator import Request, Translator


def translate_file(
    translator: Translator,
    source: str | Path,
    target: str | Path,
    *,
    format: str | None = None,  # noqa: A002 (what the command line calls it too)
    options: DocumentOptions | None = None,
    request: Request | None = None,
    batch: int = BATCH,
    progress: Progress | None = None,
) -> DocumentReport:
    """Translate a document into a file, which is written atomically.

    A run that was stopped is gone on with by the same call: what has been translated lies in a journal beside
    ``target`` until that is whole.

    Args:
        translator: a translator for the languages of the document.
        source: the document.
        target: the translated document; one that is there is replaced.
        format: what it is, such as ``markdown``; None for what the name of ``source`` says.
        options: what else there is to say of it; its languages are the translator's where it names none.
        request: how its texts are translated: ``split``, ``placeholders``, ``glossary`` and ``search``.
        batch: texts that are translated together.
        progress: called with how many texts are done, and of how many.

    Raises:
        DataError: the document is not of its format, or a file cannot be read or written.
        SettingsError: an impossible option, or an interrupted run had another input or other options.
        RunInUseError: another process makes ``target``.
        MissingExtraError: the format needs a library that is not installed.
    """
    from uwaga.translator import Request

    how = translator.prepare(request or Request(""))
    said = with_languages(options or DocumentOptions(), translator)
    settings = translator.work_settings(how)
    job = replace(document_job(source, target, format, said, settings), batch=batch)
    return run_document_job(job, inline_translator(translator, how), progress)


def inline_translator(translator: Translator, request: Request) -> TranslateInlines:
    """Return a function that translates the texts of documents.

    Args:
        translator: a translator for the languages of the documents.
        request: how the texts are translated; its own text is ignored.
    """

    def translate(inlines: Sequence[Inline]) -> list[Inline]:
        made = translator.run_inlines(inlines, request)
        return [_with_own_tags(old, one.inline) for old, one in zip(inlines, made, strict=True)]

    return translate


def _with_own_tags(source: Inline, made: Inline) -> Inline:
    """Return a translation with the tags of its source only; placeholders become text, to be escaped."""
    own = {part for part in source if isinstance(part, Tag)}
    return joined(part if isinstance(part, str) or part in own else part.raw for part in made)


def with_languages(options: DocumentOptions, translator: Translator) -> DocumentOptions:
    """Return the options, with the model's languages for those that are not given."""
    source, target = translator.languages
    return replace(
        options,
        source=options.source or (None if source == "src" else source),
        target=options.target or (None if target == "tgt" else target),
    )
