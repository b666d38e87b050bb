"""SentencePiece tokenisers (Kudo and Richardson 2018), which normalise a text and recognise language tags."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Literal

from uwaga.decoder import Symbols
from uwaga.errors import DataError, ModelError, SettingsError
from uwaga.files.regular import read_regular
from uwaga.languages.codes import LANGUAGE_TAG, same_language
from uwaga.tokenizers.sentencepiece import MARK, SentencePieceModel

if TYPE_CHECKING:
    from uwaga.tokenizers.segmentation_sampling import PieceSampler

TARGET_TAG = re.compile(r">>([^<>\s]+)<<|<2([^<>\s]+)>")
_TAG_LIKE_BYTES = re.compile(rb">>[^<>\s]{1,60}<<|<[^<>\s]{1,60}>")


def tag_language(tag: str) -> str | None:
    """Return the language code of a target-language tag, or None for any other tag."""
    match = TARGET_TAG.fullmatch(tag)
    return (match[1] or match[2]) if match else None


def tag_like_pieces(model: bytes) -> list[str]:
    """Return the pieces of a serialised SentencePiece model that look like tags, in sorted order.

    Special symbols such as ``<s>`` look like tags, too.
    """
    pieces = set()
    for match in _TAG_LIKE_BYTES.finditer(model):
        piece = match.group()
        if model[max(0, match.start() - 2) : match.start()] == bytes(
            (0x0A, len(piece))
        ):  # a field of its own
            pieces.add(piece.decode("utf-8", "replace"))
    return sorted(piece for piece in pieces if LANGUAGE_TAG.fullmatch(piece))


MAX_FILE_BYTES = 1 << 28
"""Maximum size of a model file in bytes; real models have less than ten million."""

MARK_BYTES = ("<0xE2>", "<0x96>", "<0x81>")  # a mark in a text is not a space
REMEDY = "copy the model again or retrain it"


class Tokeniser:
    """A trained subword model.

    A special symbol spelt in a text, such as ``<s>``, is encoded as ordinary text. An empty text has no ids.
    """

    def __init__(self, model: bytes, name: str) -> None:
        """Create a tokeniser from the bytes of a SentencePiece model; ``name`` is used in error messages.

        Raises:
            ModelError: the bytes are not a SentencePiece model, or it declares no start, end or padding
                symbol.
        """
        self._name = name
        self._model = model
        if not model:
            raise ModelError(f"{name}: the tokeniser file is empty; {REMEDY}")
        self._processor = SentencePieceModel(model, name, REMEDY)
        self._symbols = Symbols(*self._processor.symbols)
        if min(self._symbols.start, self._symbols.end, self._symbols.pad, self._symbols.unknown) < 0:
            raise ModelError(
                f"{name}: the tokeniser lacks a special symbol (its id is -1): {self._symbols}; "
                "train a tokeniser with `uwaga train`"
            )
        self._special = frozenset((self._symbols.start, self._symbols.end, self._symbols.pad))
        mark = tuple(self._processor.number(piece) for piece in MARK_BYTES)
        self._default_tag = ""
        self._cached_sampler: tuple[float, PieceSampler] | None = None
        self._pieces: dict[int, str] = {}  # cache
        self._mark_ids = (self._symbols.unknown,) if self._symbols.unknown in mark else mark

    @classmethod
    def load(cls, path: Path) -> Tokeniser:
        """Read a model file.

        Raises:
            ModelError: the file is missing, unreadable or damaged.
        """
        try:
            model = read_regular(path, MAX_FILE_BYTES)
        except FileNotFoundError:
            raise ModelError(f"{path}: no such tokeniser file; is the model folder complete?") from None
        except OSError as error:
            raise ModelError(f"{path}: the tokeniser cannot be read: {error.strerror}") from None
        return cls(model, str(path))

    @classmethod
    def from_bytes(cls, model: bytes, name: str) -> Tokeniser:
        """Return the tokeniser of a model in memory, or raise ModelError as the constructor does."""
        return cls(model, name)

    @property
    def name(self) -> str:
        """Origin of the model, for messages."""
        return self._name

    @property
    def model_bytes(self) -> bytes:
        """Contents of the model file, followed by the target-language tag if one is set."""
        return self._model + self._default_tag.encode()

    @property
    def size(self) -> int:
        """Number of pieces, special symbols included."""
        return len(self._processor)

    @property
    def normalisation(self) -> Literal["nfkc", "identity"]:
        """The normalisation in the model file, which is the only change that ``decode(encode(text))`` makes.

        ``identity`` is no normalisation. ``nfkc`` is SentencePiece's table of Unicode NFKC (compatibility
        composition), which is part of the model file and independent of the Unicode version of Python. White
        space is preserved.
        """
        ligature = "\ufb01"  # NFKC decomposes it into f and i
        return "identity" if ligature in self._processor.normalise(ligature) else "nfkc"

    @property
    def symbols(self) -> Symbols:
        """The special token ids."""
        return self._symbols

    @cached_property
    def tags(self) -> Mapping[str, int]:
        """Ids of the tags that may begin a text, by tag; each tag is one piece."""
        ids = {piece: self._processor.number(piece) for piece in tag_like_pieces(self._model)}
        return {
            piece: token
            for piece, token in ids.items()
            if token not in (*self._special, self._symbols.unknown)
            and (self._processor.is_control(token) or tag_language(piece))
        }

    @property
    def languages(self) -> list[str]:
        """Target-language tags, empty for models of one language pair."""
        return [piece for piece in self.tags if tag_language(piece)]

    def with_target(self, language: str) -> Tokeniser:
        """Return a tokeniser that adds a target-language tag to texts without one.

        Args:
            language: a tag, its language code, or another code of that language if only one tag matches it.

        Raises:
            SettingsError: the model lacks the target language; the message lists the model's languages.
        """
        codes = {tag_language(tag) or tag: tag for tag in self.languages}
        matches = [tag for code, tag in codes.items() if same_language(code, language)]
        tag = (
            language
            if language in self.tags
            else codes.get(language) or (matches[0] if len(matches) == 1 else "")
        )
        if not tag:
            raise SettingsError(
                f"{self._name}: no target language {language!r}; the model has {' '.join(sorted(codes))}"
            )
        tokeniser = copy(self)
        tokeniser._default_tag = tag
        return tokeniser

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without start and end symbols.

        Each leading tag is encoded as one id.

        Raises:
            DataError: the text contains a lone surrogate, or begins with the tag of a language that a
                multilingual model does not have.
        """
        leading_tags, remainder = self._split_tags(text)
        return [*leading_tags, *self._encode_plain(remainder)] if leading_tags else self._encode_plain(text)

    def _split_tags(self, text: str) -> tuple[list[int], str]:
        """Return the ids of the leading tags, or of the default tag if there are none, and the remaining
        text.
        """
        if not self.tags:
            return [], text
        leading_tags: list[int] = []
        remainder = text
        while match := LANGUAGE_TAG.match(remainder):
            tag = match.group()
            if tag not in self.tags:
                if self.languages and tag_language(tag):
                    languages = " ".join(self.languages[:20])
                    raise DataError(f"{tag}: the model has no such target language; it has {languages}")
                break
            leading_tags.append(self.tags[tag])
            remainder = remainder[match.end() :].lstrip(" ")
        if self._default_tag and not leading_tags and text:
            return [self.tags[self._default_tag]], text
        return leading_tags, remainder

    def _encode_plain(self, text: str) -> list[int]:
        if MARK in text:
            return self._encode_marked(text)
        try:
            return self._processor.encode(text)
        except TypeError:
            _check_surrogates(text)
            raise

    def encode_piece(self, piece: str) -> list[int]:
        """Return the ids of a piece of another model's vocabulary; U+2581 in the piece stands for a space.

        No space is added before the piece.
        """
        return self._processor.encode(piece.replace(MARK, " "), prefix=False)

    def add_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """Return the ids followed by the end symbol."""
        return [*ids, self._symbols.end]

    def language_prefix(self, text: str) -> str:
        """Return the leading tags of a text, or else the default tag, with the space after them.

        Without such tags, the result is an empty string.
        """
        leading_tags, remainder = self._split_tags(text)
        if leading_tags and len(remainder) < len(text):
            return text[: len(text) - len(remainder)]
        return f"{self._default_tag} " if leading_tags else ""

    def encode_batch(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """Return the ids of each text, as :meth:`encode` does, using ``threads`` threads."""
        if self.tags:
            split = [self._split_tags(text) for text in texts]
            rows = self._encode_batch([remainder for _, remainder in split], threads)
            return [
                [*leading_tags, *row] if leading_tags else row
                for (leading_tags, _), row in zip(split, rows, strict=True)
            ]
        return self._encode_batch(texts, threads)

    def _encode_batch(self, texts: Sequence[str], threads: int) -> list[list[int]]:
        from concurrent.futures import ThreadPoolExecutor  # not at start-up: a translation does not need it

        texts_without_marks = ["" if MARK in text else text for text in texts]
        size = max(1, -(-len(texts_without_marks) // threads))
        shares = [
            texts_without_marks[start : start + size] for start in range(0, len(texts_without_marks), size)
        ]
        try:
            with ThreadPoolExecutor(threads) as pool:
                rows = [row for share in pool.map(self._processor.encode_batch, shares) for row in share]
        except TypeError:
            for text in texts_without_marks:
                _check_surrogates(text)
            raise
        for row, text in enumerate(texts):
            if MARK in text:
                rows[row] = self._encode_marked(text)
        return rows

    def sample(self, texts: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """Return the ids of a sampled segmentation of each text.

        A unigram model samples segmentations in proportion to their probability to the power of ``alpha``
        (Kudo 2018, section 3.1: 0 is uniform, large values approach the best segmentation); a BPE model drops
        each merge with probability ``alpha`` (Provilkov et al. 2020). The result depends only on the texts,
        their order, ``alpha`` and ``seed``.
        """
        sampler = self._sampler(alpha)
        random = Random(seed)
        return [self._draw(text, sampler, random) for text in texts]

    def _sampler(self, alpha: float) -> PieceSampler:
        if self._cached_sampler is None or self._cached_sampler[0] != alpha:
            from uwaga.tokenizers.segmentation_sampling import PieceSampler, read_pieces

            self._cached_sampler = alpha, PieceSampler(read_pieces(self._model), alpha)
        return self._cached_sampler[1]

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids to text, without padding, start and end symbols; unknown symbols become U+2047.

        Raises:
            DataError: an id is outside the vocabulary, or its piece in a damaged file is not text.
        """
        tokens = [int(token) for token in ids if token not in self._special]
        self._check(tokens)
        try:
            return self._processor.decode(tokens)
        except UnicodeDecodeError as error:
            raise _damage_error(self._name, error) from None

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the piece of each id, with U+2581 for spaces; special symbols are included.

        Raises:
            DataError: an id is outside the vocabulary, or its piece in a damaged file is not text.
        """
        cache = self._pieces
        try:
            return [cache[token] for token in ids]
        except KeyError:
            ids_without_marks = [int(token) for token in ids]
        self._check(ids_without_marks)
        try:
            pieces = list(map(self._processor.piece, ids_without_marks))
        except UnicodeDecodeError as error:
            raise _damage_error(self._name, error) from None
        cache.update(zip(ids_without_marks, pieces, strict=True))
        return pieces

    def _check(self, ids: list[int]) -> None:
        if ids and not 0 <= min(ids) <= max(ids) < self.size:
            invalid = next(token for token in ids if not 0 <= token < self.size)
            raise DataError(
                f"{self._name}: token id {invalid} is outside the vocabulary of {self.size} pieces; "
                "do the tokeniser and the model belong together?"
            )

    def _draw(self, text: str, sampler: PieceSampler, random: Random) -> list[int]:
        _check_surrogates(text)
        leading_tags, text = self._split_tags(text)
        if MARK in text:
            normalise = partial(self._processor.normalise, prefix=False)
            ids = self._encode_around_marks(text, lambda part: sampler.draw(normalise(part), random))
        else:
            ids = sampler.draw(self._processor.normalise(text), random)
        return [*leading_tags, *ids]

    def _encode_marked(self, text: str) -> list[int]:
        _check_surrogates(text)
        return self._encode_around_marks(text, partial(self._processor.encode, prefix=False))

    def _encode_around_marks(self, text: str, encode: Callable[[str], list[int]]) -> list[int]:
        """Return the ids of a text that contains U+2581: the ids of the parts between these characters, and
        the ids of the bytes of each such character.
        """
        ids: list[int] = []
        for index, part in enumerate((" " + text).split(MARK)):
            if index:
                ids.extend(self._mark_ids)
            if part:
                ids.extend(encode(part))
        return ids


def _check_surrogates(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            f"the text contains a lone surrogate (U+{ord(text[error.start]):04X} at character "
            f"{error.start + 1}), which is not valid Unicode; remove it or decode the text again"
        ) from None


def _damage_error(name: str, error: UnicodeDecodeError) -> DataError:
    return DataError(
        f"{name}: the tokeniser is damaged: a piece is not UTF-8 ({error.reason}); fetch it again"
    )
