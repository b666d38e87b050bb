"""The numbers of arguments in messages, as in ``%1$s``, with which a translation can reorder them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from uwaga.markup.placeholders import CONVERSION, NEXT_ARGUMENT_BRACES, NOT_NUMBERED


@dataclass(frozen=True)
class Numbering:
    """The syntax for numbered arguments in a programming language, which a translation can reorder.

    Attributes:
        argument: matches an argument without a number, with a group that ends where the number would be
            inserted. It also matches other placeholders, but with no group.
        numbered: matches an argument with a number. Its groups are the text before the number and the number.
        number_format: the format string of the number.
        first: the number of the first argument.
    """

    argument: re.Pattern[str]
    numbered: re.Pattern[str]
    number_format: str = "{}$"
    first: int = 1


DOLLAR_NUMBER = re.compile(r"(?<!%)((?>(?:%%)*)%)(\d++)\$")
NUMBERINGS: Mapping[str, Numbering] = {
    "printf": Numbering(re.compile(rf"%%|{NOT_NUMBERED}(%){CONVERSION[1:]}|{CONVERSION}"), DOLLAR_NUMBER),
    "gcc": Numbering(re.compile(r"%[%<>'{}mR]|(%)[q+#lwzt]*+(?:\.(?:\d++|\*))?[A-Za-z]"), DOLLAR_NUMBER),
    "boost": Numbering(
        re.compile(rf"%%|(%\|)[^|\n]{{1,30}}\||{NOT_NUMBERED}(%){CONVERSION[1:]}"),
        re.compile(r"(?<!%)((?>(?:%%)*)%\|?)(\d++)(?:\$|(?=%))"),
    ),
    "go": Numbering(
        re.compile(r"%%|(%[-+# 0]*+[\d.*]*+)[A-Za-z]"),
        re.compile(r"(?<!%)((?>(?:%%)*)%[-+# 0]*+[\d.]*+)\[(\d++)\]"),
        "[{}]",
    ),
    "pascal": Numbering(
        re.compile(r"%%|(%)-?[\d.*]*+[A-Za-z]"), re.compile(r"(?<!%)((?>(?:%%)*)%)(\d++):"), "{}:", 0
    ),
    "braces": Numbering(
        re.compile(rf"\{{\{{|\}}\}}|(\{{){NEXT_ARGUMENT_BRACES[2:]}"),
        re.compile(r"(?<!\{)((?>(?:\{\{)*)\{)(\d++)(?=[!:}])"),
        "{}",
        0,
    ),
}
"""The syntax for numbered arguments, by the name of the placeholder syntax."""


def number_arguments(text: str, numbering: Numbering) -> str | None:
    """Return a text with its arguments numbered, as in ``%1$s``, so that they can be reordered.

    Return None if the text has numbered arguments or fewer than two arguments, or if the width or precision
    of one of them is an argument too.
    """
    arguments = [match for match in numbering.argument.finditer(text) if match.lastindex]
    has_argument_in_width = any("*" in match[0] or "{" in match[0][1:] for match in arguments)
    if len(arguments) < 2 or has_argument_in_width or numbering.numbered.search(text):
        return None
    position, parts = 0, list[str]()
    for number, match in enumerate(arguments, start=numbering.first):
        start = match.end(match.lastindex or 0)
        parts += [text[position:start], numbering.number_format.format(number)]
        position = start
    return "".join([*parts, text[position:]])


def without_numbers(text: str, numbering: Numbering) -> str:
    """Return a text with the numbers of its arguments removed, if they are in ascending order."""
    numbers = [int(match[2]) for match in numbering.numbered.finditer(text)]
    return numbering.numbered.sub(r"\1", text) if numbers == sorted(numbers) else text
