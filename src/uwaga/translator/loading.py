"""From a model's name to the model on its device."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from uwaga.checkpoints.hub import find_model
from uwaga.checkpoints.languages import resolve_languages
from uwaga.checkpoints.uwaga.schema import CONFIG
from uwaga.contracts import Decoder
from uwaga.decoding import SearchOptions, from_settings
from uwaga.errors import MissingExtraError, ModelError, SettingsError
from uwaga.text.options import TextOptions
from uwaga.text.subwords import Subwords
from uwaga.translator.native import (
    check_translates,
    continues,
    is_int8,
    is_native,
    is_own,
    is_translator,
    load_native,
)
from uwaga.translator.scoring import Scorer, step_scorer

DEVICES = ("auto", "cpu", "cuda")
DTYPES = ("auto", "float32", "float16", "bfloat16", "int8")
ENGINES = ("auto", "native", "torch")
GPUS = ("/dev/nvidia0", "/dev/kfd", "/dev/dxg")
"""Device files of which there is one where torch may find a GPU."""


class LoadedTranslator(NamedTuple):
    """What a :class:`uwaga.translator.Translator` is made of."""

    decoder: Decoder
    source: Subwords
    target: Subwords
    decoding: SearchOptions
    languages: tuple[str, str]
    scorer: Scorer
    text: TextOptions = TextOptions()


class TorchTarget(NamedTuple):
    """A model's folder, and where and in what number format torch is to compute."""

    folder: Path
    device: str
    dtype: Any


class LoadOptions(NamedTuple):
    """What a user asks for, as :meth:`Translator.load` has it."""

    device: str = "auto"
    dtype: str = "auto"
    threads: int = 0
    engine: str = "auto"
    source_language: str | None = None
    target_language: str | None = None
    shortlist: str | Path | None = None

    def check(self) -> None:
        """Refuse what no model can be asked for.

        Raises:
            SettingsError: names the value and those there are.
        """
        for what, value, allowed in (("dtype", self.dtype, DTYPES), ("engine", self.engine, ENGINES)):
            if value not in allowed:
                raise SettingsError(f"{what} must be one of {', '.join(allowed)}, not {value!r}")
        if isinstance(self.threads, bool) or not isinstance(self.threads, int) or self.threads < 0:
            raise SettingsError(f"threads must be a whole number, 0 or more, not {self.threads!r}")


def prepared(name: str | Path | None, device: str, dtype: str, threads: int) -> TorchTarget:
    """Find the folder and the device for a model that torch is to run.

    Raises:
        ModelError: there is no such folder.
        SettingsError: an impossible device, dtype or number of threads.
        MissingExtraError: torch is not installed.
    """
    LoadOptions(device, dtype, threads).check()
    folder = find_model(name)
    torch = _need_torch(folder)
    if dtype == "int8" or is_int8(folder):
        raise SettingsError(
            "int8 is the native engine's: leave the engine at auto and the device at auto or cpu"
        )
    place = _device(device, torch.cuda.is_available(), torch.cuda.device_count())
    if threads:
        torch.set_num_threads(threads)
    return TorchTarget(folder, place, "float32" if dtype == "auto" else dtype)


def load_translator(name: str | Path | None, wanted: LoadOptions) -> LoadedTranslator:
    """One model and its scorer; errors are those of :meth:`Translator.load`."""
    wanted.check()
    folder = find_model(name)
    check_translates(folder)
    if not _natively(folder, wanted):
        if wanted.shortlist is not None:
            raise SettingsError("the engine torch takes no shortlist: leave out one of the two")
        return _torch_parts(folder, wanted)
    parts = _native_parts(folder, wanted)
    return parts if wanted.shortlist is None else _limited(parts, Path(wanted.shortlist))


def load_generator(name: str | Path, wanted: LoadOptions) -> tuple[Decoder, Subwords, SearchOptions]:
    """A decoder-only model, its tokeniser and its decoding settings.

    Raises:
        ModelError, SettingsError, MissingExtraError: as :meth:`uwaga.translator.TextGenerator.load`.
    """
    wanted.check()
    folder = find_model(name)
    if is_translator(folder):
        raise ModelError(f"{folder / CONFIG}: a translator, which uwaga.Translator and `uwaga translate` run")
    if continues(folder) and _natively(folder, wanted):
        loaded = load_native(folder, _precision(wanted), wanted.threads)
        return loaded.model, loaded.target, loaded.decoding
    place = prepared(folder, wanted.device, wanted.dtype, wanted.threads)
    from uwaga.checkpoints.huggingface.registry import load_decoder

    found = load_decoder(place.folder, place.device, place.dtype)
    return found.model, found.target, found.options


def _natively(folder: Path, wanted: LoadOptions) -> bool:
    """Whether the native engine is to run a model.

    Raises:
        SettingsError: it is asked for, or for what it alone does, together with what it does not do.
    """
    if wanted.engine == "torch" or (wanted.engine == "auto" and not _runs_natively(folder, wanted)):
        return False
    if wanted.device not in ("auto", "cpu") or wanted.dtype == "float16":
        what = f"dtype {wanted.dtype}" if wanted.dtype == "float16" else f"device {wanted.device!r}"
        raise SettingsError(f"the native engine runs on the CPU in float32, bfloat16 or int8, not {what}")
    return True


def _precision(wanted: LoadOptions) -> Any:
    return None if wanted.dtype == "auto" else wanted.dtype


def _limited(parts: LoadedTranslator, path: Path) -> LoadedTranslator:
    from uwaga.translator.shortlisting import limited

    decoder = limited(parts.decoder, parts.source, parts.target, path)
    return parts._replace(decoder=decoder, scorer=step_scorer(decoder))


def _runs_natively(folder: Path, wanted: LoadOptions) -> bool:
    """Whether the native engine is what this model runs on unless told otherwise."""
    if wanted.dtype == "int8" or is_int8(folder) or wanted.shortlist is not None:
        return wanted.device in ("auto", "cpu")
    if wanted.dtype == "float16" or wanted.device not in ("auto", "cpu"):
        return False
    return is_native(folder) and not (wanted.device == "auto" and _has_gpu())


def _native_parts(folder: Path, wanted: LoadOptions) -> LoadedTranslator:
    languages = (wanted.source_language, wanted.target_language)
    found = load_native(folder, _precision(wanted), wanted.threads, *languages)
    scorer = step_scorer(found.model)
    return LoadedTranslator(
        found.model, found.source, found.target, found.decoding, found.languages, scorer, found.text
    )


def _torch_parts(folder: Path, wanted: LoadOptions) -> LoadedTranslator:
    folder, place, number_format = prepared(folder, wanted.device, wanted.dtype, wanted.threads)
    from uwaga.translator.parallel_scoring import parallel_scorer

    if not is_own(folder):
        from uwaga.checkpoints.formats import load_foreign

        languages = (wanted.source_language, wanted.target_language)
        found = load_foreign(folder, place, number_format, *languages)
        scorer = parallel_scorer(found.model)
        return LoadedTranslator(
            found.model, found.source, found.target, found.options, found.languages, scorer
        )
    from uwaga.checkpoints.uwaga.folder import load_model

    loaded = load_model(folder, place, number_format)
    model, config = loaded.model, loaded.config
    pair = resolve_languages(config.languages, wanted.source_language, wanted.target_language, str(folder))
    decoding, text = from_settings(config.decoding)
    return LoadedTranslator(model, loaded.source, loaded.target, decoding, pair, parallel_scorer(model), text)


def _need_torch(folder: Path) -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtraError(
            f"{folder}: running this model needs torch; `pip install 'uwaga[train]'`"
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
