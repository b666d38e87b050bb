"""A model's stored settings as options."""

from dataclasses import fields

from uwaga.decoding import SearchOptions
from uwaga.decoding.from_settings import from_settings
from uwaga.settings import DecodingSettings
from uwaga.text.options import TextOptions


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
