"""A model's stored settings as the options that a search and a text take."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from uwaga.search.options import SearchOptions
from uwaga.tokenizers.options import TextOptions

if TYPE_CHECKING:
    from uwaga.settings import DecodingSettings


def from_settings(settings: DecodingSettings) -> tuple[SearchOptions, TextOptions]:
    """The group ``decoding`` of a settings file or of a model's ``config.json``, taken apart.

    It is one group to those who write it. What follows the file knows the two records only. Settings that
    were read are options that can be: the schema refuses, naming file and key, what the options would.
    """
    values = dict(settings)
    search = {one.name: values[one.name] for one in fields(SearchOptions) if one.name in values}
    text = {one.name: values[one.name] for one in fields(TextOptions)}
    return SearchOptions(**search), TextOptions(**text)
