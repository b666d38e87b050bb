"""Sentence splitting: Unicode's sentence boundaries (UAX #29, rules SB3 to SB11), tailored for translation.

A sentence ends with a mark, closing quotes and brackets, and spaces, unless the following text shows that it
continues: a lower-case letter (SB8), a comma (SB8a), or no space, as in numbers, acronyms and names of
websites (SB6, SB7). Marks of scripts without spaces between sentences (``。``) or without capitals (``।``,
``؟``) need no space. In the standard, the meaning of a full stop after an abbreviation, an initial or a
number depends on the language; see :mod:`uwaga.tokenizers.abbreviations`.

Further rules are tailored for brackets (a mark within a nearby pair of brackets does not end a sentence),
list items and texts without capitals.
"""

from __future__ import annotations

import re
from functools import cache

from uwaga.tokenizers.abbreviations import FullStops, full_stops

SPACED_MARKS = "!.?\u2024\u2026\u203c\u203d\u2047-\u2049\u2e2e\ufe52\ufe56\ufe57"
"""Marks that end a sentence only before a space: those of UAX #29's ATerm and STerm, and the ellipsis."""
UNSPACED_MARKS = (
    "\u0589\u061d-\u061f\u06d4\u0700-\u0702\u07f9\u0837\u0839\u083d\u083e\u0964\u0965\u104b\u1362\u1367\u1368"
    "\u166e\u1735\u1736\u17d4\u17d5\u1803\u1809\u1944\u1945\u1aa8-\u1aab\u1b5a\u1b5b\u1b5e\u1b5f\u1c3b\u1c3c"
    "\u1c7e\u1c7f\u2cf9-\u2cfb\u3002\ua4ff\ua60e\ua60f\ua6f3\ua6f7\ua876\ua877\ua8ce\ua8cf\ua92f\ua9c8\ua9c9"
    "\uaa5d-\uaa5f\uaaf0\uaaf1\uabeb\ufe12\ufe15\ufe16\uff01\uff0e\uff1f\uff61"
)
"""Marks that need no following space: the full-width full stop, and UAX #29's STerm of the scripts in use."""
CONTINUATION_MARKS = (
    ",:;\u037e\u055d\u060c\u060d\u07f8\u1802\u1808\u3001\ufe10\ufe11\ufe13\ufe14\ufe50\ufe51\uff0c\uff1a\uff1b"
    "\uff64"
)
"""UAX #29's SContinue, without dashes because these also introduce direct speech."""
CLOSING = (
    r")\]}\u00bb\u2019\u201d\u203a\u2046\u207e\u208e\u2309\u230b\u232a\u3009\u300b\u300d\u300f\u3011\u3015\u3017\u3019"
    r"\u301b\u301e\u301f\ufe5a\ufe5c\ufe5e\uff09\uff3d\uff5d\uff60\uff63"
)
"""Closing brackets and quotes of UAX #29's Close."""
QUOTES = "\"'*_`\u00ab\u00b4\u2018\u201a-\u201c\u201e\u201f\u2039"
"""Signs of emphasis, and quotation marks that may be closing ones.

They are closing quotes in some languages, and in every language between a mark and a space.
"""
INVISIBLE = "\u00ad\u0300-\u036f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff"
"""Characters of UAX #29's Extend and Format (SB5) that may follow marks."""
FOOTNOTE = r"\[\w{1,3}\]|[\u00b9\u00b2\u00b3\u2070-\u2079]"
BULLETS = "\u2022\u2023\u2043\u25aa\u25cf\u25e6"
"""Signs before list items."""
UNSPACED_MARK = re.compile(rf"[{UNSPACED_MARKS}]")
FOLLOWING_WORD = re.compile(r"[\W_]{0,32}+(?P<word>[^\W_](?:\w|['\u2019](?=\w)){0,24})?")
"""Pattern of the start of the text after a sentence: a limited number of signs, and a word."""
IN_BRACKETS = re.compile(r"[^()\[\]（）《》]{0,80}+[)\]）》]")
QUOTATIVE_PARTICLE = re.compile(r"(?<=[\u300d\u300f])(?:と|って)")
ACRONYM = re.compile(
    r"(?<![^\s\"'(\[/\u2019\u201c\u201e\u00ab-])"
    r"(?:(?:[^\W\d_]\. ?){1,8}[^\W\d_]|(?:[^\W\d_]{1,2}\.){1,8}[^\W\d_]{1,3})\Z"
)
"""Pattern of letters with full stops between them, such as ``U.S``, ``z. B``, ``Ph.D``."""
ROMAN = re.compile(r"[IVXLC]{2,6}")
LIST_ITEM = re.compile(r"(\d{1,3}|[a-z])\.")
OUTER_SIGNS = (
    "([{<\"'*_`\u00a1\u00ab\u00bb\u00bf\u2018\u201a\u201b\u201c\u201d\u201e\u201f\u2039\u203a"
    "\u200e\u200f\u202a\u202b\u202c"
)
"""Signs around a word that are not part of it."""
ELLIPSIS = re.compile(r"\u2026|[.\u2026][.\u2026 \xa0]++")
WORD_JOINER = re.compile(r"[/'\u2019\u2013\u2014-]")
MAX_ABBREVIATION_CHARACTERS = 24
"""Number of characters that are read before a full stop; no abbreviation is longer."""
MAX_BRACKET_DISTANCE = 80
"""Maximum number of characters between a mark and each bracket of a pair around it."""


def split_sentences(line: str, language: str) -> list[str]:
    """Split a line into sentences, which equal the line when they are joined.

    Spaces after a sentence are part of it. The time is linear in the length of the line, because a bounded
    number of characters is read around each mark.

    Args:
        line: text without line breaks.
        language: a code such as ``en`` or ``de_AT``; languages without specific rules use general rules.
    """
    stops = full_stops(language)
    has_capitals = not line.islower()
    sentences, start = [], 0
    letter_start = _first_letter(_match_following(line, 0))
    for end in _end_pattern(stops.marks).finditer(line):
        cut = _find_cut(line, end, letter_start, stops, has_capitals) if end.start() > letter_start else None
        if cut is not None:
            sentences.append(line[start:cut])
            start = cut
            letter_start = _first_letter(_match_following(line, start))
    if start < len(line):
        sentences.append(line[start:])
    return sentences


@cache
def _end_pattern(marks: str) -> re.Pattern[str]:
    """Return the pattern of the end of a sentence: UAX #29's SATerm with further ``marks``, Close and Sp.

    The pattern also matches bullets.
    """
    all_marks = SPACED_MARKS + UNSPACED_MARKS + marks
    return re.compile(
        rf"(?P<marks>[{all_marks}{BULLETS}](?>(?:[{all_marks}]|[ \xa0][.!?\u2026]++(?!\w))*))"
        rf"(?>(?:[{CLOSING}{INVISIBLE}]|(?<![{UNSPACED_MARKS}])[{QUOTES}]|{FOOTNOTE})*)"
        rf"(?>(?:\s?(?:[)\]]|[{CLOSING}](?=[\s,.;:!?\u2026]|\Z)|\[\d{{1,3}}\]))*)"
        rf"(?P<more>[{all_marks}{CLOSING}]*+)(?P<space>\s*+)"
    )


def _match_following(line: str, start: int) -> re.Match[str]:
    """Match the signs and the word that begin at a position."""
    following_word = FOLLOWING_WORD.match(line, start)
    assert following_word is not None  # all parts are optional
    return following_word


def _first_letter(following: re.Match[str]) -> int:
    """Return the position of the matched word, or the end of the match if there is none."""
    return following.start("word") if following["word"] else following.end()


def _find_cut(line: str, end: re.Match[str], start: int, stops: FullStops, has_capitals: bool) -> int | None:
    """Return the end of the sentence that starts at ``start``; None if it does not end at this mark.

    If ``has_capitals``, the line contains capital letters, so a lower-case word does not begin a sentence.
    """
    marks, position, stop = end["marks"], end.start(), end.end()
    if stop == len(line):
        return None
    following = _match_following(line, stop)
    if following.end() == len(line) and not following["word"]:
        return None
    if marks[0] in BULLETS:
        return position if line[position - 1].isspace() else None
    needs_space = UNSPACED_MARK.search(marks) is None
    is_ellipsis = ELLIPSIS.fullmatch(marks) is not None
    if needs_space and not end["space"]:  # SB6, SB7
        is_unspaced = all(map(_is_kana_or_ideograph, (line[position - 1], line[stop])))
        return stop if is_unspaced and not is_ellipsis else None
    if (
        line[position - 1] in "([{"
        or line[stop] in CONTINUATION_MARKS
        or _is_in_brackets(line, position, stop)
    ):  # SB8a
        return None
    if not needs_space:  # SB11
        is_decimal = marks == "\uff0e" and line[stop].isalnum() and not _is_kana_or_ideograph(line[stop])
        return None if is_decimal or QUOTATIVE_PARTICLE.match(line, stop) else stop
    word = following["word"] or ""
    if has_capitals and word.islower():  # SB8
        return None
    if marks == "." and not end["more"]:
        return _find_cut_at_full_stop(line, end, start, following, stops)
    return None if is_ellipsis and not word[:1].isalpha() else stop


def _is_kana_or_ideograph(letter: str) -> bool:
    """Return whether a letter is kana or an ideograph."""
    return "\u3040" <= letter <= "\u30ff" or "\u3400" <= letter <= "\u4dbf" or "\u4e00" <= letter <= "\u9fff"


def _is_in_brackets(line: str, position: int, stop: int) -> bool:
    """Return whether a mark is within a nearby pair of brackets."""
    if IN_BRACKETS.match(line, stop) is None:
        return False
    left = max(0, position - MAX_BRACKET_DISTANCE)
    return any(
        line.rfind(a, left, position) > line.rfind(b, left, position) for a, b in ("()", "[]", "（）", "《》")
    )


def _find_cut_at_full_stop(
    line: str, end: re.Match[str], start: int, following: re.Match[str], stops: FullStops
) -> int | None:
    """Return the end of a sentence at a full stop, judged by nearby words; None if it does not end there."""
    position, stop = end.start(), end.end()
    text_before = line[max(start, position - MAX_ABBREVIATION_CHARACTERS) : position]
    if text_before[-1].isspace():
        return stop
    token = text_before.split()[-1].strip(OUTER_SIGNS)
    part = token if token.isalpha() else WORD_JOINER.split(token)[-1]
    name = part.lower()
    is_letter, is_number = len(part) == 1, part.isdigit() or ROMAN.fullmatch(part) is not None
    if token.isalpha() and not (
        is_letter or is_number or name in stops.abbreviations or name.endswith("str")
    ):
        return stop  # the usual case
    if position - len(token) <= start and (is_number or is_letter):
        return None  # the number or letter of a list item
    if (is_number or is_letter) and (item := LIST_ITEM.match(line, start)) and _is_next_item(part, item[1]):
        return position - len(part)
    acronym = ACRONYM.search(text_before)
    names = {name, token.lower(), acronym[0].replace(" ", "").lower() if acronym else name}
    if name.endswith("str"):
        names.add("str")  # Goethestr.
    word = following["word"] or ""
    number_follows = word[:1].isdigit() or ROMAN.fullmatch(word) is not None
    has_full_stop = line[following.end() : following.end() + 1] == "."
    starter_follows = not has_full_stop and word.lower().replace("\u2019", "'") in stops.starters
    if names & stops.titles:
        return stop if starter_follows and names & stops.final else None
    if (number_follows and names & stops.before_numbers) or (is_letter and has_full_stop and len(word) == 1):
        return None
    may_end = bool(names & stops.final)
    if acronym or may_end or (is_letter and part.isalpha() and not part.islower()):
        may_end_before_capital = may_end and not stops.starters and not number_follows
        return stop if starter_follows or may_end_before_capital else None
    is_ordinal = (
        is_number
        and len(part) <= 3
        and (stops.ordinals == "all" or (stops.ordinals == "roman" and part.isalpha()))
    )
    return stop if starter_follows or not is_ordinal else None


def _is_next_item(item: str, previous_item: str) -> bool:
    """Return whether the number or letter of a list item follows that of the previous item."""
    if item.isdecimal() and previous_item.isdecimal():
        return int(item) == int(previous_item) + 1
    return len(item) == len(previous_item) == 1 and ord(item) == ord(previous_item) + 1
