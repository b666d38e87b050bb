"""Loading: CTranslate2's folders, files in memory and compute types, and any model that uwaga runs."""

from __future__ import annotations

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
from uwaga.compat.ctranslate2.errors import ArgumentError, RunError, as_argument_errors
from uwaga.decoder import Decoder
from uwaga.engine import NativeModel
from uwaga.engine.shortlist import Shortlist
from uwaga.errors import ModelError, shown
from uwaga.files.lines import text_lines
from uwaga.library.hub import find_model
from uwaga.results.translation import Hypothesis
from uwaga.search import SearchOptions
from uwaga.settings.load_options import LoadOptions
from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.loading import has_gpu, load_generator, load_model, read_model
from uwaga.translator.score import Scorer, step_scorer

VMAP = "vmap.txt"
COMPUTE_TYPES = {
    "cpu": {
        "auto": "int8",
        "int8": "int8",
        "int8_float32": "int8",
        "float32": "float32",
        "bfloat16": "bfloat16",
    },
    "cuda": {"auto": "float16", "float16": "float16", "float32": "float32", "bfloat16": "bfloat16"},
}
"""For each device, CTranslate2's compute types that uwaga has, and the number formats that they are."""
OTHERS = ("int16", "int8_float16", "int8_bfloat16")
"""Compute types that uwaga does not have on any device."""
MARK = -1
"""Stands for the tokens of a source, to find the special tokens around them."""
NAMES = {"int8": "int8_float32"}
"""Number formats that CTranslate2 calls by another name."""


@dataclass(frozen=True)
class Place:
    """Where a model is, and how it is to be loaded; checked, except for the model itself.

    Attributes:
        name: a folder, or a name that uwaga knows; with ``files``, a name for messages.
        device: ``cpu`` or ``cuda``.
        device_index: the number of the GPU.
        compute_type: one of :data:`COMPUTE_TYPES`, or ``default``.
        threads: CPU threads of a call; 0 is all cores.
        files: the contents of the files of the folder, by name, if they are not on disk.
    """

    name: str
    device: str
    device_index: int
    compute_type: str
    threads: int
    files: Mapping[str, bytes] | None

    @classmethod
    def of(
        cls,
        name: str | Path,
        device: str,
        device_index: int | Sequence[int],
        compute_type: str | Mapping[str, str],
        threads: int,
        files: Mapping[str, Any] | None,
    ) -> Place:
        """Return the place for the arguments of a constructor."""
        if device not in ("cpu", "cuda", "auto"):
            raise ArgumentError(f"device={shown(device)}: unsupported device; use cpu, cuda or auto")
        if device == "auto":
            device = "cuda" if has_gpu() else "cpu"
        indices = [device_index] if isinstance(device_index, int) else list(device_index)
        if len(indices) != 1 or (device == "cpu" and indices != [0]):
            raise ArgumentError(
                f"device_index={shown(device_index)}: invalid device index: a model runs on one device, the "
                "only index of the CPU is 0, and inter_threads runs several batches at a time"
            )
        wanted = compute_type.get(device, "default") if isinstance(compute_type, Mapping) else compute_type
        known = COMPUTE_TYPES[device]
        if not isinstance(wanted, str) or wanted not in ("default", *known):
            lacking = wanted in (*OTHERS, *COMPUTE_TYPES["cpu"], *COMPUTE_TYPES["cuda"])
            raise ArgumentError(
                f"compute_type={shown(compute_type)}: "
                + ("unsupported compute type: " if lacking else "invalid compute type: ")
                + f"on {device}, uwaga computes in {', '.join(known)}"
            )
        return cls(str(name), device, indices[0], wanted, threads, _contents(files))

    def load(self, task: Task) -> LoadedModel:
        """Load the model."""
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
        theirs = detect(folder) is CTRANSLATE2
        checkpoint = read_folder(folder, spaced=True) if theirs else read_model(folder)
        if checkpoint.task != task:
            raise ModelError(
                f"this model cannot be used as a {'translator' if task == 'translate' else 'generator'}"
            )
        file = read_model_file(folder / MODEL, contents=False) if theirs else None
        dtype = COMPUTE_TYPES[self.device].get(self.compute_type, "auto")
        if file is not None and self.compute_type == "default" and self.device == "cpu":
            integers = any(
                one.stored.dtype == np.int8 and one.stored.ndim > 1 for one in file.variables.values()
            )
            dtype = "int8" if integers else "float32"
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
            decoder, *_ = load_generator(checkpoint, options)
        precision = (
            decoder.precision if isinstance(decoder, NativeModel) else dtype.replace("auto", "float32")
        )
        vmap = folder / VMAP
        return LoadedModel(
            decoder,
            replace(checkpoint, weights=None, packed=None),  # the decoder has its own
            theirs,
            NAMES.get(precision, precision),
            scorer or step_scorer(decoder),
            _alignment(file) if file is not None else (-1, 0),
            list(text_lines(vmap)) if theirs and vmap.is_file() else None,
        )


def _contents(files: Mapping[str, Any] | None) -> Mapping[str, bytes] | None:
    """Return the contents of files given as bytes or as open files."""
    if files is None:
        return None
    found = {}
    for name, content in files.items():
        read = getattr(content, "read", None)
        value = content if read is None else read()
        if not isinstance(value, bytes | bytearray):
            raise ArgumentError(f"files: {shown(name)} must be bytes or a file opened in binary mode")
        if not isinstance(name, str) or name in ("", ".", "..") or Path(name).name != name or "\0" in name:
            raise ArgumentError(f"files: {shown(name)} is not the name of a file in a folder")
        found[name] = bytes(value)
    return found


def _alignment(file: ModelFile) -> tuple[int, int]:
    """Return the decoder layer whose attention a file returns, and how many of its heads; 0 is all."""
    variables, found = Variables(file), []
    for name, default in (("alignment_layer", -1), ("alignment_heads", 1)):
        value = variables.scalar("decoder", name)
        found.append(default if value is None else int(value))
    layer, heads = found
    layers = variables.layers("decoder")
    if not -layers <= layer < layers or heads < 0:
        raise ModelError(
            f"{file.path}: it returns the attention of {heads} heads of layer {layer} of {layers}"
        )
    return layer, heads


class Vocabulary:
    """The tokens of one side of a model."""

    def __init__(self, tokeniser: Subwords, size: int) -> None:
        self._tokens = tokeniser.pieces(range(size))
        self._ids = {token: number for number, token in reversed(list(enumerate(self._tokens)))}
        self._unknown = tokeniser.symbols.unknown

    def ids(self, tokens: Sequence[str]) -> list[int]:
        """Return the ids of tokens; one that is not in the vocabulary has that of the unknown token."""
        return [self._ids.get(token, self._unknown) for token in tokens]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Return the tokens of ids."""
        return [self._tokens[number] for number in ids]

    @property
    def unknown(self) -> str:
        """The unknown token."""
        return self._tokens[self._unknown]


@dataclass(frozen=True)
class Framed:
    """The ids of a source: ``before`` special tokens, ``kept`` of its tokens, and special tokens again."""

    ids: list[int]
    before: int
    kept: int


@dataclass(frozen=True)
class LoadedModel:
    """A model in memory, as the methods of this package need it.

    Attributes:
        decoder: the model as search sees it.
        checkpoint: what its files say.
        theirs: True if they are CTranslate2's.
        compute_type: its number format, as CTranslate2 calls it.
        scorer: scores known targets.
        alignment: the decoder layer and the number of heads whose attention is returned; 0 for all.
        vmap: the lines of its vocabulary map, None if it has none.
    """

    decoder: Decoder
    checkpoint: Checkpoint
    theirs: bool
    compute_type: str
    scorer: Scorer
    alignment: tuple[int, int]
    vmap: list[str] | None

    @cached_property
    def source(self) -> Vocabulary:
        """Tokens of the source side."""
        return Vocabulary(self.checkpoint.source, self.checkpoint.vocabulary[0])

    @cached_property
    def target(self) -> Vocabulary:
        """Tokens of the target side, or of the only one."""
        return Vocabulary(self.checkpoint.target, self.checkpoint.vocabulary[1])

    @property
    def end(self) -> str:
        """The end token."""
        return self.target.tokens([self.decoder.symbols.end])[0]

    @property
    def decoding(self) -> SearchOptions:
        """The model's own search options."""
        return self.checkpoint.decoding

    def result_ids(self, hypothesis: Hypothesis, with_end: bool) -> list[int]:
        """Return the ids of a hypothesis, ``with_end`` including the end token if it has one."""
        ended = with_end and not hypothesis.truncated
        return [*hypothesis.tokens, self.decoder.symbols.end] if ended else list(hypothesis.tokens)

    def framed(self, tokens: Sequence[str], most: int) -> Framed:
        """Return a source as the model reads it, cut to ``most`` ids, of which an end token stays the last;
        0 cuts nothing.

        CTranslate2's folders say which special tokens are added. In others, a source that does not end with
        the end token gets those of the model's tokeniser.
        """
        tokeniser, ids = self.checkpoint.source, self.source.ids(tokens)
        end = tokeniser.symbols.end
        own = not self.theirs and ids[-1:] == [end]
        around = [MARK] if own else tokeniser.add_special_tokens([MARK])
        before = around.index(MARK)
        whole = [*around[:before], *ids, *around[before + 1 :]]
        if most and len(whole) > most:
            whole = [*whole[: most - 1], end if whole[-1] == end else whole[most - 1]]
        kept = max(len(whole) - len(around) + 1, 0)
        return Framed(whole, before, kept)

    @cached_property
    def with_vmap(self) -> Decoder:
        """The model whose target tokens its vocabulary map restricts."""
        if self.vmap is None:
            return self.decoder
        if not isinstance(self.decoder, NativeModel):
            raise ArgumentError("use_vmap: a vocabulary map works on the CPU only")
        unlisted = [self.end, self.target.unknown]
        listed: dict[int, list[int]] = {}
        common: set[int] = set(self.target.ids(unlisted))
        for line, text in enumerate(self.vmap, start=1):
            word, _, targets = text.partition("\t")
            if " " in word:
                raise ArgumentError(
                    f"use_vmap: {VMAP}, line {line}: uwaga lists the target tokens of single source tokens, "
                    "not of n-grams"
                )
            ids = self.target.ids([target for target in targets.split(" ") if target])
            if not word:
                common |= set(ids)
            elif (number := self.source.ids([word])[0]) != self.checkpoint.source.symbols.unknown:
                listed[number] = sorted({*listed.get(number, []), *ids})
        rows = [listed.get(number, []) for number in range(self.decoder.source_vocabulary)]
        first = np.cumsum([0, *map(len, rows)], dtype=np.int32)
        flat = np.array([token for row in rows for token in row], dtype=np.int32)
        shortlist = Shortlist(np.array(sorted(common), dtype=np.int32), first, flat, self.decoder.vocabulary)
        return self.decoder.with_shortlist(shortlist)
