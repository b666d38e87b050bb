"""The tokenisers of an int8 folder: ours, Marian's, and those of the ``tokenizers`` library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeGuard

from uwaga.checkpoints.formats.uwaga.int8_config import Frame, QuantisedConfig
from uwaga.checkpoints.formats.uwaga.names import CONFIG, SOURCE, TARGET
from uwaga.checkpoints.formats.uwaga.read import read_tokeniser
from uwaga.errors import ModelError
from uwaga.tokenizers.codecs import TokenizersCodec, read_tokenizer_json
from uwaga.tokenizers.framed import FramedTokeniser
from uwaga.tokenizers.marian import MarianTokeniser, read_sentencepiece, read_vocabulary
from uwaga.tokenizers.pretrained_files import TOKENIZER, Declared
from uwaga.tokenizers.subwords import Subwords
from uwaga.tokenizers.tokeniser import Tokeniser

VOCABULARIES = ("source.vocab.json", "target.vocab.json")
FILES = frozenset({SOURCE, TARGET, TOKENIZER, *VOCABULARIES})


def tokeniser_files(source: Subwords, target: Subwords) -> dict[str, bytes]:
    """The files that hold the tokenisers, by their names in the folder.

    Raises:
        ModelError: they are of a kind that such a folder cannot hold.
    """
    if isinstance(source, Tokeniser) and isinstance(target, Tokeniser):
        files = {SOURCE: source.model_bytes}
        return files if source.model_bytes == target.model_bytes else files | {TARGET: target.model_bytes}
    if _is_marian(source) and _is_marian(target):
        files = {}
        for side, name, vocabulary in zip((source, target), (SOURCE, TARGET), VOCABULARIES, strict=True):
            model, pieces = side.files
            files |= {name: model, vocabulary: json.dumps(dict(pieces), ensure_ascii=False).encode()}
        return files
    codec = _codec(source)
    if source is target and codec is not None:
        return {TOKENIZER: codec.content}
    raise ModelError(
        "int8 folders hold the tokenisers of uwaga, of Marian, and of the tokenizers library where they know "
        "no languages; this model runs in int8 with --dtype int8"
    )


def library_of(tokeniser: Subwords) -> str:
    """What ``config.json`` calls the kind of a tokeniser."""
    if isinstance(tokeniser, Tokeniser):
        return "uwaga"
    return "marian" if isinstance(tokeniser, MarianTokeniser) else "tokenizers"


def frame_of(tokeniser: Subwords) -> dict[str, Any] | None:
    """What ``config.json`` says of a tokeniser of the ``tokenizers`` library; None for any other."""
    if not isinstance(tokeniser, FramedTokeniser):
        return None
    return {"prefix": tokeniser.prefix, "suffix": tokeniser.suffix, "clean": tokeniser.clean}


def _is_marian(tokeniser: Subwords) -> TypeGuard[MarianTokeniser]:
    """Whether it is Marian's, or puts as Marian's the end symbol alone behind a text."""
    if not isinstance(tokeniser, MarianTokeniser):
        return False
    return tokeniser.add_special_tokens([]) == [tokeniser.symbols.end]


def _codec(tokeniser: Subwords) -> TokenizersCodec | None:
    """The codec of a tokeniser that a ``tokenizer.json`` and a frame say all of; None for any other."""
    if not isinstance(tokeniser, FramedTokeniser) or tokeniser.languages or tokeniser.prompt_prefix:
        return None
    return tokeniser.codec if isinstance(tokeniser.codec, TokenizersCodec) else None


def read_tokenisers(folder: Path, config: QuantisedConfig) -> tuple[Subwords, Subwords]:
    """The tokenisers of a folder, source and target.

    Raises:
        ModelError: one is missing, damaged, or of another model than ``config`` says.
    """
    sizes, wanted = config.vocabulary, config.symbols.symbols()
    if config.tokenisers == "marian":
        sides = [
            MarianTokeniser(
                read_sentencepiece(folder / name),
                read_vocabulary(folder / vocabulary, size),
                wanted,
                str(folder / vocabulary),
            )
            for name, vocabulary, size in zip(
                (SOURCE, TARGET), VOCABULARIES, (sizes.source, sizes.target), strict=True
            )
        ]
        return sides[0], sides[1]
    if config.frame is not None:
        framed = _framed(folder, config, config.frame)
        return framed, framed
    source = read_tokeniser(folder / SOURCE)
    target = source if sizes.joint else read_tokeniser(folder / TARGET)
    for name, side, size in ((SOURCE, source, sizes.source), (TARGET, target, sizes.target)):
        if side.size != size or side.symbols != wanted:
            raise ModelError(
                f"{folder / name}: has {side.size} pieces and {side.symbols}, {CONFIG} says {size} and "
                f"{wanted}; the tokeniser belongs to another model"
            )
    return source, target


def _framed(folder: Path, config: QuantisedConfig, frame: Frame) -> FramedTokeniser:
    size = config.vocabulary.target
    codec = read_tokenizer_json(folder, Declared({}, {}, {}))
    if codec.size > size or max((*frame.prefix, *frame.suffix), default=0) >= size:
        raise ModelError(
            f"{folder / TOKENIZER}: has {codec.size} pieces, {CONFIG} says {size}; the tokeniser belongs to "
            "another model"
        )
    return FramedTokeniser(
        codec=codec,
        symbols=config.symbols.symbols(),
        vocabulary=size,
        name=str(folder),
        prefix=tuple(frame.prefix),
        suffix=tuple(frame.suffix),
        clean=frame.clean,
    )
