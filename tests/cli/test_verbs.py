"""Commands: lazy imports, help pages and errors in options."""

import re
from collections import Counter

import pytest
from command_line import run_uwaga

from uwaga.cli.main import VERBS, Commands


@pytest.mark.parametrize("name", VERBS)
def test_all_commands_have_help(name: str):
    assert Commands()[name].name == name
    result = run_uwaga(name, "--help")
    assert f"uwaga {name}" in result.output


@pytest.mark.parametrize("name", VERBS)
def test_help_pages_are_short_and_complete(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    page = run_uwaga(name, "--help").output
    assert len(page.splitlines()) <= 60
    assert "<bool>" not in page
    everything = run_uwaga(name, "--help", "all").output
    options = [option for option in Commands()[name].params if option.param_type_name == "option"]
    counts = Counter(re.findall(r"^  (?:-\w, )?(--[\w-]+)", everything.partition("\nExamples:")[0], re.M))
    assert counts - Counter(["--help"]) == Counter(max(option.opts, key=len) for option in options)
    panels = {option.rich_help_panel.lower() for option in options if option.rich_help_panel}
    for panel in panels:
        panel_page = run_uwaga(name, "--help", panel).output
        assert f"{panel.capitalize()}:" in panel_page and len(panel_page) < len(everything)
    assert name != "translate" or panels > {"search", "text", "sampling"}


def test_unknown_help_panel_error_lists_panels():
    result = run_uwaga("translate", "--help", "serch", code=2)
    assert "search" in result.output


def test_help_shows_square_brackets_literally():
    assert "[MASK]" in run_uwaga("fill", "--help").output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", "--json", "true"], "--json takes no value: leave out 'true'"),
        (["translate", "--sample", "False", "A text."], "leave out --sample False"),
        (["translate", "--beam", "x", "A text."], "'x' should be a valid integer"),
        (["translate", "--split", "always", "A text."], "'sentences'"),
        (["align", "--thread", "2"], "--threads"),
    ],
)
def test_option_errors_suggest_fixes(arguments: list[str], message: str):
    result = run_uwaga(*arguments, code=2)
    assert message in result.output


def test_help_lists_all_commands():
    output = run_uwaga("--help").output
    assert all(name in output for name in VERBS)


def test_unknown_command_error_suggests_similar_commands():
    assert "invent" not in Commands()
    result = run_uwaga("trian", code=2)
    assert "'train'" in result.output


COMMANDS_WITH_POSITIONAL_MODEL = {
    "generate": ["text"], "fill": ["text", "text"], "convert": ["folder"],
    "shortlist": ["source", "target", "-o", "shortlist"], "info": [], "distil": ["corpus", "-o", "out"],
    "backtranslate": ["text", "-o", "out"],
}  # fmt: skip
"""Commands whose first argument is a model, and their other arguments."""


@pytest.mark.parametrize("name", COMMANDS_WITH_POSITIONAL_MODEL)
def test_model_can_be_given_as_option_or_argument(name: str, monkeypatch: pytest.MonkeyPatch):
    command = Commands()[name]
    others = COMMANDS_WITH_POSITIONAL_MODEL[name]
    contexts = []
    monkeypatch.setattr(command, "invoke", lambda context: contexts.append(context.params))
    for arguments in (
        ["bundled", *others],
        ["--model", "bundled", *others],
        [*others, "-m", "bundled"],
        [*others, "--model=bundled"],
    ):
        command.main(arguments, standalone_mode=False)
    assert contexts == contexts[:1] * 4


@pytest.mark.parametrize("name", sorted({*VERBS} - {*COMMANDS_WITH_POSITIONAL_MODEL}))
def test_commands_with_other_arguments_take_the_model_only_as_an_option(name: str):
    assert getattr(Commands()[name], "positional_model", None) is None


@pytest.mark.parametrize(
    "arguments",
    [
        ["generate", "Once upon"],
        ["generate", "Once upon", "gpt2"],
        ["distil", "nothing.tsv", "bundled", "-o", "d"],
    ],
)
def test_wrong_argument_order_error_shows_the_usage(arguments: list[str]):
    result = run_uwaga(*arguments, code=1)
    assert f"{arguments[1]!r}: no such folder" in result.output
    assert f"usage: uwaga {arguments[0]} MODEL" in result.output.replace("root", "uwaga")


def test_model_option_requires_a_value():
    result = run_uwaga("generate", "--model", code=2)
    assert "'--model' requires" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["convert", "--int8", "bundled"],
        ["convert", "--to", "pegasus", "bundled"],
        ["average", "run"],
        ["merge", "adapter"],
    ],
)
def test_folders_with_unrelated_files_are_not_replaced_even_with_force(arguments, tmp_path):
    (tmp_path / "file").write_text("kept")
    result = run_uwaga(*arguments, tmp_path, code=1)
    assert "add --force" in result.output
    forced = run_uwaga(*arguments, tmp_path, "--force", code=1)
    assert "add --force" not in forced.output  # files of others are never replaced
    assert (tmp_path / "file").read_text() == "kept"


def test_convert_replaces_a_model_only_with_force(tmp_path):
    arguments = ["convert", "--int8", "--no-check", "bundled", str(tmp_path / "m")]
    run_uwaga(*arguments)
    (tmp_path / "m" / "card.md").write_text("older")
    run_uwaga(*arguments, code=1)
    assert (tmp_path / "m" / "card.md").read_text() == "older"
    run_uwaga(*arguments, "--force")
    assert (tmp_path / "m" / "card.md").read_text() != "older"
