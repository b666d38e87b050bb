"""The trace of a translation: its search, the candidates of each step, attention and internal arrays.

The npm package and the C library return the same trace, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from uwaga.decoder import Choice, State
from uwaga.engine import NativeModel
from uwaga.engine.interventions import Intervention
from uwaga.engine.layout import Sizes
from uwaga.engine.model import MAX_INSIGHT_BYTES
from uwaga.errors import DataError, ModelError, NotInspectableError, SettingsError
from uwaga.inspection.interventions import intervene
from uwaga.results.attention import Attentions, Floats
from uwaga.results.translation import Hypothesis
from uwaga.results.views import attention_view
from uwaga.scheduling.call_context import while_active
from uwaga.search import SearchOptions
from uwaga.search.beam_batch import BeamBatch
from uwaga.search.check import check_inputs, forced_tokens, uncounted_tokens
from uwaga.search.constraints import start_token, with_first_token
from uwaga.search.inputs import SearchInput
from uwaga.settings import TransformerSettings
from uwaga.settings.options import check_integer
from uwaga.translator import Translator
from uwaga.translator.detokenise import sentence_text
from uwaga.translator.split import check_length

MAX_CANDIDATES = 64
"""Maximum number of candidates to return for each step."""


@dataclass(frozen=True, eq=False)
class TracedTranslation:
    """A translation of the n-best list.

    Attributes:
        text: the translation.
        score: score by which translations are ranked.
        truncated: True if a length limit cut the translation.
        tokens: token ids, without start and end symbols.
        pieces: pieces of the tokens.
        log_probs: log-probabilities of the tokens and, unless it is truncated, of the end symbol.
        attentions: all attention matrices; None if not requested.
        arrays: requested internal arrays, by name (:mod:`uwaga.inspection.insight`); only for the best
            translation.
    """

    text: str
    score: float
    truncated: bool
    tokens: tuple[int, ...]
    pieces: tuple[str, ...]
    log_probs: tuple[float, ...]
    attentions: Attentions | None = None
    arrays: Mapping[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Trace:
    """The translations of a text, with their search.

    Attributes:
        source: tokens that the encoder reads, with the end symbol.
        source_pieces: pieces of the source tokens.
        translations: n-best list, best first.
        tree: (candidates, 3) float32: for each candidate of the search, the index of the candidate that it
            extends or -1, its token, and its log-probability; None if not requested.
        steps: for each step of the best translation, the most probable tokens with their log-probabilities;
            empty if not requested.
    """

    source: tuple[int, ...]
    source_pieces: tuple[str, ...]
    translations: tuple[TracedTranslation, ...]
    tree: Floats | None = None
    steps: tuple[tuple[tuple[int, float], ...], ...] = ()

    def __repr__(self) -> str:
        return f"Trace({len(self.source)} source tokens, {self.translations[0].text!r})"

    def _repr_html_(self) -> str | None:
        """Return an HTML view of the best translation's attention for notebooks; None if not requested."""
        best = self.translations[0]
        if not best.attentions:
            return None
        return attention_view(best.attentions, self.source_pieces, best.pieces)


@dataclass(frozen=True)
class TraceParts:
    """The parts of a trace that are requested besides the translations.

    Attributes:
        attention: whether to return all attention matrices.
        names: names of internal arrays of the best translation, or prefixes such as ``cross.2``; empty for
            all arrays, None for no arrays.
        tree: whether to return the candidates of all steps of the search.
        candidates: number of candidates of each step to return, 0 to 64.
        max_bytes: maximum total size of all matrices and arrays in bytes.
    """

    attention: bool = False
    names: Sequence[str] | None = None
    tree: bool = False
    candidates: int = 0
    max_bytes: int = MAX_INSIGHT_BYTES


def trace(
    translator: Translator,
    text: str,
    target: str | None = None,
    *,
    edits: Sequence[Intervention] = (),
    options: SearchOptions | None = None,
    parts: TraceParts | None = None,
) -> Trace:
    """Return a trace of the translation of a text as one sentence.

    Args:
        translator: a Transformer with an encoder, on the native engine.
        text: text to translate.
        target: translation that the decoder is forced to produce; None for the model's translation.
        edits: edits of attention heads and positions, applied in order.
        options: search options; None for the model's defaults. The beam is 1 with a ``target``.
        parts: what to return besides the translations.
    """
    native_transformer(translator)
    parts = parts or TraceParts()
    check_integer("candidates", parts.candidates, 0, MAX_CANDIDATES)
    edited_translator = intervene(translator, *edits) if edits else translator
    try:
        return _Tracer(edited_translator, text, target, options or edited_translator.decoding).trace(parts)
    except ModelError as error:
        if not edits:
            raise
        raise SettingsError(f"the model cannot translate with these edits: {error}") from None


def native_transformer(translator: Translator) -> NativeModel:
    """Return the native model of a translator, or raise an error if it cannot be inspected."""
    if len(translator.models) > 1:
        raise NotInspectableError(
            f"the translator is a chain of {len(translator.models)} models: inspect one of its models"
        )
    decoder = translator.decoder
    if not isinstance(decoder, NativeModel):
        raise NotInspectableError(
            "only models on the native engine can be inspected: load a single model with engine='native'"
        )
    if not isinstance(decoder.settings, TransformerSettings):
        kind = str(getattr(decoder.settings, "family", "")) or "recurrent"
        raise NotInspectableError(f"only a Transformer with an encoder can be inspected, not a {kind} model")
    return decoder


class _Tracer:
    """The computation of the trace of a text."""

    def __init__(self, translator: Translator, text: str, target: str | None, options: SearchOptions) -> None:
        self._translator, self._options = translator, options
        self._model = native_transformer(translator)
        self._forced: Sequence[int] | None = None
        self._source = check_length(
            translator.model.segmenter().ids(text), self._model.max_source, "the text", "source"
        )
        if not self._source:
            raise DataError("the text has no tokens to read: give a sentence")
        if target is not None:
            side = translator.target
            forced_ids = tuple(side.add_special_tokens(side.encode(target.strip())))
            forced_ids = check_length(forced_ids, self._model.max_target, "the forced translation", "target")
            self._forced = with_first_token(forced_ids, options)
            self._options = options.changed({"beam": 1, "nbest": 1, "sample": False})
        self._start = start_token(self._options, self._model.symbols)

    def trace(self, parts: TraceParts) -> Trace:
        """Search, compute the requested parts, and return the trace; see :func:`uwaga.inspection.trace`."""
        hypotheses, search_tree = self._search()
        best_hypothesis = hypotheses[0]
        remaining_bytes = parts.max_bytes - (search_tree.nbytes if parts.tree else 0)
        attentions: Sequence[Attentions | None] = [None] * len(hypotheses)
        if parts.attention:
            remaining_bytes -= sum(map(self._attention_bytes, hypotheses))
            if remaining_bytes < 0:
                raise SettingsError(
                    f"the attention of {len(self._source)} source and {len(best_hypothesis.token_scores)} "
                    "target tokens "
                    f"exceeds {parts.max_bytes} bytes: leave out attention, or request arrays of single "
                    "layers"
                )
            inputs = list(map(self._decoder_inputs, hypotheses))
            attentions = self._model.attentions([self._source] * len(inputs), inputs)
        arrays = {}
        if parts.names is not None:
            arrays = self._model.insight(
                self._source, self._decoder_inputs(best_hypothesis), parts.names, max(remaining_bytes, 1)
            )
        translations = [
            self._translation(hypothesis, hypothesis_attentions)
            for hypothesis, hypothesis_attentions in zip(hypotheses, attentions, strict=True)
        ]
        translations[0] = replace(translations[0], arrays=arrays)
        return Trace(
            tuple(self._source),
            tuple(self._translator.source.pieces(self._source)),
            tuple(translations),
            search_tree if parts.tree else None,
            self._steps(best_hypothesis, parts.candidates) if parts.candidates else (),
        )

    def _search(self) -> tuple[list[Hypothesis], Floats]:
        """Return the n-best list of hypotheses and the tree of the search."""
        model, options = self._model, self._options
        [sentence] = check_inputs(model, [SearchInput(self._source)], options)
        if self._forced is not None:
            sentence = replace(
                sentence,
                forced=forced_tokens(self._forced, options),
                uncounted=uncounted_tokens(self._forced, options),
                limit=len(self._forced),
            )
        batch = BeamBatch(model, options, [sentence], options.rows)
        batch.admit(1)
        for _ in while_active(count()):
            if not batch.running_lengths.size:
                break
            batch.step()
        return batch.hypotheses(np.zeros(1, dtype=np.int64))[0], batch.tree()

    def _decoder_inputs(self, hypothesis: Hypothesis) -> list[int]:
        """Return the decoder inputs of a hypothesis: the start symbol, then the tokens of the hypothesis."""
        inputs = [self._start, *hypothesis.tokens][: max(len(hypothesis.token_scores), 1)]
        return inputs if self._model.max_target is None else inputs[: self._model.max_target]

    def _attention_bytes(self, hypothesis: Hypothesis) -> int:
        settings = self._model.settings
        assert isinstance(settings, TransformerSettings)
        sizes = Sizes.from_settings(settings)
        source = len(self._source)
        target = len(self._decoder_inputs(hypothesis))
        encoder_weights = sizes.encoder_layers * settings.heads * source * source
        return 4 * (encoder_weights + sizes.decoder_layers * sizes.decoder_heads * target * (source + target))

    def _translation(self, hypothesis: Hypothesis, attentions: Attentions | None) -> TracedTranslation:
        target = self._translator.target
        return TracedTranslation(
            sentence_text(hypothesis.tokens, target),
            hypothesis.score,
            hypothesis.truncated,
            hypothesis.tokens,
            tuple(target.pieces(hypothesis.tokens)),
            hypothesis.token_scores,
            attentions,
        )

    def _steps(self, hypothesis: Hypothesis, candidates: int) -> tuple[tuple[tuple[int, float], ...], ...]:
        """Return the most probable tokens, with log-probabilities, of each step of the best translation."""
        model, steps = self._model, list[tuple[tuple[int, float], ...]]()
        state: State = model.start(model.encode([self._source]), 1)
        choice = Choice(count=min(candidates, model.vocabulary))
        for token in while_active(self._decoder_inputs(hypothesis)):
            step = model.step(np.array([token], dtype=np.int64), state, choice)
            state = step.state
            steps.append(tuple(zip(step.tokens[0].tolist(), step.log_probs[0].tolist(), strict=True)))
        return tuple(steps)
