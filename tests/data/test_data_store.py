"""The store on disk: what is in it, when it is reused, and that it is never half-written."""

from __future__ import annotations

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


def choice(path: Path, **values: object) -> DataSettings:
    return DataSettings(train=[path], dev=[path], **values)  # type: ignore[arg-type]


def build(
    tokeniser: Tokeniser, path: Path, keep_text: bool = False, **values: object
) -> tuple[Store, CorpusReport]:
    settings = choice(path, **values)
    reader = read_corpus(settings.resolved("train")[0])
    store = build_store(reader, tokeniser, tokeniser, path.with_name("store"), settings, keep_text)
    return store, reader.report


@pytest.mark.parametrize("chunk", [1, 7, 90, 1000])
def test_it_holds_the_corpus(tokeniser, corpus, monkeypatch, chunk: int) -> None:
    monkeypatch.setattr(store_writer, "CHUNK", chunk)
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
                shown = tokeniser.encode(surface(source, form))
                assert store.side("source", form).row(index).tolist() == shown
        assert store.source_lengths.tolist() == [len(tokeniser.encode(source)) for source, _ in PAIRS]
        assert store.target_lengths.tolist() == [len(tokeniser.encode(target)) for _, target in PAIRS]
        assert store.source(0).dtype == np.uint16
        assert store.report == report
    assert (report.read, report.kept) == (90, 90)


def test_long_and_unequal_pairs_are_counted(tokeniser, tmp_path: Path) -> None:
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
    with pytest.raises(DataError, match="no sentence pair remains"):
        build(tokeniser, path, max_tokens=1)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["c.tsv", "store"]


def test_a_form_too_long_gives_way_to_the_text(tokeniser, tmp_path: Path) -> None:
    path = tmp_path / "c.tsv"
    path.write_text("".join(f"{source}\tder Hund\n" for source in SOURCES))
    most = int(np.median([len(tokeniser.encode(source.upper())) for source in SOURCES]))
    store, _ = build(tokeniser, path, keep_text=True, augment={"upper": 0.5}, max_tokens=most)
    cases = set()
    for index in range(len(store)):
        shown = tokeniser.encode(store.source_text(index).upper())
        cases.add(len(shown) > most)
        expected = store.source(index).tolist() if len(shown) > most else shown
        assert store.side("source", "upper").row(index).tolist() == expected
    assert cases == {True, False}


def unread(settings: DataSettings):
    reader = read_corpus(settings.resolved("train")[0])
    reader._pairs.close()  # from now on it gives nothing
    return reader


def test_it_is_reused_only_when_nothing_changed(tokeniser, corpus: Path, tmp_path: Path) -> None:
    store, report = build(tokeniser, corpus)
    settings = choice(corpus, augment={"lower": 0.0})
    reader = unread(settings)
    again = build_store(reader, tokeniser, tokeniser, store.folder, settings, False)
    assert again.made_from == store.made_from
    assert reader.report == report

    def remade(**values: object) -> bool:
        before = (store.folder / "store.json").stat().st_ino
        build(tokeniser, corpus, **values)  # type: ignore[arg-type]
        return (store.folder / "store.json").stat().st_ino != before

    assert not remade()
    assert remade(max_tokens=99)
    assert remade(max_ratio=8.5)
    assert remade(augment={"lower": 0.1})
    assert not remade(augment={"lower": 0.2})
    assert remade(keep_text=True)
    os.utime(corpus, ns=(1, 1))
    assert remade(keep_text=True)
    other = train_tokeniser(
        [pair[0] for pair in PAIRS], TextSettings(kind="bpe", size=290), tmp_path / "other"
    )
    old = Store.open(store.folder).made_from
    assert build(other, corpus, keep_text=True)[0].made_from != old


@pytest.mark.parametrize("name", ["store.json", "source", "target.offsets"])
@pytest.mark.parametrize("harm", ["cut", "gone"])
def test_damage_is_told_and_mended(tokeniser, corpus: Path, name: str, harm: str) -> None:
    store, _ = build(tokeniser, corpus)
    path = store.folder / name
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(DataError, match="delete the folder"):
        Store.open(store.folder)
    mended, _ = build(tokeniser, corpus)
    assert mended.source(5).tolist() == tokeniser.encode(PAIRS[5][0])


def test_a_store_of_another_format(tokeniser, corpus: Path) -> None:
    store, _ = build(tokeniser, corpus)
    facts = store.folder / "store.json"
    facts.write_text(facts.read_text().replace('"format": 2', '"format": 99'))
    with pytest.raises(DataError, match="format 99"):
        Store.open(store.folder)
    with pytest.raises(DataError, match="not a store"):
        Store.open(corpus.with_name("nowhere"))


def test_texts_must_have_been_kept(tokeniser, corpus: Path) -> None:
    store, _ = build(tokeniser, corpus)
    with pytest.raises(DataError, match="keep_text"):
        store.source_text(0)


def test_a_failure_leaves_the_old_store(tokeniser, corpus: Path, monkeypatch) -> None:
    store, _ = build(tokeniser, corpus)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store_writer._Writer, "write", full)
        with pytest.raises(DataError, match=r"cannot be written: .*No space left"):
            build(tokeniser, corpus, max_tokens=77)
    assert Store.open(store.folder).made_from == store.made_from
    corpus.write_text("a\tb\n" * 50 + "broken\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 51"):
        build(tokeniser, corpus, bad_lines="stop")
    assert Store.open(store.folder).made_from == store.made_from
    assert not [entry for entry in corpus.parent.iterdir() if ".part" in entry.name]


def test_shares_above_one(tokeniser, corpus: Path) -> None:
    with pytest.raises(SettingsError, match="more than 1"):
        build(tokeniser, corpus, augment={"lower": 0.7, "upper": 0.7})


def test_progress_counts_lines(tokeniser, corpus: Path, monkeypatch) -> None:
    monkeypatch.setattr(store_writer, "CHUNK", 40)
    settings = choice(corpus)
    seen: list[int] = []
    reader = read_corpus(settings.resolved("train")[0])
    build_store(reader, tokeniser, tokeniser, corpus.with_name("s"), settings, False, progress=seen.append)
    assert seen == [40, 80, 90]
