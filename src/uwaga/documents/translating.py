"""A document translated by a model, with its tags and placeholders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uwaga.documents.document import DocumentOptions, joined
from uwaga.documents.job import (
    BATCH,
    DocumentReport,
    Progress,
    TranslateInlines,
    document_job,
    run_document_job,
)
from uwaga.markup import Inline, Tag
from uwaga.markup.placeholders import Placeholders, kept_placeholders
from uwaga.search import SearchOptions

if TYPE_CHECKING:
    from uwaga.translator.segmentation import Split
    from uwaga.translator.text_path import TextPath


def translate_file(
    translator: TextPath,
    source: str | Path,
    target: str | Path,
    *,
    format: str | None = None,  # noqa: A002 (what the command line calls it too)
    options: DocumentOptions | None = None,
    placeholders: bool | Iterable[str] = True,
    split: Split = "auto",
    batch: int = BATCH,
    progress: Progress | None = None,
    **search: Any,
) -> DocumentReport:
    """Translate a document into a file: whole or not at all.

    A run that was stopped is gone on with by the same call: what has been translated lies in a journal beside
    ``target`` until that is whole.

    Args:
        translator: one model, or several one after the other.
        source: the document.
        target: the translated document; one that is there is replaced.
        format: what it is, such as ``markdown``; None for what the name of ``source`` says.
        options: what else there is to say of it; its languages are the translator's where it names none.
        placeholders: as :func:`uwaga.markup.placeholders.kept_placeholders` has it.
        split: as in :meth:`uwaga.translator.Translator.translate`.
        batch: texts that are translated together.
        progress: called with how many texts are done, and of how many.
        **search: how to search, as in :meth:`uwaga.translator.Translator.translate`.

    Raises:
        DataError: the document is not of its format, or a file cannot be read or written.
        SettingsError: an impossible option, or an interrupted run had another input or other options.
        RunInUseError: another process makes ``target``.
        MissingExtraError: the format needs a library that is not installed.
    """
    from uwaga.translator import PivotTranslator, Translator

    wanted = translator.options(**search)
    kept = kept_placeholders(placeholders)
    said = with_languages(options or DocumentOptions(), translator)
    told = {
        "model": repr(translator),
        "search": {key: str(value) for key, value in asdict(wanted).items() if key != "batch_tokens"},
        "placeholders": "none" if kept is None else kept.pattern.pattern,
        "split": split,
    }
    if isinstance(translator, Translator | PivotTranslator) and translator.terms is not None:
        told["glossary"] = translator.terms.fingerprint
    job = replace(document_job(source, target, format, said, told), batch=batch)
    return run_document_job(job, inline_translator(translator, wanted, kept, split), progress)


def inline_translator(
    translator: TextPath, options: SearchOptions, placeholders: Placeholders | None, split: Split
) -> TranslateInlines:
    """What translates the texts of documents.

    Args:
        translator: one model, or several one after the other.
        options: how to search.
        placeholders: what is kept; None for nothing but what a format keeps.
        split: as in :meth:`uwaga.translator.Translator.translate`.
    """
    from uwaga.translator.inlines import translate_inlines

    def translate(inlines: Sequence[Inline]) -> list[Inline]:
        made = translate_inlines(translator, inlines, options, split=split, placeholders=placeholders)
        return [_with_own_tags(old, one.inline) for old, one in zip(inlines, made, strict=True)]

    return translate


def _with_own_tags(source: Inline, made: Inline) -> Inline:
    """A translation with the tags of its source alone: placeholders are text, which the format escapes."""
    own = {part for part in source if isinstance(part, Tag)}
    return joined(part if isinstance(part, str) or part in own else part.raw for part in made)


def with_languages(options: DocumentOptions, translator: TextPath) -> DocumentOptions:
    """The options with the languages of the model, where they name none."""
    source, target = translator.languages
    return replace(
        options,
        source=options.source or (None if source == "src" else source),
        target=options.target or (None if target == "tgt" else target),
    )
