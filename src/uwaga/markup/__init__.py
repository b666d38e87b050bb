"""What stands in a text beside language: tags, and what carries them across a translation."""

from uwaga.markup.inline import Inline, Tag, plain_text
from uwaga.markup.lifting import Lifted, lift
from uwaga.markup.placing import joined, place

__all__ = ["Inline", "Lifted", "Tag", "joined", "lift", "place", "plain_text"]
