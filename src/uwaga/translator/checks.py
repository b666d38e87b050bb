"""Checks of texts before they are translated, and of the quality of translations."""

from __future__ import annotations

import operator
import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

from uwaga.checkpoints.score_stats import ScoreStats
from uwaga.languages.codes import LATIN, base_language, character_script, language_scripts
from uwaga.results.translation import Hypothesis
from uwaga.search import SearchOptions
from uwaga.translator.text import Sentence

ADDRESS = re.compile(r"(?:https?://|ftp://|www\.)\S+|(?:mailto:)?[^\s@]+@[^\s@]+\.[^\s@.]+", re.IGNORECASE)
UNKNOWN_LANGUAGE_CODES = frozenset({"", "src", "tgt", "und"})
"""Codes that stand for an unknown language."""

MAX_PERIOD = 12
"""Maximum number of tokens of the repeated sequence in a loop."""
MIN_REPETITIONS, MIN_REPEATED_TOKENS = 4, 12
"""Minimum number of repetitions of a loop, and minimum number of tokens of all its repetitions together."""
LOOP_RUNS = [
    max(MIN_REPETITIONS * period, MIN_REPEATED_TOKENS) - period for period in range(1, MAX_PERIOD + 1)
]
"""For each period, the minimum number of successive tokens in a loop that equal the token one period back."""
MIN_LOOP_RUN = min(LOOP_RUNS)
"""Minimum number of such tokens in any loop."""

LAST_SPACED_CHARACTER = "\u058f"
"""Last character of the Latin, Greek, Cyrillic and Armenian scripts, which separate words by spaces."""
UNFAMILIAR_TEXT = "unlike what the model knows"
"""Beginning of the warnings about a text that is unlike the training data of the model."""


def has_different_languages(languages: tuple[str, str]) -> bool:
    """Return True if the source and target languages of a model are known and differ."""
    source, target = map(base_language, languages)
    return source != target and source not in UNKNOWN_LANGUAGE_CODES and target not in UNKNOWN_LANGUAGE_CODES


def is_language_independent(text: str) -> bool:
    """Return True if a text is the same in every language: it has no letters or is a single address."""
    text = text.strip()
    return not any(map(str.isalpha, text)) or ADDRESS.fullmatch(text) is not None


def lacks_final_punctuation(text: str) -> bool:
    """Return True if a text ends with a letter or a digit instead of a punctuation mark."""
    text = text.rstrip()
    return bool(text) and unicodedata.category(text[-1])[0] in "LMN"


def script_warning(text: str, language: str) -> str | None:
    """Return a warning if most letters of a text are not in a script of its language, else None."""
    expected_scripts = language_scripts(language)
    if expected_scripts is None or (expected_scripts == LATIN and text.isascii()):
        return None
    scripts = [script for script in map(character_script, text) if script]
    unexpected = [script for script in scripts if script not in expected_scripts]
    if 2 * len(unexpected) <= len(scripts):
        return None
    most_common = max(sorted(set(unexpected)), key=unexpected.count)
    return (
        f"{UNFAMILIAR_TEXT}: text in the {most_common.title()} script, but the model's source language is "
        f"{language!r}"
    )


def is_looping(tokens: Sequence[int]) -> bool:
    """Return True if a sequence of at most :data:`MAX_PERIOD` tokens is repeated many times in a row."""
    length = len(tokens)
    if length - len(set(tokens)) < MIN_LOOP_RUN:
        return False
    if length > 2 * MIN_LOOP_RUN and length - len(set(pairwise(tokens))) < MIN_LOOP_RUN:
        return False  # a loop repeats pairs of tokens as well
    for period, run in enumerate(LOOP_RUNS[: length // MIN_REPETITIONS], start=1):
        for index in range(run - 1, length - period, run):  # any run includes one of these tokens
            if tokens[index] == tokens[index + period]:
                if b"\x01" * run in bytes(map(operator.eq, tokens, tokens[period:])):
                    return True
                break
    return False


def quality_warnings(sentences: Sequence[Sentence], stats: ScoreStats | None) -> list[str]:
    """Return warnings about the translations of a text's sentences, without duplicates.

    Args:
        sentences: the sentences that were searched.
        stats: statistics of the model's scores.
    """
    warnings, best_hypotheses = [], [(sentence, sentence.hypotheses[0]) for sentence in sentences]
    if any(
        is_looping(hypothesis.tokens) and not is_looping(sentence.ids)
        for sentence, hypothesis in best_hypotheses
    ):
        warnings.append(
            "the translation repeats itself again and again; no_repeat_ngram=3 (--no-repeat-ngram 3) would "
            "prevent this"
        )
    means = [
        mean_score(hypothesis)
        for sentence, hypothesis in best_hypotheses
        if hypothesis.token_scores and sentence.terms is None and not sentence.prefix  # else improbable
    ]
    if stats is not None and means and min(means) < stats.low:
        warnings.append(
            f"{UNFAMILIAR_TEXT}: the translation has a log-probability of {min(means):.2f} per token, but "
            f"translations by the model usually have {stats.mean:.2f}, and 99 of 100 have at least "
            f"{stats.low:.2f}"
        )
    return warnings


def unknown_word(
    sentences: Sequence[Sentence], options: SearchOptions, stats: ScoreStats | None
) -> str | None:
    """Return the text of a passage if it is a single word that the model does not know, else None.

    Such a word is copied, because its translation would be invented. None is also returned if attention,
    alternatives or samples are requested.

    Args:
        sentences: the sentences of the text, with their hypotheses.
        options: the search options.
        stats: statistics of the model's scores, with the threshold for words.
    """
    if stats is None or stats.word is None or len(sentences) != 1:
        return None
    if options.attention or options.nbest > 1 or options.sample:
        return None
    [sentence] = sentences
    word = sentence.text.strip()
    is_word = word.isalpha() and max(word) <= LAST_SPACED_CHARACTER
    if not is_word or not sentence.is_searched or sentence.prefix or sentence.terms is not None:
        return None
    return word if mean_score(sentence.hypotheses[0]) < stats.word else None


def mean_score(hypothesis: Hypothesis) -> float:
    """Return the mean log-probability of a hypothesis per token, end symbol included."""
    return hypothesis.log_prob / max(1, len(hypothesis.token_scores))
