"""The one search over the decoder contract: greedy, beam and sampling (M20 to M25)."""

from uwaga.decoding.choose import choose
from uwaga.decoding.generation_config import from_generation_config, to_generation_config
from uwaga.decoding.options import SearchOptions
from uwaga.decoding.search import StreamEvent, search, stream

__all__ = [
    "SearchOptions",
    "StreamEvent",
    "choose",
    "from_generation_config",
    "search",
    "stream",
    "to_generation_config",
]
