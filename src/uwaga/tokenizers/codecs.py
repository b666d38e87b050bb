"""Codecs of pretrained tokenisers: SentencePiece with custom ids, and the library ``tokenizers``."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import from_json

from uwaga.engine import _core
from uwaga.errors import MissingExtraError, ModelError, reason
from uwaga.tokenizers.pretrained_files import (
    TOKENIZER_FILE,
    AddedToken,
    TokeniserConfig,
    read_bytes,
    read_json,
)
from uwaga.tokenizers.sentencepiece import MARK, SentencePieceModel

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class SentencePieceCodec:
    """A :class:`uwaga.tokenizers.framed.Codec` of a SentencePiece model whose pieces have custom ids.

    Args:
        model: the model that splits texts into pieces.
        ids: id of each piece, in SentencePiece's order; -1 for a piece without an id.
        added_tokens: special tokens that may be spelt in texts, by id.
        unknown: id that replaces pieces without an id.
        extra_pieces: ids of further pieces of the vocabulary, by piece.
        strip: whether to strip white space from decoded texts.
        words: whether the text after a special token also begins with a word.

    Attributes:
        model_file: the model file, if it determines the codec completely (:meth:`from_piece_types`), or None.
        special_tokens: the argument ``added_tokens``.
        strip: the argument ``strip``.
    """

    model_file: bytes | None = None

    def __init__(
        self,
        model: SentencePieceModel,
        ids: Sequence[int],
        added_tokens: Mapping[int, AddedToken],
        unknown: int,
        extra_pieces: Mapping[str, int] | None = None,
        strip: bool = False,
        words: bool = True,
    ) -> None:
        self._model = model
        self._words = words
        self._ids = array("i", ids)
        self.unknown = unknown
        self._indices = array("i", [-1]) * (max(ids, default=-1) + 1)
        """By id, the index of its piece in the model; -1 for none."""
        for index, token_id in enumerate(ids):
            if token_id >= 0:
                self._indices[token_id] = index
        self._other_pieces = {
            token_id: piece
            for piece, token_id in (extra_pieces or {}).items()
            if self._piece_index(token_id) < 0
        }
        self._other_pieces |= {token_id: token.content for token_id, token in added_tokens.items()}
        """Pieces that are not in the model, by id."""
        self._other_ids = {piece: token_id for token_id, piece in self._other_pieces.items()}
        self.special_tokens = dict(added_tokens)
        self.strip = strip
        self._splitter = SpecialTokenSplitter(added_tokens)
        self._dropped = {token_id for token_id, token in added_tokens.items() if token.special} | {unknown}
        self._has_byte_pieces = any(model.is_byte(index) for index in range(min(len(ids), 300)))

    @classmethod
    def from_piece_types(cls, content: bytes, name: str) -> SentencePieceCodec:
        """Return the codec of a model whose control pieces are special tokens, as in Llama and Gemma.

        Args:
            content: the model file; the order of its pieces determines the ids.
            name: the file, for messages.
        """
        model = SentencePieceModel(content, name)
        with TokenizersErrorHandler(name, "damaged or not a SentencePiece model"):
            ids = range(len(model))
            added_tokens = {
                token_id: AddedToken(model.piece(token_id)) for token_id in ids if model.is_control(token_id)
            }
            codec = cls(model, ids, added_tokens, model.unknown)
        codec.model_file = content
        return codec

    @classmethod
    def from_vocabulary(
        cls,
        model: SentencePieceModel,
        vocabulary: Mapping[str, int],
        added_tokens: Mapping[int, AddedToken],
        unknown: int,
        strip: bool,
    ) -> SentencePieceCodec:
        """Return the codec of a model whose pieces have the ids in ``vocabulary``.

        The vocabulary may contain pieces that are not in the model.
        """
        ids = [vocabulary.get(piece, -1) for piece in model.all_pieces()]
        return cls(model, ids, added_tokens, unknown, extra_pieces=vocabulary, strip=strip)

    @property
    def sentencepiece_file(self) -> bytes:
        """The serialised SentencePiece model that splits texts into pieces."""
        return self._model.content

    @property
    def vocabulary(self) -> dict[str, int]:
        """Ids of all pieces, by piece."""
        pieces = map(self.piece, range(len(self._indices)))
        return {
            piece: token_id for token_id, piece in enumerate(pieces) if piece is not None
        } | self._other_ids

    @property
    def content(self) -> bytes:
        """Serialisation of the model and the ids of its pieces."""
        ids_and_flags = [self.vocabulary, sorted(self._dropped), self._words]
        return self._model.content + json.dumps(ids_and_flags, sort_keys=True).encode()

    @property
    def size(self) -> int:
        """Largest id plus one."""
        return max([len(self._indices) - 1, *self._other_pieces]) + 1

    @property
    def added_tokens(self) -> dict[str, int]:
        """Ids of the special tokens that may be spelt in texts."""
        return {token.content: token_id for token_id, token in self.special_tokens.items()}

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; a special token spelt in the text is encoded as one id."""
        ids: list[int] = []
        for part in self._splitter.split(text):
            if isinstance(part, int):
                ids.append(part)
            else:
                ids += self._to_ids(self._model.encode(part, prefix=self._words or not ids))
        return ids

    def encode_plain(self, text: str) -> list[int]:
        """Return the ids of a text without recognising special tokens."""
        return self._to_ids(self._model.encode(text))

    def _to_ids(self, indices: Sequence[int]) -> list[int]:
        ids = (self._ids[index] for index in indices)
        return [self.unknown if token_id < 0 else token_id for token_id in ids]

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids to text; special tokens and ids without a piece are left out."""
        pieces_or_none = (self.piece(token) for token in ids if token not in self._dropped)
        pieces = [piece for piece in pieces_or_none if piece is not None]
        if not pieces:
            return ""
        if self.strip or self._has_byte_pieces:
            text = self._model.join(pieces)
            return text.strip() if self.strip else text
        return "".join(pieces).removeprefix(MARK).replace(MARK, " ")

    def piece(self, token: int) -> str | None:
        """Return the piece of an id, or None if the id has no piece."""
        index = -1 if token in self._other_pieces else self._piece_index(token)
        return self._other_pieces.get(token) if index < 0 else self._model.piece(index)

    def token_id(self, piece: str) -> int | None:
        """Return the id of a piece, or None if the piece has no id."""
        if piece in self._other_ids:
            return self._other_ids[piece]
        token_id = self._ids[self._model.number(piece)]
        return token_id if self.piece(token_id) == piece else None

    def _piece_index(self, token: int) -> int:
        return self._indices[token] if 0 <= token < len(self._indices) else -1


class SpecialTokenSplitter:
    """A splitter of texts at special tokens; where several tokens match, the longest is used.

    Some models have thousands of special tokens, which a regular expression would try one by one.
    """

    def __init__(self, tokens: Mapping[int, AddedToken]) -> None:
        self._tokens = {token.content: (token_id, token) for token_id, token in tokens.items()}
        self._lengths = sorted(set(map(len, self._tokens)), reverse=True)
        first_characters = "".join(sorted({re.escape(content[0]) for content in self._tokens}))
        self._first = re.compile(f"[{first_characters}]" if first_characters else r"(?!)")

    def split(self, text: str) -> Iterator[str | int]:
        """Yield the parts of a text in order: strings, and the ids of special tokens."""
        start, position, strip = 0, 0, False
        while match := self._first.search(text, position):
            position = match.start()
            candidates = (text[position : position + length] for length in self._lengths)
            content = next((candidate for candidate in candidates if candidate in self._tokens), None)
            if content is None:
                position += 1
                continue
            token_id, token = self._tokens[content]
            part = text[start:position]
            part = part.lstrip() if strip else part
            part = part.rstrip() if token.lstrip else part
            if part:
                yield part
            yield token_id
            start = position = position + len(content)
            strip = token.rstrip
        part = text[start:].lstrip() if strip else text[start:]
        if part:
            yield part


PROBE_TEXT = "a"
BYTE_COUNT = 256
UNSUPPORTED_SETTINGS = (
    "dropout",
    "unk_token",
    "continuing_subword_prefix",
    "end_of_word_suffix",
    "byte_fallback",
)
"""Settings of BPE in ``tokenizer.json`` that the native byte-level BPE does not support."""
MAX_WORD_CHARACTERS = 100
"""Maximum number of characters of a word; WordPiece maps longer words to the unknown token, as in BERT."""


class TokenizersErrorHandler:
    """A context manager that converts errors of the library ``tokenizers`` to ModelError.

    The message names the file. Damaged files may pass the checks of the library and fail later, with a bare
    Exception or with a panic, which is a BaseException.
    """

    def __init__(
        self, name: object, problem: str = "damaged, or written by a newer version of `tokenizers`"
    ) -> None:
        self._name, self._problem = name, problem

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and (isinstance(error, Exception) or type(error).__name__ == "PanicException"):
            raise ModelError(f"{self._name}: {self._problem}: {reason(error)}; fetch it again") from None


class TokenizersCodec:
    """A :class:`uwaga.tokenizers.framed.Codec` of the library ``tokenizers``."""

    def __init__(self, model: Tokenizer, name: str) -> None:
        self._model = model
        self.name = name
        self._error_handler = TokenizersErrorHandler(name)
        with self._error_handler:
            model.no_truncation()
            model.no_padding()

    @property
    def content(self) -> bytes:
        """Serialisation as ``tokenizer.json``."""
        with self._error_handler:
            return self._model.to_str().encode()

    @property
    def size(self) -> int:
        """Largest id plus one."""
        with self._error_handler:
            return int(self._model.get_vocab_size(with_added_tokens=True))

    @property
    def kind(self) -> str:
        """Algorithm: ``BPE``, ``Unigram``, ``WordPiece`` or ``WordLevel``."""
        with self._error_handler:
            return type(self._model.model).__name__

    @property
    def added_tokens(self) -> dict[str, int]:
        """Ids of the special tokens that may be spelt in texts."""
        with self._error_handler:
            tokens = self._model.get_added_tokens_decoder()
        return {token.content: token_id for token_id, token in tokens.items()}

    @property
    def unknown(self) -> int | None:
        """Id of unknown characters, or None if there is none."""
        with self._error_handler:
            model = self._model.model
            piece = getattr(model, "unk_token", None)
            token_id = getattr(model, "unk_id", None)
        if piece is None and token_id is not None:
            return int(token_id)
        return None if piece is None else self.token_id(piece)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; a special token spelt in the text is encoded as one id."""
        return self._encode_with(self._model, text)

    def encode_plain(self, text: str) -> list[int]:
        """Return the ids of a text without recognising special tokens."""
        return self._encode_with(self._plain_model, text)

    def _encode_with(self, model: Tokenizer, text: str) -> list[int]:
        with self._error_handler:
            ids: list[int] = model.encode(text, add_special_tokens=False).ids
        return ids

    @cached_property
    def _plain_model(self) -> Tokenizer:
        """A copy of the tokeniser that reads special tokens as plain text.

        A copy is needed because this setting applies to a whole tokeniser.
        """
        from tokenizers import Tokenizer

        copy = Tokenizer.from_str(self._model.to_str())
        copy.encode_special_tokens = True
        return copy

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids to text; special tokens and ids without a piece are left out."""
        with self._error_handler:
            text: str = self._model.decode(ids, skip_special_tokens=True)
        return text

    def piece(self, token: int) -> str | None:
        """Return the piece of an id, or None if the id has no piece."""
        with self._error_handler:
            piece: str | None = self._model.id_to_token(token)
        return piece

    def token_id(self, piece: str) -> int | None:
        """Return the id of a piece, or None if the piece has no id."""
        with self._error_handler:
            token_id: int | None = self._model.token_to_id(piece)
        return token_id

    def special_token_frame(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the ids of the special tokens that ``tokenizer.json`` adds before and after a text."""
        ids_without_frame, ids_with_frame = (
            self._encode_probe(adds_frame=False),
            self._encode_probe(adds_frame=True),
        )
        for start in range(len(ids_with_frame) - len(ids_without_frame) + 1):
            if ids_with_frame[start : start + len(ids_without_frame)] == ids_without_frame:
                return tuple(ids_with_frame[:start]), tuple(ids_with_frame[start + len(ids_without_frame) :])
        raise ModelError(
            f"{self.name}: unsupported post-processor, which does more than add tokens around a text"
        )

    def add(self, tokens: Iterable[AddedToken]) -> None:
        """Add special tokens that texts may spell; new tokens receive ids at the end of the vocabulary."""
        import tokenizers

        added_tokens = self.added_tokens
        for token in tokens:
            if token.content not in added_tokens:
                added_token = tokenizers.AddedToken(
                    token.content, lstrip=token.lstrip, rstrip=token.rstrip, special=token.special
                )
                with self._error_handler:
                    (self._model.add_special_tokens if token.special else self._model.add_tokens)(
                        [added_token]
                    )

    def _encode_probe(self, adds_frame: bool) -> list[int]:
        with self._error_handler:
            ids: list[int] = self._model.encode(PROBE_TEXT, add_special_tokens=adds_frame).ids
        return ids


class BytePairCodec(TokenizersCodec):
    """Byte-level BPE whose pieces and merges are in the native engine, where they take a tenth of the memory.

    The ``tokenizers`` library normalises a text, and splits it at special tokens and then into words. To the
    library, the only tokens are the 256 bytes, numbered by value, and the special tokens.

    Args:
        splitter: the library's tokeniser: a BPE model without merges, whose vocabulary is the 256 characters
            that stand for bytes.
        pairs: pieces and merges.
        name: the file, for messages.
    """

    def __init__(self, splitter: Tokenizer, pairs: _core.BytePairs, name: str) -> None:
        super().__init__(splitter, name)
        self._pairs = pairs
        self._size = len(pairs)
        self._ids_by_symbol: dict[int, int] = {}
        """The id in this vocabulary of each special token of the library, by the library's id, in order."""
        self._assign_special_ids()

    def _assign_special_ids(self) -> None:
        with self._error_handler:
            tokens = sorted(self._model.get_added_tokens_decoder().items())
        for symbol, token in tokens:
            if symbol not in self._ids_by_symbol:
                token_id = self._pairs.number(token.content)
                self._ids_by_symbol[symbol] = self._size if token_id < 0 else token_id
                self._size += token_id < 0
        self._symbols = {token_id: symbol for symbol, token_id in self._ids_by_symbol.items()}
        self._special_ids = [
            token_id for symbol, token_id in self._ids_by_symbol.items() if symbol >= BYTE_COUNT
        ]

    @property
    def content(self) -> bytes:
        """Serialisation as ``tokenizer.json``."""
        with self._error_handler:
            values = json.loads(self._model.to_str())
        pieces = list(map(self._pairs.piece, range(len(self._pairs))))
        merges = [[pieces[left], pieces[right]] for left, right in self._pairs.merges()]
        # The library ignores strings that begin like the first line of `merges.txt`.
        uses_lists = any(" " in left + right or left.startswith("#version") for left, right in merges)
        values["model"] |= {
            "ignore_merges": self._pairs.whole_words,
            "vocab": {piece: token_id for token_id, piece in enumerate(pieces)},
            "merges": merges
            if uses_lists
            else list(map(" ".join, merges)),  # strings take less memory to read
        }
        for token in values["added_tokens"]:
            token["id"] = self._ids_by_symbol[token["id"]]
        values["added_tokens"].sort(key=lambda token: token["id"])
        return json.dumps(values, ensure_ascii=False).encode()

    @property
    def size(self) -> int:
        """Largest id plus one."""
        return self._size

    @property
    def added_tokens(self) -> dict[str, int]:
        """Ids of the special tokens that may be spelt in texts."""
        return {content: self._ids_by_symbol[symbol] for content, symbol in super().added_tokens.items()}

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids to text; special tokens and ids without a piece are left out."""
        symbols: list[int] = []
        for token_id in ids:
            if token_id in self._symbols:
                symbols.append(self._symbols[token_id])
            else:
                symbols += self._pairs.bytes(token_id)
        return super().decode(symbols)

    def piece(self, token: int) -> str | None:
        """Return the piece of an id, or None if the id has no piece."""
        if token in self._symbols:
            return super().piece(self._symbols[token])
        return self._pairs.piece(token) or None

    def token_id(self, piece: str) -> int | None:
        """Return the id of a piece, or None if the piece has no id."""
        symbol = super().token_id(piece)
        if symbol in self._ids_by_symbol:
            return self._ids_by_symbol[symbol]
        token_id = self._pairs.number(piece)
        return None if token_id < 0 else token_id

    def add(self, tokens: Iterable[AddedToken]) -> None:
        """Add special tokens that texts may spell; new tokens receive ids at the end of the vocabulary."""
        super().add(tokens)
        self._assign_special_ids()

    def _encode_probe(self, adds_frame: bool) -> list[int]:
        with self._error_handler:  # the ids that a post-processor adds are not those of the library's tokens
            tokens = self._model.encode(PROBE_TEXT, add_special_tokens=adds_frame).tokens
        return [token_id for token in tokens if (token_id := self.token_id(token)) is not None]

    def _encode_with(self, model: Tokenizer, text: str) -> list[int]:
        with self._error_handler:
            encoding = model.encode(text, add_special_tokens=False)
            return self._pairs.encode(encoding.ids, cast("list[int]", encoding.word_ids), self._special_ids)


def byte_level_codec(
    library: Any, pairs: _core.BytePairs, name: str, splitter: Any, normaliser: Any = None
) -> BytePairCodec:
    """Return the codec of byte-level BPE (Sennrich et al. 2016; Radford et al. 2019).

    Args:
        library: the module ``tokenizers``.
        pairs: pieces and merges.
        name: the file, for messages.
        splitter: the library's object that splits texts into words, in which letters stand for bytes.
        normaliser: the library's object that normalises texts.
    """
    bpe = library.models.BPE(_byte_letters(), [], continuing_subword_prefix="", end_of_word_suffix="")
    model = library.Tokenizer(bpe)
    model.pre_tokenizer, model.decoder = splitter, library.decoders.ByteLevel()
    if normaliser is not None:
        model.normalizer = normaliser
    return BytePairCodec(model, pairs, name)


def _byte_letters() -> dict[str, int]:
    return {letter: byte for byte, letter in enumerate(_core.BytePairs.letters())}


def read_tokenizer_json(folder: Path, config: TokeniserConfig) -> TokenizersCodec:
    """Read ``tokenizer.json``, with the settings of ``tokenizer_config.json`` that override it."""
    path = folder / TOKENIZER_FILE
    library = tokenizers_library(path)
    content = read_bytes(path)
    with TokenizersErrorHandler(path):
        values = from_json(content, cache_strings="none")  # json.loads would fragment megabytes of memory
        pairs = _take_pairs(values)
        model = library.Tokenizer.from_str(json.dumps(values) if pairs else content.decode("utf-8"))
        normaliser, splitter = values.get("normalizer") or {}, values.get("pre_tokenizer") or {}
        if normaliser.get("type") == "BertNormalizer":
            model.normalizer = library.normalizers.BertNormalizer(**_bert_settings(config, normaliser))
        prefix_space = config.settings.get("add_prefix_space")
        if splitter.get("type") == "ByteLevel" and isinstance(prefix_space, bool):
            model.pre_tokenizer = library.pre_tokenizers.ByteLevel(
                add_prefix_space=prefix_space, use_regex=splitter.get("use_regex", True)
            )
    codec = BytePairCodec(model, pairs, str(path)) if pairs else TokenizersCodec(model, str(path))
    codec.add(config.special_tokens.values())
    return codec


def _take_pairs(values: dict[str, Any]) -> _core.BytePairs | None:
    """Remove and return the pieces and merges in a ``tokenizer.json`` of byte-level BPE.

    Return None for any other model, which is left unchanged.
    """
    bpe, splitter, decoder = values["model"], values.get("pre_tokenizer") or {}, values.get("decoder") or {}
    byte_level = (splitter.get("pretokenizers") or [splitter])[-1]
    ids = bpe.get("vocab")
    is_byte_level = (
        bpe.get("type") == "BPE"
        and byte_level.get("type") == decoder.get("type") == "ByteLevel"
        and not any(bpe.get(key) for key in UNSUPPORTED_SETTINGS)
        and sorted(ids.values()) == list(range(len(ids)))
    )
    if not is_byte_level:
        return None
    pairs = _core.BytePairs(sorted(ids, key=ids.__getitem__), bpe["merges"], bool(bpe.get("ignore_merges")))
    bpe |= {"vocab": _byte_letters(), "merges": []}
    return pairs


def read_byte_level(
    vocabulary: Path, merges: Path, config: TokeniserConfig, special_tokens: Mapping[str, AddedToken]
) -> TokenizersCodec:
    """Read byte-level BPE (Sennrich et al. 2016; Radford et al. 2019).

    Args:
        vocabulary: the path of ``vocab.json``.
        merges: the path of ``merges.txt``.
        config: the configuration of the tokeniser.
        special_tokens: the special tokens of the model family, by role.
    """
    library = tokenizers_library(vocabulary)
    ids = read_vocabulary(vocabulary)
    try:
        lines = read_bytes(merges).decode("utf-8").split("\n")
    except UnicodeDecodeError:
        raise ModelError(f"{merges}: not UTF-8 text; fetch it again") from None
    lines = [line.rstrip("\r") for line in lines if line.strip() and not line.startswith("#version:")]
    if invalid := [line for line in lines if line.count(" ") != 1]:
        raise ModelError(f"{merges}: {invalid[0][:60]!r} is not a pair of pieces; fetch it again")
    prefix_space = config.flag("add_prefix_space", False)
    with TokenizersErrorHandler(merges, f"disagrees with {vocabulary.name}"):
        pairs = _core.BytePairs(sorted(ids, key=ids.__getitem__), lines)
        splitter = library.pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
        codec = byte_level_codec(library, pairs, str(vocabulary), splitter)
    return _with_special(codec, config, special_tokens)


def read_word_piece(
    path: Path, config: TokeniserConfig, special_tokens: Mapping[str, AddedToken]
) -> TokenizersCodec:
    """Read BERT's WordPiece (Devlin et al. 2019) from ``vocab.txt``."""
    library = tokenizers_library(path)
    try:
        lines = read_bytes(path).decode("utf-8").split("\n")
    except UnicodeDecodeError:
        raise ModelError(f"{path}: not UTF-8 text; fetch it again") from None
    ids = {
        line.rstrip("\r"): token_id for token_id, line in enumerate(lines[:-1] if not lines[-1] else lines)
    }
    named_tokens = {**special_tokens, **config.special_tokens}
    unknown_piece = named_tokens["unk"].content
    if unknown_piece not in ids:
        raise ModelError(f"{path}: the vocabulary lacks {unknown_piece}")
    normaliser = _bert_settings(config, {})
    with TokenizersErrorHandler(path):
        model = library.Tokenizer(
            library.models.WordPiece(
                ids, unk_token=unknown_piece, max_input_chars_per_word=MAX_WORD_CHARACTERS
            )
        )
        model.normalizer = library.normalizers.BertNormalizer(**normaliser)
        model.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
        model.decoder = library.decoders.WordPiece(prefix="##")
    return _with_special(TokenizersCodec(model, str(path)), config, special_tokens)


def read_vocabulary(path: Path) -> dict[str, int]:
    """Read a mapping from pieces to ids, numbered from 0 without gaps."""
    values = read_json(path)
    ids = [token_id for token_id in values.values() if type(token_id) is int]
    if not values or sorted(ids) != list(range(len(values))):
        raise ModelError(
            f"{path}: its {len(values)} pieces are not numbered from 0 without gaps; fetch it again"
        )
    return values


def _with_special(
    codec: TokenizersCodec, config: TokeniserConfig, special_tokens: Mapping[str, AddedToken]
) -> TokenizersCodec:
    """Return the codec after adding the special tokens of the model family and of the configuration."""
    added_tokens = sorted(config.added_tokens.items())
    codec.add(token for token_id, token in added_tokens if token_id < codec.size)
    codec.add({**special_tokens, **config.special_tokens}.values())
    codec.add(token for _, token in added_tokens)
    for token_id, token in added_tokens:
        if codec.token_id(token.content) != token_id:
            raise ModelError(
                f"{codec.name}: the added token {token.content!r} should have id {token_id}, but the "
                f"vocabulary gives it {codec.token_id(token.content)}; the files belong to different models"
            )
    return codec


def _bert_settings(config: TokeniserConfig, stored_settings: Mapping[str, Any]) -> dict[str, bool | None]:
    """Return the settings of BERT's normaliser.

    Each is read from ``tokenizer_config.json`` or else from ``tokenizer.json``; otherwise, it is the default.
    """
    strip = config.settings.get("strip_accents", stored_settings.get("strip_accents"))
    return {
        "clean_text": stored_settings.get("clean_text", True) is True,
        "handle_chinese_chars": config.flag(
            "tokenize_chinese_chars", stored_settings.get("handle_chinese_chars", True) is True
        ),
        "strip_accents": strip if isinstance(strip, bool) else None,
        "lowercase": config.flag("do_lower_case", stored_settings.get("lowercase", True) is True),
    }


def tokenizers_library(path: Path) -> Any:
    """Import and return the library `tokenizers`; ``path`` is the file to read, for the error message."""
    try:
        import tokenizers
    except ImportError:
        raise MissingExtraError(
            f"{path}: this tokeniser needs `tokenizers`; `pip install 'uwaga[train]'`"
        ) from None
    return tokenizers
