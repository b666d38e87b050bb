"""Whoever asks for help finds every option of the search: in Python, in the guide, on the command line."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import typer.main

from uwaga import TextGenerator, Translator
from uwaga.cli.main import app
from uwaga.search import SearchOptions, SearchOverrides

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "decoding.md"
OPTIONS = sorted(SearchOverrides.__annotations__)
TEXTS = {
    "SearchOptions": SearchOptions.__doc__,
    "translate": Translator.translate.__doc__,
    "generate": TextGenerator.generate.__doc__,
}


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("place", TEXTS)
def test_docstrings_explain_every_option(place: str, option: str) -> None:
    assert f"``{option}``" in (TEXTS[place] or "")


@pytest.mark.parametrize("option", [*OPTIONS, "prefix"])
def test_the_guide_lists_every_option(option: str) -> None:
    rows = [line.split("|")[1] for line in GUIDE.read_text(encoding="utf-8").splitlines() if "|" in line]
    assert any(f"`{option}`" in row for row in rows)


def test_options_are_passed_by_name() -> None:
    for method in (Translator.translate, Translator.stream, TextGenerator.generate, TextGenerator.stream):
        parameters = inspect.signature(method).parameters
        assert parameters["options"].kind is inspect.Parameter.VAR_KEYWORD


@pytest.mark.parametrize("verb", ["translate", "generate"])
def test_every_parameter_of_a_verb_has_a_help(verb: str) -> None:
    group = typer.main.get_command(app)
    for parameter in group.commands[verb].params:
        assert getattr(parameter, "help", None), parameter.name
