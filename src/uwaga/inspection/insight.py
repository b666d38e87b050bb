"""Internal arrays of a translation, such as queries, keys, values, attention weights and logits.

| name | shape | contents (Vaswani 2017 §3) |
|---|---|---|
| `encoder.embedding` | (source, width) | embeddings with positions |
| `encoder.1.query` | (heads, source, head width) | queries of layer 1; `key` and `value` as well |
| `encoder.1.scores` | (heads, source, source) | before the softmax, scaled, with relative positions |
| `encoder.1.weights` | (heads, source, source) | softmax of the scores, after any edits |
| `encoder.1.context` | (heads, source, head width) | sums of the values with these weights |
| `encoder.1.attention` | (source, width) | output of the block, with residual (and post-norm) |
| `encoder.1.feed_forward` | (source, width) | output of the next block |
| `encoder.output` | (source, width) | output of the encoder |
| `decoder.…` | target in place of source | the same; scores of later positions are -inf |
| `cross.1.…` | (heads, target, source) | query, key, value, scores, weights, context and attention |
| `logits` | (target, vocabulary) | before the softmax over the vocabulary |

A decoder with SSRU has ``decoder.1.recurrence`` in place of self-attention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from uwaga.engine import NativeModel
from uwaga.engine.model import MAX_INSIGHT_BYTES
from uwaga.errors import SettingsError
from uwaga.results.attention import Floats
from uwaga.translator import Translator


@dataclass(frozen=True, eq=False)
class Insight:
    """The internal arrays of a translation.

    ``source`` contains the tokens that the encoder reads, with the end symbol. ``fed`` contains the tokens
    that the decoder reads, the start symbol first, and ``predicted`` those that it should predict, the end
    symbol last. ``arrays`` maps the names of :mod:`uwaga.inspection.insight` to float32 arrays.
    """

    source: tuple[str, ...]
    fed: tuple[str, ...]
    predicted: tuple[str, ...]
    arrays: Mapping[str, Floats]

    def __repr__(self) -> str:
        sizes = f"{len(self.source)} source and {len(self.fed)} target tokens"
        return f"Insight({sizes}, {len(self.arrays)} arrays)"


def look_inside(
    translator: Translator,
    source: str,
    target: str | None = None,
    names: Sequence[str] = (),
    max_bytes: int = MAX_INSIGHT_BYTES,
) -> Insight:
    """Return the internal arrays of a translation.

    Args:
        translator: a Transformer on the native engine, with or without interventions
            (:func:`uwaga.inspection.interventions.intervene`).
        source: text to translate, as one sentence.
        target: translation that the decoder is forced to produce; None for the model's translation.
        names: names of arrays, or prefixes such as ``cross.2``; empty for all.
        max_bytes: maximum total size of the arrays in bytes.

    Raises:
        SettingsError: the model is not a Transformer on the native engine, a name is unknown, or the arrays
            exceed ``max_bytes``.
        TextTooLongError: the source or the target is longer than the model accepts.
    """
    decoder = translator.decoder
    if not isinstance(decoder, NativeModel):
        raise SettingsError("internal arrays need the native engine: load the model with engine='native'")
    if target is None:
        target = translator.translate(source, sample=False).text
    [(source_ids, predicted)] = translator.pair_ids([(source, target)])
    start = translator.decoding.start
    inputs = (decoder.symbols.start if start is None else start, *predicted[:-1])
    arrays = decoder.insight(source_ids, inputs, names, max_bytes)
    pieces = translator.target.pieces
    return Insight(
        tuple(translator.source.pieces(source_ids)), tuple(pieces(inputs)), tuple(pieces(predicted)), arrays
    )
