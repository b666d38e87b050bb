"""Tokenisers run by the ``tokenizers`` library: ``tokenizer.json``, byte-level BPE and WordPiece."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uwaga.errors import MissingExtraError, ModelError, reason
from uwaga.tokenizers.pretrained_files import TOKENIZER, Declared, Special, read_bytes, read_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PROBE = "a"
LONGEST_WORD = 100
"""Characters of a word above which WordPiece gives up and makes it unknown, as BERT does."""


class LibraryCall:
    """``with LibraryCall(name):`` around calls into ``tokenizers``: what it raises names the file.

    Damaged files go through its checks and fail later, as bare Exception or as a panic that is not even that.

    Raises:
        ModelError: the library raised something in there.
    """

    def __init__(self, name: object, fault: str = "damaged, or of a newer version of `tokenizers`") -> None:
        self._name, self._fault = name, fault

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and (isinstance(error, Exception) or type(error).__name__ == "PanicException"):
            raise ModelError(f"{self._name}: {self._fault}: {reason(error)}; fetch it again") from None


class TokenizersCodec:
    """Obeys :class:`uwaga.tokenizers.framed.Codec`."""

    def __init__(self, model: Tokenizer, name: str) -> None:
        self._model = model
        self.name = name
        self._call = LibraryCall(name)
        with self._call:
            model.no_truncation()
            model.no_padding()

    @property
    def content(self) -> bytes:
        """The ``tokenizer.json`` that says the same."""
        with self._call:
            return self._model.to_str().encode()

    @property
    def size(self) -> int:
        """One more than the largest id."""
        with self._call:
            return int(self._model.get_vocab_size(with_added_tokens=True))

    @property
    def kind(self) -> str:
        """The algorithm: ``BPE``, ``Unigram``, ``WordPiece`` or ``WordLevel``."""
        with self._call:
            return type(self._model.model).__name__

    @property
    def added(self) -> dict[str, int]:
        """The ids of the tokens that text may spell."""
        with self._call:
            tokens = self._model.get_added_tokens_decoder()
        return {token.content: number for number, token in tokens.items()}

    @property
    def unknown(self) -> int | None:
        """The id of characters that the vocabulary lacks, None where there is none."""
        with self._call:
            model = self._model.model
            piece = getattr(model, "unk_token", None)
            number = getattr(model, "unk_id", None)
        if piece is None and number is not None:
            return int(number)
        return None if piece is None else self.number(piece)

    def encode(self, text: str) -> list[int]:
        """The ids of a text; a special token that the text spells is one id."""
        return self._ids(text, framed=False)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without special tokens and ids that have no piece."""
        with self._call:
            text: str = self._model.decode(ids, skip_special_tokens=True)
        return text

    def piece(self, token: int) -> str | None:
        """The piece of an id, None where it has none."""
        with self._call:
            found: str | None = self._model.id_to_token(token)
        return found

    def number(self, piece: str) -> int | None:
        """The id of a piece, None where it has none."""
        with self._call:
            found: int | None = self._model.token_to_id(piece)
        return found

    def add_special_tokens(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What the file itself puts before and behind a text.

        Raises:
            ModelError: it does something else to it than that.
        """
        inner, whole = self._ids(PROBE, framed=False), self._ids(PROBE, framed=True)
        for start in range(len(whole) - len(inner) + 1):
            if whole[start : start + len(inner)] == inner:
                return tuple(whole[:start]), tuple(whole[start + len(inner) :])
        raise ModelError(f"{self.name}: its post-processor does more than to frame a text: unsupported")

    def add(self, tokens: Iterable[Special]) -> None:
        """Let text spell further tokens; those that the vocabulary lacks get ids behind its last."""
        from tokenizers import AddedToken

        here = self.added
        for token in tokens:
            if token.content not in here:
                made = AddedToken(
                    token.content, lstrip=token.lstrip, rstrip=token.rstrip, special=token.special
                )
                with self._call:
                    (self._model.add_special_tokens if token.special else self._model.add_tokens)([made])

    def _ids(self, text: str, framed: bool) -> list[int]:
        with self._call:
            ids: list[int] = self._model.encode(text, add_special_tokens=framed).ids
        return ids


def read_tokenizer_json(folder: Path, declared: Declared) -> TokenizersCodec:
    """A folder's ``tokenizer.json``, with what ``tokenizer_config.json`` says otherwise.

    Raises:
        ModelError: missing or damaged.
        MissingExtraError: ``tokenizers`` is not installed.
    """
    path = folder / TOKENIZER
    library = _library(path)
    content = read_bytes(path)
    with LibraryCall(path):
        model = library.Tokenizer.from_str(content.decode("utf-8"))
        values = json.loads(content)
        normaliser, splitter = values.get("normalizer") or {}, values.get("pre_tokenizer") or {}
        if normaliser.get("type") == "BertNormalizer":
            model.normalizer = library.normalizers.BertNormalizer(**_bert_settings(declared, normaliser))
        space = declared.settings.get("add_prefix_space")
        if splitter.get("type") == "ByteLevel" and isinstance(space, bool):
            model.pre_tokenizer = library.pre_tokenizers.ByteLevel(
                add_prefix_space=space, use_regex=splitter.get("use_regex", True)
            )
    codec = TokenizersCodec(model, str(path))
    codec.add(declared.named.values())
    return codec


def read_byte_level(
    vocabulary: Path, merges: Path, declared: Declared, special: Mapping[str, Special]
) -> TokenizersCodec:
    """Byte-level BPE (Sennrich et al. 2016; Radford et al. 2019) from ``vocab.json`` and ``merges.txt``.

    Raises:
        ModelError: a file is missing or damaged, or the two disagree.
    """
    library = _library(vocabulary)
    ids = read_vocabulary(vocabulary)
    try:
        lines = read_bytes(merges).decode("utf-8").split("\n")
    except UnicodeDecodeError:
        raise ModelError(f"{merges}: not UTF-8 text; fetch it again") from None
    pairs = [tuple(line.rstrip("\r").split(" ")) for line in lines if line.strip()]
    pairs = [pair for pair in pairs if pair[0] != "#version:"]
    if wrong := [pair for pair in pairs if len(pair) != 2]:
        raise ModelError(f"{merges}: {' '.join(wrong[0])[:60]!r} is not a pair of pieces; fetch it again")
    space = declared.flag("add_prefix_space", False)
    with LibraryCall(merges, f"disagrees with {vocabulary.name}"):
        bpe = library.models.BPE(ids, pairs, continuing_subword_prefix="", end_of_word_suffix="")
        model = library.Tokenizer(bpe)
        model.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=space)
        model.decoder = library.decoders.ByteLevel()
    return _with_special(TokenizersCodec(model, str(vocabulary)), declared, special)


def read_word_piece(path: Path, declared: Declared, special: Mapping[str, Special]) -> TokenizersCodec:
    """WordPiece as BERT cuts it (Devlin et al. 2019) from ``vocab.txt``.

    Raises:
        ModelError: missing, not UTF-8, or without the unknown token.
    """
    library = _library(path)
    try:
        lines = read_bytes(path).decode("utf-8").split("\n")
    except UnicodeDecodeError:
        raise ModelError(f"{path}: not UTF-8 text; fetch it again") from None
    ids = {line.rstrip("\r"): number for number, line in enumerate(lines[:-1] if not lines[-1] else lines)}
    named = {**special, **declared.named}
    unknown = named["unk"].content
    if unknown not in ids:
        raise ModelError(f"{path}: the vocabulary lacks {unknown}")
    normaliser = _bert_settings(declared, {})
    with LibraryCall(path):
        model = library.Tokenizer(
            library.models.WordPiece(ids, unk_token=unknown, max_input_chars_per_word=LONGEST_WORD)
        )
        model.normalizer = library.normalizers.BertNormalizer(**normaliser)
        model.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
        model.decoder = library.decoders.WordPiece(prefix="##")
    return _with_special(TokenizersCodec(model, str(path)), declared, special)


def read_vocabulary(path: Path) -> dict[str, int]:
    """A mapping from pieces to ids, numbered without gaps from 0.

    Raises:
        ModelError: missing, damaged, or numbered otherwise.
    """
    values = read_json(path)
    numbers = [number for number in values.values() if type(number) is int]
    if not values or sorted(numbers) != list(range(len(values))):
        raise ModelError(f"{path}: its {len(values)} pieces are not numbered from 0 on; fetch it again")
    return values


def _with_special(
    codec: TokenizersCodec, declared: Declared, special: Mapping[str, Special]
) -> TokenizersCodec:
    """The codec with its family's special tokens, those that the folder names, and those added later."""
    later = sorted(declared.numbered.items())
    codec.add(token for number, token in later if number < codec.size)
    codec.add({**special, **declared.named}.values())
    codec.add(token for _, token in later)
    for number, token in later:
        if codec.number(token.content) != number:
            raise ModelError(
                f"{codec.name}: the added token {token.content!r} should have id {number}, but the "
                f"vocabulary gives it {codec.number(token.content)}; the files are of different models"
            )
    return codec


def _bert_settings(declared: Declared, stored: Mapping[str, Any]) -> dict[str, bool | None]:
    """How BERT normalises: ``tokenizer_config.json`` first, then ``tokenizer.json``, then its defaults."""
    strip = declared.settings.get("strip_accents", stored.get("strip_accents"))
    return {
        "clean_text": stored.get("clean_text", True) is True,
        "handle_chinese_chars": declared.flag(
            "tokenize_chinese_chars", stored.get("handle_chinese_chars", True) is True
        ),
        "strip_accents": strip if isinstance(strip, bool) else None,
        "lowercase": declared.flag("do_lower_case", stored.get("lowercase", True) is True),
    }


def _library(path: Path) -> Any:
    try:
        import tokenizers
    except ImportError:
        raise MissingExtraError(
            f"{path}: this tokeniser needs `tokenizers`; `pip install 'uwaga[train]'`"
        ) from None
    return tokenizers
