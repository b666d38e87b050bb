"""Loading of models by name, onto a device."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar, cast

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.checkpoint import MODEL_KINDS, Checkpoint, Task
from uwaga.checkpoints.languages import Languages
from uwaga.checkpoints.to_engine import runs_on_engine, to_engine
from uwaga.decoder import Decoder
from uwaga.engine import NativeModel, trim_heap
from uwaga.errors import MissingExtraError, ModelError, SettingsError, quoted
from uwaga.library.hub import find_model
from uwaga.search import SearchOptions
from uwaga.settings.load_options import DRAFT_SHORTLIST, NO_SHORTLIST, QUANTISED_FORMATS, LoadOptions
from uwaga.settings.text_options import TextOptions
from uwaga.tokenizers.framed import FramedTokeniser
from uwaga.tokenizers.prompt_tokeniser import PromptTokeniser
from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.model import Model

if TYPE_CHECKING:
    from torch.nn import Module

    from uwaga.models.base import Seq2Seq
    from uwaga.models.masked import MaskedEncoder
    from uwaga.tokenizers.chat_template import ChatTemplate

SHORTLIST_BATCH_TOKENS, THREADED_SHORTLIST_BATCH_TOKENS = 500, 1500
"""Maximum number of source tokens in a batch with a shortlist, for one and for several threads (measured)."""
GPU_DEVICES = ("/dev/nvidia0", "/dev/kfd", "/dev/dxg")
"""Device files of which at least one exists if torch may find a GPU."""

Named = TypeVar("Named")
Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")
LIMITED_METHODS = ("encode", "start", "step", "_verify", "features", "logits", "forward")
"""The methods of torch models whose number of threads is limited."""
ModelArgument = str | Path | None | Checkpoint
"""The name or folder of a model, None for the bundled model, or a model whose files have been read."""


def model_names(names: Iterable[str | Path]) -> list[str]:
    """Return the names of the models of an ensemble, after checking their types."""
    name_list = (
        list(names) if isinstance(names, Iterable) and not isinstance(names, (bytes, Mapping)) else [names]
    )
    for name in name_list:
        if not isinstance(name, (str, Path)):
            raise SettingsError(
                f"name must be a model folder, a model name, or several of these, not {quoted(names)}"
            )
    return [str(name) for name in name_list]


def adapter_base(adapter: str | Path | None, name: Named) -> Named | str:
    """Return ``name`` or, if it is None, the name of the base model of an adapter."""
    if adapter is None or name is not None:
        return name
    from uwaga.checkpoints.adapter import read_adapter

    return read_adapter(adapter).base


def read_model(
    name: ModelArgument, task: Task | None = None, memory: str = "fast", adapter: str | Path | None = None
) -> Checkpoint:
    """Read and check a model's files, without loading its weights.

    Args:
        name: see :func:`uwaga.library.hub.find_model`.
        task: the task that the model must have; None for any task.
        memory: see :meth:`Translator.load`.
        adapter: see :meth:`Translator.load`; ignored for a checkpoint, which already includes its adapter.
    """
    if name is not None and not isinstance(name, (str, Path, Checkpoint)):
        raise SettingsError(f"name must be a model folder or a model name, not {quoted(name)}")
    if isinstance(name, Checkpoint):
        checkpoint = name
    else:
        checkpoint = formats.read(find_model(adapter_base(adapter, name)), memory == "shared")
        if adapter is not None:
            from uwaga.checkpoints.adapter import apply_adapter, read_adapter

            checkpoint = apply_adapter(checkpoint, read_adapter(adapter))
    if task is not None:
        check_task(checkpoint, task)
    return checkpoint


def check_task(checkpoint: Checkpoint, task: Task) -> None:
    """Raise ModelError if a model does not have the given task."""
    if checkpoint.task == task or (task == "translate" and isinstance(checkpoint.source, PromptTokeniser)):
        return
    kind, runner = MODEL_KINDS[checkpoint.task]
    packed = checkpoint.packed
    description = f"the family {checkpoint.family!r}" if packed is None else f"this {packed.precision} model"
    raise ModelError(f"{checkpoint.path}: {description} is {kind}, which {runner} run")


def with_prompt(checkpoint: Checkpoint) -> Checkpoint:
    """Turn a language model into a model that translates with a prompt; return other models unchanged.

    The model translates whole lines greedily. A target ends at the end of the assistant's message or, without
    a chat template, at the end of its line.
    """
    tokeniser = checkpoint.source
    if checkpoint.task != "generate" or not isinstance(tokeniser, FramedTokeniser):
        return checkpoint
    from uwaga.tokenizers.prompt import BASE_PROMPT, find_prompt

    prompt = find_prompt(BASE_PROMPT if checkpoint.chat is None else checkpoint.chat.family)
    source = PromptTokeniser(tokeniser, checkpoint.chat, prompt, origin := str(checkpoint.path))
    symbols = source.target_symbols()
    target = replace(tokeniser, prefix=(), suffix=(source.end,), symbols=symbols, stop=prompt.stop)
    return replace(
        checkpoint,
        source=source,
        target=target,
        symbols=symbols,
        languages=Languages(source, target, card=checkpoint.card, location=origin),
        decoding=SearchOptions(beam=1, max_length=None),
        text=TextOptions(),
    )


def load_named(name: str | Path | Sequence[str | Path] | None, options: LoadOptions) -> Model:
    """Load one model or an ensemble; see :meth:`Translator.load` for errors."""
    if name is None or isinstance(name, (str, Path)):
        return load_model(name, options)
    names = model_names(name)
    if len(names) < 2:
        return load_model(names[0] if names else None, options)
    return _load_ensemble(names, options)


def _load_ensemble(names: Sequence[str], options: LoadOptions) -> Model:
    from uwaga.models.ensemble import Ensemble

    members: list[Model] = []
    for name in names:
        members.append(load_model(name, replace(options, draft=None)))
        first_member, last_member = members[0], members[-1]
        for side, tokeniser, first_tokeniser in (
            ("source", last_member.source, first_member.source),
            ("target", last_member.target, first_member.target),
        ):
            if tokeniser.model_bytes != first_tokeniser.model_bytes:
                raise SettingsError(
                    f"{name}: its {side} tokeniser differs from that of {names[0]}; "
                    "the models of an ensemble must share their vocabularies"
                )
    ensemble = Ensemble([member.decoder for member in members], names)
    return with_draft(members[0].with_decoder(ensemble), options)


def load_model(name: ModelArgument, options: LoadOptions) -> Model:
    """Load one translation model with its scorer and drafter; see :meth:`Translator.load` for errors."""
    if str(options.draft) != DRAFT_SHORTLIST:
        return with_draft(_load_translation_model(name, options), options)
    shortlisted_model = _load_translation_model(name, replace(options, draft=None))
    if not isinstance(shortlisted_model.decoder, NativeModel) or shortlisted_model.decoder.shortlist is None:
        raise SettingsError(
            "draft 'shortlist' needs the native engine and a shortlist: give a shortlist file, or choose "
            "another draft model or none"
        )
    from uwaga.translator.drafters import ShortlistDrafter

    complete_model = replace(
        shortlisted_model, decoder=shortlisted_model.decoder.without_shortlist(), scorer=None
    )
    return complete_model.with_drafter(ShortlistDrafter(shortlisted_model.decoder))


def with_draft(model: Model, options: LoadOptions) -> Model:
    """Return a model with the draft model that the options name; unchanged if they name no draft model."""
    if options.draft is None:
        return model
    if str(options.draft) == DRAFT_SHORTLIST:
        raise SettingsError(
            "draft 'shortlist' needs a single model on the native engine: choose another draft model or none"
        )
    from uwaga.translator.drafters import make_drafter

    draft_options = LoadOptions(
        device=options.device, threads=options.threads, engine=options.engine, memory=options.memory
    )
    return model.with_drafter(make_drafter(model, _load_translation_model(options.draft, draft_options)))


def _load_translation_model(name: ModelArgument, options: LoadOptions) -> Model:
    """Load one translation model with its scorer; see :meth:`Translator.load` for errors."""
    checkpoint = with_prompt(read_model(name, None, options.memory, options.adapter))
    check_task(checkpoint, "translate")
    languages = checkpoint.languages.with_default(options.source, options.target)
    pair = languages.stated
    if not languages.requires_language():  # otherwise, each call chooses the languages
        direction = languages.direction()
        checkpoint, pair = checkpoint.for_direction(direction), direction.languages
    if _uses_native(checkpoint, options):
        decoder: Decoder = _load_native(checkpoint, options)
        scorer = None  # scores are computed step by step
    elif options.shortlist is not None and str(options.shortlist) != NO_SHORTLIST:
        raise SettingsError("the engine torch takes no shortlist: leave out the engine or the shortlist")
    else:
        from uwaga.translator.score import parallel_scorer

        model = cast("Seq2Seq", _load_on_torch(checkpoint, options))
        decoder, scorer = model, parallel_scorer(model)
    return Model(
        decoder,
        source=checkpoint.source,
        target=checkpoint.target,
        decoding=_limit_batches(checkpoint.decoding, decoder),
        languages=pair,
        scorer=scorer,
        text=checkpoint.text,
        known=languages,
        score_stats=checkpoint.score_stats,
        alignment_head=checkpoint.alignment_head,
        path=None if options.adapter is not None else checkpoint.path,
    )


def _limit_batches(options: SearchOptions, decoder: Decoder) -> SearchOptions:
    """Return options with smaller batches if a model has a shortlist: larger batches would waste memory."""
    if not isinstance(decoder, NativeModel) or decoder.shortlist is None:
        return options
    max_tokens = SHORTLIST_BATCH_TOKENS if decoder.threads == 1 else THREADED_SHORTLIST_BATCH_TOKENS
    return replace(options, batch_tokens=min(options.batch_tokens, max_tokens))


class LoadedGenerator(NamedTuple):
    """A decoder-only model; the fields are those of :class:`uwaga.generation.TextGenerator`."""

    decoder: Decoder
    tokeniser: Subwords
    decoding: SearchOptions
    chat: ChatTemplate | None
    drafter: Decoder | None = None


def load_generator(name: ModelArgument, options: LoadOptions) -> LoadedGenerator:
    """Load a decoder-only model and, if the options name one, its draft model.

    With a draft model, search is greedy by default.
    """
    checkpoint = read_model(name, "generate", options.memory)
    decoder: Decoder
    if _uses_native(checkpoint, options):
        decoder = _load_native(checkpoint, options)
    else:
        decoder = cast("Seq2Seq", _load_on_torch(checkpoint, options))
    generator = LoadedGenerator(decoder, checkpoint.target, checkpoint.decoding, checkpoint.chat)
    if options.draft is None:
        return generator
    from uwaga.translator.drafters import have_same_vocabulary

    draft = load_generator(options.draft, replace(options, draft=None, dtype="auto"))
    if not have_same_vocabulary(generator.decoder, generator.tokeniser, draft.decoder, draft.tokeniser):
        raise SettingsError(
            f"the draft model {options.draft} does not have the vocabulary of {name}: to continue texts, "
            "choose a draft model with the same vocabulary"
        )
    greedy = replace(generator.decoding, beam=1, nbest=1, sample=False)
    return generator._replace(decoding=greedy, drafter=draft.decoder)


def load_filler(name: ModelArgument, options: LoadOptions) -> tuple[MaskedEncoder, FramedTokeniser]:
    """Load an encoder-only model with its tokeniser."""
    checkpoint = read_model(name, "fill", options.memory)
    assert isinstance(checkpoint.source, FramedTokeniser)
    return cast("MaskedEncoder", _load_on_torch(checkpoint, options)), checkpoint.source


def _uses_native(checkpoint: Checkpoint, options: LoadOptions) -> bool:
    """Return True if the native engine will run a model."""
    if options.engine == "torch" or (options.engine == "auto" and not _prefers_native(checkpoint, options)):
        return False
    if options.device not in ("auto", "cpu") or options.dtype == "float16":
        description = f"dtype {options.dtype}" if options.dtype == "float16" else f"device {options.device!r}"
        raise SettingsError(
            f"the native engine runs on the CPU in float32, bfloat16, int8 or int4, not {description}"
        )
    return True


def _prefers_native(checkpoint: Checkpoint, options: LoadOptions) -> bool:
    """Return True if ``engine="auto"`` selects the native engine for a model."""
    if options.dtype in QUANTISED_FORMATS or checkpoint.packed is not None or options.shortlist is not None:
        return options.device in ("auto", "cpu")
    if options.dtype == "float16" or options.device not in ("auto", "cpu"):
        return False
    return runs_on_engine(checkpoint) and not (options.device == "auto" and has_gpu())


def _load_native(checkpoint: Checkpoint, options: LoadOptions) -> Decoder:
    precision: Any = None if options.dtype == "auto" else options.dtype
    engine = to_engine(checkpoint, precision, options.threads)
    trim_heap()  # reading a model leaves some MB of unused memory in the heap
    if str(options.shortlist) == NO_SHORTLIST:
        return engine
    if options.shortlist is None:
        return engine if checkpoint.shortlist is None else engine.with_shortlist(checkpoint.shortlist())
    return with_shortlist_file(engine, checkpoint.source, checkpoint.target, Path(options.shortlist))


def with_shortlist_file(decoder: Decoder, source: Subwords, target: Subwords, path: Path) -> NativeModel:
    """Return a native model that is limited to the shortlist of a file."""
    from uwaga.checkpoints.formats.uwaga.shortlist import read_shortlist

    model = require_native(decoder)
    shortlist = read_shortlist(path, source, target, model.source_vocabulary, model.vocabulary)
    return model.with_shortlist(shortlist)


def require_native(decoder: Decoder) -> NativeModel:
    """Return a decoder if it runs on the native engine; otherwise raise SettingsError."""
    if not isinstance(decoder, NativeModel):
        raise SettingsError(
            "a shortlist needs the native engine, but this model runs on torch: leave out the shortlist, or "
            "leave out engine and device"
        )
    return decoder


def _load_on_torch(checkpoint: Checkpoint, options: LoadOptions) -> Seq2Seq | MaskedEncoder:
    """Load the model in torch on the requested device."""
    try:
        import torch
    except ImportError:
        raise MissingExtraError(
            f"{checkpoint.path}: this model needs torch, which is not installed: pip install 'uwaga[train]'"
        ) from None
    if options.dtype in QUANTISED_FORMATS or checkpoint.packed is not None:
        raise SettingsError(
            "int8 and int4 need the native engine: leave the engine at auto and the device at auto or cpu"
        )
    device = _device(options.device, torch.cuda.is_available(), torch.cuda.device_count())
    from uwaga.checkpoints.to_torch import to_torch

    dtype: Any = "float32" if options.dtype == "auto" else options.dtype
    model = to_torch(checkpoint, device, dtype)
    if options.threads:
        limit_threads(model, options.threads)
    return model


def has_gpu() -> bool:
    """Return True if torch can use a GPU.

    Importing torch takes a second, so torch is imported only if a GPU may exist.
    """
    if not any(os.path.exists(device) for device in GPU_DEVICES):  # noqa: PTH110
        return False
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def _device(device: str, has_gpu: bool, gpus: int) -> str:
    """Return the torch device for the option ``device``, after checking that it exists."""
    kind, _, index = device.partition(":")
    if kind == "auto":
        return "cuda" if has_gpu else "cpu"
    if kind == "cuda" and (not has_gpu or int(index or 0) >= gpus):
        gpu_count = gpus if has_gpu else 0
        raise SettingsError(f"device {device!r}: this machine has {gpu_count} usable GPUs; use cpu")
    return device


def limit_threads(model: Module, threads: int) -> None:
    """Make a torch model compute with a given number of threads, independently of the process.

    torch stores the number for each calling thread, so a call sets the number and then restores the previous
    number. (A library that torch uses stores it for the process: concurrent calls of two models may use each
    other's numbers, which changes only the time that they take.)

    Args:
        model: the model.
        threads: number of threads of one call.
    """
    model.threads = threads  # type: ignore[assignment]  # a number, beside the weights
    for name in LIMITED_METHODS:
        method = getattr(model, name, None)
        if method is not None:
            setattr(model, name, _limit_method_threads(method, threads))
    from torch import nn

    head: Any = getattr(model, "head", None)
    if isinstance(head, nn.Module):
        limit_threads(head, threads)


def _limit_method_threads(method: Callable[Parameters, Value], threads: int) -> Callable[Parameters, Value]:
    import torch

    @wraps(method)
    def limited_method(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Value:
        previous_threads = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            return method(*args, **kwargs)
        finally:
            torch.set_num_threads(previous_threads)

    return limited_method
