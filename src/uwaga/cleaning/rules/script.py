"""Letters of another script than the language's."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from uwaga.cleaning.characters import ANY_SCRIPT, script_letters
from uwaga.cleaning.pairs import Mask, PairBlock
from uwaga.cleaning.rule import Rule, register
from uwaga.languages.codes import scripts_of
from uwaga.settings.parsing import StrictModel


class ScriptSettings(StrictModel):
    """How many of the letters must be the language's."""

    min_share: float = Field(
        0.9, ge=0.0, le=1.0, description="letters of the language's script by all letters, of each side"
    )


@register("script", "letters are not of the language's script", ScriptSettings)
class Script(Rule[ScriptSettings]):
    """The share of a side's letters that are of its language's script; sides without letters pass.

    Languages whose script is not known here pass too.
    """

    needs_languages = True

    def rejects(self, pairs: PairBlock) -> Mask:
        gone = np.zeros(len(pairs), np.bool_)
        for side, language in pairs.sides:
            wanted = scripts_of(language)
            if wanted is not None:
                found = script_letters(wanted)[side.codes]  # (characters,)
                count, fitting = side.count(found != 0), side.count(found > ANY_SCRIPT)
                gone |= (count > 0) & (fitting < self.settings.min_share * count)
        return gone
