"""From a model's name to the model on its device."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from uwaga.checkpoints.hub import find_model
from uwaga.config import DecodingSettings
from uwaga.contracts import Decoder
from uwaga.decoding import SearchOptions
from uwaga.errors import MissingExtraError, SettingsError
from uwaga.text.subwords import Subwords
from uwaga.translator.native import is_int8, is_native, load_native
from uwaga.translator.scoring import Scorer, step_scorer

DEVICES = ("auto", "cpu", "cuda")
DTYPES = ("auto", "float32", "float16", "bfloat16", "int8")
ENGINES = ("auto", "native", "torch")
GPUS = ("/dev/nvidia0", "/dev/kfd", "/dev/dxg")
"""Device files of which there is one where torch may find a GPU."""


class Parts(NamedTuple):
    """What a :class:`uwaga.translator.Translator` is made of."""

    decoder: Decoder
    source: Subwords
    target: Subwords
    decoding: DecodingSettings | SearchOptions
    languages: tuple[str, str]
    scorer: Scorer


def load_parts(name: str | Path | None, device: str, dtype: str, threads: int, engine: str = "auto") -> Parts:
    """One model and its scorer; arguments and errors are those of :meth:`Translator.load`."""
    for what, value, allowed in (("dtype", dtype, DTYPES), ("engine", engine, ENGINES)):
        if value not in allowed:
            raise SettingsError(f"{what} must be one of {', '.join(allowed)}, not {value!r}")
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 0:
        raise SettingsError(f"threads must be a whole number, 0 or more, not {threads!r}")
    folder = find_model(name)
    if engine == "torch" or (engine == "auto" and not _runs_natively(folder, device, dtype)):
        return _torch_parts(folder, device, dtype, threads)
    if device not in ("auto", "cpu") or dtype == "float16":
        what = f"dtype {dtype}" if dtype == "float16" else f"device {device!r}"
        raise SettingsError(f"the native engine runs on the CPU in float32, bfloat16 or int8, not {what}")
    return _native_parts(folder, dtype, threads)


def _runs_natively(folder: Path, device: str, dtype: str) -> bool:
    """Whether the native engine is what this model runs on unless told otherwise."""
    if dtype == "int8" or is_int8(folder):
        return device in ("auto", "cpu")
    if dtype == "float16" or not (device == "cpu" or (device == "auto" and not _has_gpu())):
        return False
    return is_native(folder)


def _native_parts(folder: Path, dtype: str, threads: int) -> Parts:
    precision: Any = None if dtype == "auto" else dtype
    found = load_native(folder, precision, threads)
    scorer = step_scorer(found.model)
    return Parts(found.model, found.source, found.target, found.decoding, found.languages, scorer)


def _torch_parts(folder: Path, device: str, dtype: str, threads: int) -> Parts:
    torch = _need_torch(folder)
    from uwaga.checkpoints.folder import load_model
    from uwaga.checkpoints.pretrained import is_pretrained, load_pretrained
    from uwaga.translator.teacher_forcing import parallel_scorer

    if dtype == "int8" or is_int8(folder):
        raise SettingsError(
            "int8 is the native engine's: leave the engine at auto and the device at auto or cpu"
        )
    place = _device(device, torch.cuda.is_available(), torch.cuda.device_count())
    if threads:
        torch.set_num_threads(threads)
    number_format: Any = "float32" if dtype == "auto" else dtype
    if is_pretrained(folder):
        found = load_pretrained(folder, place, number_format)
        model, source, target = found.model, found.source, found.target
        return Parts(model, source, target, found.options, found.languages, parallel_scorer(model))
    loaded = load_model(folder, place, number_format)
    model, config = loaded.model, loaded.config
    scorer = parallel_scorer(model)
    return Parts(model, loaded.source, loaded.target, config.decoding, config.languages, scorer)


def _need_torch(folder: Path) -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtraError(
            f"{folder}: translating with this model needs torch; `pip install 'uwaga[train]'`"
        ) from None
    return torch


def _has_gpu() -> bool:
    """Whether torch has a GPU here. It takes a second to import: it is asked only if there may be one."""
    if not any(os.path.exists(place) for place in GPUS):  # noqa: PTH110
        return False
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def _device(device: str, has_gpu: bool, gpus: int) -> str:
    """The device that ``device`` means on this machine."""
    kind, _, index = device.partition(":")
    if kind not in DEVICES or (index and (kind != "cuda" or not index.isdecimal())):
        raise SettingsError(f"device must be auto, cpu, cuda or cuda:N, not {device!r}")
    if kind == "auto":
        return "cuda" if has_gpu else "cpu"
    if kind == "cuda" and (not has_gpu or int(index or 0) >= gpus):
        usable = gpus if has_gpu else 0
        raise SettingsError(f"device {device!r}: this machine has {usable} usable GPUs; use cpu")
    return device
