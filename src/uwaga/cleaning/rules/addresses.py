"""URLs and e-mail addresses that are on one side only."""

from __future__ import annotations

import re

import numpy as np
from pydantic import Field

from uwaga.cleaning.pairs import Mask, PairBlock, Side
from uwaga.cleaning.rule import Rule, register
from uwaga.settings.parsing import StrictModel

ADDRESS = re.compile(
    r"(?:https?://|ftp://|www\.)[^\s<>\"')\]]+|[A-Za-z0-9_.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+",
    re.IGNORECASE,
)
TRAILING = ".,;:!?…/"


class AddressSettings(StrictModel):
    """What may be there."""

    allow: bool = Field(True, description="addresses may be there if both sides have the same ones")


@register("addresses", "URLs or e-mail addresses are on one side only", AddressSettings)
class Addresses(Rule[AddressSettings]):
    """Both sides must name the same addresses, in any order."""

    def rejects(self, pairs: PairBlock) -> Mask:
        found = [_addresses(side) for side, _ in pairs.sides]
        gone = np.zeros(len(pairs), np.bool_)
        for index in {*found[0], *found[1]}:
            same = sorted(found[0].get(index, [])) == sorted(found[1].get(index, []))
            gone[index] = not same or not self.settings.allow
        return gone


def _addresses(texts: Side) -> dict[int, list[str]]:
    found = {}
    for index in np.flatnonzero(_candidates(texts)).tolist():
        if matches := ADDRESS.findall(texts.text(index)):
            found[index] = [match.rstrip(TRAILING).lower() for match in matches]
    return found


def _candidates(texts: Side) -> Mask:
    """(pairs,) which have an @, a :// or a www. in them."""
    codes = np.append(texts.codes, np.zeros(3, np.uint32))
    here, next_, third, fourth = codes[:-3], codes[1:-2], codes[2:-1], codes[3:]
    scheme = (here == ord(":")) & (next_ == ord("/")) & (third == ord("/"))
    letters = [one | 32 == ord("w") for one in (here, next_, third)]
    web = letters[0] & letters[1] & letters[2] & (fourth == ord("."))
    return texts.count((here == ord("@")) | scheme | web) > 0
