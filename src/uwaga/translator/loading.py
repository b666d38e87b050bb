"""From a model's name to the model on its device."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.checkpoint import KINDS, Checkpoint, Task
from uwaga.checkpoints.to_engine import runs_on_engine, to_engine
from uwaga.decoder import Decoder
from uwaga.engine import NativeModel, trim_heap
from uwaga.engine.model import MAX_THREADS
from uwaga.errors import MissingExtraError, ModelError, SettingsError, shown
from uwaga.library.hub import find_model
from uwaga.search import SearchOptions
from uwaga.settings.options import check_one_of, check_whole, check_word
from uwaga.tokenizers.framed import FramedTokeniser
from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.model import Model
from uwaga.translator.scoring import step_scorer

if TYPE_CHECKING:
    from uwaga.models.base import Seq2Seq
    from uwaga.models.masked import MaskedEncoder

DEVICE = re.compile(r"auto|cpu|cuda(:[0-9]{1,4})?", re.ASCII)
DTYPES = ("auto", "float32", "float16", "bfloat16", "int8")
ENGINES = ("auto", "native", "torch")
MEMORIES = ("fast", "shared")
NO_SHORTLIST = "none"
"""As a shortlist: not even the one that lies beside the model."""
LISTED_TOKENS, SHARED_LISTED_TOKENS = 500, 1500
"""Source tokens decoded together with a shortlist, by one thread and by several (measured)."""
GPUS = ("/dev/nvidia0", "/dev/kfd", "/dev/dxg")
"""Device files of which there is one where torch may find a GPU."""

Named = TypeVar("Named")
Name = str | Path | None | Checkpoint
"""What a user calls a model, or a model that has been read already."""


class LoadOptions(NamedTuple):
    """What a user asks for, as :meth:`Translator.load` has it."""

    device: str = "auto"
    dtype: str = "auto"
    threads: int = 0
    engine: str = "auto"
    source_language: str | None = None
    target_language: str | None = None
    shortlist: str | Path | None = None
    memory: str = "fast"
    adapter: str | Path | None = None

    def check(self) -> None:
        """Refuse what no model can be asked for.

        Raises:
            SettingsError: names the value and those there are.
        """
        check_one_of("dtype", self.dtype, DTYPES)
        check_one_of("engine", self.engine, ENGINES)
        check_one_of("memory", self.memory, MEMORIES)
        check_whole("threads", self.threads, 0, MAX_THREADS)
        if not isinstance(self.device, str) or not DEVICE.fullmatch(self.device):
            raise SettingsError(f"device must be auto, cpu, cuda or cuda:N, not {shown(self.device)}")
        check_word("source_language", self.source_language, "the code of a language, such as 'en'")
        check_word("target_language", self.target_language, "the code of a language, such as 'en'")
        if self.shortlist is not None and not isinstance(self.shortlist, (str, Path)):
            raise SettingsError(
                f"shortlist must be the path of a file, or {NO_SHORTLIST!r}, not {shown(self.shortlist)}"
            )
        if self.adapter is not None and not isinstance(self.adapter, (str, Path)):
            raise SettingsError(f"adapter must be the path of a folder, not {shown(self.adapter)}")


def model_names(names: Iterable[str | Path]) -> list[str]:
    """The names of the models of an ensemble.

    Raises:
        SettingsError: it is not a sequence of names.
    """
    found = (
        list(names) if isinstance(names, Iterable) and not isinstance(names, (bytes, Mapping)) else [names]
    )
    for name in found:
        if not isinstance(name, (str, Path)):
            raise SettingsError(
                f"name must be a model folder, a name, or several of them, not {shown(names)}"
            )
    return [str(name) for name in found]


def named_by(adapter: str | Path | None, name: Named) -> Named | str:
    """The model that is named, or without a name the one that an adapter says it belongs to.

    Raises:
        ModelError: the adapter is damaged, or none.
    """
    if adapter is None or name is not None:
        return name
    from uwaga.checkpoints.adapter import read_adapter

    return read_adapter(adapter).base


def read_model(
    name: Name, task: Task | None = None, memory: str = "fast", adapter: str | Path | None = None
) -> Checkpoint:
    """The model of a name, read and checked, nothing of it in memory yet.

    Args:
        name: as in :func:`uwaga.library.hub.find_model`.
        task: what the model must be for, None for anything.
        memory: as :meth:`Translator.load` has it.
        adapter: likewise; a model that has been read already has its own.

    Raises:
        ModelError: there is no such model, it is damaged, or it is for another task; or the adapter is
            damaged or another model's.
        SettingsError: ``name`` is neither a name nor a path, or the model's weights cannot be shared.
    """
    if name is not None and not isinstance(name, (str, Path, Checkpoint)):
        raise SettingsError(f"name must be a model folder or a name, not {shown(name)}")
    if isinstance(name, Checkpoint):
        checkpoint = name
    else:
        checkpoint = formats.read(find_model(named_by(adapter, name)), memory == "shared")
        if adapter is not None:
            from uwaga.checkpoints.adapter import adapted, read_adapter

            checkpoint = adapted(checkpoint, read_adapter(adapter))
    if task is not None and checkpoint.task != task:
        kind, runner = KINDS[checkpoint.task]
        what = f"the family {checkpoint.family!r}" if checkpoint.packed is None else "this int8 model"
        raise ModelError(f"{checkpoint.place}: {what} is {kind}, which {runner} run")
    return checkpoint


def load_translator(name: Name, wanted: LoadOptions) -> Model:
    """One model and its scorer; errors are those of :meth:`Translator.load`."""
    wanted.check()
    checkpoint = read_model(name, "translate", wanted.memory, wanted.adapter)
    languages = checkpoint.languages.chosen(wanted.source_language, wanted.target_language)
    stated = languages.stated
    if not languages.needs():  # or else each call chooses
        direction = languages.direction()
        checkpoint, stated = checkpoint.towards(direction), direction.languages
    if _natively(checkpoint, wanted):
        decoder: Decoder = _native(checkpoint, wanted)
        scorer = step_scorer(decoder)
        trim_heap()  # reading leaves some MB of holes
    elif wanted.shortlist is not None and str(wanted.shortlist) != NO_SHORTLIST:
        raise SettingsError("the engine torch takes no shortlist: leave out one of the two")
    else:
        from uwaga.translator.parallel_scoring import parallel_scorer

        model = cast("Seq2Seq", _on_torch(checkpoint, wanted))
        decoder, scorer = model, parallel_scorer(model)
    return Model(
        decoder,
        checkpoint.source,
        checkpoint.target,
        _batched(checkpoint.decoding, decoder),
        stated,
        scorer,
        checkpoint.text,
        languages,
        checkpoint.usual,
        checkpoint.alignment_head,
    )


def _batched(options: SearchOptions, decoder: Decoder) -> SearchOptions:
    """The options with batches that suffice with a shortlist: larger ones take more memory for nothing."""
    if not isinstance(decoder, NativeModel) or decoder.shortlist is None:
        return options
    most = LISTED_TOKENS if decoder.threads == 1 else SHARED_LISTED_TOKENS
    return replace(options, batch_tokens=min(options.batch_tokens, most))


def load_generator(name: Name, wanted: LoadOptions) -> tuple[Decoder, Subwords, SearchOptions]:
    """A decoder-only model, its tokeniser and its decoding settings.

    Raises:
        ModelError, SettingsError, MissingExtraError: as :meth:`uwaga.translator.TextGenerator.load`.
    """
    wanted.check()
    checkpoint = read_model(name, "generate", wanted.memory)
    decoder: Decoder
    if _natively(checkpoint, wanted):
        decoder = _native(checkpoint, wanted)
    else:
        decoder = cast("Seq2Seq", _on_torch(checkpoint, wanted))
    return decoder, checkpoint.target, checkpoint.decoding


def load_filler(name: Name, wanted: LoadOptions) -> tuple[MaskedEncoder, FramedTokeniser]:
    """An encoder-only model and its tokeniser.

    Raises:
        ModelError, SettingsError, MissingExtraError: as :meth:`uwaga.translator.MaskFiller.load`.
    """
    wanted.check()
    checkpoint = read_model(name, "fill", wanted.memory)
    assert isinstance(checkpoint.source, FramedTokeniser)
    return cast("MaskedEncoder", _on_torch(checkpoint, wanted)), checkpoint.source


def _natively(checkpoint: Checkpoint, wanted: LoadOptions) -> bool:
    """Whether the native engine is to run a model.

    Raises:
        SettingsError: it is asked for, or for what it alone does, together with what it does not do.
    """
    if wanted.engine == "torch" or (wanted.engine == "auto" and not _runs_natively(checkpoint, wanted)):
        return False
    if wanted.device not in ("auto", "cpu") or wanted.dtype == "float16":
        what = f"dtype {wanted.dtype}" if wanted.dtype == "float16" else f"device {wanted.device!r}"
        raise SettingsError(f"the native engine runs on the CPU in float32, bfloat16 or int8, not {what}")
    return True


def _runs_natively(checkpoint: Checkpoint, wanted: LoadOptions) -> bool:
    """Whether the native engine is what this model runs on unless told otherwise."""
    if wanted.dtype == "int8" or checkpoint.packed is not None or wanted.shortlist is not None:
        return wanted.device in ("auto", "cpu")
    if wanted.dtype == "float16" or wanted.device not in ("auto", "cpu"):
        return False
    return runs_on_engine(checkpoint) and not (wanted.device == "auto" and _has_gpu())


def _native(checkpoint: Checkpoint, wanted: LoadOptions) -> Decoder:
    precision: Any = None if wanted.dtype == "auto" else wanted.dtype
    engine = to_engine(checkpoint, precision, wanted.threads)
    if str(wanted.shortlist) == NO_SHORTLIST:
        return engine
    if wanted.shortlist is None:
        return engine if checkpoint.shortlist is None else engine.with_shortlist(checkpoint.shortlist())
    from uwaga.translator.shortlisting import limited

    return limited(engine, checkpoint.source, checkpoint.target, Path(wanted.shortlist))


def _on_torch(checkpoint: Checkpoint, wanted: LoadOptions) -> Seq2Seq | MaskedEncoder:
    """The model in torch, on the device that is asked for.

    Raises:
        SettingsError: an impossible device, or int8.
        MissingExtraError: torch is not installed.
    """
    try:
        import torch
    except ImportError:
        raise MissingExtraError(
            f"{checkpoint.place}: running this model needs torch; `pip install 'uwaga[train]'`"
        ) from None
    if wanted.dtype == "int8" or checkpoint.packed is not None:
        raise SettingsError(
            "int8 is the native engine's: leave the engine at auto and the device at auto or cpu"
        )
    device = _device(wanted.device, torch.cuda.is_available(), torch.cuda.device_count())
    from uwaga.checkpoints.to_torch import to_torch

    dtype: Any = "float32" if wanted.dtype == "auto" else wanted.dtype
    model = to_torch(checkpoint, device, dtype)
    if wanted.threads:
        from uwaga.translator.torch_threads import with_threads

        with_threads(model, wanted.threads)
    return model


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
    if kind == "auto":
        return "cuda" if has_gpu else "cpu"
    if kind == "cuda" and (not has_gpu or int(index or 0) >= gpus):
        usable = gpus if has_gpu else 0
        raise SettingsError(f"device {device!r}: this machine has {usable} usable GPUs; use cpu")
    return device
