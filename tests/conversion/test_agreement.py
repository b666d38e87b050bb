"""Agreement of the translations of a model on two engines, and export to other formats."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from command_line import run_uwaga
from search_inputs import inputs

import uwaga
from uwaga.cli.convert import ExportChoice
from uwaga.conversion.export import export
from uwaga.conversion.quantise import Agreement, comparison_sources, measure_agreement
from uwaga.errors import ModelError
from uwaga.search import SearchOptions, search
from uwaga.settings.load_options import LoadOptions
from uwaga.translator.loading import load_model

NUMBERS = Path(__file__).parents[1] / "support/models/numbers-en-de"


@pytest.fixture(scope="module")
def exact():
    return uwaga.load(NUMBERS, engine="native", dtype="float32", threads=1)


def test_model_agrees_with_itself(exact):
    sources = comparison_sources(["forty-two", " ", "six hundred"], exact.source, exact.decoder)
    agreement = measure_agreement(exact.decoder, exact.decoder, sources)
    assert agreement.to_dict() == {
        "sentences": 2, "same": 1.0, "tokens": 1.0, "difference": 0.0, "largest": 0.0, "continued": False,
        "measured_on": "sentences",
    }  # fmt: skip


def test_agreement_counts_equal_sentences_and_equal_initial_tokens(exact):
    """The agreement equals a direct count over the sentences."""
    rounded = uwaga.load(NUMBERS, engine="native", dtype="int8", threads=1).decoder
    sources = comparison_sources(None, exact.source, exact.decoder)
    agreement = measure_agreement(exact.decoder, rounded, sources)
    options = SearchOptions(beam=1, max_length=None if exact.decoder.max_target else 256)
    exact_tokens, rounded_tokens = (
        [hypothesis.tokens for [hypothesis] in search(model, inputs(sources), options)]
        for model in (exact.decoder, rounded)
    )
    agreeing = 0
    for exact_ids, rounded_ids in zip(exact_tokens, rounded_tokens, strict=True):
        agrees = [left == right for left, right in zip(exact_ids, rounded_ids, strict=False)]
        agreeing += agrees.index(False) if False in agrees else len(agrees)
    assert agreement.same == np.mean(
        [left == right for left, right in zip(exact_tokens, rounded_tokens, strict=True)]
    )
    assert agreement.tokens == agreeing / sum(
        max(map(len, pair)) for pair in zip(exact_tokens, rounded_tokens, strict=True)
    )
    assert 0 < agreement.difference <= agreement.largest


def test_comparison_sources_are_sample_sentences_or_random_tokens(exact):
    framed = exact.source.add_special_tokens(exact.source.encode("forty-two"))
    assert comparison_sources(["", " forty-two "], exact.source, exact.decoder) == [tuple(framed)]
    random_sources = comparison_sources(None, exact.source, exact.decoder)
    assert random_sources == comparison_sources(None, exact.source, exact.decoder)
    symbols = exact.source.symbols
    for source in random_sources:
        *tokens, last = source
        assert last == symbols.end
        assert not {symbols.start, symbols.end, symbols.pad, symbols.unknown} & set(tokens)
        assert len(source) <= exact.decoder.max_source
    with pytest.raises(ModelError, match="all sentences of the sample are empty or too long"):
        comparison_sources(["", "forty-two " * 5000], exact.source, exact.decoder)


def test_export_writes_the_same_files_as_write_hugging_face(tmp_path):
    pytest.importorskip("torch")
    from uwaga.checkpoints.formats.huggingface.export import ExportFormat, write_hugging_face

    assert get_args(ExportChoice) == get_args(ExportFormat)
    notes = export(NUMBERS, tmp_path / "a", "pegasus")
    loaded = load_model(NUMBERS, LoadOptions("cpu", "float32", engine="torch"))
    expected = write_hugging_face(tmp_path / "b", "pegasus", loaded)
    assert notes == expected
    assert {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()} == {
        path.name: path.read_bytes() for path in (tmp_path / "b").iterdir()
    }
    with pytest.raises(ModelError, match="not overwritten"):
        export(NUMBERS, tmp_path / "a", "pegasus")


def test_agreement_verdict_depends_on_the_difference_in_log_probabilities():
    agreements = [Agreement(1, 0.0, 0.0, difference, 1.0) for difference in (0.0, 0.05, 0.2, 0.26)]
    assert [agreement.verdict.partition(":")[0] for agreement in agreements] == [
        "good", "good", "fair", "poor",
    ]  # fmt: skip


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_agreement_check_can_be_skipped(tmp_path, monkeypatch, precision):
    compared = run_uwaga("convert", f"--{precision}", NUMBERS, tmp_path / "compared")
    assert compared.stdout.splitlines()[-1].partition(":")[0] in ("good", "fair", "poor")
    monkeypatch.setattr("uwaga.conversion.quantise.measure_agreement", None)
    command = ["convert", f"--{precision}", "--no-check", str(NUMBERS), str(tmp_path / "unchecked")]
    unchecked = run_uwaga(*command)
    assert len(unchecked.stdout.splitlines()) == 1
    assert {path.name for path in (tmp_path / "compared").iterdir()} == {
        path.name for path in (tmp_path / "unchecked").iterdir()
    }
    refused = run_uwaga(*command[:-1], tmp_path / "third", "--sample", NUMBERS, code=None)
    assert refused.exit_code != 0
