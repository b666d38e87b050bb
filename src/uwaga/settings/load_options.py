"""How to load a model: device, number format, threads, engine, languages and files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uwaga.errors import SettingsError, shown
from uwaga.settings.options import check_one_of, check_options, given_options, option

MAX_THREADS = 1024
DEVICE = re.compile(r"auto|cpu|cuda(:[0-9]{1,4})?", re.ASCII)
DTYPES = ("auto", "float32", "float16", "bfloat16", "int8", "int4")
"""Names of number formats."""
QUANTISED = ("int8", "int4")
"""Those of the native engine alone."""
ENGINES = ("auto", "native", "torch")
MEMORIES = ("fast", "shared")
NO_SHORTLIST = "none"
"""As a shortlist: not even the one beside the model."""
DRAFT_SHORTLIST = "shortlist"
"""As a draft: the model itself with its shortlist."""


@dataclass(frozen=True)
class LoadOptions:
    """How to load a model: where and in what it computes, its languages, and the files beside it."""

    device: str = field(default="auto", metadata=option("auto, cpu, cuda or cuda:N", section="Computation"))
    """``auto`` is a GPU if there is one, or else the CPU."""

    dtype: str = field(
        default="auto",
        metadata=option(
            "Number format to compute in: auto, float32, bfloat16, float16 (torch), or int8 or int4 "
            "(native engine)",
            section="Computation",
        ),
    )
    """``auto`` is the format of an int8 or int4 folder, and float32 for all other models."""

    threads: int = field(
        default=0,
        metadata=option("CPU threads; 0 is all cores", section="Computation", minimum=0, maximum=MAX_THREADS),
    )
    """0 is all cores that the process may use."""

    engine: str = field(
        default="auto",
        metadata=option(
            "auto, native (CPU; not BERT, ProphetNet) or torch (every model)", section="Computation"
        ),
    )
    """``auto`` is the native engine if it runs the model. The native engine gives the same bits in any batch
    and with any number of threads; torch the same tokens, in float32."""

    source: str | None = field(default=None, metadata=option("Language of the sources"))
    """Code of the language as the model names it (``en_XX``, ``eng_Latn``); None if it states or needs none,
    or if each request chooses."""

    target: str | None = field(default=None, metadata=option("Language of the translations"))

    shortlist: str | Path | None = field(
        default=None,
        metadata=option(
            "Vocabulary shortlist made by uwaga shortlist for this model; none disables it",
            section="Computation",
        ),
    )
    """A file of ``uwaga shortlist``, or Marian's: a sentence is translated with the words that the list has
    for its tokens, which is faster. None is the list beside a Marian model, ``"none"`` no list. For the
    native engine alone."""

    memory: str = field(
        default="fast",
        metadata=option(
            "fast, or shared: map the weights of an int8 or int4 folder, so that several processes share it",
            section="Computation",
        ),
    )
    """``fast`` copies the weights into memory of the process, in pages of 2 MB if the system has them.
    ``shared`` maps those of an int8 or int4 folder, so that processes share them; the file must not be
    changed while it is in use."""

    adapter: str | Path | None = field(
        default=None,
        metadata=option("Folder of a low-rank adapter, merged into the model", section="Computation"),
    )
    """The adapter names its model: without a name, that model is loaded."""

    draft: str | Path | None = field(
        default=None,
        metadata=option(
            "Faster model that drafts: greedy search checks several of its tokens in one pass, with the "
            "result of the model alone; shortlist: the model with its shortlist",
            section="Computation",
        ),
    )
    """Name of a model whose translations are drafts (M42), for the same languages. ``"shortlist"`` is the
    model itself with its shortlist, while its whole vocabulary decides; it serves few sentences at a time."""

    def __post_init__(self) -> None:
        """Check every value."""
        check_options(self)
        check_one_of("dtype", self.dtype, DTYPES)
        check_one_of("engine", self.engine, ENGINES)
        check_one_of("memory", self.memory, MEMORIES)
        if not DEVICE.fullmatch(self.device):
            raise SettingsError(f"device must be auto, cpu, cuda or cuda:N, not {shown(self.device)}")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> LoadOptions:
        """Return the options of a call, given by name; None is an option's default."""
        return cls(**given_options(cls, options, "loading"))
