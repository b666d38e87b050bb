"""SentencePiece (Kudo and Richardson 2018) made exact: text -> ids -> text loses only normalisation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Literal

from sentencepiece import SentencePieceProcessor

from uwaga.decoder import Symbols
from uwaga.errors import DataError, ModelError, SettingsError
from uwaga.files.regular import read_regular
from uwaga.languages.codes import TAG, same_language
from uwaga.tokenizers.segmentation_sampling import PieceSampler
from uwaga.tokenizers.sentencepiece_file import read_pieces
from uwaga.tokenizers.tags import tag_language, tag_like_pieces

LARGEST = 1 << 28
"""Bytes of a model file; real ones have less than ten million."""

MARK = "\u2581"  # SentencePiece writes a space as this; the character itself is therefore spelt in bytes
MARK_BYTES = ("<0xE2>", "<0x96>", "<0x81>")
# Two serialised protocol buffers put end to end merge into one, the later winning. This one holds only
# ModelProto.normalizer_spec.add_dummy_prefix = false.
NO_PREFIX = b"\x1a\x02\x18\x00"


class Tokeniser:
    """A trained subword model.

    Special symbols come from the declared ids only: text that spells ``<s>`` stays text. A text that
    holds no characters has no ids.
    """

    def __init__(self, model: bytes, name: str) -> None:
        """Wrap the bytes of a SentencePiece model; ``name`` is used in error messages.

        Raises:
            ModelError: the bytes are no such model, or it declares no start, end or padding symbol.
        """
        self._name = name
        self._model = model
        if not model:
            raise ModelError(f"{name}: the tokeniser file is empty; copy the model again or retrain it")
        try:
            self._processor = SentencePieceProcessor(model_proto=model)
        except (RuntimeError, UnicodeDecodeError) as error:  # the latter where its message quotes the file
            raise ModelError(
                f"{name}: damaged or not a SentencePiece model; copy the model again or retrain it"
            ) from error
        self._symbols = Symbols(
            start=self._processor.bos_id(),
            end=self._processor.eos_id(),
            pad=self._processor.pad_id(),
            unknown=self._processor.unk_id(),
        )
        if min(self._symbols.start, self._symbols.end, self._symbols.pad, self._symbols.unknown) < 0:
            raise ModelError(
                f"{name}: the tokeniser lacks a special symbol (-1 is missing): {self._symbols}; "
                "train one with `uwaga train`"
            )
        self._special = frozenset((self._symbols.start, self._symbols.end, self._symbols.pad))
        mark = tuple(self._processor.piece_to_id(piece) for piece in MARK_BYTES)
        self._chosen = ""
        self._latest: tuple[float, PieceSampler] | None = None
        self._pieces: dict[int, str] = {}  # those that were asked for
        self._mark = (self._symbols.unknown,) if self._symbols.unknown in mark else mark

    @classmethod
    def load(cls, path: Path) -> Tokeniser:
        """Read a model file.

        Raises:
            ModelError: missing, unreadable or damaged.
        """
        try:
            model = read_regular(path, LARGEST)
        except FileNotFoundError:
            raise ModelError(f"{path}: no such tokeniser file; is the model folder complete?") from None
        except OSError as error:
            raise ModelError(f"{path}: the tokeniser cannot be read: {error.strerror}") from None
        return cls(model, str(path))

    @classmethod
    def from_bytes(cls, model: bytes, name: str) -> Tokeniser:
        """The tokeniser of a model held in memory; raises ModelError as the constructor does."""
        return cls(model, name)

    @property
    def name(self) -> str:
        """Where the model came from, for messages."""
        return self._name

    @property
    def model_bytes(self) -> bytes:
        """The model file's contents; with a tag chosen, that behind them."""
        return self._model + self._chosen.encode()

    @property
    def size(self) -> int:
        """Number of pieces, special symbols included."""
        return int(self._processor.get_piece_size())

    @property
    def normalisation(self) -> Literal["nfkc", "identity"]:
        """What the model file does to text; see :func:`uwaga.tokenizers.normalisation.normalise`."""
        ligature = "\ufb01"  # NFKC takes it apart into f and i
        return "identity" if ligature in self._processor.normalize(ligature) else "nfkc"

    @property
    def symbols(self) -> Symbols:
        """The special token ids."""
        return self._symbols

    @cached_property
    def tags(self) -> Mapping[str, int]:
        """The ids of the tags, each one piece, that a text may begin with (:mod:`uwaga.tokenizers.tags`)."""
        found = {piece: int(self._processor.piece_to_id(piece)) for piece in tag_like_pieces(self._model)}
        return {
            piece: token
            for piece, token in found.items()
            if token not in (*self._special, self._symbols.unknown)
            and (self._processor.is_control(token) or tag_language(piece))
        }

    @property
    def languages(self) -> list[str]:
        """The target languages' tags, none in a model of one language pair."""
        return [piece for piece in self.tags if tag_language(piece)]

    def with_target(self, language: str) -> Tokeniser:
        """The same tokeniser that puts the tag of a target language before texts that have none.

        Args:
            language: a tag, its code, or another code of the same language where that is unique.

        Raises:
            SettingsError: the model has no such target language; lists those that it has.
        """
        codes = {tag_language(tag) or tag: tag for tag in self.languages}
        near = [tag for code, tag in codes.items() if same_language(code, language)]
        tag = (
            language if language in self.tags else codes.get(language) or (near[0] if len(near) == 1 else "")
        )
        if not tag:
            raise SettingsError(
                f"{self._name}: no target language {language!r}; the model has {' '.join(sorted(codes))}"
            )
        other = copy(self)
        other._chosen = tag
        return other

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without start and end symbols.

        A tag at its beginning is one id; of several one after another each is.

        Raises:
            DataError: the text holds half of a surrogate pair, which no encoding can carry; or it begins with
                the tag of a language that a model of several does not have.
        """
        lead, rest = self._split_tags(text)
        return [*lead, *self._encode_plain(rest)] if lead else self._encode_plain(text)

    def _split_tags(self, text: str) -> tuple[list[int], str]:
        """The ids of the tags before a text, the one that was chosen where it has none, and the rest."""
        if not self.tags:
            return [], text
        lead: list[int] = []
        rest = text
        while found := TAG.match(rest):
            tag = found.group()
            if tag not in self.tags:
                if self.languages and tag_language(tag):
                    known = " ".join(self.languages[:20])
                    raise DataError(f"{tag}: the model has no such target language; it has {known}")
                break
            lead.append(self.tags[tag])
            rest = rest[found.end() :].lstrip(" ")
        if self._chosen and not lead and text:
            return [self.tags[self._chosen]], text
        return lead, rest

    def _encode_plain(self, text: str) -> list[int]:
        if MARK in text:
            return self._encode_marked(text)
        try:
            ids: list[int] = self._processor.encode(text)
        except (RuntimeError, ValueError, TypeError):
            _refuse_surrogates(text)
            raise
        return ids

    def encode_piece(self, piece: str) -> list[int]:
        """The ids of a piece of another model, U+2581 for a space: nothing is put before it."""
        ids: list[int] = self._bare.encode(piece.replace(MARK, " "))
        return ids

    def add_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """The ids with the end symbol behind them."""
        return [*ids, self._symbols.end]

    def language_prefix(self, text: str) -> str:
        """The tags at the beginning of a text, or the one chosen, with a space behind, or nothing."""
        lead, rest = self._split_tags(text)
        if lead and len(rest) < len(text):
            return text[: len(text) - len(rest)]
        return f"{self._chosen} " if lead else ""

    def encode_batch(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """The ids of many texts, on ``threads`` threads; equals ``encode`` of each."""
        if self.tags:
            split = [self._split_tags(text) for text in texts]
            rows = self._encode_batch([rest for _, rest in split], threads)
            return [[*lead, *row] if lead else row for (lead, _), row in zip(split, rows, strict=True)]
        return self._encode_batch(texts, threads)

    def _encode_batch(self, texts: Sequence[str], threads: int) -> list[list[int]]:
        plain = ["" if MARK in text else text for text in texts]
        try:
            rows: list[list[int]] = self._processor.encode(plain, num_threads=threads) if plain else []
        except (RuntimeError, ValueError, TypeError):
            for text in plain:
                _refuse_surrogates(text)
            raise
        for row, text in enumerate(texts):
            if MARK in text:
                rows[row] = self._encode_marked(text)
        return rows

    def sample(self, texts: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """Draw a segmentation of each text.

        A unigram model samples it in proportion to its probability to the power ``alpha`` (Kudo 2018,
        section 3.1: 0 is uniform, large is nearly the best); a BPE model drops each merge with
        probability ``alpha`` (Provilkov et al. 2020). The draw depends on the texts, their order,
        ``alpha`` and ``seed`` alone, never on earlier draws.
        """
        sampler = self._sampler(alpha)
        random = Random(seed)
        return [self._draw(text, sampler, random) for text in texts]

    def _sampler(self, alpha: float) -> PieceSampler:
        if self._latest is None or self._latest[0] != alpha:
            self._latest = alpha, PieceSampler(read_pieces(self._model), alpha)
        return self._latest[1]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids. Padding, start and end symbols are dropped; an unknown is shown as U+2047.

        Raises:
            DataError: an id is outside the vocabulary, or its piece in a damaged file is no text.
        """
        kept = [int(token) for token in ids if token not in self._special]
        self._check(kept)
        try:
            text: str = self._processor.decode(kept) if kept else ""
        except UnicodeDecodeError as error:
            raise _damaged(error) from None
        return text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces of ids as they stand in the model, U+2581 for a space, special symbols included.

        Raises:
            DataError: an id is outside the vocabulary, or its piece in a damaged file is no text.
        """
        known = self._pieces
        try:
            return [known[token] for token in ids]
        except KeyError:
            plain = [int(token) for token in ids]
        self._check(plain)
        try:
            found = [str(self._processor.id_to_piece(token)) for token in plain]
        except UnicodeDecodeError as error:
            raise _damaged(error) from None
        known.update(zip(plain, found, strict=True))
        return found

    def _check(self, ids: list[int]) -> None:
        if ids and not 0 <= min(ids) <= max(ids) < self.size:
            wrong = next(token for token in ids if not 0 <= token < self.size)
            raise DataError(
                f"{self._name}: token id {wrong} is outside the vocabulary of {self.size} pieces; "
                "do the tokeniser and the model belong together?"
            )

    def _draw(self, text: str, sampler: PieceSampler, random: Random) -> list[int]:
        _refuse_surrogates(text)
        lead, text = self._split_tags(text)
        if MARK in text:
            rest = self._marked(text, lambda part: sampler.draw(self._bare.normalize(part), random))
        else:
            rest = sampler.draw(self._processor.normalize(text), random)
        return [*lead, *rest]

    def _encode_marked(self, text: str) -> list[int]:
        _refuse_surrogates(text)
        return self._marked(text, self._bare.encode)

    def _marked(self, text: str, encode: Callable[[str], list[int]]) -> list[int]:
        """The ids of a text that holds U+2581 itself: of the parts between, and of its bytes."""
        ids: list[int] = []
        for number, part in enumerate((" " + text).split(MARK)):
            if number:
                ids.extend(self._mark)
            if part:
                ids.extend(encode(part))
        return ids

    @cached_property
    def _bare(self) -> SentencePieceProcessor:
        """The same model, except that it puts no space before a text."""
        return SentencePieceProcessor(model_proto=self._model + NO_PREFIX)


def _refuse_surrogates(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            f"the text holds half of a surrogate pair (U+{ord(text[error.start]):04X} at character "
            f"{error.start + 1}), which is not valid Unicode; remove it or decode the text again"
        ) from None


def _damaged(error: UnicodeDecodeError) -> DataError:
    return DataError(f"the tokeniser is damaged: a piece is not UTF-8 ({error.reason}); fetch it again")
