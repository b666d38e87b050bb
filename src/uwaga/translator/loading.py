"""From a model's name to the model on its device."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from uwaga.checkpoints.hub import find_model
from uwaga.config import DecodingSettings
from uwaga.contracts import Decoder
from uwaga.decoding import SearchOptions
from uwaga.errors import MissingExtraError, SettingsError
from uwaga.text.subwords import Subwords
from uwaga.translator.scoring import Scorer

DEVICES = ("auto", "cpu", "cuda")
DTYPES = ("auto", "float32", "float16", "bfloat16")


class Parts(NamedTuple):
    """What a :class:`uwaga.translator.Translator` is made of."""

    decoder: Decoder
    source: Subwords
    target: Subwords
    decoding: DecodingSettings | SearchOptions
    languages: tuple[str, str]
    scorer: Scorer


class Place(NamedTuple):
    """A model's folder, and where and in what number format to compute."""

    folder: Path
    device: str
    dtype: Any


def prepared(name: str | Path | None, device: str, dtype: str, threads: int) -> Place:
    """Find the folder and the device that a user asks for.

    Raises:
        ModelError: there is no such folder.
        SettingsError: an impossible device, dtype or number of threads.
        MissingExtraError: torch is not installed.
    """
    if dtype not in DTYPES:
        raise SettingsError(f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 0:
        raise SettingsError(f"threads must be a whole number, 0 or more, not {threads!r}")
    folder = find_model(name)
    try:
        import torch
    except ImportError:
        raise MissingExtraError(
            f"{folder}: running this model needs torch; `pip install 'uwaga[train]'`"
        ) from None
    place = _device(device, torch.cuda.is_available(), torch.cuda.device_count())
    if threads:
        torch.set_num_threads(threads)
    return Place(folder, place, "float32" if dtype == "auto" else dtype)


def load_parts(
    name: str | Path | None,
    device: str,
    dtype: str,
    threads: int,
    source_language: str | None = None,
    target_language: str | None = None,
) -> Parts:
    """One model and its scorer; arguments and errors are those of :meth:`Translator.load`."""
    folder, place, number_format = prepared(name, device, dtype, threads)
    from uwaga.checkpoints.folder import load_model
    from uwaga.checkpoints.formats import other_format
    from uwaga.checkpoints.languages import agreed
    from uwaga.checkpoints.pretrained import is_pretrained, load_pretrained
    from uwaga.translator.teacher_forcing import parallel_scorer

    read = other_format(folder)
    if read is not None:
        found = read(folder, place, number_format)
        languages = agreed(found.languages, source_language, target_language, str(folder))
        scorer = parallel_scorer(found.model)
        return Parts(found.model, found.source, found.target, found.options, languages, scorer)
    if is_pretrained(folder):
        found = load_pretrained(folder, place, number_format, source_language, target_language)
        model, source, target = found.model, found.source, found.target
        return Parts(model, source, target, found.options, found.languages, parallel_scorer(model))
    loaded = load_model(folder, place, number_format)
    model, config = loaded.model, loaded.config
    scorer = parallel_scorer(model)
    languages = agreed(config.languages, source_language, target_language, str(folder))
    return Parts(model, loaded.source, loaded.target, config.decoding, languages, scorer)


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
