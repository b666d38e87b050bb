"""Devices, the log level and storage views of CTranslate2's Python interface."""

from __future__ import annotations

import logging
import sys
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uwaga.translator.loading import has_gpu
from uwaga_compat.ctranslate2.errors import ArgumentError, RunError

LOGGER = logging.getLogger("uwaga")
MAX_SHOWN_VALUES = 6
"""Maximum number of values in a view's text; for longer views, the first and last three are shown."""


def get_cuda_device_count() -> int:
    """Return the number of visible GPUs, or 0 if PyTorch, which is required for GPUs, is not installed."""
    if not has_gpu():
        return 0
    import torch

    return torch.cuda.device_count()


def set_log_level(level: int) -> None:
    """Set the level of uwaga's logger to a level of :mod:`logging`, and write its messages to stderr."""
    if not LOGGER.handlers and sys.__stderr__ is not None:
        handler = logging.StreamHandler(sys.__stderr__)
        handler.setFormatter(logging.Formatter("[%(asctime)s] [%(name)s] [%(levelname)s] %(message)s"))
        LOGGER.addHandler(handler)
    LOGGER.setLevel(level)


def get_log_level() -> int:
    """Return the level of uwaga's logger."""
    return LOGGER.getEffectiveLevel()


class Device(Enum):
    """A kind of device."""

    cpu = 0
    cuda = 1

    def __str__(self) -> str:
        return f"Device.{self.name}"


class DataType(Enum):
    """A number format."""

    float32 = 0
    int8 = 1
    int16 = 2
    int32 = 3
    float16 = 4
    bfloat16 = 5

    def __str__(self) -> str:
        return f"DataType.{self.name}"


class StorageView:
    """An array in memory, with CTranslate2's interface, that NumPy can read without copying.

    Args:
        array: a NumPy array; for bfloat16, which NumPy lacks, an array of the bits of the numbers.
        dtype: the number format; None for the number format of the array.
    """

    device = "cpu"
    device_index = 0

    def __init__(self, array: NDArray[Any], dtype: DataType | None = None) -> None:
        self._array = array
        self.dtype = DataType[array.dtype.name] if dtype is None else dtype

    @classmethod
    def from_array(cls, array: object) -> StorageView:
        """Return a view of a NumPy array or a PyTorch tensor, whose data are shared.

        Raises:
            ArgumentError: if ``array`` is not an array in the memory of the CPU, has another number format,
                is not contiguous, or is read-only.
        """
        if not hasattr(array, "__array_interface__") and not hasattr(array, "__array__"):
            raise ArgumentError("array: the object does not implement the array interface")
        values = np.asarray(array)
        if values.dtype.name not in DataType.__members__:
            raise ArgumentError(f"array: Unsupported type: {values.dtype.str}")
        if not values.flags.c_contiguous:
            raise ArgumentError(
                "array: the memory of the array is not contiguous; use numpy.ascontiguousarray(array)"
            )
        if not values.flags.writeable:
            raise ArgumentError("array: the array is read-only; use array.copy()")
        return cls(values)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The interface through which NumPy reads the view.

        Raises:
            RunError: if the numbers are bfloat16, which NumPy lacks.
        """
        if self.dtype is DataType.bfloat16:
            raise RunError("bfloat16 is not supported in the array interface; use to(DataType.float32)")
        return dict(self._array.__array_interface__)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Raise AttributeError, since views are in the memory of the CPU."""
        raise AttributeError("this view is in the memory of the CPU")

    @property
    def shape(self) -> list[int]:
        """The sizes of the axes."""
        return list(self._array.shape)

    def to(self, dtype: DataType) -> StorageView:
        """Return a new view with the numbers converted to another number format."""
        if dtype is not DataType.bfloat16:
            return StorageView(self._numbers().astype(dtype.name))
        numbers = self._numbers().astype(np.float32)
        bits = numbers.view(np.uint32)
        rounding_bias = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
        rounded = np.where(np.isnan(numbers), np.uint32(0x7FC00000), bits + rounding_bias)
        return StorageView((rounded >> np.uint32(16)).astype(np.uint16), dtype)

    def _numbers(self) -> NDArray[Any]:
        """Return the numbers in a NumPy number format; bfloat16 numbers are converted to float32."""
        if self.dtype is not DataType.bfloat16:
            return self._array
        return (self._array.astype(np.uint32) << np.uint32(16)).view(np.float32)

    def to_device(self, device: Device) -> StorageView:
        """Return a copy of the view on a device."""
        if device is not Device.cpu:
            raise ArgumentError(
                f"device={device}: views can only be in the memory of the CPU; use a PyTorch tensor"
            )
        return StorageView(self._array.copy(), self.dtype)

    def __str__(self) -> str:
        flat_values = self._numbers().reshape(-1).tolist()
        half = MAX_SHOWN_VALUES // 2
        shown_values: list[object] = (
            flat_values
            if len(flat_values) <= MAX_SHOWN_VALUES
            else [*flat_values[:half], "...", *flat_values[-half:]]
        )
        values = "".join(f" {value:g}" if isinstance(value, float) else f" {value}" for value in shown_values)
        sizes = "x".join(map(str, self.shape)) or "scalar"
        return f"{values}\n[{self.device}:{self.device_index} {self.dtype.name} storage viewed as {sizes}]"

    __repr__ = __str__
