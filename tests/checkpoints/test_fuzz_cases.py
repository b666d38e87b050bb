"""Fuzz cases that once failed: each returns or raises a UwagaError within time and memory limits."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")
pytest.importorskip("ctranslate2")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="its memory is read from /proc")
def test_previously_failing_fuzz_cases_pass(tmp_path):
    import fuzz

    models, failed = fuzz.prepare(Path(tmp_path)), []
    cases = [(name, number) for name, number in json.loads(fuzz.CASES.read_text())]
    cases += [(name, number) for name in fuzz.format_names(models) for number in (1, 2)]
    assert fuzz.run(cases, models, tmp_path / "x", failed) == len(cases)
    assert not failed
