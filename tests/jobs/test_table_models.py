"""Glossaries, adapters and chains of models: the rows are those of ``uwaga translate``."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_models as tiny
from table_jobs import sentences, text_out
from typer.testing import CliRunner

from uwaga.checkpoints.formats.uwaga.folder import save_model
from uwaga.cli.main import app
from uwaga.errors import ModelError
from uwaga.jobs.translation import TranslationSpec, worker_fingerprint
from uwaga.settings.load_options import LoadOptions

JOINT = tiny.tokeniser()


def call(verb: str, *words: object, fails: bool = False) -> str:
    """What a command says."""
    done = CliRunner().invoke(app, [verb, *map(str, words)])
    assert done.exit_code == (1 if fails else 0), done.output
    return done.output


def both(source: Path, folder: Path, *words: object) -> tuple[list[str], list[str]]:
    """The rows of a table by two processes, and of ``uwaga translate``."""
    call("batch", source, folder / "out", "--part-rows", 7, "--workers", 2, *words)
    call("translate", "--input", source, "--output", folder / "out.txt", *words)
    return text_out(folder / "out"), (folder / "out.txt").read_text(encoding="utf-8").splitlines()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("\n".join([*sentences(18), "", "A dog. Two men!"]) + "\n", encoding="utf-8")
    return path


def install(machine: Path, source: str, target: str, seed: int) -> Path:
    """A tiny model where Argos Translate keeps its own."""
    settings = tiny.TINY.model_copy(update={"tie": "none"})
    place = machine / "argos-translate" / "packages" / f"{source}-{target}"
    place.parent.mkdir(parents=True, exist_ok=True)
    model = tiny.transformer(settings, JOINT, JOINT, seed=seed)
    save_model(place, model, settings, tiny.DECODING, JOINT, JOINT, (source, target), "card")
    return place


@pytest.fixture
def machine(tmp_path: Path, monkeypatch) -> Path:
    """A computer that has a chain of two models."""
    for name, place in (("XDG_DATA_HOME", "data"), ("UWAGA_HOME", "uwaga"), ("HF_HUB_CACHE", "hub")):
        monkeypatch.setenv(name, str(tmp_path / place))
    install(tmp_path / "data", "qaa", "en", 1)
    install(tmp_path / "data", "en", "qab", 2)
    return tmp_path


def test_terms_are_held_to_and_another_glossary_is_another_job(source: Path, tmp_path: Path) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_text("dog\tWauwau\n", encoding="utf-8")
    found, expected = both(source, tmp_path, "--glossary", terms, "--beam", 1)
    assert found == expected
    assert sum("Wauwau" in row for row in found) >= 3
    terms.write_text("dog\tBello\n", encoding="utf-8")
    words = ("--part-rows", 7, "--glossary", terms, "--beam", 1)
    said = call("batch", source, tmp_path / "out", *words, fails=True)
    assert "started with settings.glossary = " in said
    assert "cannot be read" in call("batch", source, tmp_path / "new", "--glossary", "no.tsv", fails=True)


def test_two_languages_choose_models_one_after_the_other(source: Path, machine: Path) -> None:
    how = ("--from", "qaa", "--to", "qab", "--beam", 2)
    found, expected = both(source, machine, *how)
    assert found == expected
    assert "qaa → en → qab" in call("batch", source, machine / "again", *how)
    found, expected = both(source, machine / "data", *how, "--via", "en")
    assert found == expected
    said = call("batch", source, machine / "no", "--from", "qab", "--to", "qaa", fails=True)
    assert "no installed model translates qab to qaa" in said
    assert "auto is not supported" in call(
        "batch", source, machine / "no", "--from", "auto", "--to", "qab", fails=True
    )


def test_a_worker_that_chooses_other_models_is_refused(machine: Path) -> None:
    spec = TranslationSpec((), LoadOptions(source="qaa", target="qab"), {})
    assert TranslationSpec.from_dict(spec.to_dict()) == spec
    own = worker_fingerprint(spec)
    assert len(own.models) == 2
    install(machine / "data", "qaa", "qab", 3)
    with pytest.raises(ModelError, match="selects a chain of 1 models for these languages"):
        own.check(worker_fingerprint(spec))


def test_an_adapter_is_merged_into_the_model_that_it_names(source: Path, machine: Path) -> None:
    place = install(machine / "data", "qaa", "qac", 4)
    tiny.write_adapter_of(place, machine / "adapter")
    found, expected = both(source, machine, "--adapter", machine / "adapter")
    assert found == expected
    call("batch", source, machine / "plain", "--model", place)
    assert text_out(machine / "plain") != found
    words = ("--part-rows", 7, "--model", place)
    assert "settings.adapter" in call("batch", source, machine / "out", *words, fails=True)


def test_another_file_beside_the_model_is_named() -> None:
    own = worker_fingerprint(TranslationSpec())
    other = own._replace(files={**own.files, "glossary": "f" * 64}, location="node b")
    with pytest.raises(ModelError, match="node b has a different glossary"):
        own.check(other)
