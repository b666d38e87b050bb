"""Random attention weights, whose rows sum to 1, and source and target tokens."""

import numpy as np

from uwaga.results.attention import Attentions

HOSTILE_TOKENS = (
    "</script><script>window.hacked = 1</script>", '"><img src=x onerror="window.hacked = 1">',
    "<!--<script>", "\u2028${window.hacked = 1}`", "\ud800 lone", "&lt;b&gt;",
)  # fmt: skip


def random_weights(rng, shape, causal=False, sharp=2.5):
    """Return the softmax (layers, heads, query, key) of random scores."""
    scores = rng.normal(size=shape) * sharp
    if causal:
        scores = np.where(np.tri(*shape[2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)


def attentions(layers, heads, source, target, seed=0, kinds=("cross", "encoder", "decoder")):
    """Return random attention matrices of ``source`` and ``target`` tokens, including end symbols."""
    rng = np.random.default_rng(seed)
    sizes = {"cross": (target, source), "encoder": (source, source), "decoder": (target, target)}
    return Attentions(
        **{
            kind: random_weights(rng, (layers, heads, *sizes[kind]), causal=kind == "decoder")
            for kind in kinds
        }
    )


def pieces(count, side="w"):
    return tuple(f"▁{side}{index}" for index in range(count))
