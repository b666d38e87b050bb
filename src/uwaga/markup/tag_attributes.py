"""The attributes in a tag of HTML or XML: how they are written, and what they say."""

from __future__ import annotations

import re

INSIDE = r"""(?:[^"'<>]|"[^"]*"|'[^']*')*"""
"""Of a regular expression: what stands between a tag's name and its end."""
ATTRIBUTE = re.compile(r"""(?<=[\s"'])([^\s"'<>/=]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'=<>`]+))""")
"""Its name, and its value in double quotes, in single ones or in none."""


def attributes(tag: str) -> dict[str, str]:
    """The attributes of a tag, as they are written; of one that is there twice the first."""
    found: dict[str, str] = {}
    for name, double, single, bare in ATTRIBUTE.findall(tag):
        found.setdefault(name, double or single or bare)
    return found


def html_attributes(tag: str) -> dict[str, str]:
    """The same, their names in small letters, as HTML takes them however they are written."""
    found: dict[str, str] = {}
    for name, value in attributes(tag).items():
        found.setdefault(name.lower(), value)
    return found
