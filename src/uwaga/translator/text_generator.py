"""Continue texts with a decoder that has no source (M18)."""

from __future__ import annotations

import secrets
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import overload

from uwaga.contracts import Decoder, Hypothesis
from uwaga.decoding import SearchOptions, search, stream
from uwaga.errors import DataError, SettingsError, TextTooLongError
from uwaga.text.subwords import Subwords
from uwaga.translator.streaming import GrowingText


@dataclass(frozen=True)
class Continuation:
    """What a model wrote behind a prompt.

    ``text`` is what is new, with its white space in front. ``token_scores`` are the natural log-probabilities
    of ``tokens`` and, unless ``truncated`` by a limit, of the end symbol; ``log_prob`` is their sum and
    ``score`` that sum after length normalisation. ``alternatives`` holds the rest of the n-best list.
    """

    prompt: str
    text: str
    score: float
    log_prob: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    truncated: bool
    alternatives: tuple[Continuation, ...] = field(default=())

    @property
    def whole(self) -> str:
        """The prompt with its continuation."""
        return self.prompt + self.text


class TextGenerator:
    """A decoder with its tokeniser, ready to continue texts.

    It holds no state between calls, so that threads may share it. What a prompt continues with does not
    depend on the prompts it comes with.

    Args:
        decoder: the model as search sees it; a source is a prompt, and ``max_source`` counts all positions,
            those of the continuation too.
        tokeniser: from text to ids and back.
        decoding: how to search unless a call says otherwise; lengths are of the continuation.
    """

    def __init__(self, decoder: Decoder, tokeniser: Subwords, decoding: SearchOptions) -> None:
        self.decoder, self.tokeniser, self.decoding = decoder, tokeniser, decoding

    @classmethod
    def load(
        cls,
        name: str | Path,
        device: str = "auto",
        dtype: str = "auto",
        threads: int = 0,
        engine: str = "auto",
    ) -> TextGenerator:
        """Load a GPT-2 model.

        Args:
            name: a model folder, an int8 one too, or a Hugging Face name.
            device: as in :meth:`uwaga.translator.Translator.load`.
            dtype: as there.
            threads: as there.
            engine: as there.

        Raises:
            ModelError: there is no such model, or it is incomplete, damaged or of another kind.
            SettingsError: an impossible device, dtype, engine or number of threads.
            MissingExtraError: the model needs torch or `tokenizers`, which is not installed.
        """
        from uwaga.translator.loading import LoadOptions, load_generator

        return cls(*load_generator(name, LoadOptions(device, dtype, threads, engine)))

    @overload
    def generate(  # type: ignore[overload-overlap]  # a str is a Sequence[str] too; it comes first
        self,
        prompt: str,
        *,
        max_length: int | None = ...,
        min_length: int | None = ...,
        beam: int | None = ...,
        nbest: int | None = ...,
        length_penalty: float | None = ...,
        no_repeat_ngram: int | None = ...,
        sample: bool | None = ...,
        temperature: float | None = ...,
        top_k: int | None = ...,
        top_p: float | None = ...,
        seed: int | None = ...,
        batch_tokens: int | None = ...,
    ) -> Continuation: ...

    @overload
    def generate(
        self,
        prompt: Sequence[str],
        *,
        max_length: int | None = ...,
        min_length: int | None = ...,
        beam: int | None = ...,
        nbest: int | None = ...,
        length_penalty: float | None = ...,
        no_repeat_ngram: int | None = ...,
        sample: bool | None = ...,
        temperature: float | None = ...,
        top_k: int | None = ...,
        top_p: float | None = ...,
        seed: int | None = ...,
        batch_tokens: int | None = ...,
    ) -> list[Continuation]: ...

    def generate(
        self,
        prompt: str | Sequence[str],
        *,
        max_length: int | None = None,
        min_length: int | None = None,
        beam: int | None = None,
        nbest: int | None = None,
        length_penalty: float | None = None,
        no_repeat_ngram: int | None = None,
        sample: bool | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        batch_tokens: int | None = None,
    ) -> Continuation | list[Continuation]:
        """Continue a text, or several (M23 to M25).

        A continuation ends where the model ends it, at ``max_length``, or where the model's positions end.

        Args:
            prompt: one text, or a sequence of them. Its white space counts; an empty one leaves it to the
                model what to begin with.
            max_length: most new tokens. What is None here is as the model's own settings say.
            min_length: fewest new tokens.
            beam: width of the beam, 1 for greedy.
            nbest: how many continuations of a prompt; the others are its ``alternatives``.
            length_penalty: exponent of the length that scores are divided by.
            no_repeat_ngram: no n-gram of this size twice in what is new, 0 for off.
            sample: draw ``nbest`` continuations at random instead of searching for the best.
            temperature: of the distribution drawn from.
            top_k: draw from the k most probable tokens only, 0 for all.
            top_p: draw from the fewest most probable tokens of at least this probability.
            seed: decides the draws, together with the prompt alone; None for new ones at every call.
            batch_tokens: prompt tokens worked on together, padding and beams counted.

        Returns:
            a continuation for a text, a list of them, in the same order, for a sequence.

        Raises:
            TextTooLongError: a prompt is longer than the model's positions.
            SettingsError: an impossible option.
            DataError: a prompt is no text, or not valid Unicode.
        """
        options = self.options(
            max_length=max_length,
            min_length=min_length,
            beam=beam,
            nbest=nbest,
            length_penalty=length_penalty,
            no_repeat_ngram=no_repeat_ngram,
            sample=sample,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
            batch_tokens=batch_tokens,
        )
        if isinstance(prompt, str):
            return self.continue_all([prompt], options, ["the prompt"])[0]
        return self.continue_all(prompt, options, [f"prompt {n}" for n in range(1, len(prompt) + 1)])

    def options(self, **values: object) -> SearchOptions:
        """The model's own decoding settings with what is not None in ``values`` instead.

        Raises:
            SettingsError: an unknown name, or an impossible value.
        """
        wanted = values.get("sample")
        samples = self.decoding.sample if wanted is None else wanted
        if samples and values.get("seed") is None:
            values["seed"] = secrets.randbits(32)
        if not samples and self.decoding.sample:  # the shape of a distribution that nothing is drawn from
            values = {"temperature": 1.0, "top_k": 0, "top_p": 1.0} | {
                name: value for name, value in values.items() if value is not None
            }
        return self.decoding.changed(values)

    def continue_all(
        self, prompts: Sequence[str], options: SearchOptions, names: Sequence[str]
    ) -> list[Continuation]:
        """As :meth:`generate`, with options from :meth:`options`; ``names`` are for error messages."""
        sources = [self._ids(prompt, name) for prompt, name in zip(prompts, names, strict=True)]
        bounded = [self._bounded(options, len(source)) for source in sources]
        found: list[list[Hypothesis]] = [[] for _ in sources]
        for limits in dict.fromkeys(bounded):
            numbers = [number for number, one in enumerate(bounded) if one == limits]
            for number, hypotheses in zip(
                numbers, search(self.decoder, [sources[number] for number in numbers], limits), strict=True
            ):
                found[number] = hypotheses
        return [self._continuation(prompt, ways) for prompt, ways in zip(prompts, found, strict=True)]

    def stream(
        self,
        prompt: str,
        *,
        max_length: int | None = None,
        min_length: int | None = None,
        no_repeat_ngram: int | None = None,
        sample: bool | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
    ) -> Generator[str, None, bool]:
        """Continue a text and give out what is new piece by piece as it grows.

        Joined, the pieces are ``generate(prompt, beam=1, ...).text``. What the generator returns at its end
        is whether a limit cut the continuation.

        Raises:
            TextTooLongError, SettingsError, DataError: as :meth:`generate`, before the first piece.
        """
        options = self.options(
            beam=1,
            nbest=1,
            max_length=max_length,
            min_length=min_length,
            no_repeat_ngram=no_repeat_ngram,
            sample=sample,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
        )
        return self.stream_prompt(prompt, options, "the prompt")

    def stream_prompt(self, prompt: str, options: SearchOptions, name: str) -> Generator[str, None, bool]:
        """As :meth:`stream`, with options from :meth:`options`; ``name`` is for error messages."""
        if options.rows != 1:
            raise SettingsError(
                "streaming needs beam 1 or a single sample: a beam decides its tokens at the end"
            )
        source = self._ids(prompt, name)
        return self._pieces(source, self._bounded(options, len(source)))

    def _pieces(self, source: Sequence[int], options: SearchOptions) -> Generator[str, None, bool]:
        growing = GrowingText(self.tokeniser.decode)
        truncated = False
        for event in stream(self.decoder, [source], options):
            if event.hypothesis is not None:
                piece = growing.finish(event.hypothesis.tokens)
                truncated = event.hypothesis.truncated
            else:
                assert event.token is not None  # a stream gives a token or, last, the hypothesis
                piece = growing.add(event.token)
            if piece:
                yield piece
        return truncated

    def _ids(self, prompt: str, name: str) -> list[int]:
        if not isinstance(prompt, str):
            raise DataError(f"{name} is not a string but {type(prompt).__name__}")
        ids = self.tokeniser.add_special_tokens(self.tokeniser.encode(prompt)) or [
            self.tokeniser.symbols.start
        ]
        limit = self.decoder.max_source
        if limit is not None and len(ids) > limit:
            raise TextTooLongError(
                f"{name} has {len(ids)} tokens, and the model has {limit} positions: shorten it"
            )
        return ids

    def _bounded(self, options: SearchOptions, prompt: int) -> SearchOptions:
        """The options with lengths for which there are positions: the last token made needs none."""
        if self.decoder.max_source is None:
            return options
        room = self.decoder.max_source - prompt + 1
        if options.max_length is not None and options.max_length <= room:
            return options
        return options.changed({"max_length": room, "min_length": min(options.min_length, room)})

    def _continuation(self, prompt: str, ways: Sequence[Hypothesis]) -> Continuation:
        made = [
            Continuation(
                prompt=prompt,
                text=self.tokeniser.decode(way.tokens),
                score=way.score,
                log_prob=way.log_prob,
                tokens=tuple(self.tokeniser.pieces(way.tokens)),
                token_scores=way.token_scores,
                truncated=way.truncated,
            )
            for way in ways
        ]
        return replace(made[0], alternatives=tuple(made[1:]))
