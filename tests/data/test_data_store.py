"""The store of encoded pairs on disk: content, reuse, and atomic writes."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from uwaga.data import store_writer
from uwaga.data.corpus import read_corpus
from uwaga.data.report import CorpusReport
from uwaga.data.store import Store
from uwaga.data.store_writer import build_store
from uwaga.errors import DataError, SettingsError
from uwaga.settings import DataSettings, TextSettings
from uwaga.tokenizers.text import surface
from uwaga.tokenizers.tokeniser import Tokeniser
from uwaga.tokenizers.training import train_tokeniser

SOURCES = [f"The {'big ' * (i % 7)}dog {i} runs." for i in range(90)]
PAIRS = [(text, f"Der {'große ' * (i % 5)}Hund {i} läuft \u2581 weg!") for i, text in enumerate(SOURCES)]


@pytest.fixture(scope="module")
def tokeniser(tmp_path_factory: pytest.TempPathFactory) -> Tokeniser:
    lines = [side for pair in PAIRS for side in pair]
    return train_tokeniser(lines, TextSettings(size=300), tmp_path_factory.mktemp("text") / "joint")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.tsv"
    path.write_text("".join(f"{source}\t{target}\tother\n" for source, target in PAIRS), encoding="utf-8")
    return path


def data_settings(path: Path, **values: object) -> DataSettings:
    return DataSettings(train=[path], dev=[path], **values)  # type: ignore[arg-type]


def build(
    tokeniser: Tokeniser, path: Path, keep_text: bool = False, **values: object
) -> tuple[Store, CorpusReport]:
    settings = data_settings(path, **values)
    reader = read_corpus(settings.resolved("train")[0])
    store = build_store(reader, (tokeniser, tokeniser), path.with_name("store"), settings, keep_text)
    return store, reader.report


@pytest.mark.parametrize("chunk", [1, 7, 90, 1000])
def test_store_contains_all_pairs_of_the_corpus(tokeniser, corpus, monkeypatch, chunk: int) -> None:
    monkeypatch.setattr(store_writer, "CHUNK_PAIRS", chunk)
    built, report = build(
        tokeniser, corpus, keep_text=True, augment={"lower": 0.1, "upper": 0.1, "unpunctuated": 0}
    )
    for store in (built, Store.open(built.folder)):
        assert len(store) == len(PAIRS)
        assert store.forms == ("lower", "upper")
        for index, (source, target) in enumerate(PAIRS):
            assert store.source(index).tolist() == tokeniser.encode(source)
            assert store.target(index).tolist() == tokeniser.encode(target)
            assert store.source_text(index) == source
            assert store.target_text(index) == target
            for form in store.forms:
                encoded = tokeniser.encode(surface(source, form))
                assert store.side("source", form).row(index).tolist() == encoded
        assert store.source_lengths.tolist() == [len(tokeniser.encode(source)) for source, _ in PAIRS]
        assert store.target_lengths.tolist() == [len(tokeniser.encode(target)) for _, target in PAIRS]
        assert store.source(0).dtype == np.uint16
        assert store.report == report
    assert (report.read, report.kept) == (90, 90)


def test_pairs_removed_by_filters_are_counted(tokeniser, tmp_path: Path) -> None:
    path = tmp_path / "c.tsv"
    path.write_text(
        "the dog\tder Hund\n" + "dog " * 40 + "\tHund\na\t" + "der Hund " * 3 + "\n", encoding="utf-8"
    )
    store, report = build(tokeniser, path, max_tokens=30, max_ratio=3)
    assert len(store) == report.kept == 1
    assert report.faults == {"too many tokens": 1, "too unequal lengths": 1}
    assert report.lines == {"too many tokens": [2], "too unequal lengths": [3]}
    with pytest.raises(DataError, match=r"c\.tsv, line 2: too many tokens"):
        build(tokeniser, path, max_tokens=30, max_ratio=3, bad_lines="stop")
    with pytest.raises(DataError, match="no sentence pair is left"):
        build(tokeniser, path, max_tokens=1)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["c.tsv", "store"]


def test_overlong_surface_form_is_replaced_by_the_original_text(tokeniser, tmp_path: Path) -> None:
    path = tmp_path / "c.tsv"
    path.write_text("".join(f"{source}\tder Hund\n" for source in SOURCES))
    max_tokens = int(np.median([len(tokeniser.encode(source.upper())) for source in SOURCES]))
    store, _ = build(tokeniser, path, keep_text=True, augment={"upper": 0.5}, max_tokens=max_tokens)
    cases = set()
    for index in range(len(store)):
        encoded = tokeniser.encode(store.source_text(index).upper())
        cases.add(len(encoded) > max_tokens)
        expected = store.source(index).tolist() if len(encoded) > max_tokens else encoded
        assert store.side("source", "upper").row(index).tolist() == expected
    assert cases == {True, False}


def exhausted_reader(settings: DataSettings):
    reader = read_corpus(settings.resolved("train")[0])
    reader._pairs.close()  # from now on it gives nothing
    return reader


def test_store_is_reused_only_if_corpus_and_settings_are_unchanged(tokeniser, corpus, tmp_path) -> None:
    store, report = build(tokeniser, corpus)
    settings = data_settings(corpus, augment={"lower": 0.0})
    reader = exhausted_reader(settings)
    reused = build_store(reader, (tokeniser, tokeniser), store.folder, settings, False)
    assert reused.inputs == store.inputs
    assert reader.report == report

    def is_rebuilt(**values: object) -> bool:
        before = (store.folder / "store.json").stat().st_ino
        build(tokeniser, corpus, **values)  # type: ignore[arg-type]
        return (store.folder / "store.json").stat().st_ino != before

    assert not is_rebuilt()
    assert is_rebuilt(max_tokens=99)
    assert is_rebuilt(max_ratio=8.5)
    assert is_rebuilt(augment={"lower": 0.1})
    assert not is_rebuilt(augment={"lower": 0.2})
    assert is_rebuilt(keep_text=True)
    os.utime(corpus, ns=(1, 1))
    assert is_rebuilt(keep_text=True)
    other = train_tokeniser(
        [pair[0] for pair in PAIRS], TextSettings(kind="bpe", size=290), tmp_path / "other"
    )
    old_inputs = Store.open(store.folder).inputs
    assert build(other, corpus, keep_text=True)[0].inputs != old_inputs


@pytest.mark.parametrize("name", ["store.json", "source", "target.offsets"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_damaged_store_is_reported_and_rebuilt(tokeniser, corpus: Path, name: str, damage: str) -> None:
    store, _ = build(tokeniser, corpus)
    path = store.folder / name
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(DataError, match="delete the folder"):
        Store.open(store.folder)
    rebuilt, _ = build(tokeniser, corpus)
    assert rebuilt.source(5).tolist() == tokeniser.encode(PAIRS[5][0])


def test_store_of_another_format_version_is_rejected(tokeniser, corpus: Path) -> None:
    store, _ = build(tokeniser, corpus)
    metadata_path = store.folder / "store.json"
    metadata_path.write_text(metadata_path.read_text().replace('"format": 2', '"format": 99'))
    with pytest.raises(DataError, match="format 99"):
        Store.open(store.folder)
    with pytest.raises(DataError, match="not a store"):
        Store.open(corpus.with_name("nowhere"))


def test_store_without_texts_is_reported_when_texts_are_needed(tokeniser, corpus: Path) -> None:
    store, _ = build(tokeniser, corpus)
    with pytest.raises(DataError, match="keep_text"):
        store.source_text(0)


def test_failed_rebuild_keeps_the_old_store(tokeniser, corpus: Path, monkeypatch) -> None:
    store, _ = build(tokeniser, corpus)

    def raise_disk_full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store_writer._StoreWriter, "write", raise_disk_full)
        with pytest.raises(DataError, match=r"cannot be written: .*No space left"):
            build(tokeniser, corpus, max_tokens=77)
    assert Store.open(store.folder).inputs == store.inputs
    corpus.write_text("a\tb\n" * 50 + "broken\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 51"):
        build(tokeniser, corpus, bad_lines="stop")
    assert Store.open(store.folder).inputs == store.inputs
    assert not [entry for entry in corpus.parent.iterdir() if ".part" in entry.name]


def test_surface_form_shares_that_sum_to_more_than_one_are_rejected(tokeniser, corpus: Path) -> None:
    with pytest.raises(SettingsError, match="more than 1"):
        build(tokeniser, corpus, augment={"lower": 0.7, "upper": 0.7})


def test_encoding_progress_counts_corpus_lines(tokeniser, corpus: Path, monkeypatch) -> None:
    monkeypatch.setattr(store_writer, "CHUNK_PAIRS", 40)
    settings = data_settings(corpus)
    line_counts: list[int] = []
    reader = read_corpus(settings.resolved("train")[0])
    build_store(
        reader, (tokeniser, tokeniser), corpus.with_name("s"), settings, False, progress=line_counts.append
    )
    assert line_counts == [40, 80, 90]
