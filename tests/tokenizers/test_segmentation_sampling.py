"""Sampled segmentations follow the published distributions (Kudo 2018; Provilkov 2020) and a seed."""

import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from uwaga.settings import TextSettings
from uwaga.tokenizers.segmentation_sampling import (
    BPE,
    UNIGRAM,
    PieceSampler,
    PieceTable,
    PieceType,
    read_pieces,
)
from uwaga.tokenizers.tokeniser import Tokeniser
from uwaga.tokenizers.training import train_tokeniser

LINES = [f"the quick brown fox {number} jumps over the lazy dogs again and again" for number in range(300)]
MARK = "\u2581"


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def tokeniser(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokeniser:
    text_settings = TextSettings(kind=request.param, size=310, normalisation="identity")
    return train_tokeniser(LINES, text_settings, tmp_path_factory.mktemp("drawn") / request.param)


def table(scores: dict[str, float], kind: int, *user: str) -> PieceTable:
    pieces = ("<unk>", *scores)
    types = [PieceType.user_defined if piece in user else PieceType.normal for piece in scores]
    return PieceTable(pieces, (0.0, *scores.values()), (PieceType.unknown, *types), kind)


def segmentations(text: str, scores: dict[str, float]) -> Iterator[tuple[str, ...]]:
    if not text:
        yield ()
    for end in range(1, len(text) + 1):
        if text[:end] in scores:
            for remainder in segmentations(text[end:], scores):
                yield text[:end], *remainder


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_unigram_samples_follow_the_exact_distribution(alpha: float) -> None:
    scores = {MARK: -2.0, "a": -1.0, "b": -1.5, "ab": -2.2, "ba": -2.4, f"{MARK}a": -2.0, "aba": -3.0}
    text = f"{MARK}abab"
    all_segmentations = list(segmentations(text, scores))
    weights = [math.exp(alpha * sum(scores[piece] for piece in pieces)) for pieces in all_segmentations]
    sampler, random, draws = PieceSampler(table(scores, UNIGRAM), alpha), Random(1), 20_000
    pieces = ("<unk>", *scores)
    counts = Counter(tuple(pieces[number] for number in sampler.draw(text, random)) for _ in range(draws))
    assert set(counts) <= set(all_segmentations)
    for segmentation, weight in zip(all_segmentations, weights, strict=True):
        share = weight / sum(weights)
        # five standard deviations of a binomial
        assert abs(counts[segmentation] / draws - share) < 5 * math.sqrt(share * (1 - share) / draws) + 1e-9


def test_bpe_dropout_samples_follow_the_exact_distribution() -> None:
    merges = {"ab": 0.0, "abc": -1.0, "bc": -2.0, "a": -3.0, "b": -4.0, "c": -5.0}
    sampler, random, draws, drop = PieceSampler(table(merges, BPE), 0.3), Random(2), 20_000, 0.3
    pieces = ("<unk>", *merges)
    counts = Counter(tuple(pieces[number] for number in sampler.draw("abc", random)) for _ in range(draws))
    # ab is merged first; bc may be merged only if that is dropped
    shares = {
        ("abc",): (1 - drop) ** 2,
        ("ab", "c"): (1 - drop) * drop,
        ("a", "bc"): drop * (1 - drop) ** 1,
        ("a", "b", "c"): drop**2,
    }
    del shares["a", "bc"]  # then a is merged with bc, unless that is dropped
    share_of_bc = drop * (1 - drop)
    shares["abc",] += share_of_bc * (1 - drop)
    shares["a", "bc"] = share_of_bc * drop
    assert sum(shares.values()) == pytest.approx(1)
    for segmentation, share in shares.items():
        assert abs(counts[segmentation] / draws - share) < 5 * math.sqrt(share * (1 - share) / draws)


def test_sampling_without_randomness_equals_encoding(tokeniser: Tokeniser) -> None:
    kind = read_pieces(tokeniser.model_bytes).kind
    texts = [*LINES[:50], "  two  spaces ", "unknown: \u65e5\u672c", f"a {MARK} mark{MARK}", ""]
    certain = 0.0 if kind == BPE else 1e4
    assert tokeniser.sample(texts, certain, 1) == [tokeniser.encode(text) for text in texts]


def test_bpe_dropout_of_all_merges_yields_characters() -> None:
    sampler = PieceSampler(table({"ab": 0.0, "a": -1.0, "b": -2.0}, BPE), 1.0)
    assert sampler.draw("abab", Random(1)) == [2, 3, 2, 3]


def test_adjacent_unknown_characters_are_joined() -> None:
    for kind in (UNIGRAM, BPE):
        sampler = PieceSampler(table({"a": -1.0, MARK: -1.0}, kind), 0.0)
        assert sampler.draw(f"{MARK}axyaz", Random(1)) == [2, 1, 0, 1, 0]


def test_sampling_does_not_split_user_defined_pieces() -> None:
    for kind in (UNIGRAM, BPE):
        pieces = table(
            {"a": -1.0, "b": -1.0, "aa": -5.0, "<x>": -1.0, "<": -9, "x": -9, ">": -9}, kind, "<x>"
        )
        sampler = PieceSampler(pieces, 50.0 if kind == UNIGRAM else 0.0)
        assert 4 in sampler.draw("aa<x>b", Random(1))


def test_sampled_pieces_may_span_words() -> None:
    scores = {MARK: -3.0, "a": -3.0, f"a{MARK}a": -1.0}
    sampler = PieceSampler(table(scores, UNIGRAM), 1e4)
    assert sampler.draw(f"{MARK}a{MARK}a", Random(1)) == [1, 3]


DRAW = """
import sys
from pathlib import Path
from uwaga.tokenizers.tokeniser import Tokeniser
print(Tokeniser.load(Path(sys.argv[1])).sample(["the quick brown fox again"] * 20, 0.3, 7))
"""


@pytest.mark.slow
def test_samples_drawn_in_another_process_are_equal(tokeniser: Tokeniser, tmp_path: Path) -> None:
    file = tmp_path / "model.spm"
    file.write_bytes(tokeniser.model_bytes)
    outputs = {
        subprocess.run(
            [sys.executable, "-c", DRAW, str(file)], capture_output=True, text=True, check=True,
            env=os.environ | {"PYTHONHASHSEED": str(number)},
        ).stdout
        for number in range(2)
    }  # fmt: skip
    assert outputs == {f"{tokeniser.sample(['the quick brown fox again'] * 20, 0.3, 7)}\n"}


TRAIN = """
import hashlib, sys
from pathlib import Path
from uwaga.settings import TextSettings
from uwaga.tokenizers.training import train_tokeniser
lines = [f"{word} {number}" for number in range(2000) for word in ("quick", "slow")]
tokeniser = train_tokeniser(lines, TextSettings(size=300, lines=500), Path(sys.argv[1]))
print(hashlib.sha256(tokeniser.model_bytes).hexdigest())
"""


@pytest.mark.slow
def test_tokeniser_trained_in_another_process_is_equal(tmp_path: Path) -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", TRAIN, str(tmp_path / str(number))],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for number in range(2)
    }
    assert len(digests) == 1


def test_piece_table_matches_the_sentencepiece_library(tokeniser: Tokeniser) -> None:
    pieces = read_pieces(tokeniser.model_bytes)
    assert list(pieces.pieces) == tokeniser.pieces(range(tokeniser.size))
    assert pieces.types.count(PieceType.byte) == 256


@pytest.mark.parametrize("cut", [b"\x0a", b"\x0a\x05ab", b"\x0b", b"\xff" * 12])
def test_truncated_or_malformed_model_bytes_are_rejected(cut: bytes) -> None:
    with pytest.raises(ValueError, match=r"truncated|wire|ten bytes"):
        read_pieces(cut)
