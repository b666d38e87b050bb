"""PairBlock that have been there before."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveInt

from uwaga.cleaning.key_set import KeySet
from uwaga.cleaning.pairs import Keys, Mask, PairBlock, mixed
from uwaga.cleaning.rule import OrderedRule, register
from uwaga.settings.parsing import StrictModel


class DuplicateSettings(StrictModel):
    """What makes two pairs the same; the first of them stays."""

    by: Literal["pair", "source", "target"] = Field("pair", description="the side, or both, that is compared")
    normalise: bool = Field(False, description="without regard to case, punctuation and compatibility forms")
    memory: PositiveInt = Field(
        11_000_000,
        description="different pairs whose keys lie in memory, 12 to 24 bytes each; more go to disk",
    )


@register("duplicates", "an equal pair came before", DuplicateSettings)
class Duplicates(OrderedRule[DuplicateSettings]):
    """Keeps 64-bit keys, not texts.

    Of ``n`` different pairs any two share a key with a probability of about ``n²/2⁶⁵``: 3 in a million for 10
    million pairs; one pair would then be lost.
    """

    def prepare(self) -> None:
        """Begin anew."""
        self._seen = KeySet(self.settings.memory)

    def keys(self, pairs: PairBlock) -> Keys:
        source, target = pairs.source, pairs.target
        if self.settings.normalise:
            source, target = source.folded, target.folded
        if self.settings.by == "source":
            return mixed(source.keys)
        if self.settings.by == "target":
            return mixed(target.keys)
        return mixed(mixed(source.keys) + target.keys)

    def rejects_keys(self, keys: Keys) -> Mask:
        return ~self._seen.add(keys)
