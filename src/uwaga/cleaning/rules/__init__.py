"""The rules of cleaning, one a file; importing this package fills the registry, cheap rules first."""

from uwaga.cleaning.rules import (  # noqa: I001 (the order in which they are asked)
    length,
    ratio,
    long_words,
    characters,
    letters,
    script,
    identical,
    punctuation,
    numbers,
    addresses,
    mojibake,
    markup,
    duplicates,
    language,
    score,
)

__all__ = [
    "addresses",
    "characters",
    "duplicates",
    "identical",
    "language",
    "length",
    "letters",
    "long_words",
    "markup",
    "mojibake",
    "numbers",
    "punctuation",
    "ratio",
    "score",
    "script",
]
