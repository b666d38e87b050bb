"""Options for loading a model: device, number format, threads, engine, languages and files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from uwaga.errors import SettingsError, quoted
from uwaga.settings.options import check_options, checked_options, option

MAX_THREADS = 1024
DEVICE_PATTERN = re.compile(r"auto|cpu|cuda(:[0-9]{1,4})?", re.ASCII)
Dtype = Literal["auto", "float32", "float16", "bfloat16", "int8", "int4"]
"""Names of number formats."""
QUANTISED_FORMATS = ("int8", "int4")
"""Number formats that only the native engine supports."""
EngineName = Literal["auto", "native", "torch"]
MemoryMode = Literal["fast", "shared"]
NO_SHORTLIST = "none"
"""Value of ``shortlist`` that disables shortlists, including the one in the model's folder."""
DRAFT_SHORTLIST = "shortlist"
"""Value of ``draft`` that makes the model itself, with its shortlist, the draft model."""


@dataclass(frozen=True)
class LoadOptions:
    """Options for loading a model."""

    device: str = field(default="auto", metadata=option("auto, cpu, cuda or cuda:N", section="Computation"))
    """``auto`` is a GPU if there is one, otherwise the CPU."""

    dtype: Dtype = field(
        default="auto",
        metadata=option(
            "Number format to compute in: auto, float32, bfloat16, float16 (torch), or int8 or int4 "
            "(native engine)",
            section="Computation",
        ),
    )
    """``auto`` is the format of an int8 or int4 folder, int4 or int8 for a GGUF file whose weights have about
    as many bits, and float32 for all other models."""

    threads: int = field(
        default=0,
        metadata=option(
            "CPU threads; 0 for all cores", section="Computation", minimum=0, maximum=MAX_THREADS
        ),
    )
    """0 for all cores that the process may use."""

    engine: EngineName = field(
        default="auto",
        metadata=option(
            "auto, native (CPU; not for BERT or ProphetNet) or torch (every model)", section="Computation"
        ),
    )
    """``auto`` is the native engine if it supports the model. The native engine gives identical bits in any
    batch and with any number of threads; torch gives identical tokens in float32."""

    source: str | None = field(default=None, metadata=option("Language of the sources"))
    """Code of the language as used by the model (``en_XX``, ``eng_Latn``); None if the model needs none, or
    if each request specifies it."""

    target: str | None = field(default=None, metadata=option("Language of the translations"))

    shortlist: str | Path | None = field(
        default=None,
        metadata=option(
            "Vocabulary shortlist made by uwaga shortlist for this model; none disables it",
            section="Computation",
        ),
    )
    """Path of a shortlist, made by ``uwaga shortlist`` or for Marian. Translation is faster with a shortlist,
    because only words that the list has for the tokens of a sentence are considered. None selects the list in
    the folder of a Marian model, ``"none"`` no list. Only the native engine supports shortlists."""

    memory: MemoryMode = field(
        default="fast",
        metadata=option(
            "fast, or shared: map the weights of an int8 or int4 folder, so that several processes "
            "share them",
            section="Computation",
        ),
    )
    """``fast`` copies the weights into the memory of the process, in pages of 2 MB if available. ``shared``
    maps the file of an int8 or int4 folder, so that processes share the weights; the file must not be changed
    while in use."""

    adapter: str | Path | None = field(
        default=None,
        metadata=option("Folder of a low-rank adapter, merged into the model", section="Computation"),
    )
    """If no model is given, the base model named in the adapter's folder is loaded."""

    draft: str | Path | None = field(
        default=None,
        metadata=option(
            "Faster model that drafts translations; greedy search verifies several draft tokens in one pass, "
            "without changing the result. shortlist: the model itself with its shortlist",
            section="Computation",
        ),
    )
    """Name of a model for the same languages, which drafts the translations (M42). ``"shortlist"`` drafts
    with the model itself and its shortlist, and verifies with the full vocabulary; it is meant for a few
    sentences at a time."""

    def __post_init__(self) -> None:
        """Check all values."""
        check_options(self)
        if not DEVICE_PATTERN.fullmatch(self.device):
            raise SettingsError(f"device must be auto, cpu, cuda or cuda:N, not {quoted(self.device)}")

    @classmethod
    def from_mapping(cls, options: Mapping[str, Any]) -> LoadOptions:
        """Create options from their values by name; a value of None stands for the default."""
        return cls(**checked_options(cls, options, "loading"))
