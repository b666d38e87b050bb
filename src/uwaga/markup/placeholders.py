"""Text that is not translated: placeholders, addresses, identifiers, file names, numbers with units."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from uwaga.errors import SettingsError, quoted
from uwaga.markup.icu import message_end
from uwaga.markup.inline import Inline, Tag

URL = r"(?:https?|ftp|file)://[^\s<>\"'{}|\\^`]*[\w/#=&~]|www\.[\w-]+\.[^\s<>\"'{}|\\^`]*[\w/#=&~]"
EMAIL = r"(?<![\w.+-])(?:mailto:)?[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
BRACES = r"\{\{[^{}]{0,200}\}\}|[$%#]\{[^{}]{1,200}\}|\{[\w.\-\[\]]*(?:![rsa])?(?::[^{}]{0,100})?\}"
ICU_VALUE = r"\{\s*\w+\s*,\s*(?:number|date|time|spellout|ordinal|duration)\s*(?:,[^{}]{0,200})?\}"
PERCENT = (
    r"%%|%[A-Z_][A-Z0-9_]*+%|(?<!\d)%(?>(?:\(\w++\))?)(?>(?:\d++\$)?)[-+#0]*+"
    r"(?>(?:\d++|\*)?)(?>(?:\.\d++)?)(?:hh|h|ll|l|L|z|j|t)?"
    r"(?:[di]|[A-Za-z@](?![A-Za-z]))"
)
"""Conversions of ``printf`` and of ``strftime``."""
DOLLAR = r"\$[A-Za-z_]\w*"
UNITS = (
    "km/h|m/s|mph|rpm|km|cm|dm|mm|µm|nm|m²|m³|km²|m|kg|mg|µg|g|ml|cl|dl|l|L|[kKMGTP]i?B|[kMG]?bit/s|[kMG]?Hz|"
    "[kMG]?Wh?|mAh|[km]?V|Ω|°[CF]?|px|pt|dpi|[hk]?Pa|bar|ms|%"
)
NUMBER = rf"(?<![\w.,])[+-]?\d++(?>(?:[.,]\d++)*)[ \u00a0\u202f]?(?:{UNITS})(?![\w%])"
PATH = (
    r"\$\{?\w+\}?(?:/[\w.+@-]*\w)+|(?<![\w/.~$+@-])(?:~|\.{1,2})?/(?:[\w.+@-]+/)+[\w.+@-]*\w|"
    r"(?<![\w/.-])[\w.-]+(?:/[\w.-]+)+\.[A-Za-z]\w{0,4}(?!\w)|"
    r"(?<!\w)[A-Za-z]:\\[^\s\"<>|]*\w"
)
FILE_EXTENSIONS = (
    "txt|pdf|docx?|xlsx?|pptx?|csv|tsv|jsonl?|ya?ml|xml|html?|md|rst|py|js|ts|css|c|h|cpp|java|go|rs|rb|sh|bat|exe|"
    "dll|so|zip|t?gz|tar|bz2|xz|jpe?g|png|gif|svg|webp|mp[34]|wav|avi|mkv|ini|cfg|toml|conf|log|sql|db|iso|apk|deb|"
    "rpm|po|od[tsp]|epub|srt|vtt|xliff?"
)
FILE = rf"(?<![\w.-])[\w-]+(?:\.[\w-]+)*\.(?:{FILE_EXTENSIONS})(?!\w)"
IDENTIFIER = (
    r"(?<![\w&#])#(?:[\dA-Fa-f]{3,4}){1,2}(?!\w)|(?<![\w.@#&])[@#][A-Za-z]\w+|(?<![\w-])--[a-z][\w-]*\w|"
    r"(?<![\w.-])(?:[A-Za-z][A-Za-z\d]*+(?>(?:_++[A-Za-z\d]++)+)|"
    r"[a-z]{2,}+[A-Z][A-Za-z]\w*+|[A-Za-z]\w*+(?=\(\)))"
    r"(?:\(\))?(?!\w)|"
    r"(?<![\w.@/-])[A-Za-z_]\w++(?>(?:\.[A-Za-z_]\w++){2,})(?:\(\))?|\A[a-z]\w*+(?>(?:[.:][a-z]\w*+)+)\Z|"
    r"(?<![\w.@-])(?:[A-Za-z\d-]++\.)+(?:com|org|net|edu|gov|io|dev)(?!\w)|"
    r"(?<![\w+])(?:Ctrl|Alt|Shift|Cmd|Strg)(?:\+\w++)+"
)
"""Colours, mentions, options, identifiers, keys, domains, shortcuts."""
THOUSANDS = r"\d{1,3}(?>(?:\.\d{3})+)(?![\d.])"
CODE = (
    r"(?<![\w.,])\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2}|:\d{1,5})?(?!\w|\.\d)|"
    r"(?<![\w:.])(?:[\dA-Fa-f]{1,4}:){2,7}[\dA-Fa-f]{1,4}(?![\w:])|"
    r"(?<![\w:.])(?:[\dA-Fa-f]{1,4}:){1,6}(?::[\dA-Fa-f]{1,4}){1,6}(?![\w:])|"
    rf"(?<![\w.,])(?!{THOUSANDS}|\d\d?\.\d\d?\.\d{{4}}(?!\d))v?\d++(?>(?:\.\d++){{2,}})(?:-[\w.]*\w)?(?!\w)|"
    r"(?<![\w.,+-])\d++(?>(?:-\d++){2,})(?:[T ][\d:.]*\dZ?)?(?![\w-])|(?<![\w.,+-])\d{3}-\d{4}(?![\w-])|"
    r"(?<![\w+])\+\d(?:[ ()./-]{0,2}\d){6,15}(?!\w)|"
    r"(?<![\w.,+-])(?:\(\d{2,5}\) ?|0\d{1,4}[ /-]?)\d(?:[ -]?\d){4,12}(?![\w.,-]?\d)(?!\w)|"
    r"(?<![\w-])(?=\d*[A-Fa-f])(?=[A-Fa-f]*\d)[\dA-Fa-f]{7,}(?:-[\dA-Fa-f]{4,}){0,4}(?![\w-])"
)
"""Network addresses, versions, dates, telephone numbers, hashes."""
ICU = r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\s*,"

PLACEHOLDER_HINT = re.compile(r"[{%$@/\\#_]|\d|\w[.:+]\w|--|\(\)|[a-z]{2}[A-Z]")
"""Occurs in every placeholder; most texts have no match, and are scanned only once."""
COMMON_PATTERNS = "|".join(
    (URL, EMAIL, PATH, ICU_VALUE, BRACES, PERCENT, DOLLAR, NUMBER, CODE, IDENTIFIER, FILE)
)
NUMBER_LIKE = re.compile(
    r"[\d+#$€£¥-]|%(?:\(\w+\))?[\d$+.-]*[dif]|[{%$(]*(?:n|num|number|count|total|\d+|\w+_count|\w+Count)\b"
)
"""A placeholder that begins like a number or stands for a number."""

MAX_BROKEN_MESSAGES = 16
"""Maximum unclosed ICU messages in a text; after them, no more messages are searched for."""


@dataclass(frozen=True)
class Placeholders:
    """The placeholders to keep: the common ones and matches of the user's regular expressions."""

    extra_patterns: tuple[str, ...] = ()

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The regular expression of all placeholders; its group ``icu`` is the start of an ICU message."""
        return re.compile(
            "|".join(
                [*(f"(?:{pattern})" for pattern in self.extra_patterns), f"(?P<icu>{ICU})", COMMON_PATTERNS]
            )
        )

    def split(self, text: str) -> Inline:
        """Return a text with its placeholders as ``kept`` tags.

        An ICU message with branches is one placeholder, from brace to brace.
        """
        if not self.extra_patterns and PLACEHOLDER_HINT.search(text) is None:
            return (text,) if text else ()
        parts: list[str | Tag] = []
        position = 0
        for start, end in self._spans(text):
            parts += [text[position:start]] if start > position else []
            parts.append(Tag("kept", text[start:end], text[start:end]))
            position = end
        parts += [text[position:]] if position < len(text) else []
        return tuple(parts)

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        position = broken = 0
        while match := self.pattern.search(text, position):
            start, end = match.span()
            if match.lastgroup == "icu":
                icu_end = message_end(text, start) if broken < MAX_BROKEN_MESSAGES else None
                if icu_end is None:
                    position, broken = start + 1, broken + 1
                    continue
                end = icu_end
            if end > start:
                yield start, end
            position = max(end, position + 1)


COMMON_PLACEHOLDERS = Placeholders()


def resolve_placeholders(option: bool | Iterable[str] | None) -> Placeholders | None:
    """Return the placeholders to keep.

    Args:
        option: True or None for the common placeholders; False for none; regular expressions for additional
            ones.
    """
    if option is None or option is True:
        return COMMON_PLACEHOLDERS
    if option is False:
        return None
    if isinstance(option, str | bytes) or not isinstance(option, Iterable):
        raise SettingsError(
            f"placeholders must be True, False or regular expressions in a list, not {quoted(option)}"
        )
    patterns = []
    for pattern in option:
        try:
            empty_match = re.compile(pattern).fullmatch("")
            patterns.append(re.compile(pattern).pattern if isinstance(pattern, str) else "")
        except (re.error, TypeError) as error:
            raise SettingsError(
                f"placeholders: {quoted(pattern)} is not a regular expression: {error}"
            ) from None
        if empty_match is not None or not isinstance(pattern, str):
            raise SettingsError(
                f"placeholders: {quoted(pattern)} must be a string that does not match the empty string"
            )
    placeholders = Placeholders(tuple(patterns))
    try:
        _ = placeholders.pattern  # compiles them
    except re.error as error:
        raise SettingsError(f"placeholders: the patterns cannot be combined: {error}") from None
    return placeholders


def is_quantity(text: str) -> bool:
    """Return whether a text is a number with a unit, which models usually copy."""
    return re.fullmatch(NUMBER, text) is not None


def is_number_like(text: str) -> bool:
    """Return whether a placeholder looks like a number."""
    return NUMBER_LIKE.match(text) is not None
