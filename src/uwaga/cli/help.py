"""The help pages of verbs: the common options first, the others by panel.

A page shows every panel if it then has at most :data:`MOST_LINES` lines; else one line for each panel,
and ``--help PANEL`` shows its options. ``--help all`` shows everything.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable
from typing import Any

import typer

MOST_LINES = 60
NARROW, WIDEST = 80, 100
"""Widths: the one for which :data:`MOST_LINES` holds, and the most that is used."""
NAMES_WIDTH = 26
FEW = 5
"""Examples on a page that does not hold all."""
COMMON, LAST = ("Arguments", "Options"), "Computation"
EXAMPLES, ALL = "examples", "all"


def help_page(context: Any, asked: str | None) -> str:
    """Return the help page of a command, or of the panel that is asked for.

    Args:
        context: that of the command.
        asked: the word after ``--help``: a panel, ``examples`` or ``all``; None for the page.
    """
    width = min(WIDEST, max(40, shutil.get_terminal_size((NARROW, 24)).columns))
    page = _Page(context, width)
    if asked is not None:
        return page.panel(asked)
    shortest = _Page(context, NARROW)
    whole = shortest.whole()
    if whole.count("\n") < MOST_LINES:
        return page.whole()
    few = shortest.brief(few_examples=False).count("\n") >= MOST_LINES
    return page.brief(few_examples=few)


class _Page:
    """The parts of a help page in a width."""

    def __init__(self, context: Any, width: int) -> None:
        self.context, self.width = context, width
        self.panels: dict[str, list[Any]] = {title: [] for title in COMMON}
        for one in context.command.get_params(context):
            if not getattr(one, "hidden", False):
                title = one.rich_help_panel or COMMON[one.param_type_name == "option"]
                self.panels.setdefault(title, []).append(one)
        titles = sorted(self.panels, key=lambda title: title == LAST)
        self.panels = {title: self.panels[title] for title in titles if self.panels[title]}
        text = (context.command.help or "").replace("``", "`").strip()
        self.text, _, self.examples = (part.strip("\n") for part in text.partition("**Examples**"))

    def whole(self) -> str:
        """Return the page with every panel and example."""
        return self._joined([self._head(), *self._listed(self.panels), self._examples()])

    def brief(self, few_examples: bool) -> str:
        """Return the page with the common options, and one line for each further panel."""
        common = [title for title in self.panels if title in COMMON]
        return self._joined(
            [self._head(), *self._listed(common), self._index(few_examples), self._examples(few_examples)]
        )

    def panel(self, word: str) -> str:
        """Return the options of one panel, the examples, or the whole page."""
        if word == ALL:
            return self.whole()
        if word == EXAMPLES and self.examples:
            return self._joined([self.context.get_usage(), self._examples()])
        titles = [title for title in self.panels if title.lower() == word.lower()]
        if not titles:
            words = [title.lower() for title in self.panels]
            known = ", ".join([*words, *([EXAMPLES] if self.examples else []), ALL])
            self.context.fail(f"there is no help on {word!r}; --help takes one of: {known}")
        return self._joined([self.context.get_usage(), *self._listed(titles)])

    def _joined(self, parts: Iterable[str]) -> str:
        return "\n\n".join(part for part in parts if part) + "\n"

    def _head(self) -> str:
        paragraphs = self.text.split("\n\n")
        return self._joined([self.context.get_usage(), *map(self._paragraph, paragraphs), *self._commands()])[
            :-1
        ]

    def _paragraph(self, text: str) -> str:
        if text.startswith("  "):
            return textwrap.indent(textwrap.dedent(text), "  ")
        return "\n".join(_wrapped(text, self.width))

    def _commands(self) -> list[str]:
        """Return the list of a group's commands, under their headings."""
        command = self.context.command
        found = []
        for title, names in getattr(command, "headings", {}).items():
            rows = [(name, command.commands[name].get_short_help_str(limit=200)) for name in names]
            if rows:
                found.append(f"{_title(title)}\n{self._table(rows, 18)}")
        return found

    def _listed(self, titles: Iterable[str]) -> list[str]:
        return [f"{_title(title)}\n{self._table(map(self._row, self.panels[title]))}" for title in titles]

    def _row(self, parameter: Any) -> tuple[str, str]:
        """Return the left and right column of a parameter."""
        kind = "" if getattr(parameter, "is_flag", False) else _kind(parameter, self.context)
        if parameter.param_type_name == "argument":
            return argument_name(parameter), parameter.help or ""
        names = ", ".join(sorted(parameter.opts, key=len))
        if parameter.secondary_opts:
            names = f"{names}/{parameter.secondary_opts[0]}"
        if set(parameter.opts) & set(self.context.help_option_names):
            if self.panels.keys() <= set(COMMON):
                return names, "Show this help."
            return f"{names} [PANEL]", f"Show this help, or that of one panel; `{ALL}`: everything."
        default = _default(parameter)
        notes = ["required"] if parameter.required else [f"default: {default}"] if default else []
        help_ = parameter.help or ""
        return f"{names} {kind}".rstrip(), f"{help_} [{'; '.join(notes)}]" if notes else help_

    def _table(self, rows: Iterable[tuple[str, str]], names_width: int = NAMES_WIDTH) -> str:
        lines: list[str] = []
        for name, text in rows:
            wrapped = _wrapped(text.replace("``", "`"), self.width - names_width)
            indented = [" " * names_width + part for part in wrapped]
            if wrapped and len(name) + 4 <= names_width:
                indented[0] = f"  {name:<{names_width - 2}}{wrapped[0]}"
                lines += indented
            else:
                lines += [f"  {name}", *indented]
        return "\n".join(lines)

    def _index(self, few_examples: bool) -> str:
        """Return one line for each panel with further options."""
        rows = []
        for title in self.panels:
            if title not in COMMON:
                names = ", ".join(max(one.opts, key=len) for one in self.panels[title])
                while len(names) > self.width - 15:
                    names = names.removesuffix(", ...").rpartition(", ")[0] + ", ..."
                rows.append((title.lower(), names))
        if few_examples:
            rows.append((EXAMPLES, "more of them"))
        rows.append((ALL, "every option and example"))
        way = f"{self.context.command_path} --help PANEL"
        return f"{_title(f'More options, shown by {way}')}\n{self._table(rows, 15)}"

    def _examples(self, few: bool = False) -> str:
        lines = []
        for text in self.examples.split("\n\n"):
            if text.strip():
                lines += self._paragraph(text).splitlines()
        return "\n".join([_title("Examples"), *(lines[:FEW] if few else lines)]) if lines else ""


def argument_name(argument: Any) -> str:
    """Return the name of an argument as usage and help show it: ``TEXT...``."""
    name = str(argument.metavar or argument.name.upper())
    return name if argument.nargs == 1 or "..." in name else f"{name}..."


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False, break_long_words=False)


def _title(text: str) -> str:
    return typer.style(f"{text}:", bold=True)


def _kind(parameter: Any, context: Any) -> str:
    """Return what kind of value an option takes: ``<int>``, ``<auto|never>``."""
    if parameter.metavar:
        return str(parameter.metavar)
    shown = str(parameter.display_type(context)).removeprefix("<").removesuffix(">")
    shown = shown.removeprefix("list[").removesuffix("]").removesuffix(" range")
    return f"<{'text' if shown == 'str' else shown.lower()}>"


def _default(parameter: Any) -> str:
    """Return an option's default as the page shows it, or nothing."""
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    value = getattr(parameter.default, "value", parameter.default)
    if not parameter.show_default or value is None or value is False or value == "":
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
