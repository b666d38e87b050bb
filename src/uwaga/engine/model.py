"""The engine's model: :class:`uwaga.decoder.Decoder` over the compiled core."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from uwaga.decoder import BeamRules, Choice, Ids, Memory, State, Step, Symbols
from uwaga.engine import _core
from uwaga.engine.beam_search import NativeBeamSearch, NativeRunningBatch
from uwaga.engine.cpu import chosen_isa, usable_cores
from uwaga.engine.layout import EngineSettings, Sizes, distances, sinusoids
from uwaga.engine.packing import Packed
from uwaga.engine.shortlist import Shortlist
from uwaga.errors import DataError, ModelError, TextTooLongError
from uwaga.results.attention import Attentions, Floats, all_heads, one_head, which_layer
from uwaga.search.choose import every_token
from uwaga.settings import DecoderOnlySettings, TransformerSettings
from uwaga.settings.options import check_whole

ACTIVATIONS = {"relu": 1, "gelu": 2, "gelu_tanh": 3, "silu": 4}
"""As ``Activation`` in native/kernels/kernels.h numbers them."""
UNLIMITED = (1 << 31) - 1
MOST_THREADS = 1024
"""Beyond any machine: a larger number is a mistake."""
MOST_KEPT = 1 << 28
"""Bytes of encoded sources that wait for their words to be aligned."""
TOGETHER = 256
"""Sentences encoded again at once."""


class NativeModel:
    """A Transformer that runs in C++ on the CPU.

    A decoder-only model (M18) continues prompts: a source is then a prompt, of one token at least, which is
    read as a block, and the start symbol stands for its last token.

    Tokens and log-probabilities of a row are the same bits whatever rows stand beside it and with any
    number of threads. It holds no state between calls; threads may share it.

    Args:
        settings: of the model.
        symbols: special token ids of the target side.
        source: source vocabulary; of a decoder-only model the one that there is.
        target: target vocabulary.
        packed: the weights.
        threads: threads of one call, 0 for as many as the process may use.
        isa: instruction set by name, the fastest if None; ``UWAGA_ISA`` is looked at then.
        shared_width: width of a model from which on threads share the columns of a step that has too few
            rows to share out; in a smaller one they would wait for each other longer than they work.

    Raises:
        SettingsError: the processor lacks the instruction set, or an impossible number of threads.
        ModelError: the weights are not of these settings.
    """

    def __init__(
        self,
        settings: EngineSettings,
        symbols: Symbols,
        source: int,
        target: int,
        packed: Packed,
        threads: int = 1,
        isa: str | None = None,
        shared_width: int = 384,
    ) -> None:
        number = chosen_isa(isa)
        self.settings, self.symbols, self.vocabulary = settings, symbols, target
        self.source_vocabulary = source
        self.shortlist: Shortlist | None = None
        self._lists: _core.Shortlist | None = None
        # Relative positions know no last one.
        self.max_source = self.max_target = None if _relative(settings) else settings.max_length
        self.precision, self.isa = packed.precision, _core.ISAS[number]
        self._check_weights = packed.check
        check_whole("threads", threads, 0, MOST_THREADS)
        self.threads = threads or min(usable_cores(), MOST_THREADS)
        shape = _shape(settings, packed.precision) | {
            "source_vocabulary": 0 if isinstance(settings, DecoderOnlySettings) else source,
            "target_vocabulary": target,
            "threads": self.threads,
            "shared_width": shared_width,
        }
        try:
            matrices = {name: matrix.core() for name, matrix in packed.matrices.items()}
            # One table for both sides, but not the output's.
            if isinstance(settings, TransformerSettings) and settings.tie == "embeddings":
                matrices["target_embedding"] = matrices["source_embedding"]
            self._core = _core.Model(shape, matrices, _vectors(settings, packed), number)
        except ValueError as error:
            raise ModelError(f"the engine cannot take these weights: {error}") from None

    def with_shortlist(self, shortlist: Shortlist) -> NativeModel:
        """The same model, weights shared, whose sentences become only what a shortlist lets them.

        The end symbol and the unknown token are in every list, and so is a forced token for its step.
        Log-probabilities are those of a sentence's own list: the tokens outside it have none, and the others
        share theirs. The shortlist's arrays are read where they lie: they must not be changed.

        Raises:
            ModelError: the shortlist is of other vocabularies, or the model is decoder-only.
        """
        if isinstance(self.settings, DecoderOnlySettings):
            raise ModelError("a shortlist goes by source tokens, and a decoder-only model has no source")
        sizes = (shortlist.source_vocabulary, shortlist.vocabulary)
        if sizes != (self.source_vocabulary, self.vocabulary):
            raise ModelError(
                f"a shortlist of {sizes[0]} source and {sizes[1]} target tokens, and the model has "
                f"{self.source_vocabulary} and {self.vocabulary}"
            )
        made = copy.copy(self)
        made.shortlist = shortlist.including([self.symbols.end, self.symbols.unknown])
        made._lists = self._core.shortlist(
            made.shortlist.common, shortlist.first, shortlist.targets, shortlist.own, shortlist.multiple
        )
        return made

    @property
    def described(self) -> str:
        """What it is: family, engine and precision, instruction set, threads of a call."""
        family = "decoder-only" if isinstance(self.settings, DecoderOnlySettings) else "Transformer"
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        return f"{family}, native {self.precision} on {self.isa}, {threads}"

    def encode(self, sources: Sequence[Sequence[int]]) -> _core.Memory:
        """Encode sentences of token ids, each with its end symbol; or read prompts.

        Raises:
            TextTooLongError: a sentence is longer than the model can take.
            DataError: a sentence is empty or holds an id outside the vocabulary.
            ModelError: the weights lie in a shared file, which was changed.
        """
        return self._encoded(sources, self._core.encode)

    def _encoded(
        self,
        sources: Sequence[Sequence[int]],
        encode: Callable[[Sequence[Sequence[int]], _core.Shortlist | None], _core.Memory],
    ) -> _core.Memory:
        if self._check_weights is not None:
            self._check_weights()
        try:
            return encode(sources, self._lists)
        except _core.TooLongError as error:
            raise TextTooLongError(str(error)) from None
        except ValueError as error:
            raise DataError(str(error)) from None

    def start(self, memory: Memory, beams: int) -> _core.State:
        assert isinstance(memory, _core.Memory)
        try:
            return memory.start(beams)
        except ValueError as error:
            raise DataError(str(error)) from None

    def step(self, tokens: Ids, state: State, choice: Choice) -> Step:
        """See :meth:`uwaga.decoder.Decoder.step`.

        Raises:
            TextTooLongError: the target, or prompt and continuation, are longer than the model can make.
            DataError: a token is outside the vocabulary.
        """
        assert isinstance(state, _core.State)
        drawn = choice.sampling
        try:
            found, log_probs, following, attention = state.step(
                np.ascontiguousarray(tokens, dtype=np.int64),
                choice.count,
                choice.whole,
                choice.attention,
                choice.renormalise,
                choice.banned,
                choice.forced,
                None if drawn is None else drawn.uniform,
                1.0 if drawn is None else drawn.temperature,
                0 if drawn is None else drawn.top_k,
                1.0 if drawn is None else drawn.top_p,
                None if choice.wanted is None else np.ascontiguousarray(choice.wanted, dtype=np.int64),
            )
        except _core.TooLongError as error:
            raise TextTooLongError(str(error)) from None
        except ValueError as error:
            raise DataError(str(error)) from None
        if found is None:
            found = every_token(*log_probs.shape)
        return Step(found, log_probs, following, attention)

    def join(self, one: State, other: State) -> State:
        """See :attr:`uwaga.decoder.Decoder.join`: sentences may stand at different positions."""
        assert isinstance(one, _core.State)
        assert isinstance(other, _core.State)
        return _core.State.join([one, other])

    def beam_search(self, rules: BeamRules) -> NativeBeamSearch:
        """See :attr:`uwaga.decoder.Decoder.beam_search`.

        Raises:
            DataError: the rules name tokens outside the vocabulary.
        """
        return NativeBeamSearch(self._core, self.symbols.end, rules)

    def running_batch(self) -> NativeRunningBatch:
        """See :class:`uwaga.decoder.Batching`."""
        return NativeRunningBatch(self._core, self._lists, self.symbols.end, self._check_weights)

    def attentions(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[Attentions]:
        """See :attr:`uwaga.decoder.Decoder.attentions`: the probabilities of its steps, to the bit.

        Raises:
            TextTooLongError: a side is longer than the model can take.
            DataError: a side is empty or holds an id outside the vocabulary.
            ModelError: the weights lie in a shared file, which was changed.
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
        """See :attr:`uwaga.decoder.Decoder.cross_attentions`; errors as of :meth:`attentions`."""
        return self.recording(False).cross_attentions(sources, targets)

    def recording(self, whole: bool) -> RecordingModel:
        """See :attr:`uwaga.decoder.Decoder.recording`."""
        return RecordingModel(self, whole)


class RecordingModel(NativeModel):
    """A model for one call, which keeps what it encodes and so records the decoder alone; one thread has it.

    What it encodes is the same, to the bit. With ``whole`` the encoder's matrices are kept too; without, no
    more than :data:`MOST_KEPT` bytes are, and what is beyond them is encoded again.
    """

    def __init__(self, model: NativeModel, whole: bool) -> None:
        vars(self).update(vars(model))
        self._whole = whole
        self._kept: dict[tuple[int, ...], tuple[_core.Memory, int]] = {}
        self._room = MOST_KEPT // _memory_bytes(self.settings, self.precision)

    def encode(self, sources: Sequence[Sequence[int]]) -> _core.Memory:
        """As :meth:`NativeModel.encode`."""
        if isinstance(self.settings, DecoderOnlySettings):
            return super().encode(sources)
        memory = self._encoded(sources, self._core.encode_recorded if self._whole else self._core.encode)
        self._room -= sum(map(len, sources))
        if self._whole or self._room >= 0:
            self._kept.update((tuple(source), (memory, at)) for at, source in enumerate(sources))
        return memory

    def attentions(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[Attentions]:
        """As :meth:`NativeModel.attentions`; sources that have been encoded here are not encoded again."""
        keys = list(map(tuple, sources))
        if not keys:
            return []
        try:
            if isinstance(self.settings, DecoderOnlySettings):
                whole = [[*key, *fed[1:]] for key, fed in zip(keys, targets, strict=True)]
                return [Attentions(decoder=one) for one, _ in self._core.attentions([], [], whole)]
            missing = list(dict.fromkeys(key for key in keys if key not in self._kept))
            if missing:
                self.encode(missing)
            memories, places = zip(*(self._kept[key] for key in keys), strict=True)
            decoders = self._core.attentions(memories, places, targets)
        except _core.TooLongError as error:
            raise TextTooLongError(str(error)) from None
        except ValueError as error:
            raise DataError(str(error)) from None
        return [
            Attentions(_encoder(memory)[at], *decoder)
            for memory, at, decoder in zip(memories, places, decoders, strict=True)
        ]

    def cross_attention(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], layer: int, head: int | None
    ) -> list[Floats]:
        """As :meth:`NativeModel.cross_attention`; what is far more than can be kept is worked on in parts."""
        if not isinstance(self.settings, TransformerSettings):
            return [one_head(None, layer, head) for _ in sources]
        sizes = Sizes.of(self.settings)
        layer = which_layer(layer, head, sizes.decoder_layers, sizes.decoder_heads)
        number = -1 if head is None else head
        made = self._led(
            sources,
            targets,
            lambda memories, places, fed: self._core.cross_attention(memories, places, fed, layer, number),
        )
        return [one_head(one[None], 0, None if head is None else 0) for one in made]

    def cross_attentions(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[Floats]:
        """As :meth:`NativeModel.cross_attentions`; what cannot all be kept is worked on in parts."""
        if not isinstance(self.settings, TransformerSettings):
            return [all_heads(None) for _ in sources]
        made = self._led(sources, targets, self._core.attentions)
        return [all_heads(cross) for _, cross in made]

    def _led(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        core: Callable[[Sequence[_core.Memory], Sequence[int], Sequence[Sequence[int]]], Sequence[Any]],
    ) -> list[Any]:
        """What the core makes of targets and of the memories of their sources, with their places in them."""
        found: dict[int, Any] = {}
        keys = list(map(tuple, sources))
        missing = [at for at, key in enumerate(keys) if key not in self._kept]
        parts = [[at for at, key in enumerate(keys) if key in self._kept]]
        parts += [missing[at : at + TOGETHER] for at in range(0, len(missing), TOGETHER)]
        for part in filter(None, parts):
            memories = [self._kept.get(keys[at]) for at in part]
            if memories[0] is None:
                memory = self._encoded([sources[at] for at in part], self._core.encode)
                memories = [(memory, row) for row in range(len(part))]
            whole, places = zip(*[one for one in memories if one], strict=True)
            try:
                found |= zip(part, core(whole, places, [targets[at] for at in part]), strict=True)
            except _core.TooLongError as error:
                raise TextTooLongError(str(error)) from None
            except ValueError as error:
                raise DataError(str(error)) from None
        return [found[at] for at in range(len(keys))]


def _memory_bytes(settings: EngineSettings, precision: str) -> int:
    """Of a source token's keys and values in all layers of a decoder."""
    sizes = Sizes.of(settings)
    numbers = 2 * sizes.decoder_layers * sizes.decoder_heads * sizes.decoder_head_width
    return numbers * (4 if precision == "float32" else 2)


def trim_heap() -> None:
    """Give back to the system what the C library keeps of memory that was freed."""
    _core.trim_heap()


def _encoder(memory: _core.Memory) -> list[Floats]:
    """The encoder's matrices of a memory that was recorded."""
    assert memory.encoder is not None
    return memory.encoder


def _relative(settings: EngineSettings) -> bool:
    return isinstance(settings, TransformerSettings) and settings.positions == "relative"


def _shape(settings: EngineSettings, precision: str) -> dict[str, float]:
    """What the core must know beside the weights."""
    sizes = Sizes.of(settings)
    scaled, distance, divided, recurrent = settings.attention_scale, 0, False, False
    if isinstance(settings, TransformerSettings):
        recurrent = settings.self_attention == "ssru"
        distance = settings.relative_distance if settings.positions == "relative" else 0
        divided = settings.output_scale
    return {
        "width": settings.width,
        "max_length": UNLIMITED if distance else settings.max_length,
        "encoder_layers": sizes.encoder_layers,
        "decoder_layers": sizes.decoder_layers,
        "encoder_heads": settings.heads,
        "encoder_head_width": sizes.encoder_head_width,
        "decoder_heads": sizes.decoder_heads,
        "decoder_head_width": sizes.decoder_head_width,
        "max_distance": distance,
        "pre_norm": int(settings.norm == "pre"),
        "rms": int(settings.norm_kind == "rms"),
        "gated": int(settings.gated),
        "recurrent": int(recurrent),
        "float16_cache": int(precision != "float32"),
        "epsilon": settings.norm_epsilon,
        "embedding_scale": settings.width**0.5 if settings.embedding_scale else 1.0,
        "output_scale": settings.width**-0.5 if divided else 1.0,
        "encoder_scale": sizes.encoder_head_width**-0.5 if scaled else 1.0,
        "decoder_scale": sizes.decoder_head_width**-0.5 if scaled else 1.0,
        "activation": ACTIVATIONS[settings.activation],
    }


def _vectors(settings: EngineSettings, packed: Packed) -> dict[str, Floats]:
    """The core's vectors: the packed ones, with positions as tables."""
    made = dict(packed.vectors)
    if isinstance(settings, TransformerSettings):
        _put_positions(settings, made)
    elif "positions.weight" not in made:
        raise ModelError("the engine cannot take these weights: positions.weight is missing")
    else:
        made["target_positions"] = made.pop("positions.weight")[settings.position_offset :]
        made = {name.replace("embedding_norm.", "target_norm."): vector for name, vector in made.items()}
    return {name: np.ascontiguousarray(vector, dtype=np.float32) for name, vector in made.items()}


def _put_positions(settings: TransformerSettings, made: dict[str, Floats]) -> None:
    """The tables of both sides of an encoder-decoder in the place of what is stored."""
    stored = [made.pop(f"{side}_positions.weight", None) for side in ("source", "target")]
    table = sinusoids(settings) if settings.positions == "sinusoidal" else None
    for side, weight in zip(("source", "target"), stored, strict=True):
        if table is not None:
            made[f"{side}_positions"] = table
        elif weight is None:
            raise ModelError(f"the engine cannot take these weights: {side}_positions.weight is missing")
        elif settings.positions == "learned":
            made[f"{side}_positions"] = weight[settings.position_offset :]
        else:
            made[f"{side}_relative_bias"] = distances(weight, settings, both_ways=side == "source")
