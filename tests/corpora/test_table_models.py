"""Jobs with glossaries, adapters and chains of models give the same rows as ``uwaga translate``."""

import json
from pathlib import Path

import pytest
import tiny_models as tiny
from command_line import run_uwaga
from table_jobs import sentences, text_rows

from uwaga.errors import ModelError
from uwaga.settings.load_options import LoadOptions
from uwaga_corpora.jobs.translation import TranslationSpec, worker_fingerprint
from uwaga_memory import Memory, Pair

JOINT = tiny.tokeniser()


def invoke(verb: str, *words: object, fails: bool = False) -> str:
    """Return the output of a command."""
    return run_uwaga(verb, *words, code=1 if fails else 0).output


def batch_and_translate(source: Path, folder: Path, *words: object) -> tuple[list[str], list[str]]:
    """Return the rows written by ``uwaga batch`` with two processes, and those of ``uwaga translate``."""
    invoke("batch", source, folder / "out", "--part-rows", 7, "--workers", 2, *words)
    invoke("translate", "--input", source, "--output", folder / "out.txt", *words)
    return text_rows(folder / "out"), (folder / "out.txt").read_text(encoding="utf-8").splitlines()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("\n".join([*sentences(18), "", "A dog. Two men!"]) + "\n", encoding="utf-8")
    return path


def install(machine: Path, source: str, target: str, seed: int) -> Path:
    """Save a tiny model in the folder of Argos Translate's models."""
    settings = tiny.TINY.model_copy(update={"tie": "none"})
    folder = machine / "argos-translate" / "packages" / f"{source}-{target}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    model = tiny.transformer(settings, JOINT, JOINT, seed=seed)
    tiny.save(folder, model, JOINT, languages=(source, target))
    return folder


@pytest.fixture
def machine(tmp_path: Path, monkeypatch) -> Path:
    """Set up a data folder with a chain of two installed models."""
    for name, folder in (("XDG_DATA_HOME", "data"), ("UWAGA_HOME", "uwaga"), ("HF_HUB_CACHE", "hub")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    install(tmp_path / "data", "qaa", "en", 1)
    install(tmp_path / "data", "en", "qab", 2)
    return tmp_path


def test_glossary_is_applied_and_rejected_on_resume_if_changed(source: Path, tmp_path: Path) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_text("dog\tWauwau\n", encoding="utf-8")
    rows, expected = batch_and_translate(source, tmp_path, "--glossary", terms, "--beam", 1)
    assert rows == expected
    assert sum("Wauwau" in row for row in rows) >= 3
    terms.write_text("dog\tBello\n", encoding="utf-8")
    words = ("--part-rows", 7, "--glossary", terms, "--beam", 1)
    output = invoke("batch", source, tmp_path / "out", *words, fails=True)
    assert "started with settings.glossary = " in output
    assert "cannot be read" in invoke("batch", source, tmp_path / "new", "--glossary", "no.tsv", fails=True)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_rows_are_matched_with_memory_pairs_by_key(tmp_path: Path, suffix: str) -> None:
    arrow = pytest.importorskip("pyarrow.json") if suffix == "parquet" else None
    memory = Memory.create(tmp_path / "a.uwm", "en", "de")
    memory.add([Pair("Open", "Öffnen", key="7"), Pair("Open", "Geöffnet", key="8"), Pair("Close", "Zu")])
    rows = [{"id": 7, "text": "Open"}, {"id": 8, "text": "Open"}, {"id": 9, "text": "A dog sleeps."}]
    source, out = tmp_path / "in.jsonl", tmp_path / "out"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    if arrow is not None:
        table = arrow.read_json(source)
        source = tmp_path / "in.parquet"
        pytest.importorskip("pyarrow.parquet").write_table(table, source)
    options = ("--column", "text=de", "--memory", memory.path, "--threshold", 90)
    invoke("batch", source, out, *options, "--key", "id", "--workers", 2 if arrow is None else 1)
    [part] = out.glob(f"part-*.{suffix}")
    if arrow is None:
        written = [json.loads(line) for line in part.read_text(encoding="utf-8").splitlines()]
    else:
        written = pytest.importorskip("pyarrow.parquet").read_table(part).to_pylist()
    assert [(row["de"], row["de_memory"]) for row in written] == [
        ("Öffnen", 101.0),
        ("Geöffnet", 101.0),
        ("Ein Hund schläft.", None),
    ]
    memory.confirm([Pair("Close", "Schließen")])
    changed = invoke("batch", source, out, *options, "--key", "id", fails=True)
    assert "started with settings.memory = " in changed
    assert "no column 'no'" in invoke("batch", source, tmp_path / "b", *options, "--key", "no", fails=True)
    assert "--key needs --memory" in invoke(
        "batch", source, tmp_path / "c", "--column", "text", "--key", "id", fails=True
    )


def test_tsv_file_can_be_used_as_a_translation_memory(tmp_path: Path) -> None:
    source, memory, out = tmp_path / "in.jsonl", tmp_path / "a.tsv", tmp_path / "out"
    source.write_text('{"text": "Open"}\n', encoding="utf-8")
    memory.write_text("Open\tÖffnen\n", encoding="utf-8")
    options = ("--column", "text=de", "--memory", memory)
    invoke("batch", source, out, *options)
    [part] = out.glob("part-*.jsonl")
    row = json.loads(part.read_text(encoding="utf-8"))
    assert (row["de"], row["de_memory"]) == ("Öffnen", 100.0)
    memory.write_text("Open\tAuf\n", encoding="utf-8")
    assert "started with settings.memory = " in invoke("batch", source, out, *options, fails=True)


@pytest.mark.slow
def test_languages_select_a_chain_of_models(source: Path, machine: Path) -> None:
    options = ("--from", "qaa", "--to", "qab", "--beam", 2)
    rows, expected = batch_and_translate(source, machine, *options)
    assert rows == expected
    assert "qaa → en → qab" in invoke("batch", source, machine / "again", *options)
    rows, expected = batch_and_translate(source, machine / "data", *options, "--via", "en")
    assert rows == expected
    output = invoke("batch", source, machine / "no", "--from", "qab", "--to", "qaa", fails=True)
    assert "no installed model translates qab to qaa" in output
    assert "auto is not supported" in invoke(
        "batch", source, machine / "no", "--from", "auto", "--to", "qab", fails=True
    )


def test_worker_with_other_models_is_rejected(machine: Path) -> None:
    spec = TranslationSpec((), LoadOptions(source="qaa", target="qab"), {})
    assert TranslationSpec.from_dict(spec.to_dict()) == spec
    fingerprint = worker_fingerprint(spec)
    assert len(fingerprint.models) == 2
    install(machine / "data", "qaa", "qab", 3)
    with pytest.raises(ModelError, match="selects a chain of 1 models for these languages"):
        fingerprint.check(worker_fingerprint(spec))


def test_batch_with_an_adapter_matches_translate(source: Path, machine: Path) -> None:
    folder = install(machine / "data", "qaa", "qac", 4)
    tiny.write_random_adapter(folder, machine / "adapter")
    rows, expected = batch_and_translate(source, machine, "--adapter", machine / "adapter")
    assert rows == expected
    invoke("batch", source, machine / "plain", "--model", folder)
    assert text_rows(machine / "plain") != rows
    words = ("--part-rows", 7, "--model", folder)
    assert "settings.adapter" in invoke("batch", source, machine / "out", *words, fails=True)


def test_worker_with_a_different_glossary_is_rejected() -> None:
    fingerprint = worker_fingerprint(TranslationSpec())
    other = fingerprint._replace(files={**fingerprint.files, "glossary": "f" * 64}, location="node b")
    with pytest.raises(ModelError, match="node b has a different glossary"):
        fingerprint.check(other)
