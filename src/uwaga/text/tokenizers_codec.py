"""Tokenisers run by the ``tokenizers`` library: ``tokenizer.json``, byte-level BPE and WordPiece."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uwaga.errors import MissingExtraError, ModelError
from uwaga.text.pretrained_files import TOKENIZER, Declared, Special, read_bytes, read_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PROBE = "a"
LONGEST_WORD = 100
"""Characters of a word above which WordPiece gives up and makes it unknown, as BERT does."""


class TokenizersCodec:
    """Obeys :class:`uwaga.text.framed.Codec`."""

    def __init__(self, model: Tokenizer, name: str) -> None:
        model.no_truncation()
        model.no_padding()
        self._model = model
        self.name = name

    @property
    def content(self) -> bytes:
        """The ``tokenizer.json`` that says the same."""
        return self._model.to_str().encode()

    @property
    def size(self) -> int:
        """One more than the largest id."""
        return int(self._model.get_vocab_size(with_added_tokens=True))

    @property
    def kind(self) -> str:
        """The algorithm: ``BPE``, ``Unigram``, ``WordPiece`` or ``WordLevel``."""
        return type(self._model.model).__name__

    @property
    def added(self) -> dict[str, int]:
        """The ids of the tokens that text may spell."""
        return {token.content: number for number, token in self._model.get_added_tokens_decoder().items()}

    @property
    def unknown(self) -> int | None:
        """The id of characters that the vocabulary lacks, None where there is none."""
        model = self._model.model
        piece = getattr(model, "unk_token", None)
        if piece is None and (number := getattr(model, "unk_id", None)) is not None:
            return int(number)
        return None if piece is None else self.number(piece)

    def encode(self, text: str) -> list[int]:
        """The ids of a text; a special token that the text spells is one id."""
        ids: list[int] = self._model.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without special tokens and ids that have no piece."""
        text: str = self._model.decode(ids, skip_special_tokens=True)
        return text

    def piece(self, token: int) -> str | None:
        """The piece of an id, None where it has none."""
        found: str | None = self._model.id_to_token(token)
        return found

    def number(self, piece: str) -> int | None:
        """The id of a piece, None where it has none."""
        found: int | None = self._model.token_to_id(piece)
        return found

    def add_special_tokens(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What the file itself puts before and behind a text.

        Raises:
            ModelError: it does something else to it than that.
        """
        inner = self._model.encode(PROBE, add_special_tokens=False).ids
        whole = self._model.encode(PROBE, add_special_tokens=True).ids
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
                (self._model.add_special_tokens if token.special else self._model.add_tokens)([made])


def read_tokenizer_json(folder: Path, declared: Declared) -> TokenizersCodec:
    """A folder's ``tokenizer.json``, with what ``tokenizer_config.json`` says otherwise.

    Raises:
        ModelError: missing or damaged.
        MissingExtraError: ``tokenizers`` is not installed.
    """
    path = folder / TOKENIZER
    library = _library(path)
    content = read_bytes(path)
    try:
        model = library.Tokenizer.from_str(content.decode("utf-8"))
        values = json.loads(content)
    except BaseException as error:  # the library raises bare Exception, and panics that are not even that
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ModelError(
            f"{path}: damaged, or of a newer version of `tokenizers`: {_first_line(error)}; fetch it again"
        ) from None
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
    try:
        bpe = library.models.BPE(ids, pairs, continuing_subword_prefix="", end_of_word_suffix="")
    except Exception as error:  # the library raises bare Exception
        raise ModelError(
            f"{merges}: disagrees with {vocabulary.name}: {_first_line(error)}; fetch both again"
        ) from None
    model = library.Tokenizer(bpe)
    space = declared.flag("add_prefix_space", False)
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
    model = library.Tokenizer(
        library.models.WordPiece(ids, unk_token=unknown, max_input_chars_per_word=LONGEST_WORD)
    )
    model.normalizer = library.normalizers.BertNormalizer(**_bert_settings(declared, {}))
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


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
