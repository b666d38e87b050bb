"""The variables of a ``model.bin``: settings, features and weights; each must be used."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from uwaga.checkpoints.checkpoint import WeightSummary
from uwaga.checkpoints.formats.ctranslate2.binary import ModelFile, Variable
from uwaga.checkpoints.storage.tensors import FORMAT_NAMES, StoredTensor
from uwaga.errors import ModelError
from uwaga.results.attention import Floats

ACTIVATIONS = ("relu", "gelu_tanh", "silu", "gelu")
UNSUPPORTED_ACTIVATIONS = {4: "the sigmoid approximation of GELU", 5: "tanh", 6: "sigmoid"}
NEUTRAL_VALUES = {
    "alibi": (0,),
    "multi_query_attention": (0,),
    "with_relative_position": (0,),
    "scale_outputs": (1,),
}
"""Features that uwaga lacks, with the values that disable them."""
INERT_VARIABLES = (
    "alibi_use_positive_positions",
    "scale_alibi",
    "alignment_layer",
    "alignment_heads",
    "embeddings_merge",
)
"""Variables without effect on translations if the features of ``NEUTRAL_VALUES`` are disabled."""
FILE_SETTINGS = (
    "with_source_bos",
    "with_source_eos",
    "with_target_bos",
    "num_heads",
    "pre_norm",
    "activation",
)


@dataclass(frozen=True)
class StoredVariable(StoredTensor):
    """A variable as a stored tensor; integers are dequantised by a scale."""

    variable: Variable

    @classmethod
    def from_variable(cls, variable: Variable, path: Path) -> StoredVariable:
        """Return a variable as a stored tensor."""
        kind = "BF16" if variable.bfloat16 else FORMAT_NAMES[variable.stored.dtype.name]
        return cls(variable.name, path, kind, variable.stored, variable)

    @property
    def is_floating(self) -> bool:
        """Always True, since integers are dequantised to weights."""
        return True

    def floats(self) -> Floats:
        """Return a copy in float32; see :meth:`Variable.floats`."""
        return self.variable.floats(self.path)


class Variables:
    """The variables of a file, with a record of those that have been used."""

    def __init__(self, file: ModelFile) -> None:
        self.file = file
        self._used: set[str] = set()

    def has_variable(self, name: str) -> bool:
        """Return True if the file has a variable of this name."""
        return name in self.file.variables

    def variable(self, name: str) -> Variable:
        """Return the variable of this name and mark it as used."""
        entry = self.file.variables.get(name)
        if entry is None:
            kind = self.file.specification or "TransformerSpec"
            raise ModelError(f"{self.file.path}: {name!r}, which a {kind} requires, is missing")
        self._used |= {name, f"{name}_scale"}
        return entry

    def tensors(self) -> dict[str, StoredTensor]:
        """Return all variables as stored tensors."""
        return {
            name: StoredVariable.from_variable(variable, self.file.path)
            for name, variable in self.file.variables.items()
        }

    def scalar(self, scope: str, name: str) -> float | None:
        """Return a scalar of a scope or of the file (before revision 5), or None if it is missing."""
        for key in (f"{scope}/{name}", name):
            if key in self.file.variables:
                stored = self.variable(key).stored
                if stored.size != 1:
                    raise ModelError(f"{self.file.path}: {key!r} should be one number, not {stored.shape}")
                value = float(stored.reshape(()))
                if not math.isfinite(value):
                    raise ModelError(f"{self.file.path}: {key!r} is {value}, not a number")
                return value
        return None

    def flag(self, scope: str, name: str, default: bool) -> bool:
        """Return a boolean."""
        value = self.scalar(scope, name)
        return default if value is None else bool(value)

    def special_token_flags(self) -> dict[str, bool]:
        """Return the flags for special tokens in files before version 6."""
        return {
            name: self.flag("", name, name == "with_target_bos")
            for name in ("with_source_bos", "with_source_eos", "with_target_bos")
        }

    def reject_unsupported(self) -> None:
        """Raise ModelError if the file enables a feature that uwaga lacks."""
        for scope in ("encoder", "decoder", ""):
            for name, neutral in NEUTRAL_VALUES.items():
                value = self.scalar(scope, name)
                if value is not None and value not in neutral:
                    raise ModelError(f"{self.file.path}: {name!r} = {value:g} is not supported by uwaga")
            for name in INERT_VARIABLES:
                self._used.add(f"{scope}/{name}" if scope else name)
        for name in FILE_SETTINGS:
            self._used.add(name)

    @property
    def used(self) -> frozenset[str]:
        """The variables that have been used or have no effect."""
        return frozenset(self._used)

    def layer_count(self, scope: str) -> int:
        """Return the number of layers of a stack."""
        count = 0
        while self.has_variable(f"{scope}/layer_{count}/ffn/linear_0/weight"):
            count += 1
        if not count:
            raise ModelError(f"{self.file.path}: the {scope} has no layers")
        return count

    def shape(self, name: str, axes: int) -> tuple[int, ...]:
        """Return the shape of a variable after checking its number of axes."""
        sizes = self.variable(name).stored.shape
        if len(sizes) != axes or not all(sizes):
            raise ModelError(f"{self.file.path}: {name!r} has shape {sizes}, not {axes} axes")
        return sizes


def head_count(stored: Variables, scope: str, default: int) -> int:
    """Return the number of attention heads of a stack."""
    count = stored.scalar(scope, "num_heads")
    return default if count is None else int(count)


def activation(stored: Variables, scope: str) -> str:
    """Return the activation of the feed-forward layers."""
    number = int(stored.scalar(scope, "activation") or 0)
    if not 0 <= number < len(ACTIVATIONS):
        raise ModelError(
            f"{stored.file.path}: activation {number} ({UNSUPPORTED_ACTIVATIONS.get(number, 'unknown')}) is "
            "not supported"
        )
    return ACTIVATIONS[number]


def embedding_name(stored: Variables, scope: str) -> str:
    """Return the name of the embeddings of a stack."""
    name = f"{scope}/embeddings_0/weight"
    return name if stored.has_variable(name) else f"{scope}/embeddings/weight"


def scales_embeddings(stored: Variables, scope: str) -> bool:
    """Return True if embeddings are scaled by the square root of the width; other factors are rejected."""
    table = embedding_name(stored, scope)
    old_name = f"{table.removesuffix('/weight')}/multiply_by_sqrt_depth"
    name = f"{scope}/scale_embeddings" if stored.has_variable(f"{scope}/scale_embeddings") else old_name
    if not stored.has_variable(name):
        return True
    variable = stored.variable(name)
    if variable.stored.size != 1:
        raise ModelError(f"{stored.file.path}: {name!r} should be one number, not {variable.stored.shape}")
    if not _is_float(variable):
        return bool(variable.stored.reshape(()))
    value = float(variable.floats(stored.file.path).reshape(()))
    root = math.sqrt(stored.shape(table, 2)[1])
    for factor, is_scaled in ((1.0, False), (root, True)):
        if math.isclose(value, factor, rel_tol=1e-3):  # it may have been rounded to 16 bits
            return is_scaled
    raise ModelError(
        f"{stored.file.path}: embeddings are multiplied by {value:g}, which uwaga does not support"
    )


def _is_float(variable: Variable) -> bool:
    return variable.bfloat16 or variable.stored.dtype.kind == "f"


def weight_summary(file: ModelFile) -> WeightSummary:
    """Return the sizes of the weights, including integers with a scale."""
    distinct = {id(variable): variable for variable in file.variables.values()}.values()
    tensors = [
        StoredVariable.from_variable(variable, file.path)
        for variable in distinct
        if variable.stored.ndim and not variable.name.endswith("_scale")
    ]
    return WeightSummary.from_tensors(tensors)
