"""The tokeniser of a language model that translates by a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from uwaga.decoder import Symbols
from uwaga.errors import SettingsError
from uwaga.tokenizers.framed import FramedTokeniser

if TYPE_CHECKING:
    from uwaga.tokenizers.chat_template import ChatTemplate
    from uwaga.tokenizers.prompt import TranslationPrompt

BYTE_LEVEL_LINE = "\u010a"
"""A line break in the tokens of byte-level BPE."""


@dataclass(frozen=True)
class PromptTokeniser:
    """The source side of a language model that translates: a text's tokens within those of a prompt.

    The tokens are those of the whole prompt, except that special tokens spelt in the text are plain text.

    Attributes:
        inner: the model's tokeniser.
        template: the model's chat template; None for a model that continues the prompt itself.
        prompt: how it is asked for a translation.
        where: the model, for messages.
        languages: codes of source and target, None before they are chosen.
    """

    inner: FramedTokeniser
    template: ChatTemplate | None
    prompt: TranslationPrompt
    where: str
    languages: tuple[str, str] | None = None

    def between(self, source: str | None, target: str | None) -> PromptTokeniser:
        """Return the tokeniser for two languages."""
        if source is None or target is None:
            missing = "source (--from)" if source is None else "target (--to)"
            raise SettingsError(
                f"{self.where}: a language model translates between the languages that it is asked for: "
                f"name the {missing}; `uwaga generate` continues texts"
            )
        return replace(self, languages=(source, target))

    @property
    def symbols(self) -> Symbols:
        """The special token ids; a target ends where the assistant's message or a text ends."""
        inner = self.inner.symbols
        others = tuple(token for token in inner.ends if token != self.end)
        return replace(inner, end=self.end, other_ends=others)

    @property
    def vocabulary(self) -> int:
        """Rows of the model's embeddings."""
        return self.inner.vocabulary

    @property
    def model_bytes(self) -> bytes:
        """Serialisation of everything that determines the ids."""
        return self.inner.model_bytes + repr((self.template, self.prompt.name, self.languages)).encode()

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text as it stands in the prompt, without those of the prompt."""
        lead, begun = self._lead
        return self.inner.encode_plain(lead + text)[begun:]

    def add_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """Return the ids with those of the prompt around them."""
        before, after = self.frame
        return [*before, *ids, *after]

    def language_prefix(self, text: str) -> str:
        """Return an empty string: the prompt is around every text anyway."""
        return ""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, without special tokens."""
        return self.inner.decode(ids)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the pieces of ids as they are in the vocabulary."""
        return self.inner.pieces(ids)

    @cached_property
    def frame(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The ids before and after a text."""
        before, after = self._around
        lead = "a"
        whole, begun = self.inner.codec.encode(lead + after), self.inner.codec.encode(lead)
        first = self.inner.prefix if self.template is None else ()  # else the template spells it
        return (*first, *self.inner.codec.encode(before.rstrip(" "))), tuple(whole[len(begun) :])

    @cached_property
    def end(self) -> int:
        """The token that ends the assistant's message, or a text."""
        if self.template is None:
            return self.inner.symbols.end
        from uwaga.tokenizers.prompt import answer_end

        return answer_end(self.inner, self.template)

    def answer_symbols(self) -> Symbols:
        """Return the special token ids of the target side: tokens that contain the stop end a target, too."""
        codec, stop, symbols = self.inner.codec, self.prompt.stop, self.symbols
        if not stop:
            return symbols
        spelt = (stop, stop.replace("\n", BYTE_LEVEL_LINE), "<0x0A>")
        silent, spoken = list[int](), list[int]()
        for token in range(min(codec.size, self.vocabulary)):
            if any(each in (codec.piece(token) or "") for each in spelt):
                before, found, _ = codec.decode([token]).partition(stop)
                if found and token not in symbols.ends:
                    (spoken if before.strip() else silent).append(token)
        return replace(symbols, other_ends=(*symbols.other_ends, *silent), stops=tuple(spoken))

    @cached_property
    def _around(self) -> tuple[str, str]:
        if self.languages is None:
            raise SettingsError(f"{self.where}: name the languages, with source and target (--from and --to)")
        return self.prompt.around(self.languages, self.template)

    @cached_property
    def _lead(self) -> tuple[str, int]:
        """The part of the prompt that may share tokens with the text, and its number of tokens alone.

        It begins with the last line break, which no token crosses; the blanks before the text go into the
        text's first token.
        """
        before, _ = self._around
        at = len(before.rstrip("\n")) if before.endswith("\n") else before.rfind("\n")
        lead = before[max(at, 0) :]
        return lead, len(self.inner.encode_plain(lead.rstrip(" ")))
