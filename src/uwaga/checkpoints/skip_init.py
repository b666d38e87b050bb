"""Building a model whose weights will be read: nothing is drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.overrides import TorchFunctionMode

Model = TypeVar("Model", bound=torch.nn.Module)

_DRAWS = (torch.Tensor.normal_, torch.Tensor.uniform_)


class SkipInit(TorchFunctionMode):
    """Leaves out random initialisation: weights are read, and nobody else's draws must change.

    Counting, as for position tables, stays on the CPU: on the meta device it would import half of torch's
    compiler, which takes a second.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if func in _DRAWS or getattr(func, "__module__", None) == "torch.nn.init":
            return named["tensor"] if "tensor" in named else args[0]
        if func is torch.arange:
            named = {"device": "cpu", **named}
        return func(*args, **named)


def skip_init(build: Callable[[], Model], device: str = "cpu") -> Model:
    """The model that ``build`` makes, its weights yet to be filled; on ``meta`` it takes no memory."""
    with torch.device(device), SkipInit():
        return build()
