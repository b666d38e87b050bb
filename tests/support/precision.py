"""Tolerances for comparing two implementations, and models of ``transformers`` in float64."""

from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

EXACT = {"atol": 1e-9, "rtol": 1e-9}
"""Tolerance for float64 results: above rounding errors and below the effect of any mistake."""

MAX_ULPS = 256
"""Maximum error of float32 results, in units in the last place of the largest value."""


def tolerance(expected: Any, dtype: Any = None) -> dict[str, float]:
    """Return ``atol`` and ``rtol`` for comparison with ``expected``: rounding grows with its largest value.

    Processors sum in different orders, so that no absolute bound holds on all of them.

    Args:
        expected: an array or tensor (...), or numbers; infinite ones are ignored.
        dtype: number format of the computation; by default that of ``expected``, float32 for numbers.
    """
    if isinstance(expected, torch.Tensor):
        expected = expected.detach().cpu().numpy()
    values = np.asarray(expected)
    float_type = dtype or (values.dtype if isinstance(expected, np.ndarray) else np.float32)
    finite = np.abs(values[np.isfinite(values)].astype(np.float64))
    scale = max(1.0, float(finite.max(initial=0.0)))
    return {"atol": MAX_ULPS * float(np.finfo(float_type).eps) * scale, "rtol": 0.0}


class DoublePrecision(TorchFunctionMode):
    """A context manager in which torch uses float64 wherever float32 is requested.

    ``transformers`` casts some sums, softmaxes and the scores of its search to float32, in models of any
    number format.
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
        args = tuple(torch.float64 if value is torch.float32 else value for value in args)
        kwargs = {
            name: torch.float64 if value is torch.float32 else value for name, value in (kwargs or {}).items()
        }
        return func(*args, **kwargs)


def to_double(peer: torch.nn.Module, model: torch.nn.Module | None = None) -> DoublePrecision:
    """Convert both models to float64 in place; ``peer`` computes in float64 in the returned context.

    Fixed tables that both compute are rounded to float32 first, as checkpoints hold them.
    """
    mode = DoublePrecision()
    for module in peer.modules():
        if hasattr(module, "make_weights"):  # M2M100's sinusoids: angles rounded to float32 are far off
            table = module.weights
            with mode:
                exact = module.get_embedding(len(table), module.embedding_dim, module.padding_idx)
            torch.testing.assert_close(exact.to(table.dtype), table, atol=1e-5, rtol=0)
            module.weights = torch.nn.Buffer(exact.to(torch.float32), persistent=False)
    peer.double()
    if model is not None:
        model.double()
    return mode
