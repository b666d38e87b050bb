"""Every search option is documented in Python, in the guide, by the server and on the command line."""

import dataclasses
import importlib.util
import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer.main

from uwaga import TextGenerator, Translator
from uwaga.cli.main import app
from uwaga.search import SearchOptions
from uwaga.settings.options import option_fields

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = DOCS / "guides" / "decoding.md"
OPTIONS = list(option_fields(SearchOptions))


@pytest.mark.parametrize("name", OPTIONS)
def test_options_have_one_line_help(name: str) -> None:
    option = option_fields(SearchOptions)[name].option
    assert option.help and "\n" not in option.help and not option.help.endswith(".")
    assert option.section


def test_all_fields_of_search_options_are_declared_as_options() -> None:
    assert [field.name for field in dataclasses.fields(SearchOptions)] == OPTIONS


@pytest.mark.parametrize("method", [Translator.translate, TextGenerator.generate])
def test_docstrings_refer_to_the_options_class(method: Callable[..., object]) -> None:
    assert "SearchOptions" in (method.__doc__ or "")


@pytest.mark.parametrize("option", [*OPTIONS, "prefix"])
def test_guide_lists_all_options(option: str) -> None:
    rows = [line.split("|")[1] for line in GUIDE.read_text(encoding="utf-8").splitlines() if "|" in line]
    assert any(f"`{option}`" in row for row in rows)


def test_options_are_passed_by_name() -> None:
    for method in (Translator.translate, Translator.stream, TextGenerator.generate, TextGenerator.stream):
        parameters = inspect.signature(method).parameters
        assert parameters["options"].kind is inspect.Parameter.VAR_KEYWORD


@pytest.mark.parametrize("verb", ["translate", "generate"])
def test_command_parameters_have_help(verb: str) -> None:
    group = typer.main.get_command(app)
    for parameter in group.commands[verb].params:
        assert getattr(parameter, "help", None), parameter.name


NEW_OPTION_SCRIPT = """
import contextlib, dataclasses, io, json, sys
import uwaga.search
from uwaga.search import options
from uwaga.settings.options import option

@dataclasses.dataclass(frozen=True)
class MoreOptions(options.SearchOptions):
    made_up: int = dataclasses.field(
        default=3, metadata=option("Invented for a test", section="Search", maximum=9, unset="the model's")
    )

options.SearchOptions = uwaga.search.SearchOptions = MoreOptions

import uwaga
from uwaga.cli.main import main
from uwaga.errors import SettingsError
from uwaga_server.dialects.v1_schema import TranslateBody

translator = uwaga.load()
assert translator.translate("Good morning!", made_up=4).text
try:
    translator.translate("Good morning!", made_up=10)
except SettingsError as error:
    assert "made_up" in str(error)
else:
    raise AssertionError
for verb in ("generate", "translate", "batch", "translate-file", "distil"):
    shown = io.StringIO()
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(shown):
        main([verb, "--help", "all"])
    assert "--made-up" in shown.getvalue() and "Invented for a test" in shown.getvalue(), verb
described = json.dumps(TranslateBody.model_json_schema()["properties"]["made_up"])
assert "Invented for a test" in described and '"maximum": 9' in described
assert TranslateBody(text="a", target="de", made_up=4).search_options() == {"made_up": 4}
"""


def test_new_option_appears_in_the_api_the_help_and_the_server_schema() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "200"}
    command = [sys.executable, "-c", NEW_OPTION_SCRIPT]
    process = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert process.returncode == 0, process.stderr


def test_new_option_appears_in_the_reference(tmp_path: Path) -> None:
    griffe = pytest.importorskip("griffe")
    spec = importlib.util.spec_from_file_location("docstring_roles", DOCS / "docstring_roles.py")
    assert spec is not None and spec.loader is not None
    roles = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(roles)
    path = tmp_path / "options.py"
    path.write_text(
        "@dataclass(frozen=True)\nclass SearchOptions:\n    made_up: int = field(default=3, "
        "metadata=option('Invented for a test', section='Search', maximum=9))\n"
    )
    module = griffe.load(
        "options", search_paths=[tmp_path], extensions=griffe.load_extensions(roles.DocstringRoles())
    )
    assert module["SearchOptions.made_up"].docstring.value == "Invented for a test (at most 9)."
    assert "::: uwaga.search.options" in (DOCS / "reference" / "search.md").read_text(encoding="utf-8")
