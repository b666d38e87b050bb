"""Text that is not translated: placeholders, addresses, identifiers, file names, numbers with units."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from uwaga.errors import SettingsError, shown
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
ENDINGS = (
    "txt|pdf|docx?|xlsx?|pptx?|csv|tsv|jsonl?|ya?ml|xml|html?|md|rst|py|js|ts|css|c|h|cpp|java|go|rs|rb|sh|bat|exe|"
    "dll|so|zip|t?gz|tar|bz2|xz|jpe?g|png|gif|svg|webp|mp[34]|wav|avi|mkv|ini|cfg|toml|conf|log|sql|db|iso|apk|deb|"
    "rpm|po|od[tsp]|epub|srt|vtt|xliff?"
)
FILE = rf"(?<![\w.-])[\w-]+(?:\.[\w-]+)*\.(?:{ENDINGS})(?!\w)"
IDENTIFIER = (
    r"(?<![\w&#])#(?:[\dA-Fa-f]{3,4}){1,2}(?!\w)|(?<![\w.@#&])[@#][A-Za-z]\w+|(?<![\w-])--[a-z][\w-]*\w|"
    r"(?<![\w.-])(?:[A-Za-z][A-Za-z\d]*+(?>(?:_++[A-Za-z\d]++)+)|"
    r"[a-z]{2,}+[A-Z][A-Za-z]\w*+|[A-Za-z]\w*+(?=\(\)))"
    r"(?:\(\))?(?!\w)|"
    r"(?<![\w.@/-])[A-Za-z_]\w++(?>(?:\.[A-Za-z_]\w++){2,})(?:\(\))?|\A[a-z]\w*+(?>(?:[.:][a-z]\w*+)+)\Z|"
    r"(?<![\w.@-])(?:[A-Za-z\d-]++\.)+(?:com|org|net|edu|gov|io|dev)(?!\w)|"
    r"(?<![\w+])(?:Ctrl|Alt|Shift|Cmd|Strg)(?:\+\w++)+"
)
"""Colours, mentions, options, names in programs, keys, domains, shortcuts."""
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
"""Addresses of networks, versions, dates, telephone numbers, hashes."""
ICU = r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\s*,"

LIKELY = re.compile(r"[{%$@/\\#_]|\d|\w[.:+]\w|--|\(\)|[a-z]{2}[A-Z]")
"""A part of every placeholder; most texts have none, and are scanned only once."""
USUAL = "|".join((URL, EMAIL, PATH, ICU_VALUE, BRACES, PERCENT, DOLLAR, NUMBER, CODE, IDENTIFIER, FILE))
COUNTED = re.compile(
    r"[\d+#$€£¥-]|%(?:\(\w+\))?[\d$+.-]*[dif]|[{%$(]*(?:n|num|number|count|total|\d+|\w+_count|\w+Count)\b"
)
"""A placeholder that begins like a number, or stands for one."""

MOST_BROKEN = 16
"""Unclosed ICU messages in a text after which no more are looked for."""


@dataclass(frozen=True)
class Placeholders:
    """The placeholders to keep: the common ones, and matches of the user's regular expressions."""

    more: tuple[str, ...] = ()

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The regular expression of all of them, in which the group ``icu`` begins an ICU message."""
        return re.compile("|".join([*(f"(?:{one})" for one in self.more), f"(?P<icu>{ICU})", USUAL]))

    def split(self, text: str) -> Inline:
        """Return a text with its placeholders as ``kept`` tags.

        An ICU message with branches is one placeholder, from brace to brace.
        """
        if not self.more and LIKELY.search(text) is None:
            return (text,) if text else ()
        parts: list[str | Tag] = []
        at = 0
        for start, end in self._places(text):
            parts += [text[at:start]] if start > at else []
            parts.append(Tag("kept", text[start:end], text[start:end]))
            at = end
        parts += [text[at:]] if at < len(text) else []
        return tuple(parts)

    def _places(self, text: str) -> Iterator[tuple[int, int]]:
        at = broken = 0
        while found := self.pattern.search(text, at):
            start, end = found.span()
            if found.lastgroup == "icu":
                closed = message_end(text, start) if broken < MOST_BROKEN else None
                if closed is None:
                    at, broken = start + 1, broken + 1
                    continue
                end = closed
            if end > start:
                yield start, end
            at = max(end, at + 1)


COMMON = Placeholders()


def kept_placeholders(wanted: bool | Iterable[str] | None) -> Placeholders | None:
    """Return the placeholders to keep.

    Args:
        wanted: True or None for the common placeholders; False for none; regular expressions for more.
    """
    if wanted is None or wanted is True:
        return COMMON
    if wanted is False:
        return None
    if isinstance(wanted, str | bytes) or not isinstance(wanted, Iterable):
        raise SettingsError(
            f"placeholders must be True, False or regular expressions in a list, not {shown(wanted)}"
        )
    more = []
    for one in wanted:
        try:
            empty = re.compile(one).fullmatch("")
            more.append(re.compile(one).pattern if isinstance(one, str) else "")
        except (re.error, TypeError) as error:
            raise SettingsError(f"placeholders: {shown(one)} is not a regular expression: {error}") from None
        if empty is not None or not isinstance(one, str):
            raise SettingsError(
                f"placeholders: {shown(one)} must be a string that does not match the empty string"
            )
    kept = Placeholders(tuple(more))
    try:
        _ = kept.pattern  # compiles them
    except re.error as error:
        raise SettingsError(f"placeholders: the patterns cannot be combined: {error}") from None
    return kept


def is_quantity(text: str) -> bool:
    """Return whether a text is a number with a unit, which models often copy."""
    return re.fullmatch(NUMBER, text) is not None


def is_counted(text: str) -> bool:
    """Return whether a placeholder looks like a number."""
    return COUNTED.match(text) is not None
