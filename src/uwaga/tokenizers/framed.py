"""A pretrained model's tokeniser: pieces from a library, and its family's special tokens around them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from uwaga.decoder import Symbols
from uwaga.errors import DataError, SettingsError
from uwaga.languages.codes import same_language

Place = Literal["before", "behind", "start"]
"""Where a language's token goes: ``before`` the pieces, ``behind`` the end symbol, or the decoder's start."""

SHOWN = 60
"""Languages in a message."""


class Codec(Protocol):
    """Text to ids and back, without any frame."""

    @property
    def content(self) -> bytes:
        """All that decides the ids."""
        ...

    def encode(self, text: str) -> list[int]:
        """The ids of a text; a special token that the text spells is one id."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without special tokens and ids that have no piece."""
        ...

    def piece(self, token: int) -> str | None:
        """The piece of an id, None where it has none."""
        ...

    def number(self, piece: str) -> int | None:
        """The id of a piece, None where it has none."""
        ...


@dataclass(frozen=True)
class FramedTokeniser:
    """One side of a pretrained model; obeys :class:`uwaga.tokenizers.subwords.Subwords`.

    As in ``transformers``, a text that spells a special token (``<mask>``, ``</s>``) means the token.

    Attributes:
        symbols: the special token ids.
        vocabulary: rows of the model's embeddings; ids from the last piece up to here are never text.
        prefix: ids put before a text.
        suffix: ids put behind it.
        clean: whether spaces before punctuation are taken out of decoded text, as English wants it.
        prompt_prefix: text put before every sentence, such as T5's ``translate English to German: ``.
        languages: tokens of the languages of a multilingual model by code; empty in others.
        place: where the language's token goes.
        language: the code chosen, None for none.
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
    place: Place = "before"
    language: str | None = None

    @property
    def model_bytes(self) -> bytes:
        """The tokeniser's files, and what is put around a text."""
        frame = (self.symbols, self.prefix, self.suffix, self.clean)
        around = (*frame, self.prompt_prefix, self.place, self.language)
        return self.codec.content + repr(around).encode()

    @property
    def first(self) -> int | None:
        """The language's token where the model must be made to begin its target with it."""
        if self.language is None or self.place != "before":
            return None
        return self.languages[self.language]

    def with_language(self, language: str) -> FramedTokeniser:
        """The same tokeniser for texts of a language: a code, or another of the same language if unique.

        Raises:
            SettingsError: the model has no such language; lists those that it has.
        """
        code = self._code(language)
        symbols = self.symbols
        if self.place == "start":
            symbols = replace(symbols, start=self.languages[code])
        return replace(self, language=code, symbols=symbols)

    def with_prompt_prefix(self, prefix: str) -> FramedTokeniser:
        """The same tokeniser with a text before every sentence."""
        return replace(self, prompt_prefix=prefix)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without its frame.

        Raises:
            DataError: the text is not valid Unicode, or spells a special token that the model does not have.
        """
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise DataError(f"{text[:40]!r}: not valid Unicode, remove half surrogate pairs") from None
        ids = self.codec.encode(self.prompt_prefix + text)
        if ids and max(ids) >= self.vocabulary:
            piece = self.codec.piece(max(ids))
            raise DataError(
                f"{text[:40]!r}: {self.name} has no embedding for {piece}; take it out of the text"
            )
        return ids

    def add_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """The ids with the special tokens that the model expects around them.

        Raises:
            SettingsError: the model is multilingual and no language has been chosen.
        """
        if not self.languages or self.place == "start":
            return [*self.prefix, *ids, *self.suffix]
        if self.language is None:
            raise SettingsError(f"{self.name}: a model of several languages: {self.choices()}")
        token = self.languages[self.language]
        if self.place == "before":
            return [*self.prefix, token, *ids, *self.suffix]
        return [*self.prefix, *ids, *self.suffix, token]

    def language_prefix(self, text: str) -> str:
        """Nothing: ``prompt_prefix`` stands before every sentence by itself."""
        return ""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens dropped.

        Raises:
            DataError: an id is outside the vocabulary.
        """
        self._check(ids)
        text = self.codec.decode(list(ids))
        return clean_up(text) if self.clean else text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces of ids; a row of the embeddings that no piece belongs to is ``<unused N>``.

        Raises:
            DataError: an id is outside the vocabulary.
        """
        self._check(ids)
        found = [self.codec.piece(int(token)) for token in ids]
        return [
            f"<unused {token}>" if piece is None else piece for token, piece in zip(ids, found, strict=True)
        ]

    def number(self, piece: str) -> int | None:
        """The id of a piece such as ``[MASK]``, None where the vocabulary lacks it."""
        return self.codec.number(piece)

    def _check(self, ids: Sequence[int]) -> None:
        for token in ids:
            if not 0 <= token < self.vocabulary:
                raise DataError(
                    f"{self.name}: token id {token} is outside the vocabulary of {self.vocabulary}"
                )

    def _code(self, language: str) -> str:
        if language in self.languages:
            return language
        near = [code for code in self.languages if code.split("_")[0] == language]
        near = near or [code for code in self.languages if same_language(code, language)]
        if len(near) == 1:
            return near[0]
        if near:
            raise SettingsError(f"{self.name}: language {language!r} is one of {', '.join(near)}: say which")
        raise SettingsError(f"{self.name}: no language {language!r}; {self.choices(language)}")

    def choices(self, language: str = "") -> str:
        """How to choose a language, for messages."""
        codes = sorted(self.languages)
        close = difflib.get_close_matches(language, codes, n=3, cutoff=0.4) if language else []
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        rest = f" and {len(codes) - SHOWN} more (`uwaga info` lists them)" if len(codes) > SHOWN else ""
        return (
            f"{hint}choose with source_language and target_language (--from and --to) from "
            f"{' '.join(codes[:SHOWN])}{rest}"
        )


CLEANING = (
    *((f" {mark}", mark) for mark in ".?!,"),
    (" ' ", "'"),
    *((f" {ending}", ending) for ending in ("n't", "'m", "'s", "'ve", "'re")),
)


def clean_up(text: str) -> str:
    """English text without the spaces before punctuation and short forms that a tokeniser left."""
    for before, after in CLEANING:
        text = text.replace(before, after)
    return text
