"""Symbols that represent placeholders in a memory pair and in the model input."""

import pytest

from uwaga.markup.inline import plain_text
from uwaga.markup.placeholders import COMMON_PLACEHOLDERS
from uwaga.markup.symbols import choose_symbols, find_symbols, insert_symbols, pair_with_symbols


def with_symbols(source: str, target: str) -> tuple[str, str]:
    inlines = pair_with_symbols(COMMON_PLACEHOLDERS.split(source), COMMON_PLACEHOLDERS.split(target))
    return plain_text(inlines[0]), plain_text(inlines[1])


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Call ``f(x)``.", "Rufen Sie ``f(x)`` auf."),
        ("``a`` is not ``b``.", "``b`` ist nicht ``a``."),
        ("Copy %s to %s.", "Kopiere %s nach %s."),
        ("Write to a@example.org, {name}.", "{name}, schreib an a@example.org."),
    ],
)
def test_memory_pairs_use_the_placeholder_symbols_of_the_model_input(source, target):
    parts = COMMON_PLACEHOLDERS.split(source)
    model_input, symbols = insert_symbols(parts, choose_symbols(parts, 0))
    paired_source, paired_target = with_symbols(source, target)
    assert paired_source == plain_text(model_input)
    spans = find_symbols(symbols, paired_target)
    assert sorted(spans) == sorted(symbol.text for symbol in symbols)
    for symbol in symbols:
        paired_target = paired_target.replace(symbol.text, symbol.tag.text)
    assert paired_target == target


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Call ``f(x)``.", "Rufen Sie sie auf."),
        ("Call it.", "Rufen Sie ``f(x)`` auf."),
        ("``a`` and ``a``", "``a``"),
        (" ".join(f"``{number}x`` is" for number in range(40)), " ".join(f"``{n}x``" for n in range(40))),
    ],
)
def test_memory_pairs_with_differing_or_too_many_placeholders_are_unchanged(source, target):
    assert with_symbols(source, target) == (source, target)
