"""Tokenisers of pretrained models, which add the special tokens of the model family to a codec's ids."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, Protocol

from uwaga.decoder import Symbols
from uwaga.errors import DataError, SettingsError
from uwaga.languages.codes import same_language

TokenPosition = Literal["before", "behind", "start"]
"""Position of the language token: ``before`` the text, ``behind`` the end symbol, or as decoder ``start``."""

TAG = re.compile(r"<2([a-z]{2,3}(?:[_-][A-Za-z]{2,4})*)>")
"""Pattern of the tag that selects a target language in MADLAD-400 (Kudugunta 2023), not of other tags such as
``<2translate>``.
"""
MAX_LISTED_LANGUAGES = 60
"""Maximum number of languages listed in a message."""


class Codec(Protocol):
    """Conversion of text to ids and back, without the special tokens that surround a text."""

    @property
    def content(self) -> bytes:
        """Serialisation of everything that determines the ids."""
        ...

    @property
    def size(self) -> int:
        """Largest id plus one."""
        ...

    @property
    def added_tokens(self) -> dict[str, int]:
        """Ids of the special tokens that may be spelt in texts."""
        ...

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; a special token spelt in the text is encoded as one id."""
        ...

    def encode_plain(self, text: str) -> list[int]:
        """Return the ids of a text without recognising special tokens."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids to text; special tokens and ids without a piece are left out."""
        ...

    def piece(self, token: int) -> str | None:
        """Return the piece of an id, or None if the id has no piece."""
        ...

    def token_id(self, piece: str) -> int | None:
        """Return the id of a piece, or None if the piece has no id."""
        ...


def needed_rows(codec: Codec, rows: int) -> int:
    """Return the number of pieces of a codec that need a row of the embeddings.

    Added tokens whose ids are beyond the last row need no row, because texts that contain them are rejected.
    Gemma has such a token for images.
    """
    return codec.size - sum(token_id >= rows for token_id in codec.added_tokens.values())


@dataclass(frozen=True)
class FramedTokeniser:
    """The tokeniser of one side of a pretrained model.

    As in ``transformers``, a special token spelt in a text (``<mask>``, ``</s>``) is encoded as the token.

    Attributes:
        symbols: the special token ids.
        vocabulary: number of rows of the model's embeddings; may exceed the number of pieces.
        prefix: ids added before a text.
        suffix: ids added after a text.
        clean: whether to remove spaces before punctuation from decoded (English) text.
        prompt_prefix: text added before every sentence, such as T5's ``translate English to German: ``.
        languages: language tokens of a multilingual model by code; empty for other models.
        language_position: position of the language token.
        language: code of the selected language, or None.
        stop: text at which decoded texts are cut off and then stripped of outer white space, or empty.
    """

    codec: Codec
    symbols: Symbols
    vocabulary: int
    name: str
    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()
    clean: bool = False
    prompt_prefix: str = ""
    languages: Mapping[str, int] = field(default_factory=dict)
    language_position: TokenPosition = "before"
    language: str | None = None
    stop: str = ""

    @property
    def model_bytes(self) -> bytes:
        """Serialisation of the tokeniser files and the special tokens around a text."""
        frame = (self.symbols, self.prefix, self.suffix, self.clean)
        settings = (*frame, self.prompt_prefix, self.language_position, self.language)
        return self.codec.content + repr(settings).encode()

    @cached_property
    def tags(self) -> tuple[str, ...]:
        """Codes of the target languages that a tag at the start of a source selects (``<2de>``)."""
        if self.codec.token_id("<2en>") is None:
            return ()
        pieces = (self.codec.piece(token_id) for token_id in range(self.codec.size))
        return tuple(sorted(match[1] for piece in pieces if piece and (match := TAG.fullmatch(piece))))

    @property
    def first(self) -> int | None:
        """Id of the language token that must begin the target, or None if there is none."""
        if self.language is None or self.language_position != "before":
            return None
        return self.languages[self.language]

    def with_language(self, language: str) -> FramedTokeniser:
        """Return the tokeniser for a language, given by its code or an unambiguous alternative code."""
        code = self.code(language)
        symbols = self.symbols
        if self.language_position == "start":
            symbols = replace(symbols, start=self.languages[code])
        return replace(self, language=code, symbols=symbols)

    def with_prompt_prefix(self, prefix: str) -> FramedTokeniser:
        """Return the tokeniser with a text added before every sentence."""
        return replace(self, prompt_prefix=prefix)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without surrounding special tokens."""
        _check_unicode(text)
        return self._check_embedded(self.codec.encode(self.prompt_prefix + text), text)

    def encode_plain(self, text: str) -> list[int]:
        """Return the ids of a text without recognising special tokens."""
        _check_unicode(text)
        return self._check_embedded(self.codec.encode_plain(text), text)

    def add_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """Return the ids, surrounded by the special tokens that the model expects."""
        if not self.languages or self.language_position == "start":
            return [*self.prefix, *ids, *self.suffix]
        if self.language is None:
            raise SettingsError(f"{self.name}: the model is multilingual: {self.describe_choices()}")
        token = self.languages[self.language]
        if self.language_position == "before":
            return [*self.prefix, token, *ids, *self.suffix]
        return [*self.prefix, *ids, *self.suffix, token]

    def language_prefix(self, text: str) -> str:
        """Return an empty string, because ``prompt_prefix`` is added to every sentence."""
        return ""

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids to text, without special tokens."""
        self._check(ids)
        text = self.codec.decode(list(ids))
        text = text.partition(self.stop)[0].strip() if self.stop else text
        return clean_up(text) if self.clean else text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the pieces for the given ids; ``<unused N>`` for embeddings without a piece."""
        self._check(ids)
        pieces = [self.codec.piece(int(token)) for token in ids]
        return [
            f"<unused {token}>" if piece is None else piece for token, piece in zip(ids, pieces, strict=True)
        ]

    def token_id(self, piece: str) -> int | None:
        """Return the id of a piece such as ``[MASK]``, or None if the vocabulary lacks it."""
        return self.codec.token_id(piece)

    def _check(self, ids: Sequence[int]) -> None:
        for token in ids:
            if not 0 <= token < self.vocabulary:
                raise DataError(
                    f"{self.name}: token id {token} is outside the vocabulary of {self.vocabulary} tokens"
                )

    def _check_embedded(self, ids: list[int], text: str) -> list[int]:
        if ids and max(ids) >= self.vocabulary:
            piece = self.codec.piece(max(ids))
            raise DataError(
                f"{text[:40]!r}: {self.name} has no embedding for {piece}; remove it from the text"
            )
        return ids

    def code(self, language: str) -> str:
        """Return the model's code of a language, given by this code or an unambiguous alternative code."""
        codes = self.languages or self.tags
        if language in codes:
            return language
        matches = [code for code in codes if code.split("_")[0] == language]
        matches = matches or [code for code in codes if same_language(code, language)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise SettingsError(
                f"{self.name}: language {language!r} is ambiguous: choose one of {', '.join(matches)}"
            )
        raise SettingsError(f"{self.name}: no language {language!r}; {self.describe_choices(language)}")

    def describe_choices(self, language: str = "") -> str:
        """Return the available languages and how to select one, for messages."""
        codes = sorted(self.languages or self.tags)
        close = difflib.get_close_matches(language, codes, n=3, cutoff=0.4) if language else []
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        remainder = (
            f" and {len(codes) - MAX_LISTED_LANGUAGES} more (`uwaga info` lists them)"
            if len(codes) > MAX_LISTED_LANGUAGES
            else ""
        )
        return (
            f"{hint}choose with source and target (--from and --to) from "
            f"{' '.join(codes[:MAX_LISTED_LANGUAGES])}{remainder}"
        )


def _check_unicode(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise DataError(f"{text[:40]!r}: not valid Unicode; remove the lone surrogates") from None


CLEAN_UP_REPLACEMENTS = (
    *((f" {mark}", mark) for mark in ".?!,"),
    (" ' ", "'"),
    *((f" {ending}", ending) for ending in ("n't", "'m", "'s", "'ve", "'re")),
)


def clean_up(text: str) -> str:
    """Return English text without spaces before punctuation and contractions."""
    for old_text, new_text in CLEAN_UP_REPLACEMENTS:
        text = text.replace(old_text, new_text)
    return text
