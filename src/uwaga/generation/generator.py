"""Continuation of texts with a decoder-only model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, Unpack, cast, overload

from uwaga.decoder import Decoder
from uwaga.errors import DataError, SettingsError, TextTooLongError
from uwaga.results.translation import DraftUse, Hypothesis, JsonRecord, json_number, shorten
from uwaga.search import SearchInput, SearchOptions, search
from uwaga.tokenizers.chat import ChatTokeniser
from uwaga.tokenizers.chat_template import ChatTemplate, Message
from uwaga.tokenizers.framed import FramedTokeniser
from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.attention import AttendedText, all_attentions
from uwaga.translator.model import summary
from uwaga.translator.stream import stream_text
from uwaga.translator.text import TokenPair

if TYPE_CHECKING:
    from uwaga.translator.call_options import GenerateOptions, GeneratorFields

Chat = Sequence[Message]
"""Messages, each a mapping with the ``role`` ``system``, ``user`` or ``assistant``, and its ``content``."""


@dataclass(frozen=True, repr=False)
class Continuation(JsonRecord):
    """The continuation of a prompt; its ``str()`` is the new text.

    Attributes:
        prompt: the prompt.
        text: the new text, with its leading white space.
        score: ``log_prob`` after length normalisation.
        log_prob: the sum of ``token_scores``.
        tokens: the new tokens.
        token_scores: the natural log-probabilities of ``tokens`` and, if not ``truncated``, of the end
            symbol.
        truncated: whether a limit cut the continuation.
        alternatives: the other continuations of the n-best list.
        entropies: the entropy of the model's distribution at each token, in nats, if requested.
        draft: how the drafts of a smaller model were used; None without drafts.
    """

    prompt: str
    text: str
    score: float
    log_prob: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    truncated: bool
    alternatives: tuple[Continuation, ...] = field(default=())
    entropies: tuple[float, ...] = ()
    draft: DraftUse | None = None

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        notes = [f"score={self.score:.4g}", f"{len(self.tokens)} tokens"]
        notes += ["truncated"] if self.truncated else []
        notes += [f"{len(self.alternatives)} alternatives"] if self.alternatives else []
        return f"Continuation({shorten(self.prompt)!r}, {shorten(self.text)!r}, {', '.join(notes)})"

    @property
    def full_text(self) -> str:
        """The prompt and its continuation."""
        return self.prompt + self.text

    def to_dict(self) -> dict[str, object]:
        """Return the fields as JSON values, without ``alternatives``, ``entropies`` or ``draft`` if there are
        none.

        Numbers are rounded to six decimals, and the infinite score of an impossible token is None.
        """
        values: dict[str, object] = {
            "prompt": self.prompt,
            "text": self.text,
            "score": json_number(self.score),
            "log_prob": json_number(self.log_prob),
            "tokens": list(self.tokens),
            "token_scores": [json_number(score) for score in self.token_scores],
            "truncated": self.truncated,
        }
        if self.entropies:
            values["entropies"] = [json_number(entropy) for entropy in self.entropies]
        if self.draft is not None:
            values["draft"] = self.draft.to_dict()
        if self.alternatives:
            values["alternatives"] = [alternative.to_dict() for alternative in self.alternatives]
        return values


class _Prompt(NamedTuple):
    """A prompt to continue: its text, its token ids, a function that decodes new tokens, and the model."""

    text: str
    ids: list[int]
    new_text: Callable[[Sequence[int]], str]
    decoder: Decoder


class TextGenerator:
    """A decoder with its tokeniser, which continues texts.

    It has no state between calls, so threads may share it. The continuation of a prompt does not depend on
    the other prompts of a call.

    Args:
        decoder: the model, whose sources are prompts; ``max_source`` is the number of positions, including
            those of the continuation.
        tokeniser: the tokeniser of the model.
        decoding: default search options, whose lengths apply to the continuation.
        chat: the model's chat template, or None if it has none.
        drafter: a smaller model with the same vocabulary, which drafts for greedy searches.
    """

    def __init__(
        self,
        decoder: Decoder,
        tokeniser: Subwords,
        decoding: SearchOptions,
        chat: ChatTemplate | None = None,
        drafter: Decoder | None = None,
    ) -> None:
        self.decoder, self.tokeniser, self.decoding, self.chat = decoder, tokeniser, decoding, chat
        self.drafter = drafter

    def __repr__(self) -> str:
        return f"TextGenerator({summary(self.decoder)})"

    @classmethod
    def load(cls, name: str | Path, **options: Unpack[GeneratorFields]) -> TextGenerator:
        """Load a decoder-only model.

        Args:
            name: a model folder, which may be int8, or a Hugging Face name.
            **options: ``device``, ``dtype``, ``threads``, ``engine``, ``memory`` and ``draft`` of
                :class:`uwaga.settings.LoadOptions`.

        Raises:
            ModelError: there is no such model, or it is incomplete, damaged or of another kind.
            SettingsError: an option is unknown or has an invalid value.
            MissingExtraError: the model needs torch or `tokenizers`, which is not installed.
        """
        from uwaga.settings.load_options import LoadOptions
        from uwaga.translator.loading import load_generator

        return cls(**load_generator(name, LoadOptions.from_mapping(options))._asdict())

    @overload
    def generate(  # type: ignore[overload-overlap]  # a str is a sequence of prompts too; it comes first
        self, prompt: str | Chat, **options: Unpack[GenerateOptions]
    ) -> Continuation: ...

    @overload
    def generate(
        self, prompt: Sequence[str | Chat], **options: Unpack[GenerateOptions]
    ) -> list[Continuation]: ...

    def generate(
        self, prompt: str | Chat | Sequence[str | Chat], **options: Unpack[GenerateOptions]
    ) -> Continuation | list[Continuation]:
        """Return the continuations of one or more texts, or the answers to one or more chats.

        A continuation ends with an end symbol, at ``max_length``, or at the model's last position.

        A model whose settings request sampling (``do_sample`` in a checkpoint's generation_config.json)
        samples, unless ``beam`` or ``sample=False`` requests the most probable continuation.

        Args:
            prompt: a text, a chat, or a sequence of them. White space in a text is significant; with an empty
                text, the model decides how to begin. A chat is a list of messages ``{"role": "user",
                "content": ...}``; its continuation is the assistant's next message, whose ``prompt`` is the
                chat as rendered by the model's template.
            **options: search options by name. The model's settings replace values that are missing or None.

                - ``max_length``: maximum number of new tokens.
                - ``min_length``: minimum number of new tokens.
                - ``beam``: beam size, 1 for greedy search.
                - ``nbest``: number of continuations of a prompt; all but the best are its ``alternatives``.
                - ``length_penalty``: exponent of the length that scores are divided by.
                - ``no_repeat_ngram``: size of the n-grams that must not be repeated in prompt and new text, 0
                  for off.
                - ``sample``: whether to draw ``nbest`` continuations at random instead of searching for the
                  best.
                - ``temperature``: temperature of the distribution that tokens are drawn from.
                - ``top_k``: draw from the k most probable tokens only, 0 for all.
                - ``top_p``: draw only from the smallest set of most probable tokens with at least this total
                  probability.
                - ``seed``: determines the draws, together with the prompt; None for new draws at every call.
                - ``entropy``: whether to return the entropy of the model's distribution at each token.
                - ``batch_tokens``: number of prompt tokens processed together, including padding and beams.

                These options are rarely needed; :class:`uwaga.search.SearchOptions` describes them:

                - ``length_formula``: ``average``, ``gnmt`` or ``none``: how scores are normalised by length.
                - ``early_stopping``: True, False or ``estimate``: when a beam search stops.
                - ``max_ratio``, ``max_extra``: the number of new tokens is at most the number of prompt
                  tokens times ``max_ratio``, plus ``max_extra``.
                - ``force_end``: whether to force the end symbol at the length limit.
                - ``score_forced``: whether to include forced tokens in ``score``.
                - ``renormalise``: whether to renormalise probabilities after banning tokens.
                - ``unknown``: whether to permit the unknown token.
                - ``banned``: ids of tokens that are never produced.
                - ``first``: id of the token that every continuation begins with.

        Returns:
            a continuation for a text or a chat; for a sequence, a list of them in the same order.

        Raises:
            TextTooLongError: a prompt is longer than the model's positions.
            SettingsError: an option is unknown or has an invalid value, or the model has no template for a
                chat.
            ModelError: the chat template cannot be rendered.
            DataError: a prompt is neither a string nor messages, or not valid Unicode.
        """
        search_options = self.options(**options)
        if isinstance(prompt, str) or _is_chat(prompt):
            return self.continue_all([prompt], search_options, ["the prompt"])[0]
        prompts = cast("Sequence[str | Chat]", prompt)
        return self.continue_all(prompts, search_options, [f"prompt {n}" for n in range(1, len(prompts) + 1)])

    def options(self, **options: Unpack[GenerateOptions]) -> SearchOptions:
        """Return the model's search options with the given changes; see :meth:`generate`.

        Raises:
            SettingsError: an option is unknown or has an invalid value.
        """
        return self.decoding.changed(options)

    def continue_all(
        self, prompts: Sequence[str | Chat], options: SearchOptions, names: Sequence[str]
    ) -> list[Continuation]:
        """Return the continuations of prompts, as :meth:`generate` does.

        Args:
            prompts: the texts or chats.
            options: search options, as returned by :meth:`options`.
            names: names of the prompts in error messages.
        """
        _check_prompt_options(options)
        prepared_prompts = [
            self._prepare_prompt(prompt, name) for prompt, name in zip(prompts, names, strict=True)
        ]
        nbest_lists: list[list[Hypothesis]] = [[] for _ in prepared_prompts]
        # Texts and chats have different decoders.
        for decoder in dict.fromkeys(prepared_prompt.decoder for prepared_prompt in prepared_prompts):
            indices = [
                index
                for index, prepared_prompt in enumerate(prepared_prompts)
                if prepared_prompt.decoder is decoder
            ]
            sentences = [
                SearchInput(prepared_prompts[index].ids, history=prepared_prompts[index].ids)
                for index in indices
            ]
            results = search(decoder, sentences, options, drafter=self.drafter)
            for index, hypotheses in zip(indices, results, strict=True):
                nbest_lists[index] = hypotheses
        return [
            self._continuation(prepared_prompt.text, hypotheses, prepared_prompt.new_text)
            for prepared_prompt, hypotheses in zip(prepared_prompts, nbest_lists, strict=True)
        ]

    def check_chats(self) -> None:
        """Check that the model supports chats.

        Raises:
            SettingsError: the model has no chat template.
            ModelError, MissingExtraError: the template cannot be rendered.
        """
        _ = self._chat

    def prompt_ids(self, prompt: str | Chat) -> list[int]:
        """Return the token ids of a prompt or of a chat, as the model reads them.

        Raises:
            TextTooLongError, SettingsError, ModelError, DataError: as in :meth:`generate`.
        """
        return self._prepare_prompt(prompt, "the prompt").ids

    @overload
    def attend(  # type: ignore[overload-overlap]
        self, text: str
    ) -> AttendedText: ...

    @overload
    def attend(self, text: Sequence[str]) -> list[AttendedText]: ...

    def attend(self, text: str | Sequence[str]) -> AttendedText | list[AttendedText]:
        """Return all self-attention matrices of one or more texts.

        Args:
            text: a prompt, or a prompt with its continuation (:attr:`Continuation.full_text`).

        Returns:
            the tokens, and ``attentions``, whose ``decoder`` (layers, heads, query, key) has a query and a
            key for each token. A query is the step that reads the token and predicts the next one, so it
            attends to no later token.

        Raises:
            TextTooLongError: a text is longer than the model's positions.
            DataError: a text is not a string, or not valid Unicode.
            SettingsError: the decoder does not return attention weights.
        """
        texts = [text] if isinstance(text, str) else list(text)
        ids = [self._ids(text, f"text {number}") for number, text in enumerate(texts, start=1)]
        pairs = [TokenPair(row, [self.decoder.symbols.start]) for row in ids]
        attended_texts = [
            AttendedText(text, tuple(self.tokeniser.pieces(row)), matrices)
            for text, row, matrices in zip(texts, ids, all_attentions(self.decoder, pairs), strict=True)
        ]
        return attended_texts[0] if isinstance(text, str) else attended_texts

    def stream(self, prompt: str | Chat, **options: Unpack[GenerateOptions]) -> Generator[str, None, bool]:
        """Continue a text or answer a chat, and yield the new text piece by piece as it is generated.

        The joined pieces equal ``generate(prompt, beam=1, ...).text`` or, if the options or the model's
        settings request sampling, the text sampled with the same seed. The options are those of
        :meth:`generate` for a single hypothesis. The generator returns whether a limit cut the continuation.

        Raises:
            UwagaError: as in :meth:`generate`, before the first piece.
        """
        return self.stream_prompt(prompt, self.decoding.for_stream(options), "the prompt")

    def stream_prompt(
        self, prompt: str | Chat, options: SearchOptions, name: str
    ) -> Generator[str, None, bool]:
        """Continue a text or answer a chat, and yield the new text as :meth:`stream` does.

        Args:
            prompt: the text or chat.
            options: as returned by :meth:`uwaga.search.SearchOptions.for_stream`.
            name: name of the prompt in error messages.
        """
        options.check_streams()
        _check_prompt_options(options)
        prepared_prompt = self._prepare_prompt(prompt, name)
        return stream_text(
            prepared_prompt.decoder,
            SearchInput(prepared_prompt.ids, history=prepared_prompt.ids),
            options,
            prepared_prompt.new_text,
            self.drafter,
        )

    def _prepare_prompt(self, prompt: str | Chat, name: str) -> _Prompt:
        if not _is_chat(prompt):
            ids = self._ids(prompt, name)
            return _Prompt(str(prompt), ids, self._text_after(ids), self.decoder)
        chat, decoder = self._chat
        text = chat.text(prompt, name)
        return _Prompt(text, self._check_length(chat.encode(text), name), self.tokeniser.decode, decoder)

    @cached_property
    def _chat(self) -> tuple[ChatTokeniser, Decoder]:
        """The tokeniser for chats, and the model, whose end symbols are the tokens that end an answer."""
        if self.chat is None or not isinstance(self.tokeniser, FramedTokeniser):
            raise SettingsError(
                "the model has no chat template, so it cannot chat: give it a text to continue instead of "
                "messages"
            )
        chat, decoder = ChatTokeniser(self.tokeniser, self.chat), copy.copy(self.decoder)
        end, *other_ends = chat.ends
        writable_decoder: Any = decoder  # a protocol's attribute is read-only
        writable_decoder.symbols = replace(decoder.symbols, end=end, other_ends=tuple(other_ends))
        return chat, decoder

    def _text_after(self, prompt: Sequence[int]) -> Callable[[Sequence[int]], str]:
        """Return a function that decodes the tokens of a continuation.

        Some tokenisers drop a space at the start of a text, so the end of the prompt, from its last token
        that has a text, is decoded together with the new tokens.
        """
        decode = self.tokeniser.decode
        first_index = next(
            (index for index in reversed(range(len(prompt))) if decode(prompt[index:])), len(prompt)
        )
        end = list(prompt[first_index:])
        skipped_length = len(decode(end))
        return lambda tokens: decode([*end, *tokens])[skipped_length:]

    def _ids(self, prompt: object, name: str) -> list[int]:
        if not isinstance(prompt, str):
            raise DataError(f"{name} is not a string but {type(prompt).__name__}")
        ids = self.tokeniser.add_special_tokens(self.tokeniser.encode(prompt))
        return self._check_length(ids or [self.tokeniser.symbols.start], name)

    def _check_length(self, ids: list[int], name: str) -> list[int]:
        """Return the ids of a prompt, or raise TextTooLongError if the model has too few positions
        for them.
        """
        limit = self.decoder.max_source
        if limit is not None and len(ids) > limit:
            raise TextTooLongError(
                f"{name} has {len(ids)} tokens, but the model has only {limit} positions: shorten it"
            )
        return ids

    def _continuation(
        self, prompt: str, hypotheses: Sequence[Hypothesis], decode: Callable[[Sequence[int]], str]
    ) -> Continuation:
        continuations = [
            Continuation(
                prompt=prompt,
                text=decode(hypothesis.tokens),
                score=hypothesis.score,
                log_prob=hypothesis.log_prob,
                tokens=tuple(self.tokeniser.pieces(hypothesis.tokens)),
                token_scores=hypothesis.token_scores,
                truncated=hypothesis.truncated,
                entropies=hypothesis.entropies,
                draft=hypothesis.draft,
            )
            for hypothesis in hypotheses
        ]
        return replace(continuations[0], alternatives=tuple(continuations[1:]))


def _is_chat(prompt: object) -> TypeGuard[Chat]:
    """Return whether a prompt is a chat, rather than a text or a sequence of prompts."""
    return isinstance(prompt, Sequence) and bool(prompt) and isinstance(prompt[0], Mapping)


def _check_prompt_options(options: SearchOptions) -> None:
    """Raise SettingsError for options that apply only to translation."""
    if options.attention or options.alignment or options.start is not None:
        raise SettingsError(
            "attention, alignment and start are for translators: a continuation has no source, and begins "
            "where its prompt ends; leave them out (`attend` returns the model's attention in a text)"
        )
    if options.mbr:
        raise SettingsError(
            "mbr is only for translators, since continuations of a prompt differ: leave it out"
        )
