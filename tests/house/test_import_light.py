"""Importing uwaga, showing help and common calls load no packages that they do not need."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY_MODULES = (
    "torch", "sacrebleu", "transformers", "matplotlib", "pyarrow", "tensorboard", "sentencepiece", "ray",
    "httpx", "fsspec",
)  # fmt: skip
NUMBERS = str(Path(__file__).parents[1] / "support/models/numbers-en-de")
COMMAND = """
import contextlib, io
from uwaga.cli.main import main
with contextlib.redirect_stdout(io.StringIO()):
    try: main({})
    except SystemExit as end: assert not end.code, end.code
"""
TRACE = """
import uwaga, uwaga_server.dialects.v1_inside
from uwaga.inspection import TraceParts, trace
trace(uwaga.load(threads=1), 'A dog runs.', parts=TraceParts(True, [], True, 3))
"""
LOAD_IN_TORCH = f"""
from pathlib import Path
from uwaga.checkpoints.registry import read
from uwaga.checkpoints.to_torch import to_torch
to_torch(read(Path({NUMBERS!r})))
"""
CTRANSLATE2 = """
import uwaga_compat.ctranslate2 as ct2
assert ct2.Translator('bundled').translate_batch([['\u2581Hello', '.']])[0].hypotheses
"""
PROGRAMS = [
    ("import uwaga; uwaga.Translator", HEAVY_MODULES),
    ("import uwaga.cli.main", HEAVY_MODULES),
    ("from uwaga.library import find_installed", HEAVY_MODULES),
    ("import uwaga.settings, uwaga.decoder, uwaga.errors, uwaga.evaluation", HEAVY_MODULES),
    (f"from uwaga.library.hub import find_model; find_model({NUMBERS!r})", ["torch"]),
    (COMMAND.format(["--help"]), HEAVY_MODULES),
    (COMMAND.format(["--version"]), ["torch", "pydantic", "uwaga.engine.model"]),
    (COMMAND.format(["info", "--json"]), ["torch"]),
    (COMMAND.format(["translate", "--help"]), ["uwaga.cli.train", "uwaga_server.cli.serve"]),
]
SLOW_PROGRAMS = [
    ("import uwaga; assert uwaga.load().translate('He left.', alignment=True).alignment.links", ["torch"]),
    ("import uwaga; uwaga.load().translate('A <b>dog</b> of {x}.', format='html')",
     ["torch", "lxml", "markdown_it"]),
    (TRACE, ["torch", "matplotlib"]),
    (LOAD_IN_TORCH, ["torch._dynamo", "sympy"]),  # their import takes longer than loading
    (CTRANSLATE2, ["ctranslate2", "torch", "transformers"]),
    (COMMAND.format(["convert", NUMBERS, "m", "--to", "pegasus"]), ["transformers", "ctranslate2"]),
    (COMMAND.format(["train", "--init", "new.yaml"]), ["torch", "sentencepiece"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "modules"),
    [*PROGRAMS, *(pytest.param(*program, marks=pytest.mark.slow) for program in SLOW_PROGRAMS)],
)
def test_program_imports_none_of_the_modules(tmp_path, code, modules):
    check = f"{code}\nimport sys; print(*(name for name in {modules} if name in sys.modules))"
    process = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert process.stdout.split() == []
