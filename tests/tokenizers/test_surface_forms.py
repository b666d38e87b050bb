"""Surface forms of training texts and their shares, and characters with combining marks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwaga.errors import SettingsError
from uwaga.tokenizers.text import augment, choose_forms, clusters, compose, surface


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        ("lower", "Das ist GROSS.", "das ist gross."), ("upper", "Die Straße!", "DIE STRASSE!"),
        ("unpunctuated", "Is it? ", "Is it"), ("unpunctuated", "Ja \u2026!?\u201d", "Ja"),
        ("unpunctuated", "Mr. Smith", "Mr. Smith"), ("unpunctuated", "...", "..."),
    ],
)  # fmt: skip
def test_surface_forms_change_case_and_punctuation(form: str, text: str, expected: str) -> None:
    assert surface(text, form) == expected


def test_unknown_surface_form_is_rejected() -> None:
    with pytest.raises(SettingsError, match="sideways"):
        surface("a", "sideways")


def test_surface_forms_are_chosen_in_the_configured_proportions() -> None:
    shares = {"lower": 0.2, "upper": 0.05, "unpunctuated": 0.25}
    grid = (np.arange(1000) + 0.5) / 1000  # every share of the draws exactly once
    forms = choose_forms(shares, grid)
    assert [int((forms == form).sum()) for form in (-1, 0, 1, 2)] == [500, 200, 50, 250]
    assert (choose_forms({}, grid) == -1).all()
    with pytest.raises(SettingsError, match="more than 1"):
        choose_forms({"lower": 0.6, "upper": 0.6}, grid)


@given(st.text(), st.integers(0, 2**32))
def test_choice_of_surface_forms_is_deterministic(text: str, seed: int) -> None:
    shares = {"lower": 0.5, "upper": 0.4}
    augmented = [augment(text, shares, np.random.default_rng(seed)) for _ in range(2)]
    assert augmented[0] == augmented[1]
    assert augmented[0] in (text, text.lower(), text.upper())
    assert augment(text, {}, np.random.default_rng(seed)) == text


@given(
    st.lists(
        st.sampled_from(
            ["a", " ", "1\ufe0f\u20e3", "e\u0301\u0335", "👩🏽\u200d🚀", "🏴\U000e0067\U000e007f"]
        )
    )
)
def test_combining_marks_and_joiners_remain_attached_to_base_characters(characters):
    assert clusters("".join(characters)) == characters


def test_letters_with_many_combining_marks_are_not_composed():
    assert compose("Cafe\u0301, \u1112\u1161\u11ab") == "Café, 한"
    stacked = "a" + "\u0301\u0316" * 20
    assert compose(f"e\u0301{stacked}") == f"é{stacked}"
