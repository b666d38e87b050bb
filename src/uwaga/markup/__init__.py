"""Tags and placeholders in texts, and how they are carried over to a translation."""

from uwaga.markup.inline import Inline, Tag, plain_text

__all__ = ["Inline", "Tag", "plain_text"]
