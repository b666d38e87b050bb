"""Hook of mkdocs: make tables and figures readable on a phone, without a script.

A table that is too wide for a phone gets the attribute ``data-cards``, and its cells the names of their
columns: ``look/site.css`` then shows each row as a card. A figure gets the width down to which its text is
readable.
"""

from __future__ import annotations

import html
import re
from functools import cache
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
WIDTH = 350
"""Width in pixels of a table on a phone of 390 pixels."""
LETTER, PADDING, BOLD = 7.2, 15, 1.15
"""Width in pixels of a letter in a table, of the space beside a cell, and relative width of a bold letter."""
LINES = 3.5
"""Number of lines of the highest cell from which a table is shown as cards."""
TEXT_HEIGHT = 9
"""Height in pixels of the smallest text of a figure on the screen."""
ROW = re.compile(r"<tr[^>]*>(.*?)</tr>", re.DOTALL)
CELL = re.compile(r"<(t[hd])([^>]*)>(.*?)</\1>", re.DOTALL)
IMAGE = re.compile(r'<img\b[^>]*\bsrc="[^"]*?(figures/[\w./-]+\.svg)"[^>]*>')


def plain_text(markup: str) -> str:
    """Return the visible text of a piece of HTML."""
    return html.unescape(re.sub(r"<[^>]+>", "", markup)).strip()


def is_too_wide(rows: list[list[str]]) -> bool:
    """Return True if a table of visible texts does not fit a phone, or only with high and narrow columns."""
    columns = list(zip(*rows, strict=True))
    room = WIDTH - len(columns) * PADDING
    least = [max(_longest_word(name) * BOLD, *map(_longest_word, rest)) * LETTER for name, *rest in columns]
    if sum(least) > room:
        return True
    # A browser shares the rest of the room by the lengths of the texts.
    longest = [max(map(_text_width, column)) * LETTER for column in columns]
    wish = sum(longest) - sum(least)
    share = min(1.0, (room - sum(least)) / wish) if wish else 0
    widths = [low + share * (high - low) for low, high in zip(least, longest, strict=True)]
    return len(columns) > 2 and any(
        _text_width(text) * LETTER > LINES * width
        for row in rows
        for text, width in zip(row, widths, strict=True)
    )


def _longest_word(text: str) -> int:
    return max((_text_width(word) for word in re.split(r"[\s\u200b]+|(?<=-)", text)), default=0)


def _text_width(text: str) -> int:
    """Return the width of a text in letters; a Chinese character is two wide, and breaks anywhere."""
    return sum(2 if character >= "\u2e80" else 1 for character in text)


def with_cards(table: str) -> str:
    """Return a table; if it is too wide for a phone, its cells have the names of their columns."""
    rows = [CELL.findall(row) for row in ROW.findall(table)]
    if len(rows) < 2 or len({len(row) for row in rows}) != 1 or "rowspan" in table or "colspan" in table:
        return table
    if not is_too_wide([[plain_text(content) for _, _, content in row] for row in rows]):
        return table
    names = [content for _, _, content in rows[0]]
    head, separator, body = table.partition(ROW.search(table)[0])  # type: ignore[index]

    def with_names(row: re.Match[str]) -> str:
        cells = zip(names, CELL.findall(row[1]), strict=True)
        return f"<tr>{''.join(_with_name(name, *cell) for name, cell in cells)}</tr>"

    return head.replace("<table", "<table data-cards", 1) + separator + ROW.sub(with_names, body)


def _with_name(name: str, tag: str, attributes: str, content: str) -> str:
    """Return a cell with the name of its column: as an attribute, or as an element if it has markup."""
    label = ""
    if "<math" in name:
        label = f"<span data-search-exclude>{name}</span>"
    elif text := plain_text(name):
        attributes += f' data-column="{html.escape(text, quote=True)}"'
    return (
        f"<{tag}{attributes}>{label}<div>{content}</div></{tag}>" if content.strip() else f"<{tag}></{tag}>"
    )


@cache
def least_width(figure: str) -> int:
    """Return the width in pixels at which the smallest text of a figure is just readable."""
    path = DOCS / re.sub(r"\.(es|pl|zh)\.svg$", ".svg", figure)
    svg = path.read_text(encoding="utf-8")
    sizes = [float(size) for size in re.findall(r"(?:font-size: ?|font: ?|font-size=\")([\d.]+)(?:px)?", svg)]
    width = re.search(r'viewBox="0 0 ([\d.]+)', svg)
    if not sizes or width is None:
        return 0
    used = [size for size in sizes if size != 12 or "small" in svg.partition("</style>")[2]]
    return round(float(width[1]) * TEXT_HEIGHT / min(used or sizes))


def on_page_content(content: str, **_: Any) -> str:
    """Prepare the tables and figures of a page."""
    content = re.sub(r"<table>.*?</table>", lambda table: with_cards(table[0]), content, flags=re.DOTALL)

    def framed(image: re.Match[str]) -> str:
        width = least_width(image[1])
        if not width:
            return image[0]
        return f'<span class="figure" style="--least: {width}px">{image[0]}</span>'

    return IMAGE.sub(framed, content)
