"""Placeholders in texts, and their symbols."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwaga.errors import SettingsError
from uwaga.markup import Tag, plain_text
from uwaga.markup.icu import parse_message
from uwaga.markup.placeholders import Placeholders, resolve_placeholders
from uwaga.markup.symbols import (
    MAX_ATTEMPTS,
    choose_symbols,
    insert_symbols,
    missing_symbols,
    replace_symbols,
)

COMMON = resolve_placeholders(True)
assert isinstance(COMMON, Placeholders)


def find_placeholders(text: str) -> list[str]:
    assert COMMON is not None
    return [part.raw for part in COMMON.split(text) if isinstance(part, Tag)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello {name}, {0} and {}, {x.y[0]!r:>10}.", ["{name}", "{0}", "{}", "{x.y[0]!r:>10}"]),
        ("{{user}} and ${HOME} and %{x} and #{y}", ["{{user}}", "${HOME}", "%{x}", "#{y}"]),
        ("%s of %(n)d, %1$s and %5.2f%%", ["%s", "%(n)d", "%1$s", "%5.2f", "%%"]),
        ("$USER in $HOME/bin and %PATH%", ["$USER", "$HOME/bin", "%PATH%"]),
        (
            "See https://example.com/a?b=1. Mail bob@example.co.uk!",
            ["https://example.com/a?b=1", "bob@example.co.uk"],
        ),
        ("Open notes.txt or /etc/hosts/x, C:\\Temp\\a.dll", ["notes.txt", "/etc/hosts/x", "C:\\Temp\\a.dll"]),
        ("It weighs 5.5 kg at 30 °C, 20% off for $5.30", ["5.5 kg", "30 °C", "20%"]),
        ("Due {d, date, short}", ["{d, date, short}"]),
        ("{n, plural, one {# {x}} other {b}} left", ["{n, plural, one {# {x}} other {b}}"]),
        ("Two men, 25 years old, e.g. in the U.S. and/or here. 5 men!", []),
        ("100% of {that is, a set}", ["100%"]),
        ("It is 9:30 or 16:9 in 1990-1995, the 3rd in the U.S.A., 1.000.000 on 17.05.2024", []),
        ("He said it.Then he left -- well-known, and iPhone, B&B or McDonald's - 20 (20) men", []),
        ("{broken, plural, one {x}", ["{x}"]),
    ],
)
def test_common_placeholders(text: str, expected: list[str]) -> None:
    assert find_placeholders(text) == expected


@given(st.text(alphabet="{}%$#a1 ,.:/@'plural", max_size=60))
def test_split_preserves_text(text: str) -> None:
    assert COMMON is not None
    assert "".join(part if isinstance(part, str) else part.raw for part in COMMON.split(text)) == text


def test_additional_patterns() -> None:
    placeholders = resolve_placeholders([r"ACME-\d+"])
    assert placeholders is not None
    assert [part.raw for part in placeholders.split("ACME-17 of {x}") if isinstance(part, Tag)] == [
        "ACME-17",
        "{x}",
    ]
    assert resolve_placeholders(False) is None


@pytest.mark.parametrize("option", ["a", ["("], [""], [7], 7, ["x*"]])
def test_invalid_patterns_are_rejected(option: object) -> None:
    with pytest.raises(SettingsError, match="placeholders"):
        resolve_placeholders(option)  # type: ignore[arg-type]


def test_icu_message() -> None:
    text = "{n, plural, offset:1 =0 {no '{'files'}'} one {# file} other {{x} of # files}}"
    message = parse_message(text)
    assert message is not None
    assert message.branches == ("no '{'files'}'", "# file", "{x} of # files")
    assert message.with_branches(message.branches) == text
    assert message.with_branches(["a", "b", "c"]) == "{n, plural, offset:1 =0 {a} one {b} other {c}}"


TEXTS = st.lists(
    st.one_of(
        st.sampled_from(("Hello ", " of ", ", ", "x", " Tom ", "20", ".", " ")),
        st.sampled_from(("{n}", "%d", "5 km", "<b>")).map(lambda raw: Tag("kept", raw, raw)),
        st.just(Tag("open", "<i>")),
    ),
    max_size=12,
)


@given(parts=TEXTS, attempt=st.integers(0, MAX_ATTEMPTS - 1))
def test_symbols_are_replaced(parts: list[str | Tag], attempt: int) -> None:
    inline = tuple(parts)
    choices = choose_symbols(inline, attempt)
    texts = [symbol for symbol in choices if symbol is not None]
    assert len(set(texts)) == len(texts)
    changed, symbols = insert_symbols(inline, choices)
    restored = plain_text(replace_symbols(changed, symbols)).split()
    assert "".join(restored) == "".join(plain_text(inline).split()) or missing_symbols(
        symbols, plain_text(changed)
    )


def test_symbol_matches_separate_word_only() -> None:
    inline = ("Hello ", Tag("kept", "{x}", "{x}"))
    _, symbols = insert_symbols(inline, ["20"])
    assert not missing_symbols(symbols, "Hallo 20.")
    assert missing_symbols(symbols, "Hallo 20.000")
    assert missing_symbols(symbols, "Hallo 2020")
    assert missing_symbols(symbols, "Hallo 20 und 20")
