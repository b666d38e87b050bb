"""Conversion of the decoding settings stored with a model to options."""

from dataclasses import fields

import pytest
from hypothesis import example, given
from hypothesis import settings as unhurried
from hypothesis import strategies as st

from uwaga.errors import SettingsError
from uwaga.search import SearchOptions
from uwaga.search.options import options_from_settings
from uwaga.settings import DecodingSettings, parse
from uwaga.settings.text_options import TextOptions


def test_each_decoding_setting_is_a_search_or_text_option() -> None:
    names = [{field.name for field in fields(kind)} for kind in (SearchOptions, TextOptions)]
    assert not names[0] & names[1]
    assert set(DecodingSettings.model_fields) <= names[0] | names[1]


def test_default_decoding_settings_give_default_options() -> None:
    assert options_from_settings(DecodingSettings()) == (SearchOptions(), TextOptions())


def test_decoding_settings_are_copied_to_options() -> None:
    settings = DecodingSettings(beam=2, length_penalty=0.6, split_above=40, lower_capitals=True)
    search, text = options_from_settings(settings)
    assert search == SearchOptions(beam=2, length_penalty=0.6)
    assert text == TextOptions(split_above=40, lower_capitals=True)


integers = st.integers(-1, 2**32) | st.integers(0, 9)
numbers = st.floats() | st.floats(-12, 12)
VALUES = {
    "beam": integers, "length_penalty": numbers, "min_length": integers, "max_length": integers,
    "max_ratio": numbers, "max_extra": integers, "no_repeat_ngram": integers, "split_above": integers,
}  # fmt: skip


@unhurried(deadline=None)
@given(st.fixed_dictionaries({}, optional=VALUES))
@example({"length_penalty": 31.0})
@example({"max_extra": 2**31})
@example({"min_length": 9, "max_length": 8})
def test_valid_decoding_settings_are_valid_options(values: dict[str, float]) -> None:
    """If an invalid setting became an option, the error would not name the file."""
    try:
        settings = parse(DecodingSettings, values, "config.json")
    except SettingsError:
        return
    search, text = options_from_settings(settings)
    for name, value in values.items():
        assert getattr(text if name == "split_above" else search, name) == value


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"length_penalty": 31}, "my.yaml: length_penalty"),
        ({"max_extra": 2**31}, "my.yaml: max_extra"),
        ({"min_length": 9, "max_length": 8}, "my.yaml: .*min_length 9 is more than max_length 8"),
    ],
)
def test_invalid_settings_are_rejected_with_the_file_name(values: dict[str, float], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        parse(DecodingSettings, values, "my.yaml")
