"""The options of calls are typed: mypy refuses misspelt names and wrong values, and no call of the guides."""

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import get_type_hints

import pytest

from uwaga.library.model_card import CardFields
from uwaga.search import SearchOptions
from uwaga.settings.load_options import LoadOptions
from uwaga.translator import call_options
from uwaga.translator.call_options import CardOptions, LoadFields, SearchFields, TranslateOptions
from uwaga.translator.request import NON_NULL_FIELDS, REQUEST_FIELDS, Request

ROOT = Path(__file__).parents[2]
CALLS = ROOT / "tests/support/typed_calls.py"
SIGNATURES = (
    "__init__.pyi", "decoder.py", "generation/__init__.pyi", "generation/filler.py",
    "generation/generator.py", "loading.py", "markup/formats.py", "results/translation.py",
    "search/__init__.py", "search/options.py", "settings/load_options.py", "terms/apply.py",
    "terms/glossary.py", "tokenizers/chat_template.py", "translator/__init__.pyi",
    "translator/asynchronous.py", "translator/call_options.py", "translator/request.py",
    "translator/translator.py",
)  # fmt: skip
"""The modules with the types of the calls. mypy reads only these, which saves nine tenths of the time."""
TEXTS = str | Iterable[str]


@pytest.mark.slow
def test_mypy_rejects_exactly_the_calls_marked_as_wrong() -> None:
    command = [sys.executable, "-m", "mypy", "--follow-imports=skip", "--output=json"]
    command += ["--cache-dir=.mypy_cache/typed_calls", str(CALLS)]
    command += [f"src/uwaga/{name}" for name in SIGNATURES]
    process = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert not process.stderr
    messages = [json.loads(line) for line in process.stdout.splitlines()]
    errors = [message for message in messages if message["severity"] == "error"]
    lines = CALLS.read_text(encoding="utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, start=1) if line.endswith("# refused")}
    assert len(marked) >= 12
    assert {message["line"] for message in errors if Path(message["file"]).name == CALLS.name} == marked


@pytest.mark.parametrize(
    ("options", "record", "wider"),
    [
        (LoadFields, LoadOptions, {}),
        (SearchFields, SearchOptions, {"banned": Sequence[int]}),
        (TranslateOptions, Request, {"prefix": TEXTS, "draft": TEXTS}),
        (CardOptions, CardFields, {}),
    ],
)
def test_call_options_have_the_types_of_record_fields(options, record, wider) -> None:
    """A call may also pass None, and some options accept more types than the field stores."""
    fields = get_type_hints(record, localns=vars(call_options))
    expected = {
        name: kind if name in NON_NULL_FIELDS else wider.get(name, kind) | None
        for name, kind in fields.items()
        if record is not Request or name in REQUEST_FIELDS
    }
    if record is Request:
        expected |= get_type_hints(SearchFields)
    assert get_type_hints(options) == expected
    assert not options.__required_keys__
