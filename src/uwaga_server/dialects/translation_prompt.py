"""Find the text and the languages in a prompt that asks for a translation.

A prompt names the target language after *to* or *into*, as in ``Translate the following text into German:``;
:func:`requested_languages` finds it, and :func:`read_prompt` finds the text.
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
MAX_PROMPT_LENGTH = 4000
"""Number of characters of a prompt in which the instruction is searched."""
MAX_NAME_WORDS = 4
"""Maximum words of a language's name."""
SOURCE_DISTANCE = 60
"""Number of characters before *to* in which the source language is searched."""
LINE = re.compile(r"[^\n]+")
BLANK = re.compile(r"\n[ \t\r]*\n")
TRANSLATE = re.compile("translat", re.IGNORECASE)
HEADING = re.compile(r"\s*(?:please\s+)?translate\b[^\n]*:[ \t\r]*\n", re.IGNORECASE)
"""An instruction on a separate line."""
QUOTED = re.compile(r'"([^"\n]+)"|„([^„“”\n]+)[“”]|“([^“”\n]+)”|«([^«»\n]+)»')
LETTERS_SIGN = "🔤"
"""Encloses the text in the prompts of Translate for Zotero, in which an instruction follows."""
FENCES = (('"""', '"""'), ("```", "```"), ("<text>", "</text>"))
"""Delimiters of the text in prompts of Pot and other clients."""


@dataclass(frozen=True)
class RequestedLanguages:
    """Languages that a prompt names.

    Attributes:
        source: code of the source language; None if it is not named.
        target: code of the target language.
        end: end of the target language's name in the prompt.
    """

    source: str | None
    target: str
    end: int


@dataclass(frozen=True)
class Prompt:
    """A text to translate and the codes of its languages; None for a language that is not named."""

    text: str
    source: str | None
    target: str | None


def read_prompt(message: str, system: str = "") -> Prompt | None:
    """Return the text and the languages of a message that requests a translation; None for other messages.

    If the system prompt requests a translation into a language, the message is the text, except for a first
    line such as ``Translate to German:``. Otherwise the message must contain the request, in its first 4,000
    characters. The instruction ends at the first colon after the language in that line, or in a later line of
    the same paragraph with a request; without a colon, at the end of the line. If nothing follows, the text
    is quoted in the line. ``🔤``, ``\"\"\"``, code fences and ``<text>`` around the text are removed.

    Args:
        message: the last message by the user.
        system: the system messages.
    """
    system_languages = requested_languages(system[:MAX_PROMPT_LENGTH])
    heading = HEADING.match(message, 0, MAX_PROMPT_LENGTH)
    if system_languages is not None and (heading is None or requested_languages(heading[0]) is None):
        return Prompt(message.strip(), system_languages.source, system_languages.target)
    prompt = _after_instruction(message)
    if prompt is None or system_languages is None:
        return prompt
    return replace(prompt, source=prompt.source or system_languages.source)


def _after_instruction(message: str) -> Prompt | None:
    head, start = message[:MAX_PROMPT_LENGTH], 0
    for end in (*(blank.start() for blank in BLANK.finditer(head)), len(head)):
        instruction = _instruction_line(head, start, end)
        if instruction is not None:
            languages, line_start, text_start = instruction
            line_end = message.find("\n", line_start)
            line = message[line_start:line_end] if line_end >= 0 else message[line_start:]
            return _prompt(message[text_start or line_start + len(line) :], languages, line)
        start = end
    return None


def _instruction_line(head: str, start: int, end: int) -> tuple[RequestedLanguages, int, int] | None:
    """Return the languages of a paragraph's line with a request, its start, and the position after its colon.

    It is the first such line with a colon after the language; without any, the first such line and 0.
    """
    first: tuple[RequestedLanguages, int, int] | None = None
    for line in LINE.finditer(head, start, end):
        languages = requested_languages(line[0])
        if languages is not None:
            colon = head.find(":", line.start() + languages.end, line.end())
            if colon >= 0:
                return languages, line.start(), colon + 1
            first = first or (languages, line.start(), 0)
    return first


def _prompt(body: str, languages: RequestedLanguages, line: str) -> Prompt | None:
    """Return the text that follows an instruction or is quoted in its line."""
    text = _unwrap(body.strip())
    if not text:
        quoted = QUOTED.search(line)
        if quoted is None:
            return None
        text = next(filter(None, quoted.groups()))
    return Prompt(text, languages.source, languages.target)


def _unwrap(text: str) -> str:
    """Return a text without its delimiters."""
    if text.startswith(LETTERS_SIGN):
        return text[len(LETTERS_SIGN) :].partition(LETTERS_SIGN)[0].strip()
    for opening, closing in FENCES:
        enclosed = len(text) >= len(opening) + len(closing)
        if enclosed and text.startswith(opening) and text.endswith(closing):
            return text[len(opening) : -len(closing)].strip()
    return text


def requested_languages(prompt: str) -> RequestedLanguages | None:
    """Return the languages of a prompt that requests a translation; None if it does not or names none.

    A language is named in English, in that language, or by its code. Since many codes are also words, a code
    without a region must be followed by punctuation or *to*, or preceded by *from* and the other language.
    """
    if not TRANSLATE.search(prompt):
        return None
    source = None
    for match in FROM.finditer(prompt):
        source = _language_at(prompt, match.end())
        if source is not None:
            break
    for match in TO.finditer(prompt):
        after_source = source is not None and 0 <= match.start() - source[1] <= 1
        target = _language_at(prompt, match.end(), after_source)
        if target is not None:
            before = source[0] if source is not None else _language_before(prompt, match.start())
            return RequestedLanguages(before, *target)
    return None


def _language_at(prompt: str, start: int, allow_word: bool = False) -> tuple[str, int] | None:
    """Return the code of the language that is named at a position, and the end of its name.

    Args:
        prompt: the prompt.
        start: start of the name.
        allow_word: whether a code without a region may be followed by a word.
    """
    words: list[str] = []
    ends: list[int] = []
    position = start
    for _ in range(MAX_NAME_WORDS):
        word = WORD.match(prompt, position)
        if word is None:
            break
        words.append(word[0])
        ends.append(word.end())
        position = word.end() + prompt.startswith(" ", word.end())
    for count in range(len(words), 0, -1):
        code = language_code(" ".join(words[:count]))
        if code is not None:
            return code, ends[count - 1]
    if not words or not _is_code(words[0]):
        return None
    next_char = prompt[ends[0] : ends[0] + 2].lstrip("\"'”’*")[:1]
    has_region = len(words[0]) > len(base_language(words[0]))
    if allow_word or has_region or next_char not in (" ", "-") or TO.match(prompt, ends[0] + 1):
        return words[0], ends[0]
    return None


def _language_before(prompt: str, end: int) -> str | None:
    """Return the code of the language that is named just before a position.

    Examples are ``English to German``, ``English (en) to German`` and ``the English text into German``.
    """
    before = prompt[max(0, end - SOURCE_DISTANCE) : end].rstrip(" -").removesuffix(" text")
    words = WORD.findall(before)[-MAX_NAME_WORDS:]
    for first in range(len(words)):
        code = language_code(" ".join(words[first:]))
        if code is not None:
            return code
    return words[-1][1:-1] if words and words[-1].startswith("(") and _is_code(words[-1][1:-1]) else None


def _is_code(word: str) -> bool:
    return CODE.fullmatch(word) is not None and base_language(word) in NAMES
