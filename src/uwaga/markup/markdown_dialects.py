"""Syntax of Markdown dialects that CommonMark reads as text: admonitions, template tags, MDX imports.

This syntax is hidden from the parser: a line without text becomes a blank line, and the indented content of
an admonition is moved to the left. The lines keep their numbers, so that texts are found in the document.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

TEMPLATE = re.compile(r"\{\{[^{}\n]*\}\}|\{%[^{}\n]*%\}|\{(?=[:#.]|[\w-]+=)[^{}\n]*\}|\{/\*[^{}\n]*\}")
"""A tag of Liquid, Jinja or Hugo, attributes of kramdown or Pandoc (``{#id .class}``), or a comment of
MDX."""
QUOTED_TEXT = re.compile(r"\"([^\"\n]*)\"")
ADMONITION = re.compile(
    r"(?:!!!|\?\?\?\+?)[ \t][\w \t-]*+(?:\"(?P<title>[^\"\n]*)\"[ \t]*+)?|"
    r"===[!+]?[ \t]++\"(?P<tab>[^\"\n]*)\"[ \t]*+"
)
"""The first line of an admonition, a collapsible block or a tab of Python-Markdown, whose content is
indented."""
CONTAINER = re.compile(
    r"\A:{3,}[ \t]*+(?:\{[^{}\n]*\}|[\w.-]++)?(?:\[(?P<label>[^\]\n]*)\]|[ \t]++(?P<title>[^\s{][^\n{]*+))?"
    r"(?:\{[^{}\n]*\})?[ \t]*+|\A/{3,}[ \t]*+(?:[\w-]++[ \t]*+)?(?:\|[ \t]*+(?P<block>[^\n]*))?"
)
"""The first or last line of a container of Docusaurus, VuePress, Pandoc or MyST, or of a block of PyMdown."""
IMPORT = re.compile(r"import[ \t](?:[\w*{}$, \t]*from[ \t]*)?[\"'][^\"'\n]*[\"'];?[ \t]*")
STATEMENT = re.compile(r"import[ \t]*\{[ \t]*|export[ \t]+(?:default|const|let|var|function)\b.*")
"""The first line of a statement of MDX, which ends at a blank line."""
COPIED_LINE = re.compile(r"\[\[?_?(?:toc|TOC)_?\]\]?|--8<--.*")
FENCE = re.compile(r"(?:[-*+]|\d{1,9}[.)])?[ \t]*(`{3,}|~{3,})")
ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]")
FOOTNOTE = re.compile(r"\[\^[^\]\s]{1,100}\]:[ \t]*")
DEFINITION = re.compile(
    r"\[(?!\^)[^\]\n]+\]:[ \t]*[^\s\"']+[ \t]+(?:\"(?P<double>[^\"\n]*)\"|'(?P<single>[^'\n]*)')[ \t]*"
)
"""The definition of a link with a title."""
INDENTATION_WIDTH = 4
"""Number of spaces by which the content of an admonition, or a code block, is indented."""


@dataclass
class DialectLines:
    """The lines of a document, with dialect syntax removed so that they can be read as CommonMark.

    Attributes:
        lines: the lines, each with its line break.
        titles: the spans of titles in the document, in order, each with the character that ends the title.
        copied: the spans of lines whose template tags contain words, in order.
    """

    lines: list[str] = field(default_factory=list)
    titles: list[tuple[int, int, str]] = field(default_factory=list)
    copied: list[tuple[int, int]] = field(default_factory=list)


def read_dialects(lines: Sequence[str]) -> DialectLines:
    """Return a document's lines without dialect syntax, and the positions of its titles and copied lines.

    Args:
        lines: the lines, each with its line break.
    """
    result = DialectLines()
    content_indentations: list[int] = []  # of the content of each open admonition
    fence = ""
    in_list = in_statement = follows_blank_line = False
    start = 0
    for raw_line in lines:
        line = raw_line.rstrip("\r\n")
        end = raw_line[len(line) :]
        words = line.strip()
        indentation = len(line) - len(line.lstrip())
        while (
            words and content_indentations and indentation < content_indentations[-1] and "\t" not in line[:1]
        ):
            content_indentations.pop()
            fence = ""
        dedented = (
            line.replace("\t", " " * INDENTATION_WIDTH, 1)[INDENTATION_WIDTH * len(content_indentations) :]
            if content_indentations
            else line
        )
        depth = len(dedented) - len(dedented.lstrip())
        is_code = depth >= INDENTATION_WIDTH and not in_list
        in_statement = in_statement and bool(words)
        mark = FENCE.match(words)
        is_hidden = False
        if fence:
            fence = "" if mark and words.startswith(fence) and not words.strip(fence[0]) else fence
        elif mark and not is_code:
            fence = mark[1]
        elif words and not is_code:
            is_hidden = in_statement or _is_hidden(line, words, start, result)
            in_statement = in_statement or (indentation == 0 and STATEMENT.fullmatch(words) is not None)
            is_hidden = is_hidden or in_statement
            if is_hidden and (words.startswith(("!!!", "???")) or words.startswith("===")):
                content_indentations.append(indentation + INDENTATION_WIDTH)
            footnote = FOOTNOTE.match(words)
            if footnote is not None:  # written as a list item, so that each footnote is a separate text
                dedented = f"- {words[footnote.end() :]}"
                content_indentations.append(indentation + INDENTATION_WIDTH)
            if ITEM.match(words):
                in_list = True
            elif depth == 0 and follows_blank_line and not is_hidden:
                in_list = False
        follows_blank_line = not words
        result.lines.append(end if is_hidden else dedented + end)
        start += len(raw_line)
    return result


def _is_hidden(line: str, words: str, start: int, result: DialectLines) -> bool:
    """Return whether a line is hidden from the parser; add its title or words to the result."""
    offset = start + len(line) - len(line.lstrip())
    if "{" in words and not TEMPLATE.sub("", words).strip():
        if any(" " in value and any(map(str.isalpha, value)) for value in QUOTED_TEXT.findall(words)):
            result.copied.append((offset, offset + len(words)))
        return True
    for pattern in (ADMONITION, CONTAINER):
        match = pattern.fullmatch(words)
        if match is not None:
            group = match.lastgroup
            title = match[group].rstrip() if group is not None else ""
            if group is not None and title:
                low = offset + match.start(group)
                is_quoted = len(title) > 2 and title[0] == title[-1] == '"'
                in_quotes = is_quoted or pattern is ADMONITION
                end_mark = '"' if in_quotes else "]" if group == "label" else ""
                result.titles.append((low + is_quoted, low + len(title) - is_quoted, end_mark))
            return True
    definition = DEFINITION.fullmatch(words) if words.startswith("[") else None
    if definition is not None and definition.lastgroup is not None:
        low, high = definition.span(definition.lastgroup)
        if low < high:
            quote = '"' if definition.lastgroup == "double" else "'"
            result.titles.append((offset + low, offset + high, quote))
    return IMPORT.fullmatch(words) is not None or COPIED_LINE.fullmatch(words) is not None
