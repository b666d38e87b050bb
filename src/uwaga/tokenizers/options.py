"""What happens to a text before the model sees it."""

from __future__ import annotations

from dataclasses import dataclass

from uwaga.errors import SettingsError


@dataclass(frozen=True)
class TextOptions:
    """How a model wants its sources; they stand beside the options of the search, which sees only tokens.

    ``split_above``: source tokens, end symbol included, above which a line is split into sentences although
    the model could take it: 1 for any line, 0 for none but those beyond the model's limit.
    ``lower_capitals``: lower-case a sentence that is written in capitals, two words or more.

    Raises:
        SettingsError: ``split_above`` is not a whole number of 0 or more, or ``lower_capitals`` no boolean.
    """

    split_above: int = 0
    lower_capitals: bool = False

    def __post_init__(self) -> None:
        """Check the values."""
        value: object = self.split_above
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise SettingsError(f"split_above must be a whole number, 0 or more, not {value!r}")
        flag: object = self.lower_capitals
        if not isinstance(flag, bool):
            raise SettingsError(f"lower_capitals must be True or False, not {flag!r}")
