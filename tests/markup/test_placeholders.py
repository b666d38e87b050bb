"""What is no language is found, and symbols stand for it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uwaga.errors import SettingsError
from uwaga.markup import Tag, plain_text
from uwaga.markup.icu import parse_message
from uwaga.markup.placeholders import Placeholders, kept_placeholders
from uwaga.markup.symbols import ATTEMPTS, choose_symbols, missing, restore, substitute

USUAL = kept_placeholders(True)
assert isinstance(USUAL, Placeholders)


def kept(text: str) -> list[str]:
    assert USUAL is not None
    return [part.raw for part in USUAL.split(text) if isinstance(part, Tag)]


@pytest.mark.parametrize(
    ("text", "found"),
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
def test_the_usual_placeholders(text: str, found: list[str]) -> None:
    assert kept(text) == found


@given(st.text(alphabet="{}%$#a1 ,.:/@'plural", max_size=60))
def test_nothing_is_lost_by_looking(text: str) -> None:
    assert USUAL is not None
    assert "".join(part if isinstance(part, str) else part.raw for part in USUAL.split(text)) == text


def test_patterns_are_added() -> None:
    more = kept_placeholders([r"ACME-\d+"])
    assert more is not None
    assert [part.raw for part in more.split("ACME-17 of {x}") if isinstance(part, Tag)] == ["ACME-17", "{x}"]
    assert kept_placeholders(False) is None


@pytest.mark.parametrize("wanted", ["a", ["("], [""], [7], 7, ["x*"]])
def test_wrong_patterns(wanted: object) -> None:
    with pytest.raises(SettingsError, match="placeholders"):
        kept_placeholders(wanted)  # type: ignore[arg-type]


def test_messages_are_taken_apart_and_put_together() -> None:
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


@settings(max_examples=80)
@given(parts=TEXTS, attempt=st.integers(0, ATTEMPTS - 1))
def test_symbols_come_back_as_what_they_stand_for(parts: list[str | Tag], attempt: int) -> None:
    inline = tuple(parts)
    chosen = choose_symbols(inline, attempt)
    used = [one for one in chosen if one is not None]
    assert len(set(used)) == len(used)
    changed, symbols = substitute(inline, chosen)
    back = plain_text(restore(changed, symbols)).split()
    assert "".join(back) == "".join(plain_text(inline).split()) or missing(symbols, plain_text(changed))


def test_a_symbol_counts_as_a_word_of_its_own_only() -> None:
    inline = ("Hello ", Tag("kept", "{x}", "{x}"))
    _, symbols = substitute(inline, ["20"])
    assert not missing(symbols, "Hallo 20.")
    assert missing(symbols, "Hallo 20.000")
    assert missing(symbols, "Hallo 2020")
    assert missing(symbols, "Hallo 20 und 20")
