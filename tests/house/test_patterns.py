"""All regular expressions in the source take linear time on texts that make backtracking slow."""

import gc
import re
import time
from typing import Any

import pytest
from pattern_attacks import ANCHORED, Attack, SourcePattern, attacks, source_patterns

from uwaga.languages import number_words, numbers
from uwaga.library.licences import LICENCE_TERMS
from uwaga.markup.placeholders import SYNTAXES
from uwaga.tokenizers.sentences import full_stops

VALUES = {
    "uwaga_documents.formats.csv": {"separator": ","},
    "uwaga_documents.messages": {"category": "other", "characters": "\U000f0000"},
    "uwaga.files.atomic": {"target": type("Target", (), {"name": "name"})},
    "uwaga.languages.function_words": {"alternatives": r"the|in\s+order\s+to"},
    "uwaga.languages.number_words": {"self": number_words._vocabulary("de"), "months": ["janu", r"mai\b"]},
    "uwaga.languages.numbers": {"units": numbers.NOT_METRIC},
    "uwaga.library.installed": {"pattern": r"([a-z]{2,3})-([a-z]{2,3})(?:-([a-z0-9.-]{1,30}))?"},
    "uwaga.library.licences": {"pattern": "|".join(pattern for pattern, _ in LICENCE_TERMS)},
    "uwaga.library.sources.opus": {"prefix": "(?:Helsinki-NLP/)?(?:opus-mt-tc-big|opus-mt)-"},
    "uwaga.markup.html": {"name": "textarea"},
    "uwaga.markup.placeholders": {
        "pattern": "a pattern of the user's",
        "extra_patterns": ["(?:a pattern of the user's)"],
        "syntaxes": list(SYNTAXES.values()),
    },
    "uwaga.markup.typography": {"unknown": "\u00a3\u00e9"},
    "uwaga.translator.layers.differences": {"sign": "€"},
    "uwaga.translator.layers.memory": {"pieces": ["<b>", "</b>"]},
    "uwaga.translator.repair": {"start_boundary": r"(?<!\w)", "piece": "a.b", "end_boundary": r"(?!\w)"},
    "uwaga.terms.apply": {"pattern": "a|b", "before": r"(?<!\w)", "after": r"(?!\w)", "form": "a a"},
    "uwaga.tokenizers.codecs": {"first_characters": "a<"},
    "uwaga.tokenizers.segmentation_sampling":
        {"user_defined": ["<a>"], "mark": "\u2581", "pieces_within_words": True},
    "uwaga.tokenizers.sentences": {"all_marks": full_stops("en").marks + ".!?\u3002"},
}  # fmt: skip
"""Values of local variables from which patterns are built."""
METHODS = {
    "uwaga.markup.typography.DOUBLE_QUOTE": {"finditer"},
    "uwaga.markup.typography.SINGLE": {"finditer"},
    "uwaga_documents.formats.apple.SPACE": {"match"},
    "uwaga_documents.formats.office.SHEET_PARTS": {"fullmatch"},
    "uwaga_documents.formats.subtitles.SRT_TIMES": {"match"},
    "uwaga_documents.formats.subtitles.VTT_TIMES": {"match"},
}
"""Methods that are called on patterns passed as arguments."""
ALWAYS_CLOSED = {"uwaga.markup.xml.TOKEN": ("<!", "<?")}
"""Openings that are always closed in the texts of a pattern: XML is checked before it is tokenised."""
TINY, SHORT, LONG = (10, 20, 100), 500, 2_000
"""Characters of the texts. Exponential time shows in tiny ones, cubic time in a short one; linear time grows
fourfold from a short one to a long one, quadratic time sixteenfold."""
MAX_GROWTH = 8.0
MAX_ATTEMPTS = 30
"""Measurements of a text that seems slow: beside a busy core most of them take too long, but not all."""
FAST_SECONDS = 0.001
"""Seconds of processor time below which a long text is fast; quadratic patterns take five times as much."""


def seconds(pattern: re.Pattern[Any], methods: frozenset[str], text: str) -> float:
    """Return the processor time of matching a text with a pattern as its module does."""
    subject: Any = text.encode() if isinstance(pattern.pattern, bytes) else text
    started = time.process_time()
    if methods and methods <= ANCHORED:
        for method in methods:
            getattr(pattern, method)(subject)
    else:
        for _ in pattern.finditer(subject):
            pass
    return time.process_time() - started


def growth(pattern: re.Pattern[Any], methods: frozenset[str], attack: Attack) -> float:
    """Return the factor by which the time grows from a short to a long text, or 0 if both are fast."""
    for size in TINY:
        text = attack.text(size)
        if seconds(pattern, methods, text) > 5 * FAST_SECONDS < seconds(pattern, methods, text):
            return float("inf")
    short_text, long_text = attack.text(SHORT), attack.text(LONG)
    short = seconds(pattern, methods, short_text)
    if short < FAST_SECONDS / 16:
        return 0.0
    if min(short, seconds(pattern, methods, short_text)) > 20 * FAST_SECONDS:
        return float("inf")
    long = float("inf")
    for attempt in range(MAX_ATTEMPTS):
        short = min(short, seconds(pattern, methods, short_text))
        long = min(long, seconds(pattern, methods, long_text))
        if long < max(FAST_SECONDS, MAX_GROWTH * short):
            return 0.0
        if attempt and long > 4 * MAX_GROWTH * short:  # cubic: twice is enough
            break
    return long / short


def slow_text_message(source: SourcePattern) -> str:
    """Return a message with a text on which a pattern is slow, or an empty string."""
    methods = frozenset(METHODS.get(source.location, source.methods))
    for attack in attacks(source.pattern):
        closed = attack.repeated.startswith(ALWAYS_CLOSED.get(source.location, ()))
        if not closed and growth(source.pattern, methods, attack) > MAX_GROWTH:
            return f"{source.location}: {source.pattern.pattern!r} is slow on {attack!r}"
    return ""


@pytest.mark.slow
def test_regular_expressions_match_in_linear_time():
    gc.collect()
    gc.disable()
    try:
        patterns = list(source_patterns(VALUES))
        slow = [problem for source in patterns if (problem := slow_text_message(source))]
    finally:
        gc.enable()
    assert len(patterns) > 200
    assert not slow, "\n".join(slow)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "pattern",
    [
        r"^\|\s*licen[cs]e[^|]*\|\s*([^|]+?)\s*\|", r"\s+\Z", r"(a|a)*b", r"(\w+\s?)*:",
        r"<meta[^>]*?charset", r"translation_(\w+?)_to_(\w+)", r"(?:[^\W_]+@)+\.",
    ],
)  # fmt: skip
def test_slow_pattern_is_detected(pattern):
    assert slow_text_message(SourcePattern("here", re.compile(pattern, re.MULTILINE), frozenset(("search",))))
