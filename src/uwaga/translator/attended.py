"""A text with every attention matrix of the one model that reads it."""

from __future__ import annotations

from dataclasses import dataclass

from uwaga.results.attention import Attentions
from uwaga.results.translation import JsonRecord, equal_fields, shortened


@dataclass(frozen=True, eq=False, repr=False)
class AttendedText(JsonRecord):
    """Where a model without a second side looks: of an encoder's text, or a decoder's.

    ``tokens`` are the pieces of ``text``, special ones included: what rows and columns of ``attentions`` are.
    """

    text: str
    tokens: tuple[str, ...]
    attentions: Attentions

    def __repr__(self) -> str:
        return f"AttendedText({shortened(self.text)!r}, {len(self.tokens)} tokens, {self.attentions})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AttendedText) and equal_fields(self, other)

    def __hash__(self) -> int:
        return hash((self.text, self.tokens))

    def _repr_html_(self) -> str:
        """How a notebook shows it: lines between tokens, heat maps, every head."""
        from uwaga.results.views import attention_view

        alone = self.attentions.encoder is None  # a decoder, which has no source
        return attention_view(self.attentions, () if alone else self.tokens, self.tokens if alone else ())

    def to_dict(self) -> dict[str, object]:
        """What JSON can hold of it, under the same names."""
        return {"text": self.text, "tokens": list(self.tokens), "attentions": self.attentions.to_dict()}
