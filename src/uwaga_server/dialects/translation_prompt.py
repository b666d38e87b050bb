"""Detection of the text and the languages in a prompt that asks for a translation.

A prompt names the target language after *to* or *into*, as in ``Translate the following text into German:``,
or in Chinese after 翻译成. :func:`requested_languages` finds the languages, and :func:`read_prompt` the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from uwaga.languages.codes import base_language
from uwaga.languages.names import CHINESE_NAMES, NAMES, language_code

# ruff: noqa: SIM905 (a list of names is easier to read as one text)

TO_PATTERN = re.compile(r"(?:\b(?:in)?to\s+|[译譯][成为為到至]\s?)[\"'“‘*「]{0,2}", re.IGNORECASE)
FROM_PATTERN = re.compile(r"(?:\bfrom\s+|[从從由]\s?)[\"'“‘*「]{0,2}", re.IGNORECASE)
WORD_PATTERN = re.compile(r"[^\W_][^\s()\"'“”‘’«»*,.:;!?，。：；！？]{0,40}|\([^()\n]{1,40}\)")
CODE_PATTERN = re.compile(r"[a-z]{2,3}(?:[-_][a-z0-9]{2,4}){0,2}", re.IGNORECASE | re.ASCII)
MAX_PROMPT_LENGTH = 4000
"""Number of characters at the start of a prompt that are searched for the instruction."""
MAX_NAME_WORDS = 4
"""Maximum number of words in the name of a language."""
SOURCE_DISTANCE = 60
"""Number of characters before *to* that are searched for the source language."""
LINE_PATTERN = re.compile(r"[^\n]+")
BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
TRANSLATE_PATTERN = re.compile("translat|[译譯][成为為到至]", re.IGNORECASE)
HEADING_INSTRUCTION = re.compile(
    r"\s*(?:(?:please\s+)?translate\b|[^\n]{0,60}[译譯][成为為到至])[^\n]*[:：][ \t\r]*\n", re.IGNORECASE
)
"""Pattern of an instruction on a separate line."""
COLON_PATTERN = re.compile(r"\{[^{}\n]*\}|([:：])")
"""Pattern that finds a colon (group 1) outside the braces of a JSON example."""
LABEL_PATTERN = re.compile(r"[^\S\n]*(?:#{1,4} )?([^\W\d_][^\n:：]{0,60}?)[^\S\n]*[:：]")
"""Pattern of a label at the beginning of a line, such as ``English:``."""
LABEL_WORDS = re.compile(
    r"(?:source|target|input|output|text|translation|answer|response|result|原文|译文|譯文)\b", re.IGNORECASE
)
BACK_REFERENCE = re.compile(r"\b(?:above|preceding|previous|foregoing|this|it|that)\b|[上前]", re.IGNORECASE)
"""Pattern of a word that refers to the text before an instruction."""
QUOTATION_MARKS = "\"'“”„«»"
ARROWS = ("=>", "->", "→")
"""Signs that follow the text in prompts that end with the beginning of an answer."""
JSON_REQUEST = re.compile(
    r"\b(?:return|respond|reply|answer|output|produce|give|provide|format)\b[^.\n]{0,60}\bjson\b|"
    r"json[^。\n]{0,20}(?:格式|返回|输出|輸出)|(?:返回|输出|輸出)[^。\n]{0,20}json",
    re.IGNORECASE,
)
"""Pattern of a request for an answer in JSON."""
NO_JSON_REQUEST = re.compile(
    r"\b(?:not|no|never|without|instead of)\s(?:\w{1,20}\s){0,3}json\b", re.IGNORECASE
)
JSON_EXAMPLE = re.compile(r"(?<![^\S\n])[^\S\n]*+\{\s*+[\"'“]?(\w{1,40})[\"'”]?\s*[:：][^{}]{0,400}\}")
JSON_KEY = re.compile(r"\b(?:key|field|property)\s+(?:named\s+|called\s+)?[\"'`“](\w{1,40})[\"'`”]")
DEFAULT_JSON_KEY = "translation"
CHINESE_CODES = {
    form: code
    for entry in (
        *(f"{code}:{name}" for code, name in CHINESE_NAMES.items()),
        *"bg:保加利亚语 ca:加泰罗尼亚语 da:丹麦语 el:希腊语 et:爱沙尼亚语 fi:芬兰语".split(),
        *"hr:克罗地亚语 hu:匈牙利语 id:印度尼西亚语 lt:立陶宛语 lv:拉脱维亚语 no:挪威语".split(),
        *"ro:罗马尼亚语 sk:斯洛伐克语 sl:斯洛文尼亚语 sr:塞尔维亚语 sv:瑞典语 zh:汉语".split(),
        *"zh-Hans:简体中文 zh-Hant:繁体中文 zh-Hant:繁體中文".split(),
    )
    for code, name in [entry.split(":")]
    for form in (name, name.replace("语", "文"), name.replace("语", "語"))
}
"""Map from the Chinese names of languages to language codes."""
CHINESE_NAME = re.compile("|".join(sorted(CHINESE_CODES, key=len, reverse=True)))
QUOTED_TEXT = re.compile(r'"([^"\n]+)"|„([^„“”\n]+)[“”]|“([^“”\n]+)”|«([^«»\n]+)»')
ZOTERO_DELIMITER = "🔤"
"""Delimiter of the text in the prompts of Translate for Zotero, which put the instruction after the text."""
TEXT_DELIMITERS = (('"""', '"""'), ("```", "```"), ("<text>", "</text>"))
"""Pairs of delimiters around the text in the prompts of Pot and other clients."""


@dataclass(frozen=True)
class RequestedLanguages:
    """The languages that a prompt names.

    Attributes:
        source: code of the source language; None if the prompt does not name it.
        target: code of the target language.
        end: index of the end of the target language's name in the prompt.
    """

    source: str | None
    target: str
    end: int


@dataclass(frozen=True)
class Prompt:
    """A text to translate, as found in a prompt.

    Attributes:
        text: the text.
        source: code of the source language; None if the prompt does not name it.
        target: code of the target language; None if the prompt does not name it.
        json_key: the key for the translation if the prompt asks for a JSON object; otherwise None.
    """

    text: str
    source: str | None
    target: str | None
    json_key: str | None = None


def read_prompt(message: str, system: str = "") -> Prompt | None:
    """Return the text and the languages of a message that requests a translation; None for other messages.

    If the system prompt requests a translation into a language, the whole message is the text, unless its
    first line is an instruction such as ``Translate to German:``. Otherwise, the first 4,000 characters of
    the message must contain an instruction. The instruction ends at the first colon that follows the name of
    a language in a line of its paragraph or, without such a colon, at the end of its line. If nothing follows
    the instruction, the text is quoted in the line of the instruction or precedes the instruction.
    ``🔤``, ``\"\"\"``, code fences and ``<text>`` around the text are removed, as are labels such as
    ``English:`` before the text and ``German:`` after it.

    Args:
        message: the last user message.
        system: the text of all system messages.
    """
    system_languages = requested_languages(system[:MAX_PROMPT_LENGTH])
    heading = HEADING_INSTRUCTION.match(message, 0, MAX_PROMPT_LENGTH)
    if system_languages is not None and (heading is None or requested_languages(heading[0]) is None):
        json_key = _json_key(system[:MAX_PROMPT_LENGTH])
        return Prompt(message.strip(), system_languages.source, system_languages.target, json_key)
    prompt = _read_instruction_prompt(message)
    if prompt is None:
        return None
    source = prompt.source or (system_languages.source if system_languages is not None else None)
    return replace(prompt, source=source, json_key=prompt.json_key or _json_key(system[:MAX_PROMPT_LENGTH]))


def _read_instruction_prompt(message: str) -> Prompt | None:
    prompt_start, start = message[:MAX_PROMPT_LENGTH], 0
    for end in (*(blank.start() for blank in BLANK_LINE.finditer(prompt_start)), len(prompt_start)):
        instruction = _instruction_line(prompt_start, start, end)
        if instruction is not None:
            languages, line_start, text_start = instruction
            line_end = message.find("\n", line_start)
            line = message[line_start:line_end] if line_end >= 0 else message[line_start:]
            text_start = text_start or line_start + len(line)
            body = message[text_start:]
            prompt = message[0 if body.strip() else start : text_start]
            return _locate_text(message[:line_start], prompt, body, languages, line)
        start = end
    return None


def _instruction_line(prompt_start: str, start: int, end: int) -> tuple[RequestedLanguages, int, int] | None:
    """Return the languages of an instruction, the start of its line, and the position after its colon.

    The instruction is the first line of the paragraph that names a language and has a colon after it. If no
    line has a colon, it is the first line that names a language, and the position is 0.
    """
    first_instruction: tuple[RequestedLanguages, int, int] | None = None
    for line in LINE_PATTERN.finditer(prompt_start, start, end):
        languages = requested_languages(line[0])
        if languages is not None:
            colons = COLON_PATTERN.finditer(prompt_start, line.start() + languages.end, line.end())
            colon = next((match.end() for match in colons if match[1]), 0)
            if colon:
                return languages, line.start(), colon
            first_instruction = first_instruction or (languages, line.start(), 0)
    return first_instruction


def _locate_text(
    text_before: str, instruction: str, body: str, languages: RequestedLanguages, line: str
) -> Prompt | None:
    """Return the prompt with the text that follows an instruction, is quoted in its line, or precedes it."""
    json_key = _json_key(instruction)
    if json_key is not None and (example := JSON_EXAMPLE.match(body.lstrip())) is not None:
        json_key, body = example[1], body.lstrip()[example.end() :]
    text = _remove_labels(_remove_delimiters(body.strip()), languages, has_label=json_key is not None)
    if not text:
        quoted = QUOTED_TEXT.search(line)
        if quoted is not None:
            text = next(filter(None, quoted.groups()))
        elif BACK_REFERENCE.search(line):
            text = _remove_delimiters(text_before.strip())
    return Prompt(text, languages.source, languages.target, json_key) if text else None


def _remove_labels(text: str, languages: RequestedLanguages, has_label: bool = False) -> str:
    r"""Return a text without the label that precedes it and the label of the answer that follows it.

    Args:
        text: a text such as ``English: A man sleeps.\nGerman:``.
        languages: the languages that the labels may name.
        has_label: whether to remove a label before the text even if there is no label after it.
    """
    start = text.rfind("\n") + 1
    last_label = LABEL_PATTERN.fullmatch(text, start)
    has_answer_label = last_label is not None and _is_label(last_label[1], languages.target)
    if has_answer_label:
        text = text[:start].rstrip()
    for arrow in ARROWS:
        if text.endswith(arrow):
            text = text.removesuffix(arrow).rstrip()
            is_quoted = len(text) > 1 and text[0] in QUOTATION_MARKS and text[-1] in QUOTATION_MARKS
            return text[1:-1] if is_quoted else text
    first_label = LABEL_PATTERN.match(text)
    if (
        first_label is not None
        and (has_answer_label or has_label)
        and _is_label(first_label[1], languages.source)
    ):
        return text[first_label.end() :].strip()
    return text


def _is_label(words: str, language: str | None) -> bool:
    """Return whether words are a label: the name of a language, or a word such as *source* or *text*.

    Args:
        words: the words before a colon.
        language: the code of the language that the label may name; None for any language.
    """
    if LABEL_WORDS.search(words):
        return True
    code = language_code(words) or CHINESE_CODES.get(words)
    return code is not None and (language is None or base_language(code) == base_language(language))


def _json_key(instruction: str) -> str | None:
    """Return the key for the translation if an instruction asks for a JSON object; otherwise None."""
    if JSON_REQUEST.search(instruction) is None or NO_JSON_REQUEST.search(instruction):
        return None
    key = JSON_EXAMPLE.search(instruction) or JSON_KEY.search(instruction)
    return DEFAULT_JSON_KEY if key is None else key[1]


def _remove_delimiters(text: str) -> str:
    """Return a text without the delimiters around it."""
    if text.startswith(ZOTERO_DELIMITER):
        return text[len(ZOTERO_DELIMITER) :].partition(ZOTERO_DELIMITER)[0].strip()
    for opening, closing in TEXT_DELIMITERS:
        is_enclosed = len(text) >= len(opening) + len(closing)
        if is_enclosed and text.startswith(opening) and text.endswith(closing):
            return text[len(opening) : -len(closing)].strip()
    return text


def requested_languages(prompt: str) -> RequestedLanguages | None:
    """Return the languages of a prompt that requests a translation; None if it names no target language.

    A language is named in English, in that language, or by its code. Since many codes are also words, a code
    without a region must be followed by punctuation or *to*, or preceded by *from* and the source language.
    """
    if not TRANSLATE_PATTERN.search(prompt):
        return None
    source = None
    for match in FROM_PATTERN.finditer(prompt):
        source = _language_at(prompt, match.end())
        if source is not None:
            break
    for match in TO_PATTERN.finditer(prompt):
        after_source = source is not None and 0 <= match.start() - source[1] <= 1
        target = _language_at(prompt, match.end(), after_source)
        if target is not None:
            source_language = source[0] if source is not None else _language_before(prompt, match.start())
            return RequestedLanguages(source_language, *target)
    return None


def _language_at(prompt: str, start: int, allow_following_word: bool = False) -> tuple[str, int] | None:
    """Return the code of the language named at a position and the index at which its name ends, or None.

    Args:
        prompt: the prompt.
        start: the index at which the name starts.
        allow_following_word: whether another word may follow a language code without a region.
    """
    if chinese := CHINESE_NAME.match(prompt, start):
        return CHINESE_CODES[chinese[0]], chinese.end()
    words: list[str] = []
    ends: list[int] = []
    position = start
    for _ in range(MAX_NAME_WORDS):
        word = WORD_PATTERN.match(prompt, position)
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
    if (
        allow_following_word
        or has_region
        or next_char not in (" ", "-")
        or TO_PATTERN.match(prompt, ends[0] + 1)
    ):
        return words[0], ends[0]
    return None


def _language_before(prompt: str, end: int) -> str | None:
    """Return the code of the language named just before a position; None if no language is named.

    Examples are ``English to German``, ``English (en) to German`` and ``the English text into German``.
    """
    words_before = (
        prompt[max(0, end - SOURCE_DISTANCE) : end].rstrip(" -").removesuffix(" text").removesuffix(" source")
    )
    if chinese := CHINESE_NAME.findall(words_before):
        return CHINESE_CODES[chinese[-1]]
    words = WORD_PATTERN.findall(words_before)[-MAX_NAME_WORDS:]
    for start in range(len(words)):
        code = language_code(" ".join(words[start:]))
        if code is not None:
            return code
    return words[-1][1:-1] if words and words[-1].startswith("(") and _is_code(words[-1][1:-1]) else None


def _is_code(word: str) -> bool:
    return CODE_PATTERN.fullmatch(word) is not None and base_language(word) in NAMES
