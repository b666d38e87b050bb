"""Whether weights are numbers at all."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK = 1 << 20
"""Numbers that are looked at together."""


def all_finite(values: NDArray[Any]) -> bool:
    """Whether no number is infinite or NaN; takes no memory of the size of ``values``."""
    flat = values.ravel(order="K")
    return all(np.isfinite(flat[start : start + CHUNK]).all() for start in range(0, flat.size, CHUNK))
