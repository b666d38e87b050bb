"""Settings of the attention that aligns target tokens with source tokens."""

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
MAX_LEXICON_BYTES = 1 << 26
"""Maximum number of bytes of a decompressed lexicon."""


class WordLexicon(StrictModel):
    """Translations of words with probabilities in both directions, learned by an aligner from a corpus."""

    letters: PositiveInt = Field(
        description="number of initial letters by which lower-cased words are compared, so that forms of a "
        "word count as one"
    )
    words: str = Field(
        description="deflated lines in base 85: a source word, then three fields for each target word: the "
        "word, its probability given the source word, and the source word's probability given it, both in "
        "hundredths"
    )

    @classmethod
    def from_probabilities(
        cls, letters: int, probabilities: Mapping[tuple[str, str], tuple[float, float]]
    ) -> WordLexicon:
        """Create a lexicon from pairs of source and target words with their two probabilities."""
        words: dict[str, list[str]] = {}
        for (source, target), pair_probabilities in sorted(probabilities.items()):
            rounded = [round(100 * probability) for probability in pair_probabilities]
            if any(rounded):
                words.setdefault(source, []).append(f"{target} {rounded[0]} {rounded[1]}")
        return cls.from_lines(
            letters, "\n".join(f"{source} {' '.join(targets)}" for source, targets in words.items())
        )

    @classmethod
    def from_lines(cls, letters: int, lines: str) -> WordLexicon:
        """Create a lexicon from the text that ``words`` stores in compressed form."""
        return cls(letters=letters, words=base64.b85encode(zlib.compress(lines.encode(), 9)).decode())

    @cached_property
    def translations(self) -> dict[str, dict[str, tuple[float, float]]]:
        """The target words of each source word, with the probabilities in both directions.

        Raises:
            ModelError: the lexicon is damaged.
        """
        translations = {}
        decompressor = zlib.decompressobj()
        try:
            lines = decompressor.decompress(base64.b85decode(self.words), MAX_LEXICON_BYTES).decode()
            if not decompressor.eof:
                raise ValueError("too long or truncated")
            for line in lines.splitlines():
                source, *fields = line.split(" ")
                translations[source] = {
                    target: (int(forward) / 100, int(backward) / 100)
                    for target, forward, backward in zip(*[iter(fields)] * 3, strict=True)
                }
        except (ValueError, zlib.error) as error:
            raise ModelError(
                f"the lexicon of the model's alignment head is damaged ({error}); create another with "
                "`uwaga align --choose`"
            ) from None
        return translations


class LinkModel(StrictModel):
    """Two successive logistic regressions that predict word links from the attention of several heads.

    :mod:`uwaga.alignment.link_evidence` computes the features of these regressions.
    """

    heads: tuple[tuple[PositiveInt, PositiveInt, Step], ...] = Field(
        description="layer, head and step of each attention head used, the best first", min_length=1
    )
    first: tuple[float, ...] = Field(
        description="weights of the first regression: for the features of a pair, and the bias"
    )
    second: tuple[float, ...] = Field(
        description="weights of the second regression: for the probabilities of the pair and its neighbours, "
        "and the bias"
    )
    lexicon: WordLexicon | None = Field(
        None, description="translation probabilities of words, as features of the first regression"
    )


class AlignmentHead(StrictModel):
    """The cross-attention head, or the mean of a layer's heads, that gives the best alignments."""

    layer: PositiveInt = Field(description="layer of the decoder, from 1")
    head: PositiveInt | None = Field(
        None, description="head of the layer, from 1; the mean of its heads if not given"
    )
    step: Step = Field(
        "predicting",
        description="the decoder step whose attention aligns a target token: the one that predicts it, or "
        "the next one, which reads it",
    )
    links: LinkModel | None = Field(
        None, description="model that links words by the attention of several heads"
    )

    def __str__(self) -> str:
        """Return a text such as ``1.2 reading``: layer, head (or ``mean``), step, number of linked heads."""
        suffix = "" if self.links is None else f", links by {len(self.links.heads)} heads"
        return f"{self.layer}.{self.head or 'mean'} {self.step}{suffix}"


def link_model(head: AlignmentHead | None) -> LinkModel | None:
    """Return the model that links words by several heads; None if alignments come from ``head`` alone."""
    return None if head is None else head.links
