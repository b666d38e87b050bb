"""The variables of a ``model.bin``: settings, features and weights.

The variables that have been read are recorded, so that unknown ones can be reported.
"""

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
"""Variables that do not affect translations if all features in ``NEUTRAL_VALUES`` are disabled."""
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
    """A variable as a stored tensor; integers are dequantised with their scale."""

    variable: Variable

    @classmethod
    def from_variable(cls, variable: Variable, path: Path) -> StoredVariable:
        """Return a variable as a stored tensor."""
        kind = "BF16" if variable.bfloat16 else FORMAT_NAMES[variable.array.dtype.name]
        return cls(variable.name, path, kind, variable.array, variable)

    @property
    def is_floating(self) -> bool:
        """True, since integers are dequantised to floating-point weights."""
        return True

    def floats(self) -> Floats:
        """Return the weights in float32; see :meth:`Variable.floats`."""
        return self.variable.floats(self.path)


class Variables:
    """The variables of a file; names of variables that have been read are recorded."""

    def __init__(self, file: ModelFile) -> None:
        self.file = file
        self._used_names: set[str] = set()

    def has_variable(self, name: str) -> bool:
        """Return True if the file has a variable of this name."""
        return name in self.file.variables

    def variable(self, name: str) -> Variable:
        """Return the variable of this name and record it as used."""
        variable = self.file.variables.get(name)
        if variable is None:
            kind = self.file.specification or "TransformerSpec"
            raise ModelError(f"{self.file.path}: the variable {name!r}, which {kind} requires, is missing")
        self._used_names |= {name, f"{name}_scale"}
        return variable

    def tensors(self) -> dict[str, StoredTensor]:
        """Return all variables as stored tensors."""
        return {
            name: StoredVariable.from_variable(variable, self.file.path)
            for name, variable in self.file.variables.items()
        }

    def scalar(self, scope: str, name: str) -> float | None:
        """Return a number stored for a scope or, before revision 5, for the file; None if it is missing."""
        for key in (f"{scope}/{name}", name):
            if key in self.file.variables:
                array = self.variable(key).array
                if array.size != 1:
                    raise ModelError(
                        f"{self.file.path}: {key!r} should be one number, not an array of shape {array.shape}"
                    )
                value = float(array.reshape(()))
                if not math.isfinite(value):
                    raise ModelError(f"{self.file.path}: {key!r} is {value}, not a number")
                return value
        return None

    def flag(self, scope: str, name: str, default: bool) -> bool:
        """Return a boolean stored for a scope or for the file, or the default if it is missing."""
        value = self.scalar(scope, name)
        return default if value is None else bool(value)

    def special_token_flags(self) -> dict[str, bool]:
        """Return the flags for special tokens, which only files before version 6 contain."""
        return {
            name: self.flag("", name, name == "with_target_bos")
            for name in ("with_source_bos", "with_source_eos", "with_target_bos")
        }

    def reject_unsupported(self) -> None:
        """Raise ModelError if the file uses a feature that uwaga does not support."""
        for scope in ("encoder", "decoder", ""):
            for name, neutral_values in NEUTRAL_VALUES.items():
                value = self.scalar(scope, name)
                if value is not None and value not in neutral_values:
                    raise ModelError(f"{self.file.path}: {name!r} = {value:g} is not supported by uwaga")
            for name in INERT_VARIABLES:
                self._used_names.add(f"{scope}/{name}" if scope else name)
        for name in FILE_SETTINGS:
            self._used_names.add(name)

    @property
    def used_names(self) -> frozenset[str]:
        """The names of all variables that have been read or that have no effect on translations."""
        return frozenset(self._used_names)

    def layer_count(self, scope: str) -> int:
        """Return the number of layers of a stack, ``encoder`` or ``decoder``."""
        count = 0
        while self.has_variable(f"{scope}/layer_{count}/ffn/linear_0/weight"):
            count += 1
        if not count:
            raise ModelError(f"{self.file.path}: the {scope} has no layers")
        return count

    def shape(self, name: str, axes: int) -> tuple[int, ...]:
        """Return the shape of a variable after checking that it has the given number of axes."""
        sizes = self.variable(name).array.shape
        if len(sizes) != axes or not all(sizes):
            raise ModelError(
                f"{self.file.path}: {name!r} has shape {sizes}, but {axes} axes of length 1 or more are "
                "required"
            )
        return sizes


def head_count(variables: Variables, scope: str, default: int) -> int:
    """Return the number of attention heads of a stack."""
    count = variables.scalar(scope, "num_heads")
    return default if count is None else int(count)


def activation_name(variables: Variables, scope: str) -> str:
    """Return the name of the activation function of the feed-forward layers."""
    number = int(variables.scalar(scope, "activation") or 0)
    if not 0 <= number < len(ACTIVATIONS):
        raise ModelError(
            f"{variables.file.path}: activation {number} ({UNSUPPORTED_ACTIVATIONS.get(number, 'unknown')}) "
            "is not supported"
        )
    return ACTIVATIONS[number]


def embedding_name(variables: Variables, scope: str) -> str:
    """Return the name of the variable that contains a stack's embeddings."""
    name = f"{scope}/embeddings_0/weight"
    return name if variables.has_variable(name) else f"{scope}/embeddings/weight"


def scales_embeddings(variables: Variables, scope: str) -> bool:
    """Return True if embeddings are multiplied by the square root of the width, False if they are not scaled.

    Raises:
        ModelError: for any other factor.
    """
    table = embedding_name(variables, scope)
    old_name = f"{table.removesuffix('/weight')}/multiply_by_sqrt_depth"
    name = f"{scope}/scale_embeddings" if variables.has_variable(f"{scope}/scale_embeddings") else old_name
    if not variables.has_variable(name):
        return True
    variable = variables.variable(name)
    if variable.array.size != 1:
        raise ModelError(
            f"{variables.file.path}: {name!r} should be one number, not an array of shape "
            f"{variable.array.shape}"
        )
    if not variable.bfloat16 and variable.array.dtype.kind != "f":
        return bool(variable.array.reshape(()))
    value = float(variable.floats(variables.file.path).reshape(()))
    root = math.sqrt(variables.shape(table, 2)[1])
    for factor, is_scaled in ((1.0, False), (root, True)):
        if math.isclose(value, factor, rel_tol=1e-3):  # it may have been rounded to 16 bits
            return is_scaled
    raise ModelError(
        f"{variables.file.path}: embeddings are multiplied by {value:g}, but uwaga supports only 1 and the "
        f"square root of the width"
    )


def weight_summary(file: ModelFile) -> WeightSummary:
    """Return the size of the weights, including quantised weights but excluding their scales."""
    distinct_variables = {id(variable): variable for variable in file.variables.values()}.values()
    tensors = [
        StoredVariable.from_variable(variable, file.path)
        for variable in distinct_variables
        if variable.array.ndim and not variable.name.endswith("_scale")
    ]
    return WeightSummary.from_tensors(tensors)
