"""Numbered arguments of messages."""

import pytest

from uwaga_documents.numbering import NUMBERINGS, number_arguments, without_numbers


@pytest.mark.parametrize(
    ("name", "text", "numbered"),
    [
        ("printf", "%s: 100%% of %d in %#@files@", "%1$s: 100%% of %2$d in %3$#@files@"),
        ("gcc", "%<%q+D%> is %wu, %qE (%m)", "%<%1$q+D%> is %2$wu, %3$qE (%m)"),
        ("boost", "%s of %|5d| and %%", "%1$s of %|2$5d| and %%"),
        ("go", "%+v: %-5.2f%% of %#q", "%+[1]v: %-5.2[2]f%% of %#[3]q"),
        ("pascal", "%s: %-5.2f%%", "%0:s: %1:-5.2f%%"),
        ("braces", "{}: {:>5} of {!r}, {name} and {{}}", "{0}: {1:>5} of {2!r}, {name} and {{}}"),
    ],
)
def test_reordered_format_arguments_are_numbered(name: str, text: str, numbered: str) -> None:
    numbering = NUMBERINGS[name]
    assert number_arguments(text, numbering) == numbered
    assert without_numbers(numbered, numbering) == text
    assert number_arguments(numbered, numbering) is None
    parts = numbered.split(" ")
    reversed_text = " ".join(parts[::-1])
    assert without_numbers(reversed_text, numbering) == reversed_text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("printf", text) for text in ("%s", "%1$s of %2$d", "%(a)s %(b)s", "%.*f of %s", "%<a>s %<b>s")),
        *(("gcc", "%.*s of %qs"), ("boost", "%1% of %2%"), ("boost", "%s of %2%"), ("go", "%*d of %d")),
        *(("go", "%[2]d of %d"), ("pascal", "%0:s of %s"), ("pascal", "%*d of %d")),
        *(("braces", text) for text in ("{} of {name}", "{0} of {}", "{:{}} of {}", "{{}} of {}")),
        ("braces", "{:first_name} {:last_name}"),
    ],
)  # fmt: skip
def test_numbering_returns_none_if_arguments_cannot_be_numbered(name: str, text: str) -> None:
    assert number_arguments(text, NUMBERINGS[name]) is None
