"""Detection of brackets and words that a translation adds to its source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise

from uwaga.languages.function_words import NON_FINAL_WORDS
from uwaga.results.translation import WordAlignment

MAX_SHORT_WORDS = 3
"""Maximum number of words of a text whose translation is checked for added words."""
MAX_ADDED_WORDS = 4
"""Maximum number of words by which the translation of a short text may exceed the text."""
OPENING, CLOSING = "([{（［｛【", ")]}）］｝】"
BRACKET = re.compile(f"[{re.escape(OPENING + CLOSING)}]")


def find_added_brackets(source: str, target: str, terms: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the brackets that a translation adds to its source; paired brackets include their content.

    Args:
        source: the text.
        target: its translation.
        terms: parts of the translation that a glossary requires.
    """
    for term in terms:
        target = target.replace(term, "")
    allowed_counts = [sum(map(source.count, brackets)) for brackets in (OPENING, CLOSING)]
    counts = [sum(map(target.count, brackets)) for brackets in (OPENING, CLOSING)]
    if counts[0] <= allowed_counts[0] and counts[1] <= allowed_counts[1]:
        return ()
    bracketed_parts = list(_find_brackets(target))
    return tuple(part for part in dict.fromkeys(bracketed_parts) if len(part) == 1 or part not in source)


def _find_brackets(text: str) -> Iterator[str]:
    """Yield the outermost pairs of brackets with their content, and unpaired brackets."""
    depth, start = 0, 0
    for match in BRACKET.finditer(text):
        if match[0] in OPENING:
            start = match.start() if depth == 0 else start
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                yield text[start : match.end()]
        else:
            yield match[0]
    if depth:
        yield text[start]


def find_added_words(
    source: str,
    target: str,
    language: str,
    alignment: WordAlignment | None = None,
    terms: Iterable[str] = (),
) -> tuple[str, ...]:
    """Return the words that the translation of a short text adds.

    A word that neither the source nor a term contains counts as added if it is not aligned with any source
    word, if it repeats the preceding word, or if it ends the translation although it cannot end a text. All
    such words count as added if the translation contains every word of the source, or has many more words
    than the source.

    Args:
        source: the text; nothing is reported if it has more than :data:`MAX_SHORT_WORDS` words.
        target: its translation.
        language: the language of the translation, as a two-letter code.
        alignment: the word alignment of source and target, if it is known.
        terms: parts of the translation that a glossary requires.
    """
    if sum(part[0].isalpha() for part in source.split()) > MAX_SHORT_WORDS:
        return ()
    from uwaga.alignment.words import word_spans  # not before it is needed

    source_words = list(islice(_words(source), MAX_SHORT_WORDS + 1))
    if not 0 < len(source_words) <= MAX_SHORT_WORDS or "\n" in target:
        return ()
    spans = [span for span in word_spans(target) if target[slice(*span)][0].isalpha()]
    words = [target[start:end] for start, end in spans]
    known_words = {word.lower() for word in source_words} | {
        word.lower() for term in terms for word in _words(term)
    }
    new_words = [word for word in words if word.lower() not in known_words]
    is_long = len(target.split()) > len(source_words) + MAX_ADDED_WORDS
    if is_long or set(source_words) <= set(words):
        return tuple(dict.fromkeys(new_words))
    added_words = []
    if alignment is not None:
        linked_spans = {alignment.target[word] for _, word in alignment.links}
        added_words = [word for span, word in zip(spans, words, strict=True) if span not in linked_spans]
    added_words += [word for previous_word, word in pairwise(words) if previous_word.lower() == word.lower()]
    if (
        len(words) > 1
        and words[-1].lower() in NON_FINAL_WORDS.get(language, ())
        and target.endswith(words[-1])
    ):
        added_words.append(words[-1])
    return tuple(word for word in dict.fromkeys(added_words) if word in new_words)


def _words(text: str) -> Iterator[str]:
    """Yield those words of a text that begin with a letter."""
    from uwaga.alignment.words import WORD  # not before it is needed

    return (match[0] for match in WORD.finditer(text) if match[0][0].isalpha())
