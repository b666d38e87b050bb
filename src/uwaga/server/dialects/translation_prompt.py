"""Find the text and the languages in a prompt that asks for a translation.

A prompt names the language to translate to after *to* or *into*, as does ``Translate the following text into
German:``; :func:`asked_languages` finds it. :func:`read_prompt` says where the text begins.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from uwaga.languages.codes import base_language
from uwaga.languages.names import NAMES, language_code

TO = re.compile(r"\b(?:in)?to\s+[\"'“‘*]{0,2}", re.IGNORECASE)
FROM = re.compile(r"\bfrom\s+[\"'“‘*]{0,2}", re.IGNORECASE)
WORD = re.compile(r"[^\W_][^\s()\"'“”‘’«»*,.:;!?，。：；！？]{0,40}|\([^()\n]{1,40}\)")
CODE = re.compile(r"[a-z]{2,3}(?:[-_][a-z0-9]{2,4}){0,2}", re.IGNORECASE | re.ASCII)
LONGEST = 4000
"""Characters of a prompt among which its instruction is looked for."""
WORDS = 4
"""Maximum words of a language's name."""
NEAR = 60
"""Characters before *to* among which the language to translate from is looked for."""
LINE = re.compile(r"[^\n]+")
BLANK = re.compile(r"\n[ \t\r]*\n")
ASKS = re.compile("translat", re.IGNORECASE)
HEADING = re.compile(r"\s*(?:please\s+)?translate\b[^\n]*:[ \t\r]*\n", re.IGNORECASE)
"""An instruction in a line by itself."""
QUOTED = re.compile(r'"([^"\n]+)"|„([^„“”\n]+)[“”]|“([^“”\n]+)”|«([^«»\n]+)»')
LETTERS_SIGN = "🔤"
"""Encloses the text in the prompts of Translate for Zotero, with an instruction after it."""
FENCES = (('"""', '"""'), ("```", "```"), ("<text>", "</text>"))
"""Enclose the text in prompts of Pot and others."""


@dataclass(frozen=True)
class Asked:
    """Languages that a prompt names.

    Attributes:
        source: code of the language to translate from; None if it is not named.
        target: code of the language to translate to.
        end: where the name of the latter ends.
    """

    source: str | None
    target: str
    end: int


@dataclass(frozen=True)
class Prompt:
    """A text to translate, with the codes of its languages; None for a language that is not named."""

    text: str
    source: str | None
    target: str | None


def read_prompt(message: str, system: str = "") -> Prompt | None:
    """Return the text of a message that asks for a translation, and its languages; None if it does not ask.

    If the system prompt asks for a translation into a language, the message is the text, except for a first
    line such as ``Translate to German:``. Otherwise the message must ask, in its first 4,000 characters. Its
    instruction ends at the first colon that follows the language in the line, or in a further line of the
    paragraph that asks; without a colon, at the end of the line. If nothing follows, the text is quoted in
    the line itself. ``🔤``, ``\"\"\"``, fences of code and ``<text>`` around the text are removed.

    Args:
        message: the last message of the user.
        system: messages to the model, not by the user.
    """
    general = asked_languages(system[:LONGEST])
    heading = HEADING.match(message, 0, LONGEST)
    if general is not None and (heading is None or asked_languages(heading[0]) is None):
        return Prompt(message.strip(), general.source, general.target)
    found = _after_instruction(message)
    if found is None or general is None:
        return found
    return replace(found, source=found.source or general.source)


def _after_instruction(message: str) -> Prompt | None:
    head, begin = message[:LONGEST], 0
    for end in (*(blank.start() for blank in BLANK.finditer(head)), len(head)):
        asking = _asking_line(head, begin, end)
        if asking is not None:
            asked, at, colon = asking
            stop = message.find("\n", at)
            line = message[at:stop] if stop >= 0 else message[at:]
            return _prompt(message[colon or at + len(line) :], asked, line)
        begin = end
    return None


def _asking_line(head: str, begin: int, end: int) -> tuple[Asked, int, int] | None:
    """Return the languages of the line of a paragraph that asks, its start, and the place after its colon.

    It is the first such line with a colon after the language; without any, the first such line, and 0.
    """
    first: tuple[Asked, int, int] | None = None
    for line in LINE.finditer(head, begin, end):
        asked = asked_languages(line[0])
        if asked is not None:
            colon = head.find(":", line.start() + asked.end, line.end())
            if colon >= 0:
                return asked, line.start(), colon + 1
            first = first or (asked, line.start(), 0)
    return first


def _prompt(rest: str, asked: Asked, line: str) -> Prompt | None:
    """Return the text that follows an instruction, or is quoted in its line."""
    text = _unwrapped(rest.strip())
    if not text:
        quoted = QUOTED.search(line)
        if quoted is None:
            return None
        text = next(filter(None, quoted.groups()))
    return Prompt(text, asked.source, asked.target)


def _unwrapped(text: str) -> str:
    """Return a text without what encloses it."""
    if text.startswith(LETTERS_SIGN):
        return text[len(LETTERS_SIGN) :].partition(LETTERS_SIGN)[0].strip()
    for opening, closing in FENCES:
        enclosed = len(text) >= len(opening) + len(closing)
        if enclosed and text.startswith(opening) and text.endswith(closing):
            return text[len(opening) : -len(closing)].strip()
    return text


def asked_languages(prompt: str) -> Asked | None:
    """Return the languages of a prompt that asks for a translation; None if it does not, or names none.

    A language is named in English or in itself, or by its code. Since many codes are also words, a code
    without a region must be followed by punctuation or *to*, or preceded by *from* and the other language.
    """
    if not ASKS.search(prompt):
        return None
    source = None
    for said in FROM.finditer(prompt):
        source = _language_at(prompt, said.end())
        if source is not None:
            break
    for said in TO.finditer(prompt):
        after_source = source is not None and 0 <= said.start() - source[1] <= 1
        target = _language_at(prompt, said.end(), after_source)
        if target is not None:
            before = source[0] if source is not None else _language_before(prompt, said.start())
            return Asked(before, *target)
    return None


def _language_at(prompt: str, at: int, alone: bool = False) -> tuple[str, int] | None:
    """Return the code of the language that is named at a place, and where the name ends.

    Args:
        prompt: the prompt.
        at: where the name begins.
        alone: whether a code without a region may be followed by a word.
    """
    words: list[str] = []
    ends: list[int] = []
    place = at
    for _ in range(WORDS):
        word = WORD.match(prompt, place)
        if word is None:
            break
        words.append(word[0])
        ends.append(word.end())
        place = word.end() + prompt.startswith(" ", word.end())
    for count in range(len(words), 0, -1):
        code = language_code(" ".join(words[:count]))
        if code is not None:
            return code, ends[count - 1]
    if not words or not _is_code(words[0]):
        return None
    followed = prompt[ends[0] : ends[0] + 2].lstrip("\"'”’*")[:1]
    has_region = len(words[0]) > len(base_language(words[0]))
    if alone or has_region or followed not in (" ", "-") or TO.match(prompt, ends[0] + 1):
        return words[0], ends[0]
    return None


def _language_before(prompt: str, at: int) -> str | None:
    """Return the code of the language that is named just before a place.

    As in ``English to German``, ``English (en) to German`` or ``the English text into German``.
    """
    before = prompt[max(0, at - NEAR) : at].rstrip(" -").removesuffix(" text")
    words = WORD.findall(before)[-WORDS:]
    for begin in range(len(words)):
        code = language_code(" ".join(words[begin:]))
        if code is not None:
            return code
    return words[-1][1:-1] if words and words[-1].startswith("(") and _is_code(words[-1][1:-1]) else None


def _is_code(word: str) -> bool:
    return CODE.fullmatch(word) is not None and base_language(word) in NAMES
