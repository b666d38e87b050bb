"""Which attention of a model tells what a target piece comes from."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from functools import cached_property
from typing import Literal

from pydantic import Field, PositiveInt

from uwaga.errors import ModelError
from uwaga.settings.parsing import StrictModel

Step = Literal["predicting", "reading"]
LARGEST = 1 << 26
"""Bytes of a lexicon, unpacked."""


class WordLexicon(StrictModel):
    """Which words of two languages stand for one another, as an aligner has learned from a corpus."""

    letters: PositiveInt = Field(description="of a word, in lower case, that count: its forms are one word")
    words: str = Field(
        description="lines, deflated, in base 85: a source word, then three fields for each of its partners: "
        "the target word, and in hundredths how likely each of the two is where the other stands"
    )

    @classmethod
    def of(cls, letters: int, chances: Mapping[tuple[str, str], tuple[float, float]]) -> WordLexicon:
        """The lexicon of pairs of words, source and target, and how likely each is of the other."""
        words: dict[str, list[str]] = {}
        for (source, target), both in sorted(chances.items()):
            rounded = [round(100 * one) for one in both]
            if any(rounded):
                words.setdefault(source, []).append(f"{target} {rounded[0]} {rounded[1]}")
        return cls.packed(
            letters, "\n".join(f"{source} {' '.join(found)}" for source, found in words.items())
        )

    @classmethod
    def packed(cls, letters: int, lines: str) -> WordLexicon:
        """The lexicon of these lines."""
        return cls(letters=letters, words=base64.b85encode(zlib.compress(lines.encode(), 9)).decode())

    @cached_property
    def partners(self) -> dict[str, dict[str, tuple[float, float]]]:
        """Of each source word its target words, and how likely each is of the other.

        Raises:
            ModelError: it is damaged.
        """
        found = {}
        opened = zlib.decompressobj()
        try:
            lines = opened.decompress(base64.b85decode(self.words), LARGEST).decode()
            if not opened.eof:
                raise ValueError("longer than a lexicon may be, or cut short")
            for line in lines.splitlines():
                source, *fields = line.split(" ")
                found[source] = {
                    target: (int(ahead) / 100, int(back) / 100)
                    for target, ahead, back in zip(*[iter(fields)] * 3, strict=True)
                }
        except (ValueError, zlib.error) as error:
            raise ModelError(
                f"the lexicon of the model's alignment head is damaged ({error}); make another with "
                "`uwaga align --choose`"
            ) from None
        return found


class LinkModel(StrictModel):
    """How likely two words are linked, by several heads together: two logistic regressions, one after the
    other, as :mod:`uwaga.alignment.link_evidence` has them.
    """

    heads: tuple[tuple[PositiveInt, PositiveInt, Step], ...] = Field(
        description="layer, head and step of each attention, the best first", min_length=1
    )
    first: tuple[float, ...] = Field(
        description="weights of what the attentions and the words say of a pair, and the constant"
    )
    second: tuple[float, ...] = Field(
        description="weights of what the first one says of the pair and of those around it, and the constant"
    )
    lexicon: WordLexicon | None = Field(
        None, description="what the first one is told of the words themselves"
    )


class AlignmentHead(StrictModel):
    """The cross-attention head, or mean of a layer's heads, that aligns best."""

    layer: PositiveInt = Field(description="of the decoder, from 1")
    head: PositiveInt | None = Field(None, description="of the layer, from 1; the mean of its heads if none")
    step: Step = Field(
        "predicting",
        description="whose attention aligns a target token: that of the step which predicts it, or of the "
        "next one, which reads it",
    )
    links: LinkModel | None = Field(None, description="which words are linked, by more than this one head")

    def __str__(self) -> str:
        """``1.2 reading``: layer, head or ``mean``, and step; and how many link words together."""
        together = "" if self.links is None else f", links by {len(self.links.heads)} heads"
        return f"{self.layer}.{self.head or 'mean'} {self.step}{together}"
