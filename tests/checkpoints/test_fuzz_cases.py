"""Mutated files and odd calls that once failed: an answer or an error of ours, soon, in little memory."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")
pytest.importorskip("ctranslate2")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="its memory is read from /proc")
def test_I11_fuzz_cases_that_once_failed(tmp_path):
    import fuzz

    made, failed = fuzz.prepared(Path(tmp_path)), []
    cases = [(name, number) for name, number in json.loads(fuzz.CASES.read_text())]
    cases += [(name, number) for name in fuzz.every_format(made) for number in (1, 2)]
    assert fuzz.run(cases, made, tmp_path / "x", failed) == len(cases)
    assert not failed
