"""A translation as one piece of HTML: its words by the model's confidence, alternatives, attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from uwaga.results.attention_view import SeveralAttentions, attention_view
from uwaga.results.confidence import Confidence, Word, in_text
from uwaga.results.html import details, escape

UNSURE = 0.5
"""Mean probability of a word's pieces below which it has a colour, the stronger the lower."""

FAINT = 'style="opacity:.75"'


class ShownTranslation(Protocol):
    """What :class:`uwaga.results.translation.Translation` has of what is shown."""

    @property
    def text(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def score(self) -> float: ...
    @property
    def tokens(self) -> tuple[str, ...]: ...
    @property
    def source_tokens(self) -> tuple[str, ...]: ...
    @property
    def truncated(self) -> bool: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...
    @property
    def error(self) -> Exception | None: ...
    @property
    def words(self) -> tuple[Word, ...]: ...
    @property
    def confidence(self) -> Confidence | None: ...
    @property
    def attention(self) -> NDArray[np.float32] | None: ...
    @property
    def attentions(self) -> SeveralAttentions | None: ...
    @property
    def alternatives(self) -> Sequence[ShownTranslation]: ...
    @property
    def steps(self) -> Sequence[ShownTranslation]: ...


def translation_view(translation: ShownTranslation) -> str:
    """HTML that shows a translation, any text in it as text.

    It has the text, its words in colours by their probability, the score, warnings, alternatives and, where
    it holds any, its attention; of several models' work the steps, each with its own.

    Args:
        translation: of a text.
    """
    parts = [f"<p {FAINT}>{escape(translation.source)}</p>", f"<p><strong>{_words(translation)}</strong></p>"]
    parts.append(f"<p {FAINT}>{escape(_figures(translation))}</p>")
    notes = [*translation.warnings, *([str(translation.error)] if translation.error else [])]
    parts += [f"<p>⚠ {escape(note)}</p>" for note in notes]
    if translation.alternatives:
        rows = "".join(
            f"<li>{_words(one)} <small>{one.score:.2f}</small></li>" for one in translation.alternatives
        )
        parts.append(details(f"{len(translation.alternatives)} alternatives", f'<ol start="2">{rows}</ol>'))
    if translation.steps:
        parts += [details(f"step {at}", translation_view(one)) for at, one in enumerate(translation.steps, 1)]
    elif (shown := _attentions(translation)) is not None:
        parts.append(attention_view(shown, translation.source_tokens, translation.tokens))
    return f'<div class="uwaga-translation">{"".join(parts)}</div>'


@dataclass(frozen=True)
class _CrossAlone:
    """The one matrix of a translation that was made with ``attention=True``."""

    cross: NDArray[np.float32] | None
    encoder: NDArray[np.float32] | None = None
    decoder: NDArray[np.float32] | None = None


def _attentions(translation: ShownTranslation) -> SeveralAttentions | None:
    every = translation.attentions
    if every is not None and not every.cross is every.encoder is every.decoder is None:
        return every
    if translation.attention is None or not translation.attention.size:
        return None
    return _CrossAlone(translation.attention[None, None])


def _words(translation: ShownTranslation) -> str:
    """The text, each word that the model was unsure of with a colour behind it."""
    parts = in_text(translation.text, translation.words)
    return "".join(escape(part) if word is None else _word(word) for part, word in parts)


def _word(word: Word) -> str:
    title = f"probability {word.probability:.2f}, mean of its pieces {word.mean:.2f}"
    if word.entropy is not None:
        title += f", entropy {word.entropy:.2f}"
    doubt = max(0.0, UNSURE - word.mean) / UNSURE
    back = f' style="background:rgba(235,110,20,{0.55 * doubt:.2f})"' if doubt else ""
    return f'<span title="{title}"{back}>{escape(word.text)}</span>'


def _figures(translation: ShownTranslation) -> str:
    """The score and the estimates in words."""
    found = [f"score {translation.score:.3f}"]
    sure = translation.confidence
    if sure is not None:
        found.append(f"tokens {sure.probability:.2f} on geometric mean")
        found.append(f"words {sure.mean_word:.2f} on mean, {sure.lowest_word:.2f} the least")
        found += [f"entropy {sure.entropy:.2f}"] if sure.entropy is not None else []
    found += ["cut at the length limit"] if translation.truncated else []
    return "; ".join(found)
