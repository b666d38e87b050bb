"""Parts of a text that are not translated: placeholders, addresses, identifiers, file names, quantities."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from uwaga.errors import SettingsError, quoted
from uwaga.markup.icu import MAX_BROKEN_MESSAGES, message_end
from uwaga.markup.inline import Inline, Tag, is_kept

URL = r"(?:https?|ftp|file)://[^\s<>\"'{}|\\^`]*[\w/#=&~]|www\.[\w-]+\.[^\s<>\"'{}|\\^`]*[\w/#=&~]"
EMAIL = r"(?<![\w.+-])(?:mailto:)?[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
BRACES = (
    r"\{\{[^{}]{0,200}\}\}|[$%#]\{[^{}]{1,200}\}|\{'[^'{}]{1,20}'\}|"
    r"\{[\w.\-\[\]]*(?:![rsa])?(?::(?>(?:[^{}]|\{[^{}]{0,50}\}){0,100}))?\}"
)
ICU_VALUE = (
    r"\{\s*\w+\s*,\s*(?!(?:plural|select|selectordinal)\b)\w+\s*(?:,[^{}]{0,200})?\}|"
    r"\{\s*\w+\s*,\s*choice\s*,(?>(?:[^{}]|\{[^{}]{0,50}\}){0,200})\}"
)
"""An argument of ICU or of Java's ``MessageFormat`` without branches, such as ``{0, number}``."""
TEMPLATE = r"<%[^\n]{0,200}?%>"
CONVERSION = (
    r"%(?>(?:\([^()\n]{1,100}\)|<(?!PRI)\w{1,100}>)?)(?>(?:\d++\$)?)"
    r"(?>(?:[-+#0^]|'[*_.=~#]?|I(?=[diu]))*)(?>(?:\d++|\*(?:\d++\$)?)?)(?>(?:\.(?:\d++|\*(?:\d++\$)?)?)?)"
    r"(?:<PRI\w{1,10}>|<\w{1,100}>[-+#0\d.]{0,10}[A-Za-z]|(?:hh|h|ll|l|L|q|j|z|t)?[A-Za-z@])"
)
"""A conversion of ``printf`` in C, Python, Ruby, PHP, Java and Objective-C, or of ``strftime``."""
ATTACHED_LETTERS = r"(?>(?:[A-Za-z]{1,3}(?![A-Za-z]))?)"
"""The unit or ending that follows a conversion, as in ``%.1fs`` and ``%sKB``."""
PERCENT = (
    r"%%|%#@\w+@|%[A-Za-z_]\w*+%(?![A-Za-z%])|%\d{1,2}%(?![\w%])|(?<=%\d)%L?\d{1,2}(?!\d)|"
    rf"(?<!\d)(?:%L\d{{1,2}}(?!\d)|(?!%[A-Za-z]){CONVERSION}{ATTACHED_LETTERS}|%[sd](?=[A-Z][a-z]{{2}})|"
    r"%[A-Za-z]++(?>(?:_[A-Za-z\d]++)*)|%L?\d{1,2}(?!\d))|"
    r"(?<=\d)%[sd](?![A-Za-z])"
)
"""Conversions, and the numbered and named arguments of Qt, boost, Symfony and Drupal."""
DOLLAR = r"\$[A-Za-z_]\w*+\$(?![A-Za-z\d{])|\$[A-Za-z_]\w*"
UNITS = (
    "km/h|m/s|mph|rpm|km|cm|dm|mm|µm|nm|m²|m³|km²|m|kg|mg|µg|g|ml|cl|dl|l|L|[kKMGTP]i?B|[kMG]?bit/s|[kMG]?Hz|"
    "[kMG]?Wh?|mAh|[km]?V|Ω|°[CF]?|px|pt|dpi|[hk]?Pa|bar|ms|%"
)
NUMBER = rf"(?<![\w.,])[+\-−]?\d++(?>(?:[.,]\d++)*)[ \u00a0\u202f]?(?:{UNITS})(?![\w%<>])"
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
    r"(?<![\w:])[A-Za-z_]\w*+(?>(?:::[A-Za-z_]\w*+)+)(?:\(\))?|"
    r"(?<![\w.@-])(?:[A-Za-z\d-]++\.)+(?:com|org|net|edu|gov|io|dev)(?!\w)|"
    r"(?<![\w+])(?:Ctrl|Alt|Shift|Cmd|Strg)(?:\+\w++)+"
)
"""A colour, mention, command-line option, identifier, key, domain or keyboard shortcut."""
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
"""A network address, version, date, telephone number or hash."""
QUOTED_CODE = (
    r"(?<![\w`])``[^`\s](?:[^`\n]{0,200}[^`\s])?``(?![\w`])|(?<![\w`])`[^`\s]{1,200}`(?![\w`])|"
    r"(?<![\w:]):(?:[A-Za-z]\w*+:){1,2}`[^`\n]{1,200}`(?![\w`])|"
    r"(?<![\w`])`[^`<>\n]{1,200} <[^`<>\s]{1,300}>`__?(?![\w`])"
)
"""Code in backquotes, as in Markdown and reStructuredText, or a role or link such as ``:func:`len```."""
TEXT_ROLE = r":(?:std:)?(?:any|doc|download|numref|pep|ref|rfc|term):"
TITLED_ROLE = rf"((?:{TEXT_ROLE})?`)([^`<>\n]{{1,200}})( <[^`<>\s]{{1,300}}>`(?:__?)?)"
"""A role or link of reStructuredText whose title is translated, such as ``:ref:`the index <genindex>```."""
ICU = r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\s*,"

PLACEHOLDER_HINT = re.compile(
    r"[{%$@/\\#_`\d.+:(\-A-Z](?:(?<=[{%$@/\\#_`\d])|(?<=\w[.:+])(?=\w)|(?<=:)(?=:)|(?<=-)(?=-)|"
    r"(?<=\()(?=\))|(?<=[a-z]{2}[A-Z]))"
)
"""A pattern that matches in every placeholder; most texts have no match, and are scanned only once.

A match is one of ``{%$@/\\#_```, a digit, one of ``.:+`` between word characters, ``::``, ``--``, ``()``, or
a capital letter after two lower-case letters. A search is fastest for a pattern that begins with a set of
characters.
"""
ADDRESSES = (URL, EMAIL, PATH)
VALUES = (ICU_VALUE, BRACES, TEMPLATE, PERCENT, DOLLAR, NUMBER, CODE, IDENTIFIER, FILE)
PRINTF = CONVERSION + ATTACHED_LETTERS
NOT_NUMBERED = r"(?!%\d++\$|%[(%]|%[-+#0\d.]*+<(?!PRI)|%\d*+m)"
NEXT_ARGUMENT_CONVERSION = NOT_NUMBERED + CONVERSION
"""A conversion that takes the next argument, because it has no argument number or name."""
NEXT_ARGUMENT_BRACES = r"\{(?!:[A-Za-z_]\w{2,}\})(?:![rsa])?(?::(?>(?:[^{}]|\{[^{}]{0,50}\}){0,100}))?\}"
"""A placeholder in braces that takes the next argument, but not ``{:name}``."""
NEXT_ARGUMENT_PLACEHOLDER = (
    rf"(?!%[\dA-F]{{2}}){NEXT_ARGUMENT_CONVERSION}[A-Za-z]{{0,2}}(?![A-Za-z])|%\|(?!\d++\$)|{NEXT_ARGUMENT_BRACES}|"
    r"\A~[^/\s]*[A-Za-z]\Z"
)
"""A placeholder of any syntax that takes the next argument, unless it is a name such as ``%site``."""

COLON_NAME = r"(?<![\w:/])[A-Za-z]?:[A-Za-z_]\w*+(?>(?:/?:{1,2}[A-Za-z_]\w*+)*):?"
DRUPAL_NAME = r"(?:[!@:][a-z]|%[a-z]\w)\w*+(?>(?:-\w++)*)"
SYNTAXES: Mapping[str, str] = {
    "printf": PRINTF,
    "gcc": r"%<[^\n]{0,200}?%>|%[<>'{}]|%(?:\d++\$)?[q+#lwzt]*+(?:\.(?:\d++|\*))?[A-Za-z]" + ATTACHED_LETTERS,
    "qt": r"%L?(?:\d{1,2}|n)",
    "kde": r"%\d{1,2}",
    "boost": rf"%\d{{1,2}}%|%\|[^|\n]{{1,30}}\||{PRINTF}",
    "pascal": r"%(?:\d++:)?-?(?>(?:\d++|\*)?)(?:\.(?:\d++|\*))?[A-Za-z]",
    "go": rf"%[-+# 0]*+[\d.]*+\[\d{{1,3}}\][A-Za-z]|{PRINTF}",
    "lisp": r"~(?>(?:[+-]?\d++|'.|[,:@#vV])*)[A-Za-z%&~]",
    "objc": rf"%(?:\d++\$)?#@\w+@|{PRINTF}",
    "laravel": COLON_NAME,
    "vue": r"@(?:\.\w+)?:(?:\w++(?>(?:[.-]\w++)*)|\([^()]{1,100}\)|\{'[^']{1,100}'\})",
    "i18next": r"\$t\([^()\n]{1,200}\)",
    "chrome": r"\$[A-Za-z\d_@]++\$|\$\d|\$\$(?:\d++(?>(?:[.,]\d++)*))?",
    "drupal": rf"(?:(?<![\w!@%:])[A-Za-z]?|(?<=:)(?=[!@%])){DRUPAL_NAME}(?>(?:[:/]?{DRUPAL_NAME})*)",
    "icu number": "#",
}
"""For each syntax, the placeholders that are not common to all syntaxes or that it reads differently."""
NUMBER_LIKE = (
    r"[\d+#$€£¥-]|%(?:\(\w+\))?[\d$+.-]*[dif]|[{%$(]*(?:n|num|number|count|total|\d+|\w+_count|\w+Count)\b"
)
"""A placeholder that begins like a number or stands for a number."""


@dataclass(frozen=True)
class Placeholders:
    """The kinds of placeholders that translations preserve.

    Attributes:
        extra_patterns: regular expressions given by the user.
        syntaxes: names of syntaxes in :data:`SYNTAXES`; they take precedence over the common placeholders.
    """

    extra_patterns: tuple[str, ...] = ()
    syntaxes: tuple[str, ...] = ()

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The regular expression of all placeholders; its group ``icu`` is the start of an ICU message."""
        extra_patterns = [f"(?:{pattern})" for pattern in self.extra_patterns]
        syntaxes = [SYNTAXES[name] for name in self.syntaxes]
        return re.compile(
            "|".join([*extra_patterns, f"(?P<icu>{ICU})", QUOTED_CODE, *ADDRESSES, *syntaxes, *VALUES])
        )

    def split(self, text: str) -> Inline:
        """Return a text in which the placeholders are ``kept`` tags.

        The title of a role or link of reStructuredText is text between two tags. An ICU message with branches
        is one placeholder, from brace to brace.
        """
        if not self.extra_patterns and not self.syntaxes and PLACEHOLDER_HINT.search(text) is None:
            return (text,) if text else ()
        parts: list[str | Tag] = []
        position = 0
        for start, end in self._spans(text):
            parts += [text[position:start]] if start > position else []
            parts += self._piece(text[start:end])
            position = end
        parts += [text[position:]] if position < len(text) else []
        return tuple(parts)

    def _piece(self, text: str) -> Inline:
        """Return a placeholder as a ``kept`` tag, or as a pair of tags around its title."""
        match = re.fullmatch(TITLED_ROLE, text)
        if match is None:
            return (Tag("kept", text, text),)
        start, title, end = match.groups()
        return (Tag("open", start), *self.split(title), Tag("close", end))

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        position = broken_count = 0
        while match := self.pattern.search(text, position):
            start, end = match.span()
            if match.lastgroup == "icu":
                icu_end = message_end(text, start) if broken_count < MAX_BROKEN_MESSAGES else None
                if icu_end is None:
                    position, broken_count = start + 1, broken_count + 1
                    continue
                end = icu_end
            if end > start:
                yield start, end
            position = max(end, position + 1)


COMMON_PLACEHOLDERS = Placeholders()
"""The placeholders that are kept by default."""


def resolve_placeholders(option: bool | Iterable[str] | None) -> Placeholders | None:
    """Return the placeholders to keep, or None if none are kept.

    Args:
        option: True or None for the common placeholders, False for none, or regular expressions of
            placeholders in addition to the common ones.
    """
    if option is None or option is True:
        return COMMON_PLACEHOLDERS
    if option is False:
        return None
    if isinstance(option, str | bytes) or not isinstance(option, Iterable):
        raise SettingsError(
            f"placeholders must be True, False or a list of regular expressions, not {quoted(option)}"
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
        _ = placeholders.pattern  # compiles the combined patterns
    except re.error as error:
        raise SettingsError(f"placeholders: the patterns cannot be combined: {error}") from None
    return placeholders


def is_quantity(text: str) -> bool:
    """Return whether a text is a number with a unit, which models usually copy."""
    return not text.startswith("−") and re.fullmatch(NUMBER, text) is not None


def is_number_like(text: str) -> bool:
    """Return whether a placeholder looks like a number."""
    return re.match(NUMBER_LIKE, text) is not None


def keep_order(source: Inline, translation: Inline) -> Inline:
    """Return the translation with its unnumbered and unnamed arguments in the order of the source."""
    arguments = [part for part in source if is_kept(part) and re.search(NEXT_ARGUMENT_PLACEHOLDER, part.raw)]
    positions = [
        index
        for index, part in enumerate(translation)
        if is_kept(part) and re.search(NEXT_ARGUMENT_PLACEHOLDER, part.raw)
    ]
    if len(positions) != len(arguments):
        return translation
    parts = list(translation)
    for position, argument in zip(positions, arguments, strict=True):
        parts[position] = argument
    return tuple(parts)
