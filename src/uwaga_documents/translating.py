"""Translation of documents, with tags and placeholders, by a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from uwaga.markup import Inline, Tag
from uwaga.markup.inline import join_parts
from uwaga.results.translation import MemoryUse, Translation
from uwaga.translator.checks import UNFAMILIAR_TEXT
from uwaga.translator.text import InlineText
from uwaga_documents.document import DocumentOptions
from uwaga_documents.job import (
    BATCH_TEXTS,
    DocumentReport,
    DocumentText,
    Doubts,
    Progress,
    TranslateInlines,
    document_job,
    run_document_job,
)

if TYPE_CHECKING:
    from uwaga.translator import Request, Translator

LOW_CONFIDENCE = 0.5
"""Geometric mean of the token probabilities below which a translation is doubtful. With the bundled model,
the mean is lower for 1.2% of Tatoeba's sentences (chrF 36; 62 for the other sentences); with Firefox's
models, for no sentence of FLORES."""


def translate_file(
    translator: Translator,
    source: str | Path,
    target: str | Path,
    *,
    options: DocumentOptions | None = None,
    request: Request | None = None,
    batch: int = BATCH_TEXTS,
    progress: Progress | None = None,
) -> DocumentReport:
    """Translate a document into a file, which is written atomically.

    The same call resumes an interrupted run: translations are stored in a journal next to ``target`` until it
    is complete.

    Args:
        translator: a translator for the languages of the document.
        source: the document.
        target: the translated document; an existing file is replaced.
        options: how to read the document; languages that are None are those of the translator.
        request: options for the translation of the texts, such as ``split``, ``placeholders``, ``glossary``,
            ``memory`` and ``search``.
        batch: number of texts that are translated together.
        progress: called with the number of completed texts and the total number of texts.

    Raises:
        DataError: the document is not valid in its format, or a file cannot be read or written.
        SettingsError: an option is invalid, or the document or options differ from those of an interrupted
            run.
        RunInUseError: another process is writing ``target``.
        MissingExtraError: the format needs a library that is not installed.
    """
    from uwaga.translator import Request

    prepared_translator = translator.prepare(request or Request(""))
    options = with_languages(options or DocumentOptions(), translator)
    settings = translator.translation_settings(prepared_translator)
    in_context = prepared_translator.memory is not None
    job = replace(document_job(source, target, options, settings), batch=batch, in_context=in_context)
    doubts: Doubts = {}
    uses: list[MemoryUse] = []
    report = run_document_job(
        job, inline_translator(translator, prepared_translator, doubts, uses), progress, doubts
    )
    return report._replace(memory=tuple(uses))


def inline_translator(
    translator: Translator,
    request: Request,
    doubts: Doubts | None = None,
    uses: list[MemoryUse] | None = None,
) -> TranslateInlines:
    """Return a function that translates the texts of documents.

    Args:
        translator: a translator for the languages of the documents.
        request: the options of the translation; its text is ignored.
        doubts: the mapping to which texts whose translation may be wrong are added.
        uses: the list to which the used pairs of a translation memory are added.
    """

    def translate(texts: Sequence[DocumentText]) -> list[Inline]:
        inlines = [InlineText.from_text(text).inline for text in texts]
        translations = translator.run_inlines(texts, request)
        if uses is not None:
            uses.extend(use for result in translations for use in result.translation.memory)
        if doubts is not None:
            reasons = (find_doubts(result.translation) for result in translations)
            doubts.update((source, doubt) for source, doubt in zip(inlines, reasons, strict=True) if doubt)
        return [
            _with_source_tags(source, result.inline)
            for source, result in zip(inlines, translations, strict=True)
        ]

    return translate


def find_doubts(translation: Translation) -> tuple[str, ...]:
    """Return the reasons why a translation may be wrong: warnings, low confidence or truncation."""
    reasons, confidence = list(translation.warnings), translation.confidence
    has_unlike_warning = any(reason.startswith(UNFAMILIAR_TEXT) for reason in reasons)
    has_term = any(term.applied for term in translation.terms)  # a required term may be improbable
    is_low = confidence is not None and confidence.probability < LOW_CONFIDENCE
    if confidence is not None and is_low and not has_unlike_warning and not has_term:
        reasons.append(f"low confidence: {confidence.probability:.2f}")
    if translation.truncated:
        reasons.append("cut at the length limit")
    return tuple(reasons)


def _with_source_tags(source: Inline, translation: Inline) -> Inline:
    """Return a translation with only the tags of its source; other tags, such as placeholders,
    become text.
    """
    tags = {part for part in source if isinstance(part, Tag)}
    return join_parts(part if isinstance(part, str) or part in tags else part.raw for part in translation)


def with_languages(options: DocumentOptions, translator: Translator) -> DocumentOptions:
    """Return the options with each language that is None replaced by the translator's language."""
    source, target = translator.languages
    return replace(
        options,
        source=options.source or (None if source == "src" else source),
        target=options.target or (None if target == "tgt" else target),
    )
