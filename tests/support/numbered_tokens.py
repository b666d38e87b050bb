"""A tokeniser of numbers, for tests of models: ``5 6`` is encoded as the ids 5 and 6."""

from dataclasses import dataclass

from uwaga.decoder import Symbols
from uwaga.tokenizers.framed import FramedTokeniser
from uwaga.tokenizers.pretrained import TokeniserPair


@dataclass(frozen=True)
class NumberTokeniser:
    content: bytes = b"numbers"

    def encode(self, text):
        return [int(word) if word.isdecimal() else 2 for word in text.split()]

    def decode(self, ids):
        return "".join(f" {token}" for token in ids)

    def piece(self, token):
        return str(token)

    def token_id(self, piece):
        return 4 if piece == "[MASK]" else None


def read_numbers(folder, ids):
    """Return source and target tokenisers, as the functions ``read_..._tokeniser`` do."""
    start, end = ids.start or 0, ids.end or 0
    pad = end if ids.pad is None else ids.pad
    symbols = Symbols(start=start, end=end, pad=pad, unknown=2)
    suffix = () if ids.end is None or ids.start == ids.end else (end,)
    side = FramedTokeniser(NumberTokeniser(), symbols, ids.vocabulary, str(folder), suffix=suffix)
    return TokeniserPair(side, side)
