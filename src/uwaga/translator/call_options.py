"""The keyword arguments of calls, for type checkers and editors.

This module is imported only for type checking. The dataclasses that it mirrors describe the options and check
their values, including those of callers that pass a mapping.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict

from uwaga.decoder import EarlyStopping
from uwaga.markup.formats import Format
from uwaga.markup.xml_text import XmlOutline
from uwaga.results.translation import GlossaryMode
from uwaga.search.options import LengthFormula, Utility
from uwaga.settings.load_options import Dtype, EngineName, MemoryMode
from uwaga.terms.apply import GlossaryArgument
from uwaga.translator.memories import MemoryArgument
from uwaga.translator.request import OnError, Split


class FillerFields(TypedDict, total=False):
    """The keyword arguments of :meth:`uwaga.generation.MaskFiller.load`.

    They are fields of :class:`uwaga.settings.LoadOptions`. None means the default.
    """

    device: str | None
    dtype: Dtype | None
    threads: int | None


class GeneratorFields(FillerFields, total=False):
    """The keyword arguments of :meth:`uwaga.generation.TextGenerator.load`."""

    engine: EngineName | None
    memory: MemoryMode | None
    draft: str | Path | None


class LoadFields(GeneratorFields, total=False):
    """The keyword arguments of :func:`uwaga.load`: all fields of ``LoadOptions``."""

    source: str | None
    target: str | None
    shortlist: str | Path | None
    adapter: str | Path | None


class GenerateOptions(TypedDict, total=False):
    """The keyword arguments of :meth:`uwaga.generation.TextGenerator.generate`.

    They are the fields of :class:`uwaga.search.SearchOptions` that do not need a source. None means the
    value in the model's settings.
    """

    beam: int | None
    nbest: int | None
    length_penalty: float | None
    length_formula: LengthFormula | None
    score_forced: bool | Literal["length"] | None
    early_stopping: EarlyStopping | None
    min_length: int | None
    max_length: int | None
    max_total: int | None
    min_total: int | None
    max_ratio: float | None
    max_extra: int | None
    force_end: bool | None
    no_repeat_ngram: int | None
    first: int | None
    banned: Sequence[int] | None
    unknown: bool | None
    renormalise: bool | None
    sample: bool | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    seed: int | None
    entropy: bool | None
    batch_tokens: int | None


class SearchFields(GenerateOptions, total=False):
    """The keyword arguments of :meth:`uwaga.Translator.options`: all fields of ``SearchOptions``."""

    start: int | None
    mbr: int | None
    utility: Utility | None
    attention: bool | Literal["all"] | None
    alignment: bool | None
    coverage: bool | Literal["unaligned"] | None


class RequestFields(SearchFields, total=False):
    """The keyword arguments of :meth:`uwaga.Translator.retranslate`.

    They are fields of :class:`uwaga.translator.Request` and of its ``search``. None means the default.
    """

    source: str | None
    target: str | None
    format: Format | None
    prefix: str | Iterable[str] | None
    glossary: GlossaryArgument
    glossary_mode: GlossaryMode | None
    split: Split
    placeholders: bool | Sequence[str] | None
    ignore_tags: Sequence[str] | None
    outline: XmlOutline | None
    on_error: OnError
    memory: MemoryArgument
    threshold: float | None


class TranslateOptions(RequestFields, total=False):
    """The keyword arguments of :meth:`uwaga.Translator.translate`: those of ``retranslate``, and a draft."""

    draft: str | Iterable[str] | None
    bias: float | None
    mask: int | None


class CardOptions(TypedDict, total=False):
    """The keyword arguments of :meth:`uwaga.Translator.save_pretrained`.

    They are the fields of :class:`uwaga.library.model_card.CardFields`. None means the default.
    """

    license: str | None
    datasets: Sequence[str] | None
    base_model: str | None
    tags: Sequence[str] | None
    metrics: Mapping[str, Mapping[str, float]] | None
