"""The base class of settings, and parsing of raw values."""

from __future__ import annotations

from types import UnionType
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from uwaga.errors import SettingsError, quoted, suggestion

Probability = Annotated[float, Field(ge=0.0, lt=1.0)]


class StrictModel(BaseModel):
    """A group of settings; unknown keys are errors."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        defer_build=True,  # translating uses few of them; building all takes a tenth of its startup time
    )


Group = TypeVar("Group", bound=StrictModel)
MAX_KEY_LENGTH = 120
"""Maximum number of characters of a key in a message."""
MAX_PROBLEMS = 5
"""Maximum number of problems in a message, each of which may list all known keys."""


def parse(kind: type[Group], values: object, location: str) -> Group:
    """Return an instance of a settings class with the given raw values.

    Args:
        kind: settings class.
        values: mapping of settings, as read from YAML.
        location: where the values come from, for messages.

    Raises:
        SettingsError: the values are not a mapping, or a setting is unknown, missing or invalid.
    """
    if not isinstance(values, dict):
        raise SettingsError(f"{location}: expected a mapping of settings, found {type(values).__name__}")
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        details = error.errors(include_url=False)
        lines = [_explain(kind, detail) for detail in details[:MAX_PROBLEMS]]
        if len(details) > MAX_PROBLEMS:
            lines.append(f"and {len(details) - MAX_PROBLEMS} more problems")
        raise SettingsError(f"{location}: " + "; ".join(lines)) from None


def _explain(kind: type[StrictModel], detail: Any) -> str:
    path, group = _follow(kind, [str(part) for part in detail["loc"]])
    name = ".".join(path)
    name = name if len(name) <= MAX_KEY_LENGTH else f"{name[:MAX_KEY_LENGTH]}..."
    if detail["type"] == "extra_forbidden":
        fields = group.model_fields
        hint = suggestion(path[-1][:MAX_KEY_LENGTH], fields, f"the settings here are {', '.join(fields)}")
        return f"unknown setting {name!r}; {hint}"
    if detail["type"] == "missing":
        return f"setting {name!r} is missing"
    if detail["type"] == "union_tag_invalid":
        families = detail["ctx"]["expected_tags"].replace("'", "").split(", ")
        family = detail["input"]["family"] if isinstance(detail["input"], dict) else detail["input"]
        hint = suggestion(str(family)[:MAX_KEY_LENGTH], families, f"the families are {', '.join(families)}")
        return f"{name}.family: no model family is named {quoted(family)}; {hint}"
    message = str(detail["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    if not name:
        return message
    is_group = isinstance(detail["input"], dict)  # the message names its keys
    return f"{name}: {message}" if is_group else f"{name}: {message} (found {quoted(detail['input'])})"


def _follow(kind: type[StrictModel], keys: list[str]) -> tuple[list[str], type[StrictModel]]:
    """Return the path of a setting as users write it, and the settings class of the setting's group.

    pydantic's path, ``keys``, also contains the family of the model.
    """
    path: list[str] = []
    in_group = True  # whether `kind` is the group of the current key
    choices: dict[str, type[StrictModel]] = {}  # families, one of which may be the next key
    for key in keys:
        if key in choices:
            kind, choices = choices[key], {}
            continue
        path.append(key)
        if key.isdigit() and in_group:
            continue  # an index in the list before it
        field = kind.model_fields.get(key) if in_group else None
        annotation = field.annotation if field else None
        choices = _families(annotation)
        optional = [part for part in get_args(annotation) if part is not type(None)]
        if len(optional) == 1 and get_origin(annotation) is UnionType:
            annotation = optional[0]
        element = get_args(annotation)[0] if get_origin(annotation) is list else None
        if isinstance(element, type) and issubclass(element, StrictModel):
            kind = element
            continue
        if isinstance(annotation, type) and issubclass(annotation, StrictModel):
            kind = annotation
        elif not choices:
            in_group = False
    return path, kind


def _families(annotation: object) -> dict[str, type[StrictModel]]:
    """Return the settings classes of a field that is discriminated by ``family``."""
    kinds = [
        kind for kind in get_args(annotation) if isinstance(kind, type) and issubclass(kind, StrictModel)
    ]
    return {str(kind.model_fields["family"].default): kind for kind in kinds if "family" in kind.model_fields}
