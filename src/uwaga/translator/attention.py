"""Attention matrices of given targets, and of texts that a model only reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from uwaga.decoder import Decoder
from uwaga.errors import SettingsError
from uwaga.results.attention import Attentions, Floats, select_head
from uwaga.results.translation import Hypothesis, JsonRecord, equal_fields, shorten
from uwaga.translator.score import force
from uwaga.translator.text import Sentence, TokenPair


@dataclass(frozen=True, eq=False, repr=False)
class AttendedText(JsonRecord):
    """The self-attention of an encoder or a decoder over a text.

    ``tokens`` are the pieces of ``text``, special tokens included; they label the axes of ``attentions``.
    """

    text: str
    tokens: tuple[str, ...]
    attentions: Attentions

    def __repr__(self) -> str:
        return f"AttendedText({shorten(self.text)!r}, {len(self.tokens)} tokens, {self.attentions})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AttendedText) and equal_fields(self, other)

    def __hash__(self) -> int:
        return hash((self.text, self.tokens))

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: lines between tokens, a heat map, and all heads of all layers."""
        from uwaga.results.views import attention_view

        is_decoder = self.attentions.encoder is None  # a decoder, which has no source
        return attention_view(
            self.attentions, () if is_decoder else self.tokens, self.tokens if is_decoder else ()
        )

    def to_dict(self) -> dict[str, object]:
        """Return the fields as JSON values."""
        return {"text": self.text, "tokens": list(self.tokens), "attentions": self.attentions.to_dict()}


def add_attentions(decoder: Decoder, sentences: Sequence[Sentence], start: int | None = None) -> None:
    """Set the ``attentions`` and the ``attention`` of the hypotheses of sentences.

    Args:
        decoder: the model.
        sentences: the sentences, with their hypotheses.
        start: token that decoding started from, None for the decoder's default.

    Raises:
        SettingsError: the decoder is an ensemble.
    """
    start_token = decoder.symbols.start if start is None else start
    pairs = [
        TokenPair(sentence.ids, [start_token, *hypothesis.tokens][: max(len(hypothesis.token_scores), 1)])
        for sentence in sentences
        for hypothesis in sentence.hypotheses
    ]
    attentions = iter(all_attentions(decoder, pairs))
    for sentence in sentences:
        sentence.hypotheses = [
            _with_attentions(hypothesis, next(attentions)) for hypothesis in sentence.hypotheses
        ]


def recording_decoder(decoder: Decoder, *, all_matrices: bool) -> Decoder:
    """Return a decoder that records all attention of a search, or only cross-attention.

    Raises:
        SettingsError: the decoder is an ensemble, and all attention is requested.
    """
    if all_matrices and decoder.attentions is None:
        raise ensemble_error()
    return decoder if decoder.recording is None else decoder.recording(all_matrices)


def ensemble_error() -> SettingsError:
    """Return the error for a request for all attention matrices of an ensemble."""
    return SettingsError(
        "attention 'all' needs a single model, because the members of an ensemble differ: load one of them "
        "alone, or use attention=True for the mean of their cross-attentions"
    )


def all_attentions(decoder: Decoder, pairs: Sequence[TokenPair]) -> list[Attentions]:
    """Return the attention matrices of each pair of a source and decoder inputs.

    Raises:
        SettingsError: the decoder is an ensemble.
    """
    if decoder.attentions is None:
        raise ensemble_error()
    return (
        decoder.attentions([pair.source for pair in pairs], [pair.target for pair in pairs]) if pairs else []
    )


def force_recorded(decoder: Decoder, pair: TokenPair, start: int | None = None) -> Hypothesis:
    """Force-decode a target, as :func:`uwaga.translator.score.force` does, and record all attention.

    The hypothesis has no ``attentions`` if the decoder cannot return them.
    """
    sentence = Sentence(pair.source, hypotheses=[force(decoder, pair, start)])
    if decoder.attentions is not None:
        add_attentions(decoder, [sentence], start)
    return sentence.hypotheses[0]


def _with_attentions(hypothesis: Hypothesis, attentions: Attentions) -> Hypothesis:
    if not hypothesis.token_scores:  # a limit allowed no step, but the pass needs one
        attentions = Attentions(
            attentions.encoder, _without_steps(attentions.decoder, 2), _without_steps(attentions.cross, 1)
        )
    # the mean over the last layer's heads, bit-identical to the attention that a search returns
    mean_weights = None if attentions.cross is None else select_head(attentions.cross, -1, None)
    return replace(hypothesis, attention=mean_weights, attentions=attentions or None)


def _without_steps(table: Floats | None, axes: int) -> Floats | None:
    """Return an empty array for a target without steps: no queries and, with ``axes=2``, no keys."""
    if table is None:
        return None
    return table[:, :, :0, :0] if axes == 2 else table[:, :, :0]
