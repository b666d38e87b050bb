"""Tokenisers of Marian and CTranslate2 models: pieces numbered by a vocabulary file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from uwaga.decoder import Symbols
from uwaga.errors import DataError, ModelError, SettingsError
from uwaga.tokenizers.pretrained_files import read_bytes
from uwaga.tokenizers.sentencepiece import MARK, SentencePieceModel

LANGUAGE_TOKEN = re.compile(r">>.*?<<", re.DOTALL)
LANGUAGE_TOKEN_BYTES = re.compile(rb">>[^<>]{1,40}<<")
Part = TypeVar("Part")
END, UNKNOWN, PAD = "</s>", "<unk>", "<pad>"


class MarianTokeniser:
    """The tokeniser of one side of an OPUS-MT model: SentencePiece and a vocabulary.

    A text may begin with a target-language token (``>>fra<<``), which is encoded as one id. Text that spells
    a special symbol is ordinary text.
    """

    def __init__(
        self, model: SentencePieceModel, vocabulary: Mapping[str, int] | None, symbols: Symbols, name: str
    ) -> None:
        """Create a tokeniser.

        Args:
            model: SentencePiece model that splits texts into pieces.
            vocabulary: ids by piece; None for the model's own ids, followed by the padding symbol.
            symbols: special token ids.
            name: the file, for messages.
        """
        self._model = model
        self._vocabulary = vocabulary
        self.symbols = symbols
        self._special_ids = frozenset((symbols.start, symbols.end, symbols.pad, symbols.unknown))
        self._name = name
        self._default_tag = ""

    @cached_property
    def _ids(self) -> Mapping[str, int]:
        if self._vocabulary is not None:
            return self._vocabulary
        return add_padding(ids_by_piece(self._model), self.symbols.pad)

    @cached_property
    def _pieces(self) -> Mapping[int, str]:
        return {token_id: piece for piece, token_id in self._ids.items()}

    @property
    def model_bytes(self) -> bytes:
        """Serialisation of the SentencePiece model and the vocabulary."""
        return self._model.content + json.dumps([self._ids, self._default_tag], sort_keys=True).encode()

    @property
    def files(self) -> tuple[bytes, Mapping[str, int]]:
        """Contents of ``source.spm`` and ``vocab.json``: the SentencePiece model, and ids by piece."""
        return self._model.content, self._ids

    @cached_property
    def languages(self) -> list[str]:
        """Target-language tokens; empty for models of one language pair."""
        if self._vocabulary is None and not LANGUAGE_TOKEN_BYTES.search(self._model.content):
            return []  # faster than looking at each piece
        return sorted(piece for piece in self._ids if piece.startswith(">>") and piece.endswith("<<"))

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without the end symbol."""
        if self._vocabulary is None and not self.languages:
            return self._split(text, self._model.encode)
        match = LANGUAGE_TOKEN.match(text)
        language_token, remainder = (match.group(), text[match.end() :]) if match else ("", text)
        if not match and self._default_tag:
            # As if the text began with the token and a space.
            language_token = self._default_tag
            remainder = f" {text}"
        languages = self.languages
        if language_token and languages and language_token not in self._ids:
            raise DataError(
                f"{language_token}: the model has no such target language; it has {' '.join(languages[:20])}"
                + (" ..." if len(languages) > 20 else "")
            )
        pieces = self._split(remainder, self._model.pieces)
        ids, unknown = self._ids, self.symbols.unknown
        return [
            ids.get(piece, unknown) for piece in ([language_token, *pieces] if language_token else pieces)
        ]

    def _split(self, text: str, split: Callable[[str], list[Part]]) -> list[Part]:
        try:
            return split(text)
        except (ValueError, TypeError):
            raise DataError(f"{text[:40]!r}: not valid Unicode; remove the lone surrogates") from None

    def add_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """Return the ids followed by the end symbol."""
        return [*ids, self.symbols.end]

    def language_prefix(self, text: str) -> str:
        """Return the leading target-language token of a text, or the default one, or an empty string.

        The prefix includes the space after the token, which the pieces of some models preserve.
        """
        match = LANGUAGE_TOKEN.match(text)
        if match:
            return text[: match.end() + text.startswith(" ", match.end())]
        return f"{self._default_tag} " if self._default_tag else ""

    def with_target(self, language: str) -> MarianTokeniser:
        """Return a tokeniser that adds a target-language token to texts without one."""
        token = language if LANGUAGE_TOKEN.fullmatch(language) else f">>{language}<<"
        if token not in self.languages:
            codes = " ".join(piece[2:-2] for piece in self.languages)
            raise SettingsError(f"{self._name}: no target language {language!r}; the model has {codes}")
        tokeniser = copy(self)
        tokeniser._default_tag = token
        return tokeniser

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids to text, without special and unknown symbols."""
        tokens = [token for token in ids if token not in self._special_ids]
        text: str = ""
        if tokens and self._vocabulary is None and self._are_in_model(tokens):
            text = self._model.decode(tokens)
        elif tokens:
            text = self._model.join(self.pieces(tokens))
        return text.replace(MARK, " ").strip()

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the pieces for the given ids."""
        if self._vocabulary is None and self._are_in_model(ids):
            return list(map(self._model.piece, ids))
        return to_pieces(ids, self._pieces, self._name)

    def _are_in_model(self, ids: Sequence[int]) -> bool:
        """Return True if all given ids are ids of the SentencePiece model."""
        return not ids or (min(ids) >= 0 and max(ids) < len(self._model))


def ids_by_piece(model: SentencePieceModel) -> dict[str, int]:
    """Return the ids of all pieces of a SentencePiece model, by piece."""
    return {piece: token_id for token_id, piece in enumerate(model.all_pieces())}


def add_padding(ids: Mapping[str, int], pad: int) -> dict[str, int]:
    """Return a Marian vocabulary with the padding symbol, which it lacks, added as the last piece.

    Args:
        ids: ids by piece; a piece that spells the padding symbol is never used.
        pad: the id of the padding symbol, greater than all others.
    """
    renamed = {piece if piece != PAD else f"<unused{token_id}>": token_id for piece, token_id in ids.items()}
    return renamed | {f"<unused{token_id}>": token_id for token_id in range(len(ids), pad)} | {PAD: pad}


def read_vocabulary(path: Path, size: int) -> dict[str, int]:
    """Read a mapping from pieces to ids below ``size``."""
    try:
        values = json.loads(read_bytes(path, "vocabulary"))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not valid JSON: {error}; fetch it again") from None
    if not isinstance(values, dict) or not all(type(token_id) is int for token_id in values.values()):
        raise ModelError(f"{path}: not a JSON object that maps pieces to ids; fetch it again")
    try:
        "".join(values).encode("utf-8")
    except UnicodeEncodeError:
        raise ModelError(f"{path}: a piece contains a lone surrogate, which is not valid Unicode") from None
    missing_pieces = [piece for piece in (END, UNKNOWN, PAD) if piece not in values]
    if missing_pieces:
        raise ModelError(f"{path}: the vocabulary lacks {', '.join(missing_pieces)}")
    ids = set(values.values())
    if len(ids) != len(values) or ids != set(range(len(values))) or len(values) != size:
        raise ModelError(
            f"{path}: {len(values)} pieces numbered up to {max(ids)}, but the weights are for {size} "
            f"tokens numbered up to {size - 1}; the files belong to different models"
        )
    return values


class FramedMarianTokeniser(MarianTokeniser):
    """A :class:`MarianTokeniser` that adds ids ``before`` and ``after`` a source."""

    def __init__(
        self,
        model: SentencePieceModel,
        vocabulary: Mapping[str, int],
        symbols: Symbols,
        name: str,
        before: Sequence[int] = (),
        after: Sequence[int] = (),
    ) -> None:
        super().__init__(model, vocabulary, symbols, name)
        self._before, self._after = list(before), list(after)

    @property
    def model_bytes(self) -> bytes:
        """Serialisation of the SentencePiece model, the vocabulary and the special tokens around a source."""
        return super().model_bytes + repr((self._before, self._after)).encode()

    def add_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """Return the ids, surrounded by the special tokens."""
        return [*self._before, *ids, *self._after]


class SegmentedTextTokeniser:
    """A tokeniser for text that is already split into pieces by spaces.

    Args:
        vocabulary: ids by piece.
        symbols: special token ids.
        name: origin, for messages.
        before: ids added before a source.
        after: ids added after a source.
    """

    def __init__(
        self,
        vocabulary: Mapping[str, int],
        symbols: Symbols,
        name: str,
        before: Sequence[int] = (),
        after: Sequence[int] = (),
    ) -> None:
        self._ids = vocabulary
        self._pieces = {token_id: piece for piece, token_id in vocabulary.items()}
        self.symbols, self._name = symbols, name
        self._special_ids = frozenset((symbols.start, symbols.end, symbols.pad))
        self._before, self._after = list(before), list(after)

    @property
    def model_bytes(self) -> bytes:
        """Serialisation of the vocabulary and the special tokens around a source."""
        return json.dumps([self._ids, self._before, self._after], sort_keys=True).encode()

    def encode(self, text: str) -> list[int]:
        """Return the ids of the pieces of a text."""
        return [self._ids.get(piece, self.symbols.unknown) for piece in text.split(" ") if piece]

    def add_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """Return the ids, surrounded by the special tokens."""
        return [*self._before, *ids, *self._after]

    def language_prefix(self, text: str) -> str:
        """Return an empty string: language tokens are ordinary pieces."""
        return ""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the pieces for the given ids separated by spaces, without special symbols."""
        return " ".join(self.pieces([token for token in ids if token not in self._special_ids]))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the pieces for the given ids."""
        return to_pieces(ids, self._pieces, self._name)


def to_pieces(ids: Sequence[int], pieces: Mapping[int, str], name: str) -> list[str]:
    """Return the pieces for the given ids in a vocabulary, whose ``name`` is used in error messages."""
    try:
        return list(map(pieces.__getitem__, ids))
    except KeyError as error:
        raise DataError(f"{name}: token id {error.args[0]} is outside the vocabulary") from None
