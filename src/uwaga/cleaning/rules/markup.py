"""Tags and entities of HTML."""

from __future__ import annotations

import re

import numpy as np
from pydantic import Field

from uwaga.cleaning.pairs import Mask, PairBlock
from uwaga.cleaning.rule import Rule, register
from uwaga.settings.parsing import StrictModel

MARKUP = re.compile(r"</?[A-Za-z][^<>\n]*>|<!--|&(?:[a-z]{2,8}|#[0-9]{1,7}|#x[0-9a-f]{1,6});", re.IGNORECASE)


class MarkupSettings(StrictModel):
    """What of it may be there."""

    allow_equal: bool = Field(False, description="tags may be there if both sides have as many")


@register("markup", "a side holds tags or entities of HTML", MarkupSettings)
class Markup(Rule[MarkupSettings]):
    """Tags, comments and entities. Off unless asked for: programs' texts have them for good reasons."""

    default = False

    def rejects(self, pairs: PairBlock) -> Mask:
        counts = []
        for side, _ in pairs.sides:
            places = np.array([match.start() for match in MARKUP.finditer(side.joined)], np.int64)
            counts.append(np.bincount(side.lines_at(places), minlength=len(pairs)))
        if self.settings.allow_equal:
            counts = [np.abs(counts[0] - counts[1])]
        gone: Mask = np.sum(counts, axis=0) > 0
        return gone
