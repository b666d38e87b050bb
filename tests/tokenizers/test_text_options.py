"""Options for the preparation of texts."""

import pytest

from uwaga.errors import SettingsError
from uwaga.settings.text_options import TextOptions


@pytest.mark.parametrize("value", [-1, True, 1.0, "5", None])
def test_invalid_split_above_option_is_rejected(value: object) -> None:
    with pytest.raises(SettingsError, match="split_above must be a whole number, 0 or more"):
        TextOptions(split_above=value)  # type: ignore[arg-type]
    assert TextOptions() == TextOptions(split_above=1, lower_capitals=False)
