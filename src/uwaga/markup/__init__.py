"""What stands in a text beside language: tags, and what carries them across a translation."""

from uwaga.markup.inline import Inline, Tag, plain_text

__all__ = ["Inline", "Tag", "plain_text"]
