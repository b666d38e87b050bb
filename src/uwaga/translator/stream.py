"""Streaming of translations and continuations, piece by piece as they grow."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import pairwise

from uwaga.decoder import Decoder
from uwaga.results.translation import Hypothesis, Translation
from uwaga.search import SearchInput, SearchOptions, stream
from uwaga.tokenizers.subwords import complete_prefix_length
from uwaga.translator.detokenise import REPLACEMENT_CHARACTER, STOPS, sentence_text, without_stop
from uwaga.translator.layers.drafts import divide_draft, draft_by_model
from uwaga.translator.layers.failures import check_string
from uwaga.translator.layers.search import repair_incomplete_characters
from uwaga.translator.layers.sentences import prepare, translate_passages
from uwaga.translator.pipeline import translate_requests
from uwaga.translator.plan import Plan, Stage
from uwaga.translator.request import Request
from uwaga.translator.text import Passage, Text, TextDraft


class IncrementalText:
    """The text of a growing list of tokens, returned in pieces that later tokens do not change.

    The joined pieces equal ``decode`` of all tokens: a character that several byte tokens spell is held back
    until it is complete. The exception is byte tokens that are not valid text: they may change the text of
    earlier tokens.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._tokens: list[int] = []
        self._length = 0

    def add(self, token: int) -> str:
        """Add a token, and return the new text that later tokens cannot change; it may be empty."""
        self._tokens.append(token)
        text = self._decode(self._tokens)
        return self._emit(text[: len(text.rstrip(REPLACEMENT_CHARACTER))])

    def finish(self, tokens: Sequence[int]) -> str:
        """Return the rest of the text, given all tokens."""
        return self._emit(self._decode(tokens))

    def _emit(self, text: str) -> str:
        piece = text[self._length :]
        self._length = max(self._length, len(text))
        return piece


def stream_text(
    decoder: Decoder,
    sentence: SearchInput,
    options: SearchOptions,
    decode: Callable[[Sequence[int]], str],
    drafter: Decoder | None = None,
    complete: Callable[[Hypothesis], Hypothesis] = lambda hypothesis: hypothesis,
) -> Generator[str, None, bool]:
    """Decode one target and yield its text in non-empty pieces as it grows.

    Args:
        decoder: the model.
        sentence: the sentence to translate, or a prompt.
        options: options for a single hypothesis; see :meth:`uwaga.search.SearchOptions.check_streams`.
        decode: function that returns the text of target tokens.
        drafter: as for :func:`uwaga.search.search`.
        complete: function that turns the hypothesis of the search into the final one, whose text begins with
            the yielded pieces.

    Returns: True if a length limit truncated the target.
    """
    incremental_text, is_truncated = IncrementalText(decode), False
    for event in stream(decoder, [sentence], options, drafter=drafter):
        if event.hypothesis is not None:
            hypothesis = complete(event.hypothesis)
            piece, is_truncated = incremental_text.finish(hypothesis.tokens), hypothesis.truncated
        else:
            assert event.token is not None  # an event has a token or, if it is the last, the hypothesis
            piece = incremental_text.add(event.token)
        if piece:
            yield piece
    return is_truncated


def stream_request(plan: Plan, request: Request) -> Generator[str, None, bool]:
    """Translate a text and yield its translation as the last model produces it.

    A text with a format, placeholders or a glossary must be checked as a whole and is yielded in one piece.

    Returns:
        a generator that returns True if a length limit truncated the translation.
    """
    if _is_plain(plan, request):
        return _stream_passage(plan, request)
    [translation] = translate_requests(plan, [request])
    return _yield_whole(translation)


def _is_plain(plan: Plan, request: Request) -> bool:
    """Return True if a request is for plain text without a glossary, so that it can be streamed."""
    if request.text in plan.untranslated or request.glossary is not None:
        return False
    return not plan.needs_inline_layers(request.text)


def _yield_whole(translation: Translation) -> Generator[str, None, bool]:
    if translation.text:
        yield translation.text
    return translation.truncated


def _stream_passage(plan: Plan, request: Request) -> Generator[str, None, bool]:
    """Translate a text with all models except the last, and stream the translation by the last model."""
    last_stage = plan.stages[-1]
    check_string(Text((request.text,), request.name))
    passage, is_truncated = plan.stages[0].split_text(request.text, request.name), False
    for stage, next_stage in pairwise(plan.stages):
        translate_passages(stage, [passage])
        is_truncated = is_truncated or passage.result.truncated
        passage = next_stage.split_translated(passage, request.name)
    passage.prefix = request.prefix
    if request.draft:
        passage.draft = TextDraft(request.draft, request.bias, request.mask)
    prepare(last_stage, passage)
    if passage.draft is not None:
        divide_draft(last_stage, passage, passage.draft)
    return _stream_sentences(last_stage, passage, is_truncated)


def _stream_sentences(stage: Stage, passage: Passage, is_truncated: bool) -> Generator[str, None, bool]:
    bytes_ = stage.model.byte_tokens

    def decode(tokens: Sequence[int]) -> str:
        return sentence_text(tokens[: complete_prefix_length(tokens, bytes_)], stage.model.target)

    def complete(hypothesis: Hypothesis) -> Hypothesis:
        lists = [[hypothesis]]
        repair_incomplete_characters(stage, [sentence], lists, stage.options)
        return lists[0][0]

    if passage.before:
        yield passage.before
    for sentence in passage.sentences:
        if not sentence.is_searched:
            yield sentence.copy or ""
        else:
            drafter = draft_by_model(stage, [sentence]) if passage.draft is None else None
            pieces = stream_text(stage.model.decoder, sentence, stage.options, decode, drafter, complete)
            if sentence.lacks_final_punctuation:
                pieces = _without_stop(pieces)
            is_truncated = (yield from pieces) or is_truncated
        if sentence.after:
            yield sentence.after
    return is_truncated


def _without_stop(incremental_text: Generator[str, None, bool]) -> Generator[str, None, bool]:
    """Yield the pieces of a translation without the final full stop that its source lacks."""
    text = yielded_text = ""
    while True:
        try:
            text += next(incremental_text)
        except StopIteration as finished:
            if remainder := without_stop(text)[len(yielded_text) :]:
                yield remainder
            return bool(finished.value)
        complete_text = text.rstrip()
        complete_text = complete_text[:-1] if complete_text[-1:] in tuple(STOPS) else text
        if len(complete_text) > len(yielded_text):
            yield complete_text[len(yielded_text) :]
            yielded_text = complete_text
