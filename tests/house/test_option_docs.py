"""Every search option is described in Python, in the guide and on the command line."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest
import typer.main

from uwaga import TextGenerator, Translator
from uwaga.cli.main import app
from uwaga.search import SearchOptions
from uwaga.settings.options import option_fields

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "decoding.md"
OPTIONS = list(option_fields(SearchOptions))


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_describes_itself_in_one_line(name: str) -> None:
    described = option_fields(SearchOptions)[name].option
    assert described.help and "\n" not in described.help and not described.help.endswith(".")
    assert described.section


def test_every_field_is_an_option() -> None:
    assert [field.name for field in dataclasses.fields(SearchOptions)] == OPTIONS


@pytest.mark.parametrize("method", [Translator.translate, TextGenerator.generate])
def test_docstrings_name_the_record_of_options(method: Callable[..., object]) -> None:
    assert "SearchOptions" in (method.__doc__ or "")


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
