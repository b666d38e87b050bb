"""Options for the form in which a model expects its source texts."""

from __future__ import annotations

from dataclasses import dataclass, field

from uwaga.settings.options import check_options, option


@dataclass(frozen=True)
class TextOptions:
    """Options for the form in which a model expects its source texts.

    Raises:
        SettingsError: a value is out of bounds.
    """

    split_above: int = field(
        default=1,
        metadata=option(
            "Split lines of more source tokens than this into sentences; 1: any line, 0: only lines beyond "
            "the model's limit",
            minimum=0,
        ),
    )
    """The end symbol is counted. Most translation models are trained on single sentences, and omit or merge
    sentences of longer texts."""

    lower_capitals: bool = field(
        default=False,
        metadata=option("Lower-case source sentences of two or more words that are all in capitals"),
    )

    def __post_init__(self) -> None:
        """Check the values."""
        check_options(self)
