"""Report pages and charts: texts are escaped, and curves pass through their points."""

import math
from itertools import pairwise

import pytest
from html_page import HOSTILE_TEXTS, Page
from hypothesis import given
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
    format_number,
    heading,
    page,
    paragraph,
    preformatted,
    table,
)


@given(HOSTILE_TEXTS, HOSTILE_TEXTS)
def test_all_text_in_reports_is_escaped(text, other_text):
    parts = [
        heading(text),
        paragraph(other_text),
        preformatted(text),
        details(text, table([text, other_text], [(other_text, text)])),
    ]
    lines = chart(text, [Series(other_text, [(0, 1), (1, 2)]), Series(text, [(0, 1)])], x_label=text)
    html = Page(page(text, [*parts, lines]))
    assert html.shows(text) and html.shows(other_text)
    assert len(html.attributes("polyline")) == 1 and len(html.attributes("circle")) == 1


def test_report_page_is_self_contained_and_has_a_dark_mode():
    text = page("t", [])
    assert "http" not in text.replace("http-equiv", "") and "prefers-color-scheme: dark" in text
    assert "default-src 'none'" in text


NUMBER = st.floats(allow_nan=True, allow_infinity=True, width=32)


@given(st.lists(st.tuples(NUMBER, NUMBER), max_size=30))
def test_finite_points_are_drawn_inside_the_chart(points):
    text = chart("t", [Series("a", points)])
    finite = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    if not finite:
        assert text == ""
        return
    html = Page(text)
    coordinates = [
        tuple(map(float, pair.split(",")))
        for line in html.attributes("polyline")
        for pair in line["points"].split()
    ] or [(float(dot["cx"]), float(dot["cy"])) for dot in html.attributes("circle")]
    assert len(coordinates) == len(finite)
    for x, y in coordinates:
        assert LEFT - 0.1 <= x <= WIDTH - RIGHT + 0.1 and TOP - 0.1 <= y <= HEIGHT - BOTTOM + 0.1


def test_chart_points_are_scaled_to_the_chart():
    [line] = Page(chart("t", [Series("a", [(0, 0), (5, 10), (10, 5)])])).attributes("polyline")
    right, low = WIDTH - RIGHT, HEIGHT - BOTTOM
    middle, half = (LEFT + right) / 2, (TOP + low) / 2
    expected = [(LEFT, low), (middle, TOP), (right, half)]
    assert [tuple(map(float, pair.split(","))) for pair in line["points"].split()] == expected


def test_long_curves_are_reduced_to_fewer_points():
    [line] = Page(chart("t", [Series("a", [(x, 1.0) for x in range(10_000)])])).attributes("polyline")
    assert MAX_POINTS / 2 < len(line["points"].split()) <= MAX_POINTS


@pytest.mark.parametrize(
    ("value", "text"),
    [(12345, "12,345"), (0.00012346, "0.0001235"), (123456.7, "123,457"), (37.216, "37.22")],
)
def test_numbers_are_formatted_with_few_digits(value, text):
    assert format_number(value) == text


@given(st.integers(0, 10**7), st.integers(1, 10**7))
def test_chart_ticks_are_round_numbers(first, length):
    text = chart("t", [Series("a", [(first, 0.0), (first + length, 1.0)])])
    ticks = [
        int(label.partition("<")[0].replace(",", "")) for label in text.split('text-anchor="middle">')[1:]
    ]
    steps = {right - left for left, right in pairwise(ticks)}
    assert ticks == sorted(ticks) and first <= ticks[0] and ticks[-1] <= first + length
    if length >= 20:
        step = min(steps)
        assert steps == {step} and int(str(step).rstrip("0")) in (1, 2, 5) and ticks[0] % step == 0


def test_numeric_column_headings_are_aligned_like_numbers():
    html = table(["name", "step", "BLEU"], [("dev", 40, "–"), ("mean", 80, 3.5)])
    assert '<th>name</th><th class="number">step</th><th class="number">BLEU</th>' in html
