"""The tokeniser of a language model that is prompted to translate."""

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

BYTE_LEVEL_LINE_BREAK = "\u010a"
"""A line break in the tokens of byte-level BPE."""


@dataclass(frozen=True)
class PromptTokeniser:
    """The source tokeniser of a language model that is prompted to translate a text.

    A text has the same tokens as within the complete prompt, except that special tokens spelt in the text are
    encoded as plain text.

    Attributes:
        inner: the model's tokeniser.
        template: the model's chat template; None for a model that continues the prompt itself.
        prompt: the translation prompt.
        location: the model, for messages.
        languages: codes of the source and target languages; None before they are selected.
    """

    inner: FramedTokeniser
    template: ChatTemplate | None
    prompt: TranslationPrompt
    location: str
    languages: tuple[str, str] | None = None

    def between(self, source: str | None, target: str | None) -> PromptTokeniser:
        """Return the tokeniser for a source and a target language."""
        if source is None or target is None:
            missing_option = "source (--from)" if source is None else "target (--to)"
            raise SettingsError(
                f"{self.location}: a language model needs both languages to translate; give the "
                f"{missing_option}, or use `uwaga generate` to continue texts"
            )
        return replace(self, languages=(source, target))

    @property
    def symbols(self) -> Symbols:
        """The special token ids; a target ends with any token that ends the assistant's message or a text."""
        symbols = self.inner.symbols
        other_ends = tuple(token for token in symbols.ends if token != self.end)
        return replace(symbols, end=self.end, other_ends=other_ends)

    @property
    def vocabulary(self) -> int:
        """Number of rows of the model's embeddings."""
        return self.inner.vocabulary

    @property
    def model_bytes(self) -> bytes:
        """Serialisation of everything that determines the ids."""
        return self.inner.model_bytes + repr((self.template, self.prompt.name, self.languages)).encode()

    def encode(self, text: str) -> list[int]:
        """Return the ids that a text has inside the prompt, without the prompt's own ids."""
        prefix, prefix_length = self._shared_prefix
        return self.inner.encode_plain(prefix + text)[prefix_length:]

    def add_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """Return the ids, surrounded by the ids of the prompt."""
        prefix, suffix = self.frame
        return [*prefix, *ids, *suffix]

    def language_prefix(self, text: str) -> str:
        """Return an empty string, because the prompt is added to every text."""
        return ""

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids to text, without special tokens."""
        return self.inner.decode(ids)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the vocabulary pieces for the given ids."""
        return self.inner.pieces(ids)

    @cached_property
    def frame(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The ids before and after a text."""
        text_before, text_after = self._prompt_parts
        context = "a"
        full_ids, context_ids = (
            self.inner.codec.encode(context + text_after),
            self.inner.codec.encode(context),
        )
        start = self.inner.prefix if self.template is None else ()  # a template contains it
        return (*start, *self.inner.codec.encode(text_before.rstrip(" "))), tuple(
            full_ids[len(context_ids) :]
        )

    @cached_property
    def end(self) -> int:
        """Id of the token that ends the assistant's message or, without a chat template, any text."""
        if self.template is None:
            return self.inner.symbols.end
        from uwaga.tokenizers.prompt import find_answer_end

        return find_answer_end(self.inner, self.template)

    def target_symbols(self) -> Symbols:
        """Return the special token ids of the target.

        The tokens that contain the ``stop`` text of the prompt also end a target.
        """
        codec, stop, symbols = self.inner.codec, self.prompt.stop, self.symbols
        if not stop:
            return symbols
        spellings = (stop, stop.replace("\n", BYTE_LEVEL_LINE_BREAK), "<0x0A>")
        without_text, with_text = list[int](), list[int]()
        for token in range(min(codec.size, self.vocabulary)):
            if any(spelling in (codec.piece(token) or "") for spelling in spellings):
                text_before_stop, separator, _ = codec.decode([token]).partition(stop)
                if separator and token not in symbols.ends:
                    (with_text if text_before_stop.strip() else without_text).append(token)
        return replace(symbols, other_ends=(*symbols.other_ends, *without_text), stops=tuple(with_text))

    @cached_property
    def _prompt_parts(self) -> tuple[str, str]:
        if self.languages is None:
            raise SettingsError(
                f"{self.location}: give the languages with source and target (--from and --to)"
            )
        return self.prompt.render(self.languages, self.template)

    @cached_property
    def _shared_prefix(self) -> tuple[str, int]:
        """The end of the prompt before the text, and its number of tokens without the text.

        This end may share tokens with the text. It begins with the last line break before the text, because
        no token extends across a line break. Spaces before the text become part of the text's first token.
        """
        text_before, _ = self._prompt_parts
        position = len(text_before.rstrip("\n")) if text_before.endswith("\n") else text_before.rfind("\n")
        prefix = text_before[max(position, 0) :]
        return prefix, len(self.inner.encode_plain(prefix.rstrip(" ")))
