"""Cutting a line of text into sentences."""

from __future__ import annotations


def split_sentences(line: str, language: str) -> list[str]:
    """The sentences of a line by the rules of its language (sentencex); joined, they are the line again.

    Args:
        line: text without line breaks.
        language: a code such as ``en`` or ``de_AT``; one without rules of its own gets general ones.
    """
    from sentencex import segment  # type: ignore[import-untyped]

    found: list[str] = segment(language.replace("_", "-").split("-")[0].lower(), line)
    return found
