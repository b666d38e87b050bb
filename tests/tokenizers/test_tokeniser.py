"""The tokeniser preserves all texts, and its samples depend only on the seed."""

import threading
from pathlib import Path

import pytest
import tiny_models as tiny
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import SentencePieceNormalizer

from uwaga.errors import DataError, ModelError, SettingsError
from uwaga.settings import TextSettings
from uwaga.settings.text_options import TextOptions
from uwaga.tokenizers.text import is_all_capitals
from uwaga.tokenizers.tokeniser import Tokeniser
from uwaga.tokenizers.training import train_tokeniser

SYLLABLES = ["ka", "to", "mi", "ren", "sul", "vor", "ba", "lü", "sche", "x"]
WORDS = [a + b + c for a in SYLLABLES for b in SYLLABLES for c in ("", "n", "de")]
LINES = [
    " ".join(["the dog"] + [WORDS[(i * i + 7 * j + i * j) % len(WORDS)] for j in range(4 + i % 9)] + ["<s>."])
    for i in range(400)
]
KINDS = ("unigram", "bpe")
NORMALISATIONS = ("identity", "nfkc")


@pytest.fixture(scope="module")
def tokenisers(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Tokeniser]:
    folder = tmp_path_factory.mktemp("tokenisers")
    return {
        (kind, norm): train_tokeniser(
            LINES, TextSettings(kind=kind, size=360, normalisation=norm), folder / f"{kind}.{norm}"
        )
        for kind in KINDS
        for norm in NORMALISATIONS
    }


PARTS = [
    *"\u2581\n\r\t\0\x1b\u2047\ufffd\u2585\ue000\ufb01\u0308\u1100\u1161\u11a8\u200b\xa0\u2460\xad\u3000",
    *("<s>", "</s>", "<pad>", "<unk>", "<0x41>", " ", "  ", "dog", "\uff21", "\U0001f600"),
]
NFKC = SentencePieceNormalizer(
    rule_name="nfkc", add_dummy_prefix=False, escape_whitespaces=False, remove_extra_whitespaces=False
)
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(PARTS), max_size=8).map("".join))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("norm", NORMALISATIONS)
def test_texts_survive_a_round_trip(tokenisers, kind, norm) -> None:
    tokeniser = tokenisers[kind, norm]

    @given(TEXTS)
    def check(text: str) -> None:
        ids = tokeniser.encode(text)
        expected = NFKC.normalize(text) if norm == "nfkc" else text
        assert tokeniser.decode(ids) == expected
        assert tokeniser.encode_batch([text, "a", text]) == [ids, tokeniser.encode("a"), ids]
        (sampled,) = tokeniser.sample([text], 0.3, 1)
        assert tokeniser.decode(sampled) == expected
        symbols = tokeniser.symbols
        assert not {symbols.start, symbols.end, symbols.pad, symbols.unknown} & {*ids, *sampled}
        assert tokeniser.decode([symbols.start, *ids, symbols.end, symbols.pad]) == expected

    check()


def test_all_characters_survive_a_round_trip(tokenisers) -> None:
    tokeniser = tokenisers["bpe", "identity"]
    points = [*range(0x20000), *range(0x20000, 0x110000, 17)]
    for start in range(0, len(points), 512):
        text = "".join(chr(point) for point in points[start : start + 512] if not 0xD800 <= point < 0xE000)
        assert tokeniser.decode(tokeniser.encode(text)) == text


def test_special_symbols_have_fixed_ids(tokenisers) -> None:
    for tokeniser in tokenisers.values():
        symbols = tokeniser.symbols
        assert (symbols.pad, symbols.unknown, symbols.start, symbols.end) == (0, 1, 2, 3)
        assert tokeniser.pieces([0, 1, 2, 3]) == ["<pad>", "<unk>", "<s>", "</s>"]
        assert tokeniser.size == 360


def test_pieces_join_to_the_text_with_marked_spaces(tokenisers) -> None:
    tokeniser = tokenisers["unigram", "identity"]
    pieces = tokeniser.pieces(tokeniser.encode("the dog vorka"))
    assert "".join(pieces) == "\u2581the\u2581dog\u2581vorka"


@pytest.mark.parametrize("kind", KINDS)
def test_sampled_segmentation_depends_only_on_the_seed(tokenisers, kind) -> None:
    tokeniser = tokenisers[kind, "identity"]
    texts = LINES * 3  # several slices, each in a thread of its own
    first = tokeniser.sample(texts, 0.3, 7)
    assert tokeniser.sample(texts, 0.3, 8) != first
    tokeniser.sample(texts[:5], 0.3, 9)
    assert tokeniser.sample(texts, 0.3, 7) == first
    samples: list[list[list[int]]] = []
    other_thread = threading.Thread(target=lambda: tokeniser.sample(texts, 0.3, 11))
    worker = threading.Thread(target=lambda: samples.append(tokeniser.sample(texts, 0.3, 7)))
    other_thread.start(), worker.start(), worker.join(), other_thread.join()
    assert samples == [first]
    assert {tuple(row) for row in first} != {tuple(row) for row in tokeniser.encode_batch(texts)}
    assert [tokeniser.decode(row) for row in first] == texts
    for seed in (0, 2**31 - 1, 2**32 - 1, 2**63, -5):
        assert tokeniser.sample(texts[:9], 0.3, seed) == tokeniser.sample(texts[:9], 0.3, seed)
    assert tokeniser.sample([], 0.3, 1) == []


def test_number_of_threads_does_not_affect_ids(tokenisers) -> None:
    tokeniser = tokenisers["unigram", "nfkc"]
    assert tokeniser.encode_batch(LINES, threads=4) == [tokeniser.encode(line) for line in LINES]
    assert tokeniser.encode_batch([]) == []


def test_tokeniser_training_is_deterministic(tmp_path: Path) -> None:
    for kind in KINDS:
        text_settings = TextSettings(kind=kind, size=320)
        first = train_tokeniser(iter(LINES), text_settings, tmp_path / "one")
        second = train_tokeniser(iter(LINES), text_settings, tmp_path / "two")
        assert first.model_bytes == second.model_bytes == (tmp_path / "one.spm").read_bytes()
        assert Tokeniser.load(tmp_path / "two.spm").encode("the dog") == first.encode("the dog")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.spm", "two.spm"]


@pytest.mark.parametrize("kind", KINDS)
def test_too_large_vocabulary_error_states_the_largest_size(tmp_path: Path, kind: str) -> None:
    with pytest.raises(SettingsError, match="largest possible size is") as error:
        train_tokeniser(LINES, TextSettings(kind=kind, size=30_000), tmp_path / "big")
    assert not list(tmp_path.iterdir())
    largest = int(str(error.value).rsplit(" ", 1)[1])
    assert train_tokeniser(LINES, TextSettings(kind=kind, size=largest), tmp_path / "big").size == largest


@pytest.mark.parametrize("kind", KINDS)
def test_too_small_vocabulary_error_states_the_smallest_size(tmp_path: Path, kind: str) -> None:
    with pytest.raises(SettingsError, match="smallest possible size is") as error:
        train_tokeniser(LINES, TextSettings(kind=kind, size=20), tmp_path / "small")
    smallest = int(str(error.value).split("size is ")[1].split(" ")[0])
    assert train_tokeniser(LINES, TextSettings(kind=kind, size=smallest), tmp_path / "small").size == smallest


@pytest.mark.parametrize("lines", [[], ["", "  ", "\0", "\u2581"]])
def test_training_without_text_is_rejected(tmp_path: Path, lines: list[str]) -> None:
    with pytest.raises(DataError, match="no text"):
        train_tokeniser(lines, TextSettings(size=300), tmp_path / "none")


def test_errors_while_reading_lines_are_raised(tmp_path: Path) -> None:
    def lines():
        yield from LINES
        raise DataError("corpus.tsv, line 401: broken")

    with pytest.raises(DataError, match="line 401: broken"):
        train_tokeniser(lines(), TextSettings(size=320), tmp_path / "x")
    with pytest.raises(DataError, match=r"line 2 .*surrogate"):
        train_tokeniser(["a", "b\ud800"], TextSettings(size=320), tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_unknown_characters_are_encoded_as_unknown_without_byte_fallback(tmp_path: Path) -> None:
    tokeniser = train_tokeniser(LINES, TextSettings(size=80, byte_fallback=False), tmp_path / "plain")
    for text in ("dog \u65e5", "dog\u2581"):
        assert tokeniser.symbols.unknown in tokeniser.encode(text)


def test_lone_surrogates_are_rejected(tokenisers) -> None:
    for tokeniser in tokenisers.values():
        for text in ("a\ud800", "\u2581a\udfff"):
            with pytest.raises(DataError, match="surrogate"):
                tokeniser.encode(text)
            with pytest.raises(DataError, match="surrogate"):
                tokeniser.encode_batch(["x", text])
            with pytest.raises(DataError, match="surrogate"):
                tokeniser.sample([text], 0.1, 1)


def test_line_number_of_a_lone_surrogate_counts_blank_lines(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 3 of the tokeniser's training text contains a lone surrogate"):
        train_tokeniser(["a dog", " ", "a\ud800"], TextSettings(size=80), tmp_path / "joint")


def test_damaged_and_missing_files_are_rejected(tokenisers, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"gone\.spm: no such"):
        Tokeniser.load(tmp_path / "gone.spm")
    with pytest.raises(ModelError, match="cannot be read"):
        Tokeniser.load(tmp_path)
    content = tokenisers["unigram", "nfkc"].model_bytes
    for cut in (0, 1, 10, len(content) // 2, len(content) - 1):
        (tmp_path / "cut.spm").write_bytes(content[:cut])
        with pytest.raises(ModelError, match=r"cut\.spm"):
            Tokeniser.load(tmp_path / "cut.spm")
    with pytest.raises(ModelError, match="junk"):
        Tokeniser.from_bytes(b"not a model at all" * 40, "junk")


def test_ids_outside_the_vocabulary_are_rejected(tokenisers) -> None:
    tokeniser = tokenisers["unigram", "nfkc"]
    for invalid in (360, -1, 10**6):
        with pytest.raises(DataError, match=str(invalid)):
            tokeniser.decode([5, invalid])
        with pytest.raises(DataError, match=str(invalid)):
            tokeniser.pieces([invalid])


def test_piece_with_invalid_utf8_is_rejected(tmp_path: Path) -> None:
    content = bytearray(tiny.tokeniser("source", size=320).model_bytes)
    content[content.index("▁the".encode()) + 4] = 0xFF
    (tmp_path / "damaged.spm").write_bytes(content)
    damaged = Tokeniser.load(tmp_path / "damaged.spm")
    for read in (damaged.decode, damaged.pieces):
        with pytest.raises(DataError, match="a piece is not UTF-8"):
            read(range(damaged.size))


@pytest.mark.parametrize("text", ["I WANT A CAR.", "GO AWAY!", "ÜBER 100 ÄPFEL", "СТОЙ, КТО ИДЁТ"])
def test_upper_case_text_is_recognised(text: str) -> None:
    assert is_all_capitals(text)


@pytest.mark.parametrize("text", ["", "NATO", "I want", "123 456", "A4", "你好 世界", "NATO and EU", "X1 2"])
def test_mixed_case_uncased_and_one_word_texts_are_not_upper_case(text: str) -> None:
    assert not is_all_capitals(text)


@pytest.mark.parametrize("value", [-1, True, 1.0, "5", None])
def test_invalid_split_above_option_is_rejected(value: object) -> None:
    with pytest.raises(SettingsError, match="split_above must be a whole number, 0 or more"):
        TextOptions(split_above=value)  # type: ignore[arg-type]
    assert TextOptions() == TextOptions(split_above=1, lower_capitals=False)
