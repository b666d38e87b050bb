"""Self-contained HTML pages without scripts, with light and dark colours and line charts as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape as _escape
from typing import TypeGuard

STYLE = """
:root { color-scheme: light dark; --back: #ffffff; --text: #1f2328; --faint: #59636e; --line: #d1d9e0;
  --one: #0969da; --two: #bc4c00; --three: #1a7f37; --four: #8250df; }
@media (prefers-color-scheme: dark) { :root { --back: #0d1117; --text: #e6edf3; --faint: #9198a1; --line:
#3d444d;
  --one: #58a6ff; --two: #f0883e; --three: #3fb950; --four: #bc8cff; } }
body { background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 62rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top;
  overflow-wrap: anywhere; }
td.number, th.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
figure { margin: 1.5rem 0; } figcaption, .faint { color: var(--faint); }
svg { width: 100%; height: auto; } svg text { fill: var(--faint); font: 12px system-ui, sans-serif; }
summary { cursor: pointer; } pre { overflow-x: auto; }
"""
INVALID_CHARACTERS = dict.fromkeys(
    [*range(9), 11, 12, *range(14, 32), *range(0x7F, 0xA0), 0xFFFE, 0xFFFF], "\ufffd"
)
"""Characters that are invalid in HTML, with their replacement."""


def escape(text: object) -> str:
    """Return a text escaped for HTML, with invalid characters replaced."""
    valid_text = str(text).encode("utf-8", "replace").decode("utf-8")
    return _escape(valid_text.translate(INVALID_CHARACTERS).replace("\r", " "), quote=True)


def page(title: str, parts: Iterable[str]) -> str:
    """Return a complete HTML document.

    Args:
        title: plain text.
        parts: HTML, from the other functions of this module.
    """
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src '
        "'unsafe-inline'\">\n"
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def heading(text: str) -> str:
    """Return a section heading as HTML."""
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str) -> str:
    """Return a paragraph of plain text as HTML."""
    return f"<p>{escape(text)}</p>"


def preformatted(text: str) -> str:
    """Return plain text as HTML that preserves its line breaks and spaces."""
    return f"<pre>{escape(text)}</pre>"


def details(summary: str, content: str) -> str:
    """Return a collapsed section as HTML.

    Args:
        summary: plain text.
        content: HTML.
    """
    return f"<details><summary>{escape(summary)}</summary>\n{content}\n</details>"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table of plain cells as HTML; numbers and the titles above them are right-aligned."""
    rows = list(rows)
    body = "\n".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    titles = "".join(
        f'<th class="number">{escape(title)}</th>' if is_numeric else f"<th>{escape(title)}</th>"
        for title, is_numeric in zip(head, _numeric_columns(rows, len(head)), strict=True)
    )
    return f"<table>\n<thead><tr>{titles}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def format_number(value: float) -> str:
    """Return a number as text, with thousands separators or, for small floats, four significant digits."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numeric_columns(rows: Sequence[Sequence[object]], count: int) -> list[bool]:
    """Return, for each column, whether at least one of its cells is a number."""
    return [any(_is_number(row[index]) for row in rows if index < len(row)) for index in range(count)]


def _cell(value: object) -> str:
    if _is_number(value):
        return f'<td class="number">{escape(format_number(value))}</td>'
    return f"<td>{escape(value)}</td>"


WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 60, 16, 12, 34
MAX_POINTS = 600
TICKS = 5
MAX_VALUE = 1e300
"""Largest magnitude of a value in a chart, so that differences of values are finite."""
COLOURS = ("--one", "--two", "--three", "--four")

Point = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """A line of a chart; points ``(x, y)`` that are not finite, or beyond ±1e300, are omitted."""

    name: str
    points: Sequence[Point]


def chart(title: str, series: Sequence[Series], x_label: str = "step") -> str:
    """Return an HTML figure with a line for each series; an empty string if no series has points.

    Args:
        title: caption in plain text.
        series: at most four series; further series are omitted.
        x_label: label of the horizontal axis.
    """
    lines = [(line.name, _average_points(_finite_points(line.points))) for line in series]
    lines = [(name, points) for name, points in lines if points]
    if not lines:
        return ""
    all_points = [point for _, points in lines for point in points]
    values, decimals = _ticks(min(y for _, y in all_points), max(y for _, y in all_points))
    left, right = min(x for x, _ in all_points), max(x for x, _ in all_points)
    x_scale = _Scale(left, right, LEFT, WIDTH - RIGHT)
    y_scale = _Scale(values[0], values[-1], HEIGHT - BOTTOM, TOP)
    parts = [_grid(values, decimals, y_scale), _axis(left, right, x_label, x_scale)]
    for colour, (name, points) in zip(COLOURS, lines, strict=False):
        parts.append(_line(name, points, colour, x_scale, y_scale))
    legend = ", ".join(
        f'<span style="color:var({colour})">{escape(name)}</span>'
        for colour, (name, _) in zip(COLOURS, lines, strict=False)
    )
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">\n'
        + "\n".join(parts)
        + f"\n</svg><figcaption>{escape(title)}: {legend}</figcaption></figure>"
    )


@dataclass(frozen=True)
class _Scale:
    """A linear map from values to coordinates."""

    first: float
    last: float
    start: float
    end: float

    def map(self, value: float) -> float:
        span = self.last - self.first
        share = (value - self.first) / span if span else 0.5
        return round(self.start + share * (self.end - self.start), 1)


def _finite_points(points: Sequence[Point]) -> list[Point]:
    return [(x, y) for x, y in points if abs(x) <= MAX_VALUE and abs(y) <= MAX_VALUE]


def _average_points(points: list[Point]) -> list[Point]:
    """Return at most :data:`MAX_POINTS` points, by averaging groups of consecutive points."""
    size = math.ceil(len(points) / MAX_POINTS)
    if size <= 1:
        return points
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [
        (sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group)) for group in groups
    ]


def _ticks(low: float, high: float) -> tuple[list[float], int]:
    """Return round tick values that span ``low`` to ``high``, and the number of decimals to show."""
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / TICKS))
    step = next((power * digit for digit in (1, 2, 5) if span / (power * digit) <= TICKS), power * 10)
    first_multiple, last_multiple = math.floor(low / step), math.ceil(high / step)
    values = [
        step * multiple for multiple in range(first_multiple, max(last_multiple, first_multiple + 1) + 1)
    ]
    return values, max(0, -math.floor(math.log10(step)))


def _grid(values: Sequence[float], decimals: int, scale: _Scale) -> str:
    lines = []
    for value in values:
        y = scale.map(value)
        label = f"{value:,.{decimals}f}" if decimals <= 6 else f"{value:.3g}"
        lines.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="var(--line)"/>'
            f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{label}</text>'
        )
    return "\n".join(lines)


def _axis(left: float, right: float, x_label: str, scale: _Scale) -> str:
    y = HEIGHT - BOTTOM + 16
    ticks = [value for value in _ticks(left, right)[0] if left <= value <= right] if right > left else [left]
    marks = dict.fromkeys(map(round, ticks))
    texts = [f'<text x="{scale.map(value)}" y="{y}" text-anchor="middle">{value:,}</text>' for value in marks]
    name = f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">{escape(x_label)}</text>'
    return "\n".join([*texts, name])


def _line(name: str, points: Sequence[Point], colour: str, x_scale: _Scale, y_scale: _Scale) -> str:
    coordinates = " ".join(f"{x_scale.map(x)},{y_scale.map(y)}" for x, y in points)
    if len(points) == 1:
        x, y = points[0]
        dot = f'<circle cx="{x_scale.map(x)}" cy="{y_scale.map(y)}" r="3" fill="var({colour})">'
        return f"{dot}<title>{escape(name)}</title></circle>"
    return (
        f'<polyline points="{coordinates}" fill="none" stroke="var({colour})" stroke-width="1.5">'
        f"<title>{escape(name)}</title></polyline>"
    )
