"""The one search over the decoder contract: greedy, beam and sampling."""

from uwaga.decoding.choose import choose
from uwaga.decoding.from_settings import from_settings
from uwaga.decoding.generation_config import from_generation_config, to_generation_config
from uwaga.decoding.options import SearchOptions, SearchOverrides
from uwaga.decoding.search import StreamEvent, search, stream

__all__ = [
    "SearchOptions",
    "SearchOverrides",
    "StreamEvent",
    "choose",
    "from_generation_config",
    "from_settings",
    "search",
    "stream",
    "to_generation_config",
]
