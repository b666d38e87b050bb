"""Tags and placeholders in texts, and their transfer to a translation."""

from uwaga.markup.inline import Inline, Tag, plain_text

__all__ = ["Inline", "Tag", "plain_text"]
