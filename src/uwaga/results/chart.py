"""Line charts as inline SVG, in the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from uwaga.results.html import escape, shown_number

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 60, 16, 12, 34
MOST_POINTS = 600
TICKS = 5
LARGEST = 1e300
"""Of what is drawn: the difference of two such numbers is one, too."""
COLOURS = ("--one", "--two", "--three", "--four")

Point = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """A line: its name and its points ``(x, y)``; what is not finite, or beyond 1e300, is left out."""

    name: str
    points: Sequence[Point]


def chart(title: str, series: Sequence[Series], across: str = "step") -> str:
    """A figure with a line for each series; empty where none has a point.

    Args:
        title: plain text below it.
        series: at most as many as there are colours.
        across: what the horizontal axis counts.
    """
    drawn = [(one.name, _thinned(_finite(one.points))) for one in series]
    drawn = [(name, points) for name, points in drawn if points]
    if not drawn:
        return ""
    every = [point for _, points in drawn for point in points]
    values, decimals = _ticks(min(y for _, y in every), max(y for _, y in every))
    left, right = min(x for x, _ in every), max(x for x, _ in every)
    across_scale = _Scale(left, right, LEFT, WIDTH - RIGHT)
    up_scale = _Scale(values[0], values[-1], HEIGHT - BOTTOM, TOP)
    parts = [_grid(values, decimals, up_scale), _axis(left, right, across, across_scale)]
    for colour, (name, points) in zip(COLOURS, drawn, strict=False):
        parts.append(_line(name, points, colour, across_scale, up_scale))
    legend = ", ".join(
        f'<span style="color:var({colour})">{escape(name)}</span>'
        for colour, (name, _) in zip(COLOURS, drawn, strict=False)
    )
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">\n'
        + "\n".join(parts)
        + f"\n</svg><figcaption>{escape(title)}: {legend}</figcaption></figure>"
    )


@dataclass(frozen=True)
class _Scale:
    """From values to places on the picture."""

    first: float
    last: float
    start: float
    end: float

    def at(self, value: float) -> float:
        span = self.last - self.first
        share = (value - self.first) / span if span else 0.5
        return round(self.start + share * (self.end - self.start), 1)


def _finite(points: Sequence[Point]) -> list[Point]:
    return [(x, y) for x, y in points if abs(x) <= LARGEST and abs(y) <= LARGEST]


def _thinned(points: list[Point]) -> list[Point]:
    """At most :data:`MOST_POINTS` points, each the mean of several that follow each other."""
    size = math.ceil(len(points) / MOST_POINTS)
    if size <= 1:
        return points
    heaps = [points[start : start + size] for start in range(0, len(points), size)]
    return [(sum(x for x, _ in heap) / len(heap), sum(y for _, y in heap) / len(heap)) for heap in heaps]


def _ticks(low: float, high: float) -> tuple[list[float], int]:
    """Round values from at most ``low`` to at least ``high``, and the decimals to show."""
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / TICKS))
    step = next((power * one for one in (1, 2, 5) if span / (power * one) <= TICKS), power * 10)
    first, count = math.floor(low / step), math.ceil(high / step)
    values = [step * number for number in range(first, max(count, first + 1) + 1)]
    return values, max(0, -math.floor(math.log10(step)))


def _grid(values: Sequence[float], decimals: int, scale: _Scale) -> str:
    lines = []
    for value in values:
        place = scale.at(value)
        shown = f"{value:,.{decimals}f}" if decimals <= 6 else f"{value:.3g}"
        lines.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{place}" y2="{place}" stroke="var(--line)"/>'
            f'<text x="{LEFT - 6}" y="{place + 4}" text-anchor="end">{shown}</text>'
        )
    return "\n".join(lines)


def _axis(left: float, right: float, across: str, scale: _Scale) -> str:
    below = HEIGHT - BOTTOM + 16
    middle = (left + right) / 2
    marks = [(left, "start"), (middle, "middle"), (right, "end")] if right > left else [(left, "start")]
    texts = [
        f'<text x="{scale.at(value)}" y="{below}" text-anchor="{anchor}">{shown_number(round(value))}</text>'
        for value, anchor in marks
    ]
    name = f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">{escape(across)}</text>'
    return "\n".join([*texts, name])


def _line(name: str, points: Sequence[Point], colour: str, across: _Scale, up: _Scale) -> str:
    places = " ".join(f"{across.at(x)},{up.at(y)}" for x, y in points)
    if len(points) == 1:
        x, y = points[0]
        dot = f'<circle cx="{across.at(x)}" cy="{up.at(y)}" r="3" fill="var({colour})">'
        return f"{dot}<title>{escape(name)}</title></circle>"
    return (
        f'<polyline points="{places}" fill="none" stroke="var({colour})" stroke-width="1.5">'
        f"<title>{escape(name)}</title></polyline>"
    )
