"""Greedy search, beam search and sampling with any decoder (:mod:`uwaga.decoder`)."""

from uwaga.search.choose import choose
from uwaga.search.generation_config import from_generation_config, to_generation_config
from uwaga.search.inputs import SearchInput
from uwaga.search.options import SearchOptions, SearchOverrides, options_from_settings
from uwaga.search.search import StreamEvent, search, stream

__all__ = [
    "SearchInput", "SearchOptions", "SearchOverrides", "StreamEvent", "choose", "from_generation_config",
    "options_from_settings", "search", "stream", "to_generation_config",
]  # fmt: skip
