"""The tokenisers of the pretrained families, read from a folder in Hugging Face's format.

Each ``read_..._tokeniser`` takes the folder and what its ``config.json`` knows of the vocabulary, and
returns both :class:`Sides`. A ``tokenizer.json`` is used as it stands where there is one, the older files
otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from uwaga.text.framed import FramedTokeniser


@dataclass(frozen=True)
class TokenIds:
    """What ``config.json`` knows of the vocabulary.

    ``vocabulary``: rows of the embeddings; ``start``: what decoding starts from; None: not stated.
    """

    vocabulary: int
    start: int | None = None
    end: int | None = None
    pad: int | None = None


@dataclass(frozen=True)
class Sides:
    """The tokenisers of source and target. Multilingual ones may still need their languages chosen."""

    source: FramedTokeniser
    target: FramedTokeniser


def read_bart_tokeniser(folder: Path, ids: TokenIds) -> Sides:
    raise NotImplementedError


def read_gpt2_tokeniser(folder: Path, ids: TokenIds) -> Sides:
    raise NotImplementedError


def read_bert_tokeniser(folder: Path, ids: TokenIds) -> Sides:
    raise NotImplementedError


def read_t5_tokeniser(folder: Path, ids: TokenIds) -> Sides:
    raise NotImplementedError


def read_pegasus_tokeniser(folder: Path, ids: TokenIds) -> Sides:
    raise NotImplementedError


def read_mbart_tokeniser(folder: Path, ids: TokenIds) -> Sides:
    raise NotImplementedError


def read_m2m100_tokeniser(folder: Path, ids: TokenIds) -> Sides:
    raise NotImplementedError


def read_nllb_tokeniser(folder: Path, ids: TokenIds) -> Sides:
    raise NotImplementedError
