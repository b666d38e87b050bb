"""Placeholders in texts, and the symbols that represent them in model input."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwaga.errors import SettingsError
from uwaga.markup import Tag, plain_text
from uwaga.markup.icu import parse_message
from uwaga.markup.inline import written_text
from uwaga.markup.placeholders import PLACEHOLDER_HINT, Placeholders, keep_order, resolve_placeholders
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
        ("See https://example.com/a?b=1. Mail bob@example.co.uk!",
         ["https://example.com/a?b=1", "bob@example.co.uk"]),
        ("Open notes.txt or /etc/hosts/x, C:\\Temp\\a.dll", ["notes.txt", "/etc/hosts/x", "C:\\Temp\\a.dll"]),
        ("It weighs 5.5 kg at 30 °C, 20% off for $5.30", ["5.5 kg", "30 °C", "20%"]),
        ("Set ``a = [1, 2]``, `None` or ``x``.", ["``a = [1, 2]``", "`None`", "``x``"]),
        (":func:`len` of :c:type:`PyObject *`: :gh:`1`", [":func:`len`", ":c:type:`PyObject *`", ":gh:`1`"]),
        ("See `the manual <https://a.org/x>`_.", ["`", " <https://a.org/x>`_"]),
        (":ref:`the {x} index <a-b>` of :func:`open it <open>`",
         [":ref:`", "{x}", " <a-b>`", ":func:`open it <open>`"]),
        ("``Hello'', and ``World'', a `b c` d` and rock 'n' roll: `", []),
        ("Due {d, date, short}", ["{d, date, short}"]),
        ("{n, plural, one {# {x}} other {b}} left", ["{n, plural, one {# {x}} other {b}}"]),
        ("Two men, 25 years old, e.g. in the U.S. and/or here. 5 men!", []),
        ("100% of {that is, a set}", ["100%"]),
        ("It is 9:30 or 16:9 in 1990-1995, the 3rd in the U.S.A., 1.000.000 on 17.05.2024", []),
        ("He said it.Then he left -- well-known, and iPhone, B&B or McDonald's - 20 (20) men", []),
        ("{broken, plural, one {x}", ["{x}"]),
        ("Finished in %.1fs, %sKB, %ss, %dpx, %zuMB", ["%.1fs", "%sKB", "%ss", "%dpx", "%zuMB"]),
        ("No %(model)ss of %(a.b)s, %(a-b)d", ["%(model)ss", "%(a.b)s", "%(a-b)d"]),
        ("%.*f, %'d, %Id, %I:%M %p, %-d. %B", ["%.*f", "%'d", "%Id", "%I", "%M", "%p", "%-d", "%B"]),
        ("%<PRIu64> of %<size>d, %<x>05.2f", ["%<PRIu64>", "%<size>d", "%<x>05.2f"]),
        ("Copy %1 of %L1 %1%2, %1% and %n", ["%1", "%L1", "%1", "%2", "%1%", "%n"]),
        ("%count% of %site or %first_name in %u%n", ["%count%", "%site", "%first_name", "%u", "%n"]),
        ("$USER$ has $HOME, %#@files@", ["$USER$", "$HOME", "%#@files@"]),
        ("By <%= user.name %> at <% if x %>", ["<%= user.name %>", "<% if x %>"]),
        ("{x!r:>{w}} {0,number,#.#} {0,choice,0#no|1#{1}}",
         ["{x!r:>{w}}", "{0,number,#.#}", "{0,choice,0#no|1#{1}}"]),
        ("%sError: %s", ["%s", "%s"]),
        ("mode 0%d of $name${count}, std::string, A::B::c()",
         ["%d", "$name", "${count}", "std::string", "A::B::c()"]),
    ],
)  # fmt: skip
def test_common_placeholders_are_recognised(text: str, expected: list[str]) -> None:
    assert find_placeholders(text) == expected


@pytest.mark.parametrize(
    ("syntax", "text", "expected"),
    [
        ("printf", "%sfiles 50%d %s", ["%s", "%d", "%s"]),
        ("qt", "%1s of %L2 and %n, %10", ["%1", "%L2", "%n", "%10"]),
        ("boost", "%1% %|2$5| %s", ["%1%", "%|2$5|", "%s"]),
        ("gcc", "%qs near %<x y%>, %<", ["%qs", "%<x y%>", "%<"]),
        ("pascal", "%0:s of %1:d", ["%0:s", "%1:d"]),
        ("go", "%[2]s of %v", ["%[2]s", "%v"]),
        ("lisp", "~a and ~5d", ["~a", "~5d"]),
        ("objc", "%1$#@n@ of %@, %lu", ["%1$#@n@", "%@", "%lu"]),
        ("gcc", "%q+D near %wu and %.*s, 20%> and %2$qE", ["%q+D", "%wu", "%.*s", "%>", "%2$qE"]),
        ("go", "%+[1]v of %#[2]q", ["%+[1]v", "%#[2]q"]),
        ("laravel", ":name at 10:30, :smile: http://a:b/c", [":name", ":smile:", "http://a:b/c"]),
        ("laravel", ":hours::minutes, :n/:total, v:version", [":hours::minutes", ":n/:total", "v:version"]),
        ("vue", "@:menu.file @.lower:x @:{'a b'} @:(y)", ["@:menu.file", "@.lower:x", "@:{'a b'}", "@:(y)"]),
        ("i18next", "Go to $t(menu.open)", ["$t(menu.open)"]),
        ("chrome", "$USER$ pays $$5 or $1", ["$USER$", "$$5", "$1"]),
        ("drupal", "@host:@port, @n/@total or [:site-url]:@n",
         ["@host:@port", "@n/@total", ":site-url", "@n"]),
        ("drupal", "!user of @site-name, %xy-z or :url", ["!user", "@site-name", "%xy-z", ":url"]),
    ],
)  # fmt: skip
def test_placeholders_of_each_syntax_are_recognised(syntax: str, text: str, expected: list[str]) -> None:
    parts = Placeholders(syntaxes=(syntax,)).split(text)
    assert [part.raw for part in parts if isinstance(part, Tag)] == expected


def test_link_and_role_titles_are_parsed_as_text_between_tags() -> None:
    text = "Read `the manual <https://a.org/x>`__ and :std:doc:`the tutorial </tutorial/index>` first."
    parts = Placeholders().split(text)
    assert [part for part in parts if isinstance(part, str)] == [
        "Read ", "the manual", " and ", "the tutorial", " first.",
    ]  # fmt: skip
    assert [part.kind for part in parts if isinstance(part, Tag)] == ["open", "close"] * 2
    assert written_text(parts) == text


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("%r", "%d"), "%(a)s"), (("{}", "{:>5}", "{!r}", "{:{w}}"), "{name}"),
        (("~a", "~5,2f", "~:d"), "%1"), (("%|5d|", "%|s|"), "%|1$s|"), (("%v", "%+v", "%q"), "%[2]s"),
        (("%qE", "%q+D", "%<%.*s%>"), "{:name}"), (("%s", "http://a.b/%s/c%20d"), "http://a.b/c%20d"),
        (("%@", "%lu"), "%#@files@"),
    ],
)  # fmt: skip
def test_arguments_that_cannot_be_numbered_keep_their_order(arguments: tuple[str, ...], named: str) -> None:
    tags = [Tag("kept", raw, raw) for raw in arguments]
    named_tag = Tag("kept", named, named)
    source = ("Copy ", tags[0], named_tag, *tags[1:])
    reordered = (*tags[:0:-1], " x ", named_tag, tags[0])
    assert keep_order(source, reordered) == (*tags[:-1], " x ", named_tag, tags[-1])
    assert keep_order(source, reordered[1:]) == reordered[1:]


@given(st.text(alphabet="{}%$#a1 ,.:/@'plural", max_size=60))
def test_splitting_into_placeholders_preserves_the_text(text: str) -> None:
    assert COMMON is not None
    assert "".join(part if isinstance(part, str) else part.raw for part in COMMON.split(text)) == text


def test_user_defined_placeholder_patterns_are_recognised() -> None:
    placeholders = resolve_placeholders([r"ACME-\d+"])
    assert placeholders is not None
    assert [part.raw for part in placeholders.split("ACME-17 of {x}") if isinstance(part, Tag)] == [
        "ACME-17",
        "{x}",
    ]
    assert resolve_placeholders(False) is None


@pytest.mark.parametrize("option", ["a", ["("], [""], [7], 7, ["x*"]])
def test_invalid_placeholder_patterns_are_rejected(option: object) -> None:
    with pytest.raises(SettingsError, match="placeholders"):
        resolve_placeholders(option)  # type: ignore[arg-type]


def test_icu_message_is_parsed_and_written_back() -> None:
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
def test_placeholder_symbols_are_restored_or_reported_missing(parts: list[str | Tag], attempt: int) -> None:
    inline = tuple(parts)
    choices = choose_symbols(inline, attempt)
    texts = [symbol for symbol in choices if symbol is not None]
    assert len(set(texts)) == len(texts)
    changed, symbols = insert_symbols(inline, choices)
    restored = plain_text(replace_symbols(changed, symbols)).split()
    assert "".join(restored) == "".join(plain_text(inline).split()) or missing_symbols(
        symbols, plain_text(changed)
    )


@pytest.mark.parametrize("unit", ["m", "km", "m/s"])
def test_exponent_is_part_of_its_unit_of_measurement(unit: str) -> None:
    inline = (
        "It is ", Tag("kept", f"5 {unit}", f"5 {unit}"), Tag("open", "<sup>"), "2", Tag("close", "</sup>"),
        " large.",
    )  # fmt: skip
    changed, symbols = insert_symbols(inline, choose_symbols(inline, 0))
    assert replace_symbols(changed, symbols) == inline


def test_placeholder_symbol_matches_only_a_whole_word() -> None:
    inline = ("Hello ", Tag("kept", "{x}", "{x}"))
    _, symbols = insert_symbols(inline, ["20"])
    assert not missing_symbols(symbols, "Hallo 20.")
    assert missing_symbols(symbols, "Hallo 20.000")
    assert missing_symbols(symbols, "Hallo 2020")
    assert missing_symbols(symbols, "Hallo 20 und 20")


@given(st.text("{%\\`1٣.:+-()aBcD é_", max_size=8))
def test_placeholder_hint_matches_its_reference_pattern(text):
    hint = r"[{%$@/\\#_`]|\d|\w[.:+]\w|::|--|\(\)|[a-z]{2}[A-Z]"
    assert (PLACEHOLDER_HINT.search(text) is None) == (re.search(hint, text) is None)
