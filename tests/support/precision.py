"""How near two computations of the same numbers must be, and models of ``transformers`` in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

EXACT = {"atol": 1e-9, "rtol": 1e-9}
"""Two float64 computations of models: any difference of meaning is larger, and any rounding smaller."""

ROUNDINGS = 256
"""How many units in the last place of the largest value a float32 computation of a model may be off."""


def close_for(wanted: Any, dtype: Any = None) -> dict[str, float]:
    """``atol`` and ``rtol`` for values near ``wanted``: rounding grows with the largest of them.

    Processors sum in different orders, so that no absolute bound holds on all of them.

    Args:
        wanted: an array or tensor (...), or numbers; infinite ones must be met exactly.
        dtype: what was computed in, where ``wanted`` does not say it: float32 for plain numbers.
    """
    if isinstance(wanted, torch.Tensor):
        wanted = wanted.detach().cpu().numpy()
    values = np.asarray(wanted)
    given = dtype or (values.dtype if isinstance(wanted, np.ndarray) else np.float32)
    finite = np.abs(values[np.isfinite(values)].astype(np.float64))
    scale = max(1.0, float(finite.max(initial=0.0)))
    return {"atol": ROUNDINGS * float(np.finfo(given).eps) * scale, "rtol": 0.0}


class InDouble(TorchFunctionMode):
    """Inside, what asks torch for float32 gets float64.

    ``transformers`` casts some sums, softmaxes and all that it searches with to float32, whatever its model
    computes in.
    """

    def __enter__(self):
        torch.set_default_dtype(torch.float64)
        return super().__enter__()

    def __exit__(self, *error):
        torch.set_default_dtype(torch.float32)
        return super().__exit__(*error)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.float:
            return args[0].double()
        args = tuple(torch.float64 if one is torch.float32 else one for one in args)
        kwargs = {
            name: torch.float64 if one is torch.float32 else one for name, one in (kwargs or {}).items()
        }
        return func(*args, **kwargs)


def doubled(theirs: torch.nn.Module, ours: torch.nn.Module | None = None) -> InDouble:
    """Turn both models to float64 in place; what ``theirs`` computes in the returned context is exact.

    Fixed tables that both compute are rounded to float32 first, as checkpoints hold them.
    """
    mode = InDouble()
    for module in theirs.modules():
        if hasattr(module, "make_weights"):  # M2M100's sinusoids: angles rounded to float32 are far off
            table = module.weights
            with mode:
                exact = module.get_embedding(len(table), module.embedding_dim, module.padding_idx)
            torch.testing.assert_close(exact.to(table.dtype), table, atol=1e-5, rtol=0)
            module.weights = torch.nn.Buffer(exact.to(torch.float32), persistent=False)
    theirs.double()
    if ours is not None:
        ours.double()
    return mode
