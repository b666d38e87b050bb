"""Conversion of a checkpoint to a torch model on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from uwaga.checkpoints.checkpoint import Checkpoint, Dtype
from uwaga.checkpoints.storage.safetensors_files import check_tensors
from uwaga.checkpoints.weight_map import Weights
from uwaga.engine.packing import all_finite
from uwaga.errors import ModelError, SettingsError
from uwaga.models.base import Seq2Seq
from uwaga.models.build import build_model
from uwaga.models.masked import MaskedEncoder
from uwaga.settings import EncoderOnlySettings, RecurrentSettings

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def to_torch(
    checkpoint: Checkpoint, device: str = "cpu", dtype: Dtype = "float32"
) -> Seq2Seq | MaskedEncoder:
    """Build the model of a checkpoint on a device, for inference without gradients.

    Weights in float32 share the memory of the file's contents, so that two models of the same
    :class:`Checkpoint` share their weights. To train a second model, read the checkpoint again.

    Args:
        checkpoint: checkpoint of any format except int8 and int4.
        device: ``cpu``, ``cuda`` or ``cuda:N``.
        dtype: number format of the computation.
    """
    weights = checkpoint.weights
    if weights is None:
        raise SettingsError(
            f"{checkpoint.path}: a quantised model, which only the native engine runs; leave engine and "
            "device at auto"
        )
    if isinstance(checkpoint.settings, RecurrentSettings):  # not yet checked against the weights
        _check(skip_init(lambda: _build(checkpoint), "meta"), checkpoint, weights)
    model = skip_init(lambda: _build(checkpoint))
    _check(model, checkpoint, weights)
    _fill(model, weights)
    model.requires_grad_(False)
    model.eval()
    try:
        model.to(device=device, dtype=DTYPES[dtype])
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"{checkpoint.path}: cannot be put on device {device!r}: {error}") from None
    return model


def _build(checkpoint: Checkpoint) -> Seq2Seq | MaskedEncoder:
    """Build the model with uninitialised weights."""
    settings, sizes = checkpoint.settings, (checkpoint.source_vocabulary, checkpoint.target_vocabulary)
    try:
        if isinstance(settings, EncoderOnlySettings):
            return MaskedEncoder(settings, sizes[1])
        return build_model(settings, checkpoint.symbols, *sizes)
    except SettingsError as error:
        raise ModelError(f"{checkpoint.path / 'config.json'}: {error}") from None


def _check(model: nn.Module, checkpoint: Checkpoint, weights: Weights) -> None:
    """Check the weights against a model, which may be on the meta device."""
    expected = {name: tuple(tensor.shape) for name, tensor in distinct_tensors(model).items()}
    shapes = {name: weights.shape(name) for name in weights.names()}
    formats = {name: weights.format(name) for name in shapes}
    path = next((tensor.path for tensor in weights.tensors.values()), checkpoint.path)
    check_tensors(path, expected, formats, shapes, formats)


def _fill(model: nn.Module, weights: Weights) -> None:
    """Load the weights into the model; weights stored in float32 are not copied."""
    parameters: dict[int, nn.Parameter] = {}
    for name, old in model.state_dict(keep_vars=True).items():
        if id(old) not in parameters:
            parameters[id(old)] = nn.Parameter(_read(name, weights), requires_grad=False)
        owner, _, leaf = name.rpartition(".")
        model.get_submodule(owner)._parameters[leaf] = parameters[id(old)]


def _read(name: str, weights: Weights) -> Tensor:
    values = weights.read(name)
    if not all_finite(values):
        raise ModelError(f"{weights.origin(name)} holds numbers that are not finite; the file is damaged")
    if values.flags.writeable:
        return torch.from_numpy(values)
    tensor = torch.empty(values.shape, dtype=torch.float32)
    tensor.numpy()[...] = values
    return tensor


Model = TypeVar("Model", bound=torch.nn.Module)

_RANDOM_INITS = (torch.Tensor.normal_, torch.Tensor.uniform_)


class SkipInit(TorchFunctionMode):
    """A torch function mode that skips random initialisation, which would change the random state.

    ``arange``, as for position tables, stays on the CPU: on the meta device it would import half of torch's
    compiler, which takes a second.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        keywords = kwargs or {}
        if func in _RANDOM_INITS or getattr(func, "__module__", None) == "torch.nn.init":
            return keywords["tensor"] if "tensor" in keywords else args[0]
        if func is torch.arange:
            keywords = {"device": "cpu", **keywords}
        return func(*args, **keywords)


def skip_init(build: Callable[[], Model], device: str = "cpu") -> Model:
    """Call ``build`` without initialising weights; on ``meta`` the model takes no memory."""
    with torch.device(device), SkipInit():
        return build()


def distinct_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the weights of ``model``, tied weights once and under their first name."""
    distinct: dict[str, torch.Tensor] = {}
    ids: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in ids:
            ids.add(id(tensor))
            distinct[name] = tensor
    return distinct
