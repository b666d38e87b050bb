"""Models of the native engine: :class:`uwaga.decoder.Decoder` over the compiled core."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from uwaga.decoder import BeamRules, Choice, Datastore, Ids, Memory, State, Step, Symbols, Verify
from uwaga.engine import _core
from uwaga.engine.beam_search import NativeBeamSearch, NativeRunningBatch, convert_errors, core_datastore
from uwaga.engine.cpu import resolve_isa, usable_cores
from uwaga.engine.interventions import Intervention, core_edits, edited_positions
from uwaga.engine.layout import EngineSettings, Sizes, distances, memory_width, sinusoids
from uwaga.engine.packing import PackedWeights
from uwaga.engine.shortlist import Shortlist
from uwaga.errors import ModelError, SettingsError
from uwaga.results.attention import Attentions, Floats, require_cross_attention, resolve_layer, select_head
from uwaga.search.choose import vocabulary_ids
from uwaga.settings import DecoderOnlySettings, TransformerSettings
from uwaga.settings.load_options import MAX_THREADS
from uwaga.settings.options import check_integer
from uwaga.settings.recurrent import RecurrentSettings

Sources = tuple[tuple[int, ...], ...]
"""The token ids of the sources of a batch."""
MAX_CACHE_BYTES = 1 << 28
"""Maximum size, in bytes, of the encoded sources cached for word alignment."""
MAX_INSIGHT_BYTES = 1 << 28
"""Default maximum total size, in bytes, of the arrays that :meth:`NativeModel.insight` returns."""
REENCODED_SENTENCES = 256
"""Number of sentences in a batch of sources that are encoded again."""


class NativeModel:
    """A Transformer or recurrent model that runs in C++ on the CPU.

    In a decoder-only model (M18) a source is a prompt of at least one token, processed as a block; in the
    first step its last token replaces the start symbol.

    Tokens and log-probabilities of a row are bit-identical in any batch and with any number of threads. The
    model is thread-safe, since it has no state between calls.

    Args:
        settings: the settings of the model.
        symbols: special token ids of the target side.
        vocabulary: number of source tokens and of target tokens; equal in a decoder-only model.
        packed: the weights.
        threads: number of threads of a call, 0 for as many as the process may use.
        isa: name of the instruction set; None for ``UWAGA_ISA`` or the fastest.
        shared_width: minimum model width for dividing the columns of a step among threads if it has too few
            rows to divide; in narrower models synchronisation would take longer than the work.

    Raises:
        SettingsError: the processor lacks the instruction set, or the number of threads is out of bounds.
        ModelError: the weights don't match the settings.
    """

    def __init__(
        self,
        settings: EngineSettings,
        symbols: Symbols,
        vocabulary: tuple[int, int],
        packed: PackedWeights,
        threads: int = 1,
        isa: str | None = None,
        shared_width: int = 384,
    ) -> None:
        isa_index = resolve_isa(isa)
        self.settings, self.symbols = settings, symbols
        self.source_vocabulary, self.vocabulary = vocabulary
        self.shortlist: Shortlist | None = None
        self._encoded_batches: dict[Sources, _core.Memory] | None = None
        self._core_shortlist: _core.Shortlist | None = None
        # Relative positions have no maximum.
        self.max_source = self.max_target = None if _has_relative_positions(settings) else settings.max_length
        self.shared_positions = settings.max_length if isinstance(settings, DecoderOnlySettings) else None
        self.precision, self.isa = packed.precision, _core.ISAS[isa_index]
        self._check_weights = packed.check
        check_integer("threads", threads, 0, MAX_THREADS)
        self.threads = threads or min(usable_cores(), MAX_THREADS)
        shape = _shape(settings, packed.precision) | {
            "source_vocabulary": 0 if isinstance(settings, DecoderOnlySettings) else vocabulary[0],
            "target_vocabulary": vocabulary[1],
            "threads": self.threads,
            "shared_width": shared_width,
        }
        try:
            matrices = {name: matrix.core() for name, matrix in packed.matrices.items()}
            # One table is shared by both embeddings, but not by the output layer.
            if isinstance(settings, TransformerSettings) and settings.tie == "embeddings":
                matrices["target_embedding"] = matrices["source_embedding"]
            self._core = _core.Model(shape, matrices, _vectors(settings, packed), isa_index)
        except ValueError as error:
            raise ModelError(f"the engine does not support these weights: {error}") from None

    def with_shortlist(self, shortlist: Shortlist) -> NativeModel:
        """Return the model with its target tokens restricted by a shortlist; the weights are shared.

        The list of every sentence contains the end symbol, the unknown token and, in its step, a forced
        token. Log-probabilities are normalised over the list of the sentence. The arrays of the shortlist are
        not copied and must not be modified.

        Raises:
            ModelError: the vocabularies of the shortlist differ from the model's, or the model is
                decoder-only.
        """
        if isinstance(self.settings, DecoderOnlySettings):
            raise ModelError("a shortlist needs source tokens, but a decoder-only model has none")
        sizes = (shortlist.source_vocabulary, shortlist.vocabulary)
        if sizes != (self.source_vocabulary, self.vocabulary):
            raise ModelError(
                f"the shortlist has {sizes[0]} source and {sizes[1]} target tokens, but the model has "
                f"{self.source_vocabulary} and {self.vocabulary}"
            )
        model = copy.copy(self)
        model.shortlist = shortlist.with_tokens([self.symbols.end, self.symbols.unknown])
        model._core_shortlist = self._core.shortlist(
            model.shortlist.common,
            shortlist.first,
            shortlist.targets,
            shortlist.allow_source,
            shortlist.multiple,
        )
        return model

    def without_shortlist(self) -> NativeModel:
        """Return the model with the complete vocabulary; the weights are shared."""
        model = copy.copy(self)
        model.shortlist = model._core_shortlist = None
        return model

    def with_interventions(self, *interventions: Intervention) -> NativeModel:
        """Return the model with additional interventions; the weights are shared.

        Edits of heads are applied in order; positions replace earlier ones of the same side. Results are
        bit-identical in steps, in any batch and in recordings, as for any other model.

        Raises:
            SettingsError: the model has no such layer, head, position or kind of attention.
        """
        edits = core_edits(self.settings, interventions, _has_relative_positions(self.settings))
        model = copy.copy(self)
        if any(intervention.affects_encoder for intervention in interventions):
            model._encoded_batches = None
        with convert_errors():
            model._core = self._core.edited(
                edits, edited_positions(interventions, "source"), edited_positions(interventions, "target")
            )
        return model if self.shortlist is None else model.with_shortlist(self.shortlist)

    @property
    def description(self) -> str:
        """A description with the family, engine, precision, instruction set and number of threads."""
        family = str(getattr(self.settings, "family", "")).replace("transformer", "Transformer")
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        return f"{family}, native {self.precision} on {self.isa}, {threads}"

    def encode(self, sources: Sequence[Sequence[int]]) -> _core.Memory:
        """Encode sentences of token ids, each with its end symbol, or read prompts.

        Raises:
            TextTooLongError: a sentence is too long for the model.
            DataError: a sentence is empty or contains an id outside the vocabulary.
            ModelError: the shared file of the weights has changed.
        """
        cache = self._encoded_batches
        if cache is None or self.shortlist is not None:
            return self._call_encoder(sources, self._core.encode)
        key = tuple(map(tuple, sources))
        if key not in cache:
            cache[key] = self._call_encoder(sources, self._core.encode)
            tokens = sum(len(source) for batch in cache for source in batch)
            while tokens * _memory_bytes(self.settings, self.precision) > MAX_CACHE_BYTES and len(cache) > 1:
                tokens -= sum(map(len, next(iter(cache))))
                del cache[next(iter(cache))]
        with convert_errors():
            return cache[key].used_by(self._core)

    def caching_sources(self) -> NativeModel:
        """Return a copy that caches encoded sources, for a call that compares the model with edited models.

        A batch that the copy, or an edited model with the same encoder, has encoded is not encoded again by
        any of these models. At most :data:`MAX_CACHE_BYTES` are cached.
        """
        model = copy.copy(self)
        model._encoded_batches = {}
        return model

    def _call_encoder(
        self,
        sources: Sequence[Sequence[int]],
        encode: Callable[[Sequence[Sequence[int]], _core.Shortlist | None], _core.Memory],
    ) -> _core.Memory:
        if self._check_weights is not None:
            self._check_weights()
        with convert_errors():
            return encode(sources, self._core_shortlist)

    def start(self, memory: Memory, beams: int) -> _core.State:
        assert isinstance(memory, _core.Memory)
        with convert_errors():
            return memory.start(beams)

    def with_datastores(self, memory: Memory, datastores: Sequence[Datastore | None]) -> _core.Memory:
        """See :func:`uwaga.decoder.with_datastores`.

        Raises:
            DataError: the keys are not as wide as the model's features, or a token is not in the vocabulary.
        """
        assert isinstance(memory, _core.Memory)
        with convert_errors():
            return memory.with_datastores(list(map(core_datastore, datastores)))

    def step(self, tokens: Ids, state: State, choice: Choice) -> Step:
        """See :meth:`uwaga.decoder.Decoder.step`.

        Raises:
            TextTooLongError: the target, or prompt and continuation, is too long for the model.
            DataError: a token is outside the vocabulary.
        """
        return self._step(tokens, state, choice, None)

    @property
    def verify(self) -> Verify | None:
        """See :attr:`uwaga.decoder.Decoder.verify`; bit-identical to steps.

        None for recurrent decoders and models with interventions.
        """
        return self._verify if self._core.can_verify else None

    def _verify(self, tokens: Sequence[Sequence[int]], state: State, choice: Choice) -> Step:
        flat_tokens = np.array(
            [token for sentence_tokens in tokens for token in sentence_tokens], dtype=np.int64
        )
        return self._step(flat_tokens, state, choice, np.array(list(map(len, tokens)), dtype=np.int64))

    def _step(self, tokens: Ids, state: State, choice: Choice, counts: Ids | None) -> Step:
        assert isinstance(state, _core.State)
        sampling = choice.sampling
        with convert_errors():
            candidates, log_probs, next_state, attention, features = state.step(
                np.ascontiguousarray(tokens, dtype=np.int64),
                choice.count,
                choice.all_tokens,
                choice.attention,
                choice.renormalise,
                choice.banned,
                choice.forced,
                None if sampling is None else sampling.uniform,
                1.0 if sampling is None else sampling.temperature,
                0 if sampling is None else sampling.top_k,
                1.0 if sampling is None else sampling.top_p,
                None
                if choice.extra_tokens is None
                else np.ascontiguousarray(choice.extra_tokens, dtype=np.int64),
                counts,
                choice.logits,
                choice.features,
            )
        if candidates is None:
            candidates = vocabulary_ids(*log_probs.shape)
        return Step(candidates, log_probs, next_state, attention, features)

    def join(self, first: State, second: State) -> State:
        """See :attr:`uwaga.decoder.Decoder.join`; sentences may be at different positions."""
        assert isinstance(first, _core.State)
        assert isinstance(second, _core.State)
        return _core.State.join([first, second])

    def beam_search(self, rules: BeamRules) -> NativeBeamSearch:
        """See :attr:`uwaga.decoder.Decoder.beam_search`.

        Raises:
            DataError: a token of the rules is outside the vocabulary.
        """
        return NativeBeamSearch(self._core, self.symbols.ends, rules)

    def running_batch(self) -> NativeRunningBatch:
        """See :class:`uwaga.decoder.Batching`."""
        return NativeRunningBatch(self._core, self._core_shortlist, self.symbols.ends, self._check_weights)

    def attentions(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[Attentions]:
        """See :attr:`uwaga.decoder.Decoder.attentions`; bit-identical to the weights of the steps.

        Raises:
            TextTooLongError: a source or target is too long for the model.
            DataError: a source or target is empty or contains an id outside the vocabulary.
            ModelError: the shared file of the weights has changed.
        """
        return self.recording(True).attentions(sources, targets)

    def cross_attention(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], layer: int, head: int | None
    ) -> list[Floats]:
        """See :attr:`uwaga.decoder.Decoder.cross_attention`; errors are those of :meth:`attentions`.

        Raises:
            SettingsError: the model has no such layer or head.
        """
        return self.recording(False).cross_attention(sources, targets, layer, head)

    def cross_attentions(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[Floats]:
        """See :attr:`uwaga.decoder.Decoder.cross_attentions`; errors are those of :meth:`attentions`."""
        return self.recording(False).cross_attentions(sources, targets)

    def insight(
        self,
        source: Sequence[int],
        target: Sequence[int],
        names: Sequence[str] = (),
        max_bytes: int = MAX_INSIGHT_BYTES,
    ) -> dict[str, Floats]:
        """Return the intermediate arrays of a translation by the names of :mod:`uwaga.inspection.insight`.

        Weights are bit-identical to those of the steps; scores are summed in another order, so that their
        softmax equals the weights up to rounding.

        Args:
            source: token ids with the end symbol; empty in a decoder-only model.
            target: decoder inputs, the start symbol first; in a decoder-only model the prompt and its
                continuation.
            names: names of arrays or their prefixes, such as ``cross.2``; empty for all.
            max_bytes: maximum size of the arrays in bytes.

        Raises:
            SettingsError: a name is unknown, the model is recurrent, or the arrays exceed ``max_bytes``.
            TextTooLongError: the source or the target is too long for the model.
            DataError: the source or the target is empty or contains an id outside the vocabulary.
        """
        if isinstance(self.settings, RecurrentSettings):
            raise SettingsError("the model is recurrent; insight is available for Transformers only")
        check_integer("max_bytes", max_bytes, 1)
        with convert_errors():
            return self._core.insight(source, target, list(names), max_bytes)

    def recording(self, all_attentions: bool) -> RecordingModel:
        """See :attr:`uwaga.decoder.Decoder.recording`."""
        return RecordingModel(self, all_attentions)


class RecordingModel(NativeModel):
    """A model for a single call that caches the encoded sources, so that recording runs only the decoder.

    It is not thread-safe. With ``all_attentions`` it also caches the encoder's attention. Otherwise it caches
    at most :data:`MAX_CACHE_BYTES`, and encodes further sources again.
    """

    def __init__(self, model: NativeModel, all_attentions: bool) -> None:
        vars(self).update(vars(model))
        self._all_attentions = all_attentions
        self._memories: dict[tuple[int, ...], tuple[_core.Memory, int]] = {}
        self._budget = MAX_CACHE_BYTES // _memory_bytes(self.settings, self.precision)

    def encode(self, sources: Sequence[Sequence[int]]) -> _core.Memory:
        """See :meth:`NativeModel.encode`."""
        if isinstance(self.settings, DecoderOnlySettings):
            return super().encode(sources)
        memory = self._call_encoder(
            sources, self._core.encode_recorded if self._all_attentions else self._core.encode
        )
        self._budget -= sum(map(len, sources))
        if self._all_attentions or self._budget >= 0:
            self._memories.update((tuple(source), (memory, row)) for row, source in enumerate(sources))
        return memory

    def attentions(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[Attentions]:
        """See :meth:`NativeModel.attentions`; cached sources are not encoded again."""
        keys = list(map(tuple, sources))
        if not keys:
            return []
        with convert_errors():
            if isinstance(self.settings, DecoderOnlySettings):
                prompts = [[*key, *inputs[1:]] for key, inputs in zip(keys, targets, strict=True)]
                return [
                    Attentions(decoder=matrices) for matrices, _ in self._core.attentions([], [], prompts)
                ]
            missing_keys = list(dict.fromkeys(key for key in keys if key not in self._memories))
            if missing_keys:
                self.encode(missing_keys)
            memories, rows = zip(*(self._memories[key] for key in keys), strict=True)
            decoders = self._core.attentions(memories, rows, targets)
        return [
            Attentions(_encoder_attention(memory)[row], *decoder)
            for memory, row, decoder in zip(memories, rows, decoders, strict=True)
        ]

    def cross_attention(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], layer: int, head: int | None
    ) -> list[Floats]:
        """See :meth:`NativeModel.cross_attention`; sources that are not cached are processed in batches."""
        if isinstance(self.settings, DecoderOnlySettings):
            return [select_head(cross, layer, head) for cross in self._to_prompts(sources, targets)]
        layers, heads = _cross_attention_counts(self.settings)
        if not layers:
            return [select_head(None, layer, head) for _ in sources]
        layer = resolve_layer(layer, head, layers, heads)
        head_index = -1 if head is None else head
        step_outputs = self._force_decode(
            sources,
            targets,
            lambda memories, rows, inputs: self._core.cross_attention(
                memories, rows, inputs, layer, head_index
            ),
        )
        return [select_head(matrices[None], 0, None if head is None else 0) for matrices in step_outputs]

    def cross_attentions(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[Floats]:
        """See :meth:`NativeModel.cross_attentions`; sources that are not cached are processed in batches."""
        if isinstance(self.settings, DecoderOnlySettings):
            return list(self._to_prompts(sources, targets))
        if not _cross_attention_counts(self.settings)[0]:
            return [require_cross_attention(None) for _ in sources]
        step_outputs = self._force_decode(sources, targets, self._core.attentions)
        return [require_cross_attention(cross) for _, cross in step_outputs]

    def _to_prompts(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> Iterator[Floats]:
        """Yield the attention (layers, heads, target, source) to each prompt, one sentence at a time."""
        for source, inputs in zip(sources, targets, strict=True):
            yield self.attentions([source], [inputs])[0].to_prompt(len(source))

    def _force_decode(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        core: Callable[[Sequence[_core.Memory], Sequence[int], Sequence[Sequence[int]]], Sequence[Any]],
    ) -> list[Any]:
        """Return the results of a function of the core for each source and target.

        The function is called with the memory that contains each source, its row there, and the targets.
        """
        results: dict[int, Any] = {}
        keys = list(map(tuple, sources))
        missing_indices = [index for index, key in enumerate(keys) if key not in self._memories]
        parts = [[index for index, key in enumerate(keys) if key in self._memories]]
        parts += [
            missing_indices[index : index + REENCODED_SENTENCES]
            for index in range(0, len(missing_indices), REENCODED_SENTENCES)
        ]
        for part in filter(None, parts):
            memories = [self._memories.get(keys[index]) for index in part]
            if memories[0] is None:
                memory = self._call_encoder([sources[index] for index in part], self._core.encode)
                memories = [(memory, row) for row in range(len(part))]
            source_memories, rows = zip(*[pair for pair in memories if pair], strict=True)
            with convert_errors():
                results |= zip(
                    part, core(source_memories, rows, [targets[index] for index in part]), strict=True
                )
        return [results[index] for index in range(len(keys))]


def _cross_attention_counts(settings: EngineSettings) -> tuple[int, int]:
    """Return the number of layers and of heads per layer of the cross-attention; (0, 0) if there is none."""
    if isinstance(settings, RecurrentSettings):
        return (1, 1) if memory_width(settings) else (0, 0)
    if not isinstance(settings, TransformerSettings):
        return 0, 0
    sizes = Sizes.from_settings(settings)
    return sizes.decoder_layers, sizes.decoder_heads


def _memory_bytes(settings: EngineSettings, precision: str) -> int:
    """Return the size of the memory in bytes per source token."""
    if isinstance(settings, RecurrentSettings):
        return 4 * max(1, memory_width(settings))
    sizes = Sizes.from_settings(settings)
    heads = settings.groups if isinstance(settings, DecoderOnlySettings) else sizes.decoder_heads
    numbers = 2 * sizes.decoder_layers * heads * sizes.decoder_head_width
    return numbers * (4 if precision == "float32" else 2)


def trim_heap() -> None:
    """Release freed memory that the C library retains, so that the operating system can use it."""
    _core.trim_heap()


def _encoder_attention(memory: _core.Memory) -> list[Floats | None]:
    """Return the encoder's attention of a recorded memory."""
    assert memory.encoder is not None
    return memory.encoder


def _has_relative_positions(settings: EngineSettings) -> bool:
    return isinstance(settings, TransformerSettings) and settings.positions == "relative"


def _shape(settings: EngineSettings, precision: str) -> dict[str, float]:
    """Return the sizes and options of a model as an argument of the core."""
    shape = _core.shape(settings.model_dump_json(), precision != "float32")
    return shape | (_decoder_only_shape(settings) if isinstance(settings, DecoderOnlySettings) else {})


def _decoder_only_shape(settings: DecoderOnlySettings) -> dict[str, float]:
    """Return the sizes and options that only decoder-only models have; 0 disables caps and windows."""
    shape = {
        "key_value_heads": settings.groups,
        "score_cap": settings.score_cap or 0.0,
        "logit_cap": settings.logit_cap or 0.0,
        "both_norms": int(settings.norm == "both"),
        "norm_rotated": int(settings.query_key_norm == "after"),
        "window": settings.window or 0,
        "global_every": settings.global_every,
    }
    if settings.score_scale is not None:
        shape["decoder_scale"] = settings.score_scale
    rotary = [
        rotary_settings
        for rotary_settings in (settings.rotary, settings.local_rotary)
        if rotary_settings is not None
    ]
    for index, rotary_settings in enumerate(rotary):
        frequencies = rotary_settings.frequencies(settings.head_size, settings.max_length)
        shape |= {f"rotary.{index}.{pair}": angle for pair, angle in enumerate(frequencies.tolist())}
        shape[f"rotary.{index}.factor"] = rotary_settings.score_factor
    return shape | {"rotary": len(rotary)}


def _vectors(settings: EngineSettings, packed: PackedWeights) -> dict[str, Floats]:
    """Return the arrays of a model that are not quantised: packed vectors, and tables of positions."""
    tables = dict(packed.vectors)
    if isinstance(settings, RecurrentSettings):
        pass
    elif isinstance(settings, TransformerSettings):
        _replace_positions(settings, tables)
    else:
        if settings.positions == "learned":
            if "positions.weight" not in tables:
                raise ModelError("the engine does not support these weights: positions.weight is missing")
            tables["target_positions"] = tables.pop("positions.weight")[settings.position_offset :]
        tables = {name.replace("embedding_norm.", "target_norm."): vector for name, vector in tables.items()}
    return {name: np.ascontiguousarray(vector, dtype=np.float32) for name, vector in tables.items()}


def _replace_positions(settings: TransformerSettings, tables: dict[str, Floats]) -> None:
    """Replace the stored positions of an encoder-decoder model with tables for both sides."""
    stored_tables = [tables.pop(f"{side}_positions.weight", None) for side in ("source", "target")]
    table = sinusoids(settings) if settings.positions == "sinusoidal" else None
    for side, weight in zip(("source", "target"), stored_tables, strict=True):
        if table is not None:
            tables[f"{side}_positions"] = table
        elif weight is None:
            raise ModelError(f"the engine does not support these weights: {side}_positions.weight is missing")
        elif settings.positions == "learned":
            tables[f"{side}_positions"] = weight[settings.position_offset :]
        else:
            tables[f"{side}_relative_bias"] = distances(weight, settings, bidirectional=side == "source")
