"""The documentation's samples: Python runs and prints what is shown; commands have the options shown."""

import logging
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import typer.main
from _pytest.mark import ParameterSet

from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def fences(page: Path) -> list[tuple[str, str]]:
    """Each fenced block of a page: what stands behind the backticks, and the text."""
    return FENCE.findall(page.read_text(encoding="utf-8"))


def samples(page: Path) -> tuple[str, str]:
    """The page's Python samples as one program, and the output shown behind them."""
    program, shown = [], []
    for language, text in fences(page):
        if language == "python":
            program.append(text)
        elif language == 'text title="output"':
            shown.append(text)
    return "\n".join(program), "".join(shown)


def programs() -> Iterator[ParameterSet]:
    """Pages with samples; of a page and its translations, which have the same samples, the English one."""
    for (program, _), page in {samples(page): page for page in reversed(PAGES)}.items():
        if program:
            trains = ".backward()" in program or "train(" in program
            marks = [pytest.mark.slow] if trains else []
            yield pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks)


@pytest.mark.parametrize("page", list(programs()))
def test_python_samples_print_what_is_shown(page, tmp_path, monkeypatch, capsys):
    program, shown = samples(page)
    if "uwaga.load()" in program and not BUNDLED.exists():
        pytest.skip("this source tree holds no bundled model")
    monkeypatch.chdir(tmp_path)
    try:
        with torch.enable_grad():  # also after a sample that switches gradients off
            exec(compile(program, page, "exec"), {"__name__": "__main__"})
    finally:
        logging.disable(logging.NOTSET)  # a sample may switch logging off for the whole process
    assert not shown or capsys.readouterr().out == shown


NAMED = re.compile(r"`([\w./-]+/[\w./-]*\.(?:cpp|h|inl|md|py|toml|yaml))`")


OWN = [page for page in PAGES if page.name != "compared.md"]  # that page names files of other repositories


@pytest.mark.parametrize("page", OWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_are_there(page):
    places = (ROOT, ROOT / "src/uwaga", page.parent)
    named = NAMED.findall(page.read_text(encoding="utf-8"))
    assert [name for name in named if not any((place / name).exists() for place in places)] == []


def commands() -> list[tuple[Path, str]]:
    found = []
    for page in PAGES:
        for language, text in fences(page):
            if language == "console":
                lines = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
                found += [(page, line) for line in lines if "uwaga " in line]
    return found


def uwaga_calls(line: str) -> list[list[str]]:
    """The words after ``uwaga`` in each part of a shell line."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>;&")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    calls, words = [], list(lexer)
    for number, word in enumerate(words):
        if word == "uwaga":
            rest = words[number + 1 :]
            end = next((at for at, part in enumerate(rest) if set(part) <= set("|<>;&")), len(rest))
            calls.append(rest[:end])
    return calls


@pytest.mark.parametrize(("page", "line"), commands(), ids=lambda value: str(value).removeprefix(f"{ROOT}/"))
def test_commands_have_the_options_shown(page, line):
    group = typer.main.get_command(app)
    calls = uwaga_calls(line)
    assert calls
    for verb, *words in calls:
        if verb.startswith("-"):
            continue
        command = group.commands[verb]
        if verb == "models" and (not words or words[0] not in command.commands):
            command = command.commands["installed"]  # the one that needs no name
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        known = {option for param in command.params for option in param.opts} | {"-h", "--help"}
        assert {word.split("=")[0] for word in words if re.match("--?[a-z]", word)} <= known
