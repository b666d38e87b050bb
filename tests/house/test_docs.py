"""Python samples in the documentation print the documented output, and documented options exist."""

import logging
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import typer.main
from _pytest.mark import ParameterSet
from plugin_samples import forget_plugins

from uwaga.checkpoints.formats.huggingface.registry import FAMILIES
from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.checkpoints.registry import FORMATS
from uwaga.cli.main import app
from uwaga.models.layers.scores import SCORES
from uwaga_documents import DOCUMENT_FORMATS
from uwaga_server.settings import DIALECTS

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def fences(page: Path) -> list[tuple[str, str]]:
    """Return the fenced blocks of a page as pairs of info string and text."""
    return FENCE.findall(page.read_text(encoding="utf-8"))


def samples(page: Path) -> tuple[str, str]:
    """Return the page's Python samples as one program, and their documented output."""
    program, output = [], []
    for language, text in fences(page):
        if language == "python":
            program.append(text)
        elif language == 'text title="output"':
            output.append(text)
    return "\n".join(program), "".join(output)


def programs() -> Iterator[ParameterSet]:
    """Yield pages with samples, except translations whose samples equal those of the English page."""
    for (program, _), page in {samples(page): page for page in reversed(PAGES)}.items():
        if program:
            # The course's programs take most of the time, and those that train or take every step by hand.
            is_slow = "learn" in page.parts or page.stem == "walk"
            is_slow |= ".backward()" in program or "train(" in program
            marks = [pytest.mark.slow] if is_slow else []
            yield pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks)


@pytest.mark.parametrize("page", list(programs()))
def test_python_samples_print_documented_output(page, tmp_path, monkeypatch, capsys):
    program, output = samples(page)
    if "uwaga.load()" in program and not BUNDLED.exists():
        pytest.skip("this source tree holds no bundled model")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "examples")
    forget_plugins(monkeypatch, SCORES, FORMATS, FAMILIES, DOCUMENT_FORMATS, DIALECTS)
    try:
        with torch.enable_grad():  # also after a sample that switches gradients off
            exec(compile(program, page, "exec"), {"__name__": "__main__"})
    finally:
        logging.disable(logging.NOTSET)  # a sample may switch logging off for the whole process
    assert not output or capsys.readouterr().out == output


FILE_NAME = re.compile(r"`([\w./-]+/[\w./-]*\.(?:cpp|h|inl|md|py|toml|yaml))`")


def test_inclusion_markers_are_not_reformatted():
    """A formatter that parses a marker as Python inserts a space."""
    assert [page for page in PAGES if "--8 <" in page.read_text(encoding="utf-8")] == []


def test_files_mentioned_in_docs_exist():
    missing = []
    for page in PAGES:
        if page.name == "compared.md":  # it names files of other repositories
            continue
        folders = (ROOT, ROOT / "src/uwaga", page.parent)
        names = FILE_NAME.findall(page.read_text(encoding="utf-8"))
        missing += [(page, name) for name in names if not any((folder / name).exists() for folder in folders)]
    assert missing == []


def commands() -> list[tuple[Path, str]]:
    page_lines = []
    for page in PAGES:
        for language, text in fences(page):
            if language == "console":
                lines = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
                page_lines += [(page, line) for line in lines if "uwaga " in line]
    return page_lines


def uwaga_calls(line: str) -> list[list[str]]:
    """Return the arguments of each call of ``uwaga`` in a shell line."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>;&")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    calls, words = [], list(lexer)
    for number, word in enumerate(words):
        if word == "uwaga":
            arguments = words[number + 1 :]
            end = next(
                (index for index, part in enumerate(arguments) if set(part) <= set("|<>;&")), len(arguments)
            )
            calls.append(arguments[:end])
    return calls


def test_options_mentioned_in_docs_exist():
    group = typer.main.get_command(app)
    for page, line in commands():
        calls = uwaga_calls(line)
        assert calls, (page, line)
        for verb, *words in calls:
            if verb.startswith("-"):
                continue
            command = group.commands[verb]
            if verb == "models" and (not words or words[0] not in command.commands):
                command = command.commands["installed"]  # the default command
            while words and words[0] in getattr(command, "commands", {}):
                command = command.commands[words.pop(0)]
            options = {option for param in command.params for option in param.opts} | {"-h", "--help"}
            used = {word.split("=")[0] for word in words if re.match("--?[a-z]", word)}
            assert used <= options, (page, line)
