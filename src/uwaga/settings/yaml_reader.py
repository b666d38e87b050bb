"""YAML that strangers wrote, read within bounds: no aliases, no depth, no number of a thousand digits."""

from __future__ import annotations

import re
from typing import Any

import yaml

LARGEST = 1 << 18
"""Characters of a text; a real settings file has a few thousand."""
DEEPEST = 32
"""Levels of lists and mappings in each other."""
LONGEST_NUMBER = 400
"""Characters of what is no text: a number, a date, a truth value."""
TEXT = "tag:yaml.org,2002:str"


def load_yaml(text: str) -> object:
    """The value that a YAML document holds.

    Aliases and anchors are refused (a few hundred bytes of them stand for gigabytes), and so is what is
    larger or deeper than any settings. ``1e-4`` is a number, as in YAML 1.2.

    Raises:
        ValueError: it is not YAML, or refused; says why in one line.
    """
    if len(text) > LARGEST:
        raise ValueError(f"larger than {LARGEST} characters")
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 (a safe loader)
    except yaml.MarkedYAMLError as error:
        where = f" at line {error.problem_mark.line + 1}" if error.problem_mark is not None else ""
        raise ValueError(f"{error.problem or error.context}{where}"[:200]) from None
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())[:200]) from None
    except RecursionError:
        raise ValueError("too deep") from None
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
        # What the constructors of dates, numbers and truth values raise where a tag promises one.
        raise ValueError(f"a value is not what its tag or form says ({str(error)[:80]})") from None


class _Loader(yaml.SafeLoader):
    """The safe loader within bounds."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """One node; aliases, anchors and depth are refused before anything is made of them."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise yaml.MarkedYAMLError(problem="aliases are not read here", problem_mark=event.start_mark)
        self._depth += 1
        if self._depth > DEEPEST:
            raise yaml.MarkedYAMLError(problem=f"deeper than {DEEPEST} levels", problem_mark=event.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if isinstance(node, yaml.ScalarNode) and node.tag != TEXT and len(node.value) > LONGEST_NUMBER:
            raise yaml.MarkedYAMLError(
                problem=f"a number of more than {LONGEST_NUMBER} characters", problem_mark=event.start_mark
            )
        return node


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)$"),
    list("-+0123456789."),
)
