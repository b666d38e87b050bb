"""Conversion of checkpoints to PyTorch models."""

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
    """Return the PyTorch model of a checkpoint on a device, for inference without gradients.

    Weights that are stored in float32 are not copied, so that two models of the same :class:`Checkpoint`
    share them. To train a second model, read the checkpoint again.

    Args:
        checkpoint: checkpoint of any format except int8 and int4.
        device: ``cpu``, ``cuda`` or ``cuda:N``.
        dtype: number format of the computation.
    """
    weights = checkpoint.weights
    if weights is None:
        raise SettingsError(
            f"{checkpoint.path}: this is a quantised model, which only the native engine runs; set engine "
            "and device to auto"
        )
    if isinstance(checkpoint.settings, RecurrentSettings):  # not yet checked against the weights
        _check_shapes(skip_init(lambda: _build(checkpoint), "meta"), checkpoint, weights)
    model = skip_init(lambda: _build(checkpoint))
    _check_shapes(model, checkpoint, weights)
    _load_weights(model, weights)
    model.requires_grad_(False)
    model.eval()
    try:
        model.to(device=device, dtype=DTYPES[dtype])
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"{checkpoint.path}: cannot be moved to the device {device!r}: {error}") from None
    return model


def _build(checkpoint: Checkpoint) -> Seq2Seq | MaskedEncoder:
    """Return the model of a checkpoint without initialising its weights."""
    settings, sizes = checkpoint.settings, (checkpoint.source_vocabulary, checkpoint.target_vocabulary)
    try:
        if isinstance(settings, EncoderOnlySettings):
            return MaskedEncoder(settings, sizes[1])
        return build_model(settings, checkpoint.symbols, *sizes)
    except SettingsError as error:
        raise ModelError(f"{checkpoint.path / 'config.json'}: {error}") from None


def _check_shapes(model: nn.Module, checkpoint: Checkpoint, weights: Weights) -> None:
    """Raise ModelError if the stored weights differ in name or shape from the model's weights.

    The model may be on the meta device.
    """
    expected_shapes = {name: tuple(tensor.shape) for name, tensor in distinct_tensors(model).items()}
    shapes = {name: weights.shape(name) for name in weights.names()}
    formats = {name: weights.format(name) for name in shapes}
    path = next((tensor.path for tensor in weights.tensors.values()), checkpoint.path)
    check_tensors(path, expected_shapes, formats, shapes, formats)


def _load_weights(model: nn.Module, weights: Weights) -> None:
    """Load stored weights into a model; weights stored in float32 are not copied."""
    parameters: dict[int, nn.Parameter] = {}
    for name, parameter in model.state_dict(keep_vars=True).items():
        if id(parameter) not in parameters:
            parameters[id(parameter)] = nn.Parameter(_read(name, weights), requires_grad=False)
        owner, _, attribute = name.rpartition(".")
        model.get_submodule(owner)._parameters[attribute] = parameters[id(parameter)]


def _read(name: str, weights: Weights) -> Tensor:
    values = weights.read(name)
    if not all_finite(values):
        raise ModelError(f"{weights.origin(name)} contains numbers that are not finite; the file is damaged")
    if values.flags.writeable:
        return torch.from_numpy(values)
    tensor = torch.empty(values.shape, dtype=torch.float32)
    tensor.numpy()[...] = values
    return tensor


Model = TypeVar("Model", bound=torch.nn.Module)

_RANDOM_INITS = (torch.Tensor.normal_, torch.Tensor.uniform_)


class SkipInit(TorchFunctionMode):
    """A PyTorch function mode that skips random initialisation, which would change the random state.

    ``arange``, which is used for position tables, is computed on the CPU. On the meta device it would import
    large parts of PyTorch's compiler, which takes a second.
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
    """Return the model that ``build`` creates, whose weights are not initialised.

    On the device ``meta`` the model takes no memory.
    """
    with torch.device(device), SkipInit():
        return build()


def distinct_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the weights of a model by name; tied weights are listed once, under their first name."""
    tensors: dict[str, torch.Tensor] = {}
    ids: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in ids:
            ids.add(id(tensor))
            tensors[name] = tensor
    return tensors
