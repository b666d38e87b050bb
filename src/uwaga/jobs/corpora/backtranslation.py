"""Back-translation (Sennrich 2016): sources for text of the target language, by a model of the other way.

The text of people stays the target, so that a decoder learns from it; what is synthetic is the source.
Sampled sources teach more than the best ones where there is much text (Edunov 2018), and a tag in front of
them lets the model tell them from real ones (Caswell 2019).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from uwaga.errors import SettingsError, shown
from uwaga.jobs.corpora.in_batches import Way, in_batches
from uwaga.jobs.corpora.job import Made
from uwaga.jobs.corpora.lines import JobLine
from uwaga.results.translation import Translation
from uwaga.settings.corpora import LONGEST_TAG


def check_tag(tag: str) -> None:
    """Refuse a tag that would be more than the first word.

    Raises:
        SettingsError: it holds white space, is no text, or longer than :data:`LONGEST_TAG`.
    """
    if tag and (tag.split() != [tag] or not tag.isprintable() or len(tag) > LONGEST_TAG):
        raise SettingsError(
            f"tag {shown(tag)}: must be one word without spaces, of {LONGEST_TAG} characters or fewer, such "
            "as <BT>"
        )


@dataclass(frozen=True)
class Backtranslation:
    """A worker that gives every line a source: the pair is (translation, line).

    Attributes:
        way: the model of the other direction.
        tag: what every source begins with, such as ``<BT>``, a space after it; empty for nothing.

    Raises:
        SettingsError: the tag is more than one word.
    """

    way: Way
    tag: str = ""

    def __post_init__(self) -> None:
        """Check the tag."""
        check_tag(self.tag)

    def __call__(self, lines: Sequence[JobLine], advance: Callable[[int], None]) -> list[Made]:
        """Give every line a source."""
        return in_batches([self.way], lines, self.pair, advance)

    def pair(self, line: JobLine, translations: Sequence[Translation]) -> Made:
        """The translation as the source of the line.

        Args:
            line: text of the target language.
            translations: of it, one.
        """
        [found] = translations
        if found.error is not None:
            return Made("", line.text, str(found.error))
        text = found.text.strip()
        if not text:
            return Made("", line.text, f"line {line.number}: the translation is empty")
        return Made(f"{self.tag} {text}" if self.tag else text, line.text, cut=found.truncated)
