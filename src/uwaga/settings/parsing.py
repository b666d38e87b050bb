"""Settings classes, and raw values checked against them."""

from __future__ import annotations

import difflib
from types import UnionType
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from uwaga.errors import SettingsError, shown

Probability = Annotated[float, Field(ge=0.0, lt=1.0)]


class StrictModel(BaseModel):
    """A group of settings that refuses unknown keys."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        defer_build=True,  # translating uses few of them, and building all takes a tenth of its start
    )


Group = TypeVar("Group", bound=StrictModel)
SHOWN = 120
"""Characters of a key in a message."""
REPORTED = 5
"""Problems named in a message, each of which may list all known keys."""


def parse(kind: type[Group], values: object, where: str) -> Group:
    """Check raw values against a settings class, and return its instance."""
    if not isinstance(values, dict):
        raise SettingsError(f"{where}: expected a mapping of settings, found {type(values).__name__}")
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        details = error.errors(include_url=False)
        lines = [_explain(kind, detail) for detail in details[:REPORTED]]
        if len(details) > REPORTED:
            lines.append(f"and {len(details) - REPORTED} more problems")
        raise SettingsError(f"{where}: " + "; ".join(lines)) from None


def _explain(kind: type[StrictModel], detail: Any) -> str:
    place, group = _follow(kind, [str(part) for part in detail["loc"]])
    name = ".".join(place)
    name = name if len(name) <= SHOWN else f"{name[:SHOWN]}..."
    if detail["type"] == "extra_forbidden":
        fields = list(group.model_fields)
        near = difflib.get_close_matches(place[-1][:SHOWN], fields, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(fields)}"
        return f"unknown setting {name!r}; {hint}"
    if detail["type"] == "missing":
        return f"setting {name!r} is missing"
    if detail["type"] == "union_tag_invalid":
        families = detail["ctx"]["expected_tags"].replace("'", "").split(", ")
        given = detail["input"]["family"] if isinstance(detail["input"], dict) else detail["input"]
        near = difflib.get_close_matches(str(given)[:SHOWN], families, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(families)}"
        return f"{name}.family: no model family is named {shown(given)}; {hint}"
    return f"{name}: {detail['msg']} (found {shown(detail['input'])})" if name else str(detail["msg"])


def _follow(kind: type[StrictModel], place: list[str]) -> tuple[list[str], type[StrictModel]]:
    """Return the path as users write it, without the family that pydantic adds, and the group it leads to."""
    written: list[str] = []
    inside = True  # whether `kind` is still the group
    choices: dict[str, type[StrictModel]] = {}  # families that the next key may name
    for key in place:
        if key in choices:
            kind, choices = choices[key], {}
            continue
        written.append(key)
        if key.isdigit() and inside:
            continue  # an entry of the list before it
        field = kind.model_fields.get(key) if inside else None
        inner = field.annotation if field else None
        choices = _families(inner)
        optional = [part for part in get_args(inner) if part is not type(None)]
        if len(optional) == 1 and get_origin(inner) is UnionType:
            inner = optional[0]
        listed = get_args(inner)[0] if get_origin(inner) is list else None
        if isinstance(listed, type) and issubclass(listed, StrictModel):
            kind = listed
            continue
        if isinstance(inner, type) and issubclass(inner, StrictModel):
            kind = inner
        elif not choices:
            inside = False
    return written, kind


def _families(annotation: object) -> dict[str, type[StrictModel]]:
    """Return the settings classes of a field that chooses among them by ``family``."""
    kinds = [
        kind for kind in get_args(annotation) if isinstance(kind, type) and issubclass(kind, StrictModel)
    ]
    return {str(kind.model_fields["family"].default): kind for kind in kinds if "family" in kind.model_fields}
