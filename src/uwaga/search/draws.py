"""Uniform draws for sampling that depend on the sentence alone, never on its batch (M25)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def uniforms(seed: int, source: Sequence[int], sample: int, count: int) -> NDArray[np.float64]:
    """(count,) draws in [0, 1), one per step, for one sample of one sentence.

    The stream is Philox (Salmon et al. 2011) in counter mode, keyed by a hash of the arguments, so that
    a longer stream begins with the shorter one. A sentence given twice draws the same sample twice.
    """
    label = f"{seed} {sample} {' '.join(str(token) for token in source)}"
    digest = hashlib.blake2b(label.encode("ascii"), digest_size=16).digest()
    raw = np.random.Philox(key=int.from_bytes(digest, "little")).random_raw(count)
    top_bits = np.asarray(raw, dtype=np.uint64) >> np.uint64(11)
    return top_bits.astype(np.float64) * 2.0**-53
