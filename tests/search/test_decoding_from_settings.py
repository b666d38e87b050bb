"""A model's stored settings as options."""

from dataclasses import fields

import pytest
from hypothesis import example, given
from hypothesis import settings as unhurried
from hypothesis import strategies as st

from uwaga.errors import SettingsError
from uwaga.search import SearchOptions
from uwaga.search.options import from_settings
from uwaga.settings import DecodingSettings, parse
from uwaga.settings.text_options import TextOptions


def test_every_setting_becomes_an_option_of_the_search_or_of_the_text() -> None:
    known = [{one.name for one in fields(kind)} for kind in (SearchOptions, TextOptions)]
    assert not known[0] & known[1]
    assert set(DecodingSettings.model_fields) <= known[0] | known[1]


def test_defaults_agree() -> None:
    assert from_settings(DecodingSettings()) == (SearchOptions(), TextOptions())


def test_values_go_over() -> None:
    settings = DecodingSettings(beam=2, length_penalty=0.6, split_above=40, lower_capitals=True)
    search, text = from_settings(settings)
    assert search == SearchOptions(beam=2, length_penalty=0.6)
    assert text == TextOptions(split_above=40, lower_capitals=True)


wholes = st.integers(-1, 2**32) | st.integers(0, 9)
numbers = st.floats() | st.floats(-12, 12)
VALUES = {
    "beam": wholes,
    "length_penalty": numbers,
    "min_length": wholes,
    "max_length": wholes,
    "max_ratio": numbers,
    "max_extra": wholes,
    "no_repeat_ngram": wholes,
    "split_above": wholes,
}


@unhurried(deadline=None)
@given(st.fixed_dictionaries({}, optional=VALUES))
@example({"length_penalty": 31.0})
@example({"max_extra": 2**31})
@example({"min_length": 9, "max_length": 8})
def test_settings_that_can_be_read_are_options_that_can_be(values: dict[str, float]) -> None:
    """Or else the mistake would be found where the file's name is no longer known."""
    try:
        settings = parse(DecodingSettings, values, "config.json")
    except SettingsError:
        return
    search, text = from_settings(settings)
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
def test_what_cannot_be_is_refused_where_the_file_is_known(values: dict[str, float], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        parse(DecodingSettings, values, "my.yaml")
