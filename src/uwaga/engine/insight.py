"""Names of the intermediate arrays of a translation, which :meth:`uwaga.engine.NativeModel.insight` returns.

========================== ============================== ====================================================
name                       shape                          contents (Vaswani 2017 §3)
========================== ============================== ====================================================
``encoder.embedding``      (source, width)                embeddings with positions
``encoder.1.query``        (heads, source, head width)    queries of layer 1; ``key`` and ``value`` as well
``encoder.1.scores``       (heads, source, source)        before the softmax, scaled, with relative positions
``encoder.1.weights``      (heads, source, source)        softmax of the scores, after any edits
``encoder.1.context``      (heads, source, head width)    sums of the values with these weights
``encoder.1.attention``    (source, width)                output of the block, with residual (and post-norm)
``encoder.1.feed_forward`` (source, width)                output of the next block
``encoder.output``         (source, width)                output of the encoder
``decoder.…``              target in place of source      the same; scores of later positions are -inf
``cross.1.…``              (heads, target, source)        cross-attention: query, key, value, scores, weights,
                                                          context, attention
``logits``                 (target, vocabulary)           before the softmax over the vocabulary
========================== ============================== ====================================================

A decoder with SSRU has ``decoder.1.recurrence`` in place of self-attention.
"""

from __future__ import annotations

MAX_BYTES = 1 << 28
"""Default maximum total size of the arrays in bytes."""
