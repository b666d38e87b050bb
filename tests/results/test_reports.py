"""Pages and charts: any text is shown as text, and lines go where their numbers are."""

from __future__ import annotations

import math

import pytest
from html_page import HOSTILE, Page
from hypothesis import given, settings
from hypothesis import strategies as st

from uwaga.results.html import (
    BOTTOM,
    HEIGHT,
    LEFT,
    MAX_POINTS,
    RIGHT,
    TOP,
    WIDTH,
    Series,
    chart,
    details,
    heading,
    page,
    paragraph,
    preformatted,
    shown_number,
    table,
)


@given(HOSTILE, HOSTILE)
@settings(deadline=None, max_examples=60)
def test_any_text_is_shown_as_text(one, other):
    parts = [
        heading(one),
        paragraph(other),
        preformatted(one),
        details(one, table([one, other], [(other, one)])),
    ]
    lines = chart(one, [Series(other, [(0, 1), (1, 2)]), Series(one, [(0, 1)])], across=one)
    found = Page(page(one, [*parts, lines]))
    assert found.shows(one) and found.shows(other)
    assert len(found.of("polyline")) == 1 and len(found.of("circle")) == 1


def test_a_page_needs_no_network_and_has_two_colours():
    text = page("t", [])
    assert "http" not in text.replace("http-equiv", "") and "prefers-color-scheme: dark" in text
    assert "default-src 'none'" in text


NUMBER = st.floats(allow_nan=True, allow_infinity=True, width=32)


@given(st.lists(st.tuples(NUMBER, NUMBER), max_size=30))
@settings(deadline=None, max_examples=80)
def test_every_finite_point_lies_on_the_picture(points):
    text = chart("t", [Series("a", points)])
    finite = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    if not finite:
        assert text == ""
        return
    found = Page(text)
    places = [
        tuple(map(float, place.split(",")))
        for line in found.of("polyline")
        for place in line["points"].split()
    ] or [(float(dot["cx"]), float(dot["cy"])) for dot in found.of("circle")]
    assert len(places) == len(finite)
    for x, y in places:
        assert LEFT - 0.1 <= x <= WIDTH - RIGHT + 0.1 and TOP - 0.1 <= y <= HEIGHT - BOTTOM + 0.1


def test_points_go_where_their_numbers_are():
    [line] = Page(chart("t", [Series("a", [(0, 0), (5, 10), (10, 5)])])).of("polyline")
    right, low = WIDTH - RIGHT, HEIGHT - BOTTOM
    middle, half = (LEFT + right) / 2, (TOP + low) / 2
    expected = [(LEFT, low), (middle, TOP), (right, half)]
    assert [tuple(map(float, one.split(","))) for one in line["points"].split()] == expected


def test_long_curves_are_thinned():
    [line] = Page(chart("t", [Series("a", [(x, 1.0) for x in range(10_000)])])).of("polyline")
    assert MAX_POINTS / 2 < len(line["points"].split()) <= MAX_POINTS


@pytest.mark.parametrize(
    ("value", "shown"),
    [(12345, "12,345"), (0.00012346, "0.0001235"), (123456.7, "123,457"), (37.216, "37.22")],
)
def test_numbers(value, shown):
    assert shown_number(value) == shown
