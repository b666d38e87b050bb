"""What all results have in common: JSON, short texts in a ``repr``, and equality where they hold arrays."""

from __future__ import annotations

import json
import math

import numpy as np


class JsonRecord:
    """A result that JSON can hold."""

    def to_dict(self) -> dict[str, object]:
        """What JSON can hold of it, under the names that it has here."""
        raise NotImplementedError

    def to_json(self) -> str:
        """:meth:`to_dict` as one line of JSON, letters of every script as they are."""
        return json.dumps(self.to_dict(), ensure_ascii=False)


def json_number(value: float) -> float | None:
    """A number to six decimals, or None where JSON has none for it: infinities and what is no number."""
    return round(value, 6) if math.isfinite(value) else None


def json_numbers(record: object) -> dict[str, object]:
    """What JSON can hold of a record of numbers and texts, without what is None."""
    known = {name: value for name, value in vars(record).items() if value is not None}
    return {name: json_number(value) if isinstance(value, float) else value for name, value in known.items()}


SHOWN = 60
"""Characters of a text in a ``repr``."""


def shortened(text: str) -> str:
    """The beginning of a text, as much of it as a ``repr`` shows."""
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def equal_fields(one: object, other: object) -> bool:
    """Whether two records of a class hold the same in every field, arrays element by element."""
    if type(one) is not type(other):
        return False
    for name, left in vars(one).items():
        right = getattr(other, name)
        arrays = isinstance(left, np.ndarray), isinstance(right, np.ndarray)
        if not (np.array_equal(left, right) if all(arrays) else not any(arrays) and left == right):
            return False
    return True
