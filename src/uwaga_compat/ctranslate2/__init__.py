"""CTranslate2's Python interface (version 4), implemented with uwaga's models and search.

Names, defaults and results are those of ``ctranslate2``. An unsupported option raises an error that names it;
options are ignored only if they do not affect the result.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from uwaga.checkpoints.formats.ctranslate2.folder import MODEL
from uwaga.errors import quoted
from uwaga_compat.ctranslate2.errors import ArgumentError, RunError
from uwaga_compat.ctranslate2.generator import Generator
from uwaga_compat.ctranslate2.loading import COMPUTE_TYPES
from uwaga_compat.ctranslate2.options import set_random_seed
from uwaga_compat.ctranslate2.results import (
    AsyncGenerationResult,
    AsyncScoringResult,
    AsyncTranslationResult,
    ExecutionStats,
    GenerationResult,
    GenerationStepResult,
    ScoringResult,
    TranslationResult,
)
from uwaga_compat.ctranslate2.system import (
    DataType,
    Device,
    StorageView,
    get_cuda_device_count,
    get_log_level,
    set_log_level,
)
from uwaga_compat.ctranslate2.translator import Translator

__all__ = [
    "ArgumentError",
    "AsyncGenerationResult",
    "AsyncScoringResult",
    "AsyncTranslationResult",
    "DataType",
    "Device",
    "ExecutionStats",
    "GenerationResult",
    "GenerationStepResult",
    "Generator",
    "RunError",
    "ScoringResult",
    "StorageView",
    "TranslationResult",
    "Translator",
    "contains_model",
    "get_cuda_device_count",
    "get_log_level",
    "get_supported_compute_types",
    "set_log_level",
    "set_random_seed",
]

__version__ = "4.8.5"
"""The version of CTranslate2 whose interface is implemented."""
MISSING_NAMES = {
    "Encoder": "`uwaga fill` runs BERT",
    "converters": "uwaga reads models in their original formats; `uwaga convert` writes int8 models",
    "models": "uwaga does not support speech models",
    "specs": "uwaga reads models in their original formats",
}
"""Names of CTranslate2 that uwaga does not have, with hints on what to use instead."""


def __getattr__(name: str) -> Any:
    """Raise AttributeError, with a hint if CTranslate2 has the name."""
    hint = f" ({MISSING_NAMES[name]})" if name in MISSING_NAMES else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


def contains_model(path: str | Path) -> bool:
    """Return True if a folder seems to contain a CTranslate2 model."""
    return (Path(path) / MODEL).is_file()


def get_supported_compute_types(device: str, device_index: int = 0) -> set[str]:
    """Return the supported compute types of a device, ``cpu`` or ``cuda``.

    Raises:
        ArgumentError: if there is no such device.
    """
    if device not in COMPUTE_TYPES:
        raise ArgumentError(f"device={quoted(device)}: unsupported device; use cpu or cuda")
    return set(COMPUTE_TYPES[device]) - {"auto"}
