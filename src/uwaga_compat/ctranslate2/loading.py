"""Loading of CTranslate2 models from folders or memory, and of all other models that uwaga runs."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from uwaga.checkpoints.checkpoint import Checkpoint, Task
from uwaga.checkpoints.formats.ctranslate2.binary import ModelFile, read_model_file
from uwaga.checkpoints.formats.ctranslate2.folder import MODEL, read_folder
from uwaga.checkpoints.formats.ctranslate2.variables import Variables
from uwaga.checkpoints.registry import CTRANSLATE2, detect
from uwaga.decoder import Decoder
from uwaga.engine import NativeModel
from uwaga.engine.shortlist import Shortlist
from uwaga.errors import ModelError, quoted
from uwaga.files.lines import text_lines
from uwaga.library.hub import find_model
from uwaga.results.translation import Hypothesis
from uwaga.search import SearchOptions
from uwaga.settings.load_options import Dtype, LoadOptions
from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.loading import has_gpu, load_generator, load_model, read_model
from uwaga.translator.score import Scorer, step_scorer
from uwaga_compat.ctranslate2.adjusted import SinglePrecisionDecoder
from uwaga_compat.ctranslate2.errors import ArgumentError, RunError, as_argument_errors

LOGGER = logging.getLogger("uwaga")
VMAP_FILE = "vmap.txt"
COMPUTE_TYPES: Mapping[str, Mapping[str, Dtype]] = {
    "cpu": {
        "auto": "int8",
        "int8": "int8",
        "int8_float32": "int8",
        "float32": "float32",
        "bfloat16": "bfloat16",
    },
    "cuda": {"auto": "float16", "float16": "float16", "float32": "float32", "bfloat16": "bfloat16"},
}
"""The number formats of CTranslate2's compute types that uwaga supports, by device and compute type."""
UNSUPPORTED_COMPUTE_TYPES = ("int16", "int8_float16", "int8_bfloat16")
"""Compute types of CTranslate2 that uwaga does not support on any device."""
PLACEHOLDER_ID = -1
"""Placeholder for the tokens of a source, used to find the special tokens that surround them."""
COMPUTE_TYPE_NAMES = {"int8": "int8_float32"}
"""CTranslate2's compute types by uwaga's name of the number format, where the two names differ."""


@dataclass(frozen=True)
class ModelArguments:
    """The checked arguments for loading a model; the model has not yet been read.

    Attributes:
        name: name or folder of the model; if ``files`` is given, only a name for messages.
        device: ``cpu`` or ``cuda``.
        device_index: index of the GPU.
        compute_type: one of :data:`COMPUTE_TYPES`, or ``default``.
        threads: number of CPU threads per call; 0 for all cores.
        files: the contents of the model files by name, None if they are on disk.
    """

    name: str
    device: str
    device_index: int
    compute_type: str
    threads: int
    files: Mapping[str, bytes] | None

    @classmethod
    def from_arguments(
        cls,
        name: str | Path,
        device: str,
        device_index: int | Sequence[int],
        compute_type: str | Mapping[str, str],
        threads: int,
        files: Mapping[str, Any] | None,
    ) -> ModelArguments:
        """Return the arguments of a constructor after checking them."""
        if device not in ("cpu", "cuda", "auto"):
            raise ArgumentError(f"device={quoted(device)}: unsupported device; use cpu, cuda or auto")
        if device == "auto":
            device = "cuda" if has_gpu() else "cpu"
        indices = [device_index] if isinstance(device_index, int) else list(device_index)
        if len(indices) != 1 or (device == "cpu" and indices != [0]):
            raise ArgumentError(
                f"device_index={quoted(device_index)}: invalid device index; give the index of one device, "
                "which is 0 for the CPU, and use inter_threads to run several batches in parallel"
            )
        if not isinstance(compute_type, str | Mapping):
            raise ArgumentError(
                f"incompatible constructor arguments: compute_type={quoted(compute_type)}; give a name or "
                "a dictionary of names by device"
            )
        requested_type = (
            compute_type.get(device, "default") if isinstance(compute_type, Mapping) else compute_type
        )
        supported_types = COMPUTE_TYPES[device]
        if not isinstance(requested_type, str) or requested_type not in ("default", *supported_types):
            is_known = requested_type in (
                *UNSUPPORTED_COMPUTE_TYPES,
                *COMPUTE_TYPES["cpu"],
                *COMPUTE_TYPES["cuda"],
            )
            raise ArgumentError(
                f"compute_type={quoted(compute_type)}: "
                + ("unsupported compute type: " if is_known else "invalid compute type: ")
                + f"on {device}, uwaga supports {', '.join(supported_types)}"
            )
        return cls(str(name), device, indices[0], requested_type, threads, _read_contents(files))

    def load(self, task: Task) -> LoadedModel:
        """Return the loaded model."""
        try:
            with as_argument_errors():
                if self.files is None:
                    return self._load(find_model(self.name), task)
                with tempfile.TemporaryDirectory(prefix="uwaga-") as folder:
                    for name, content in self.files.items():
                        (Path(folder) / name).write_bytes(content)
                    return self._load(Path(folder), task)
        except ModelError as error:
            raise RunError(f"unable to open file or model {self.name!r}: {error}") from None

    def _load(self, folder: Path, task: Task) -> LoadedModel:
        is_ctranslate2 = detect(folder) is CTRANSLATE2
        checkpoint = read_folder(folder, is_segmented=True) if is_ctranslate2 else read_model(folder)
        if checkpoint.task != task:
            raise ModelError(
                f"this model cannot be used as a {'translator' if task == 'translate' else 'generator'}"
            )
        file = read_model_file(folder / MODEL, with_contents=False) if is_ctranslate2 else None
        dtype = COMPUTE_TYPES[self.device].get(self.compute_type, "auto")
        if file is not None and self.compute_type == "default" and self.device == "cpu":
            has_int8_weights = any(
                variable.array.dtype == np.int8 and variable.array.ndim > 1
                for variable in file.variables.values()
            )
            dtype = "int8" if has_int8_weights else "float32"
        options = LoadOptions(
            device="cpu" if self.device == "cpu" else f"cuda:{self.device_index}",
            dtype=dtype,
            threads=self.threads,
        )
        scorer: Scorer | None = None
        if task == "translate":
            model = load_model(checkpoint, options)
            decoder, scorer = model.decoder, model.scorer
        else:
            decoder = load_generator(checkpoint, options).decoder
        LOGGER.info("loaded %s on %s with %d threads", self.name, self.device, self.threads)
        precision = (
            decoder.precision if isinstance(decoder, NativeModel) else dtype.replace("auto", "float32")
        )
        if is_ctranslate2 and precision == "float32" and isinstance(decoder, NativeModel):
            # These scores equal CTranslate2's, but take 1.35 times as long to compute.
            scorer = step_scorer(SinglePrecisionDecoder(decoder))
        vmap = folder / VMAP_FILE
        return LoadedModel(
            decoder,
            replace(checkpoint, weights=None, packed=None),  # the decoder has loaded them
            is_ctranslate2,
            COMPUTE_TYPE_NAMES.get(precision, precision),
            scorer or step_scorer(decoder),
            _alignment(file) if file is not None else (-1, 0),
            list(text_lines(vmap)) if is_ctranslate2 and vmap.is_file() else None,
        )


def _read_contents(files: Mapping[str, Any] | None) -> Mapping[str, bytes] | None:
    """Return the contents of files by name; files are given as bytes or open files."""
    if files is None:
        return None
    contents = {}
    for name, content in files.items():
        read = getattr(content, "read", None)
        value = content if read is None else read()
        if not isinstance(value, bytes | bytearray):
            raise ArgumentError(f"files: {quoted(name)} must be bytes or a file opened in binary mode")
        if not isinstance(name, str) or name in ("", ".", "..") or Path(name).name != name or "\0" in name:
            raise ArgumentError(f"files: {quoted(name)} is not a plain file name")
        contents[name] = bytes(value)
    return contents


def _alignment(file: ModelFile) -> tuple[int, int]:
    """Return the index of a model file's alignment layer, and the number of alignment heads, 0 for all."""
    variables, values = Variables(file), []
    for name, default in (("alignment_layer", -1), ("alignment_heads", 1)):
        value = variables.scalar("decoder", name)
        values.append(default if value is None else int(value))
    layer, heads = values
    layers = variables.layer_count("decoder")
    if not -layers <= layer < layers or heads < 0:
        raise ModelError(
            f"{file.path}: invalid alignment: {heads} heads of layer {layer}, but the decoder has {layers} "
            "layers"
        )
    return layer, heads


class Vocabulary:
    """The source or the target vocabulary of a model."""

    def __init__(self, tokeniser: Subwords, size: int) -> None:
        self._tokens = tokeniser.pieces(range(size))
        self._ids = {token: token_id for token_id, token in reversed(list(enumerate(self._tokens)))}
        self._unknown = tokeniser.symbols.unknown

    def ids(self, tokens: Sequence[str]) -> list[int]:
        """Return the ids of tokens; a token that is not in the vocabulary has the unknown token's id."""
        return [self._ids.get(token, self._unknown) for token in tokens]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Return the tokens for the given ids."""
        return [self._tokens[token_id] for token_id in ids]

    @property
    def unknown(self) -> str:
        """The text of the unknown token."""
        return self._tokens[self._unknown]


@dataclass(frozen=True)
class FramedSource:
    """The token ids of a source with special tokens.

    ``ids[start : start + count]`` are the ids without the special tokens.
    """

    ids: list[int]
    start: int
    count: int


@dataclass(frozen=True)
class LoadedModel:
    """A model in memory.

    Attributes:
        decoder: decoder of the model.
        checkpoint: checkpoint of the model, without weights.
        is_ctranslate2: True if the model is in CTranslate2's format.
        compute_type: CTranslate2's name of the number format.
        scorer: function that scores given targets.
        alignment: index of the decoder layer whose attention is returned, and the number of its heads, 0 for
            all.
        vmap: lines of the vocabulary map, None if there is none.
    """

    decoder: Decoder
    checkpoint: Checkpoint
    is_ctranslate2: bool
    compute_type: str
    scorer: Scorer
    alignment: tuple[int, int]
    vmap: list[str] | None

    @cached_property
    def source(self) -> Vocabulary:
        """The source vocabulary."""
        return Vocabulary(self.checkpoint.source, self.checkpoint.vocabulary[0])

    @cached_property
    def target(self) -> Vocabulary:
        """The target vocabulary or, for a decoder-only model, the only vocabulary."""
        return Vocabulary(self.checkpoint.target, self.checkpoint.vocabulary[1])

    @property
    def end(self) -> str:
        """The text of the end token."""
        return self.target.tokens([self.decoder.symbols.end])[0]

    @property
    def decoding(self) -> SearchOptions:
        """The model's default search options."""
        return self.checkpoint.decoding

    def result_ids(self, hypothesis: Hypothesis, with_end: bool) -> list[int]:
        """Return a hypothesis's token ids; ``with_end`` adds the end token if the hypothesis is complete."""
        includes_end = with_end and not hypothesis.truncated
        return [*hypothesis.tokens, self.decoder.symbols.end] if includes_end else list(hypothesis.tokens)

    def frame_source(self, tokens: Sequence[str], max_length: int) -> FramedSource:
        """Return the ids of a source with special tokens, truncated to ``max_length`` unless it is 0.

        A final end token is kept. CTranslate2's folders state which special tokens are added. For other
        models, the tokeniser's special tokens are added unless the source ends with the end token.
        """
        tokeniser, ids = self.checkpoint.source, self.source.ids(tokens)
        end = tokeniser.symbols.end
        has_end = not self.is_ctranslate2 and ids[-1:] == [end]
        frame = [PLACEHOLDER_ID] if has_end else tokeniser.add_special_tokens([PLACEHOLDER_ID])
        start = frame.index(PLACEHOLDER_ID)
        framed_ids = [*frame[:start], *ids, *frame[start + 1 :]]
        if max_length and len(framed_ids) > max_length:
            framed_ids = [
                *framed_ids[: max_length - 1],
                end if framed_ids[-1] == end else framed_ids[max_length - 1],
            ]
        count = max(len(framed_ids) - len(frame) + 1, 0)
        return FramedSource(framed_ids, start, count)

    def vmap_decoder(self, prefix: Sequence[int]) -> Decoder:
        """Return the decoder, restricted to target tokens in the vocabulary map or in a prefix."""
        if self.vmap is None:
            return self.decoder
        decoder = self._vmap_decoder
        assert decoder.shortlist is not None
        return decoder.with_shortlist(decoder.shortlist.with_tokens(prefix)) if prefix else decoder

    @cached_property
    def _vmap_decoder(self) -> NativeModel:
        assert self.vmap is not None
        if not isinstance(self.decoder, NativeModel):
            raise ArgumentError("use_vmap: vocabulary maps are supported only on the CPU")
        special_tokens = [self.end, self.target.unknown]
        targets_by_source: dict[int, list[int]] = {}
        common_tokens: set[int] = set(self.target.ids(special_tokens))
        for line, text in enumerate(self.vmap, start=1):
            word, _, targets = text.partition("\t")
            if " " in word:
                raise ArgumentError(
                    f"use_vmap: {VMAP_FILE}, line {line}: uwaga supports vocabulary maps only for "
                    "single source tokens, not for n-grams"
                )
            ids = self.target.ids([target for target in targets.split(" ") if target])
            if not word:
                common_tokens |= set(ids)
            elif (token_id := self.source.ids([word])[0]) != self.checkpoint.source.symbols.unknown:
                targets_by_source[token_id] = sorted({*targets_by_source.get(token_id, []), *ids})
        rows = [targets_by_source.get(token_id, []) for token_id in range(self.decoder.source_vocabulary)]
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int32)
        flat_tokens = np.array([token for row in rows for token in row], dtype=np.int32)
        shortlist = Shortlist(
            np.array(sorted(common_tokens), dtype=np.int32), offsets, flat_tokens, self.decoder.vocabulary
        )
        return self.decoder.with_shortlist(shortlist)
