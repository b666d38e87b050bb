"""The variables of a ``model.bin``: settings, features and weights, of which each must be used."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from uwaga.checkpoints.checkpoint import WeightSummary
from uwaga.checkpoints.formats.ctranslate2.binary import ModelFile, Variable
from uwaga.checkpoints.storage.tensors import FORMATS, StoredTensor
from uwaga.errors import ModelError
from uwaga.results.attention import Floats

ACTIVATIONS = ("relu", "gelu_tanh", "silu", "gelu")
UNSUPPORTED = {4: "the sigmoid approximation of GELU", 5: "tanh", 6: "sigmoid"}
NEUTRAL = {
    "alibi": (0,),
    "multi_query_attention": (0,),
    "with_relative_position": (0,),
    "scale_outputs": (1,),
}
"""Features that we lack, with the values that switch them off."""
SILENT = (
    "alibi_use_positive_positions",
    "scale_alibi",
    "alignment_layer",
    "alignment_heads",
    "embeddings_merge",
)
"""What has no effect on translations where ``NEUTRAL`` is neutral and there is one source."""
FRAMING = ("with_source_bos", "with_source_eos", "with_target_bos", "num_heads", "pre_norm", "activation")


@dataclass(frozen=True)
class StoredVariable(StoredTensor):
    """A variable of the file; integers are dequantised by a scale."""

    variable: Variable

    @classmethod
    def of(cls, variable: Variable, path: Path) -> StoredVariable:
        """Return a variable as a stored tensor."""
        kind = "BF16" if variable.bfloat16 else FORMATS[variable.stored.dtype.name]
        return cls(variable.name, path, kind, variable.stored, variable)

    @property
    def floating(self) -> bool:
        """True: integers are dequantised to weights."""
        return True

    def floats(self) -> Floats:
        """Return a copy in float32; see :meth:`Variable.floats`."""
        return self.variable.floats(self.path)


class Variables:
    """The variables of a file; each must be used."""

    def __init__(self, file: ModelFile) -> None:
        self.file = file
        self._seen: set[str] = set()

    def has(self, name: str) -> bool:
        """Return True if the file has a variable of this name."""
        return name in self.file.variables

    def variable(self, name: str) -> Variable:
        """Return the variable of this name and mark it as used."""
        found = self.file.variables.get(name)
        if found is None:
            kind = self.file.specification or "TransformerSpec"
            raise ModelError(f"{self.file.path}: {name!r} is missing, which a {kind} holds")
        self._seen |= {name, f"{name}_scale"}
        return found

    def tensors(self) -> dict[str, StoredTensor]:
        """Return all variables as stored tensors."""
        return {name: StoredVariable.of(one, self.file.path) for name, one in self.file.variables.items()}

    def scalar(self, scope: str, name: str) -> float | None:
        """Return a scalar of this scope or of the whole file (before revision 5), None if it is missing."""
        for full in (f"{scope}/{name}", name):
            if full in self.file.variables:
                stored = self.variable(full).stored
                if stored.size != 1:
                    raise ModelError(f"{self.file.path}: {full!r} should be one number, not {stored.shape}")
                value = float(stored.reshape(()))
                if not math.isfinite(value):
                    raise ModelError(f"{self.file.path}: {full!r} is {value}, not a number")
                return value
        return None

    def flag(self, scope: str, name: str, default: bool) -> bool:
        """Return a boolean."""
        value = self.scalar(scope, name)
        return default if value is None else bool(value)

    def framing(self) -> dict[str, bool]:
        """Return the flags for special tokens that files before version 6 hold."""
        return {
            name: self.flag("", name, name == "with_target_bos")
            for name in ("with_source_bos", "with_source_eos", "with_target_bos")
        }

    def refuse_features(self) -> None:
        """Raise ModelError for a feature that the file enables and uwaga lacks."""
        for scope in ("encoder", "decoder", ""):
            for name, neutral in NEUTRAL.items():
                value = self.scalar(scope, name)
                if value is not None and value not in neutral:
                    raise ModelError(f"{self.file.path}: {name!r} = {value:g} is not supported by uwaga")
            for name in SILENT:
                self._seen.add(f"{scope}/{name}" if scope else name)
        for name in FRAMING:
            self._seen.add(name)

    @property
    def looked_at(self) -> frozenset[str]:
        """The variables that have been used or have no effect."""
        return frozenset(self._seen)

    def layers(self, scope: str) -> int:
        """Return the number of layers of a stack."""
        count = 0
        while self.has(f"{scope}/layer_{count}/ffn/linear_0/weight"):
            count += 1
        if not count:
            raise ModelError(f"{self.file.path}: the {scope} has no layers")
        return count

    def shape(self, name: str, axes: int) -> tuple[int, ...]:
        """Return the shape of a variable after checking its number of axes."""
        found = self.variable(name).stored.shape
        if len(found) != axes or not all(found):
            raise ModelError(f"{self.file.path}: {name!r} has shape {found}, not {axes} axes")
        return found


def heads(stored: Variables, scope: str, default: int) -> int:
    """Return the attention heads of a stack."""
    stated = stored.scalar(scope, "num_heads")
    return default if stated is None else int(stated)


def activation(stored: Variables, scope: str) -> str:
    """Return the activation of the feed-forward layers."""
    number = int(stored.scalar(scope, "activation") or 0)
    if not 0 <= number < len(ACTIVATIONS):
        raise ModelError(
            f"{stored.file.path}: activation {number} ({UNSUPPORTED.get(number, 'unknown')}) is not supported"
        )
    return ACTIVATIONS[number]


def embedding(stored: Variables, scope: str) -> str:
    """Return the name of the embeddings of a stack."""
    name = f"{scope}/embeddings_0/weight"
    return name if stored.has(name) else f"{scope}/embeddings/weight"


def scaled(stored: Variables, scope: str) -> bool:
    """Return True if embeddings are scaled by the square root of the width; other factors are rejected."""
    table = embedding(stored, scope)
    older = f"{table.removesuffix('/weight')}/multiply_by_sqrt_depth"
    name = f"{scope}/scale_embeddings" if stored.has(f"{scope}/scale_embeddings") else older
    if not stored.has(name):
        return True
    variable = stored.variable(name)
    if variable.stored.size != 1:
        raise ModelError(f"{stored.file.path}: {name!r} should be one number, not {variable.stored.shape}")
    if not _is_float(variable):
        return bool(variable.stored.reshape(()))
    value = float(variable.floats(stored.file.path).reshape(()))
    root = math.sqrt(stored.shape(table, 2)[1])
    for known, answer in ((1.0, False), (root, True)):
        if math.isclose(value, known, rel_tol=1e-3):  # it may have been rounded to 16 bits
            return answer
    raise ModelError(
        f"{stored.file.path}: embeddings are multiplied by {value:g}, which uwaga does not support"
    )


def _is_float(variable: Variable) -> bool:
    return variable.bfloat16 or variable.stored.dtype.kind == "f"


def summary(file: ModelFile) -> WeightSummary:
    """Return the sizes of the weights, including integers with a scale."""
    distinct = {id(variable): variable for variable in file.variables.values()}.values()
    tensors = [
        StoredVariable.of(variable, file.path)
        for variable in distinct
        if variable.stored.ndim and not variable.name.endswith("_scale")
    ]
    return WeightSummary.of(tensors)
