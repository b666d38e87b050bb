"""Cutting a line of text into sentences."""

from __future__ import annotations

import re

WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")
"""Spaces of several bytes: at some of them sentencex 1.0 counts bytes wrongly and panics."""


def split_sentences(line: str, language: str) -> list[str]:
    """The sentences of a line by the rules of its language (sentencex); joined, they are the line again.

    Args:
        line: text without line breaks.
        language: a code such as ``en`` or ``de_AT``; one without rules of its own gets general ones.
    """
    from sentencex import segment  # type: ignore[import-untyped]

    code = language.replace("_", "-").split("-")[0].lower()
    found: list[str] = segment(code, WIDE_SPACE.sub(" ", line))
    if line.isascii():
        return found
    sentences, start = [], 0
    for sentence in found:
        sentences.append(line[start : start + len(sentence)])
        start += len(sentence)
    return sentences
