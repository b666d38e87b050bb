"""Formatting of the help pages of commands: common options first, then the remaining options by panel.

A page shows every panel if it then has at most :data:`MAX_LINES` lines. Otherwise it has one line per panel,
and ``--help PANEL`` shows the options of one. ``--help all`` shows everything.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable
from typing import Any

import typer

MAX_LINES = 60
STANDARD_WIDTH, MAX_WIDTH = 80, 100
"""The width at which a page is compared with :data:`MAX_LINES`, and the maximum width of a page."""
NAMES_WIDTH = 26
FEW_EXAMPLES = 5
"""Number of lines of examples on an abridged page."""
COMMON_PANELS, LAST_PANEL = ("Arguments", "Options"), "Computation"
EXAMPLES, ALL_PANELS = "examples", "all"


def help_page(context: Any, panel: str | None) -> str:
    """Return the help page of a command, or of one of its panels.

    Args:
        context: the command's context.
        panel: the word after ``--help``: a panel, ``examples`` or ``all``; None for the help page.
    """
    width = min(MAX_WIDTH, max(40, shutil.get_terminal_size((STANDARD_WIDTH, 24)).columns))
    page = _Page(context, width)
    if panel is not None:
        return page.panel(panel)
    narrow_page = _Page(context, STANDARD_WIDTH)
    full_page = narrow_page.full_page()
    if full_page.count("\n") < MAX_LINES or not page.can_be_shorter:
        return page.full_page()
    is_shortened = narrow_page.brief_page(few_examples=False).count("\n") >= MAX_LINES
    return page.brief_page(few_examples=is_shortened)


class _Page:
    """The parts of a help page, wrapped to a width."""

    def __init__(self, context: Any, width: int) -> None:
        self.context, self.width = context, width
        self.panels: dict[str, list[Any]] = {title: [] for title in COMMON_PANELS}
        for parameter in context.command.get_params(context):
            if not getattr(parameter, "hidden", False):
                title = parameter.rich_help_panel or COMMON_PANELS[parameter.param_type_name == "option"]
                self.panels.setdefault(title, []).append(parameter)
        titles = sorted(self.panels, key=lambda title: title == LAST_PANEL)
        self.panels = {title: self.panels[title] for title in titles if self.panels[title]}
        text = (context.command.help or "").replace("``", "`").strip()
        self.text, _, self.examples = (part.strip("\n") for part in text.partition("**Examples**"))

    @property
    def can_be_shorter(self) -> bool:
        """True if :meth:`brief_page` leaves anything out."""
        return bool(self.examples) or not self.panels.keys() <= set(COMMON_PANELS)

    def full_page(self) -> str:
        """Return the page with all panels and examples."""
        return self._join([self._header(), *self._panels(self.panels), self._examples()])

    def brief_page(self, few_examples: bool) -> str:
        """Return the page with the common options, and with one line for each of the other panels."""
        common_titles = [title for title in self.panels if title in COMMON_PANELS]
        return self._join(
            [
                self._header(),
                *self._panels(common_titles),
                self._index(few_examples),
                self._examples(few_examples),
            ]
        )

    def panel(self, word: str) -> str:
        """Return the options of one panel, the examples, or the full page."""
        if word == ALL_PANELS:
            return self.full_page()
        if word == EXAMPLES and self.examples:
            return self._join([self.context.get_usage(), self._examples()])
        titles = [title for title in self.panels if title.lower() == word.lower()]
        if not titles:
            words = [title.lower() for title in self.panels]
            choices = ", ".join([*words, *([EXAMPLES] if self.examples else []), ALL_PANELS])
            self.context.fail(f"there is no help on {word!r}; --help takes one of: {choices}")
        return self._join([self.context.get_usage(), *self._panels(titles)])

    def _join(self, parts: Iterable[str]) -> str:
        return "\n\n".join(part for part in parts if part) + "\n"

    def _header(self) -> str:
        paragraphs = self.text.split("\n\n")
        return self._join([self.context.get_usage(), *map(self._paragraph, paragraphs), *self._commands()])[
            :-1
        ]

    def _paragraph(self, text: str) -> str:
        if text.startswith("  "):
            return textwrap.indent(textwrap.dedent(text), "  ")
        return "\n".join(_wrap(text, self.width))

    def _commands(self) -> list[str]:
        """Return the sections of a group's help page, each with a heading and its commands."""
        command = self.context.command
        sections = []
        for title, names in getattr(command, "headings", {}).items():
            rows = [(name, command.commands[name].get_short_help_str(limit=200)) for name in names]
            if rows:
                sections.append(f"{_title(title)}\n{self._table(rows, 18)}")
        return sections

    def _panels(self, titles: Iterable[str]) -> list[str]:
        return [f"{_title(title)}\n{self._table(map(self._row, self.panels[title]))}" for title in titles]

    def _row(self, parameter: Any) -> tuple[str, str]:
        """Return the left and the right column of the row for a parameter."""
        kind = "" if getattr(parameter, "is_flag", False) else _kind(parameter, self.context)
        if parameter.param_type_name == "argument":
            positional_model = getattr(self.context.command, "positional_model", None)
            note = " May be given as --model." if parameter is positional_model else ""
            return argument_name(parameter), (parameter.help or "") + note
        names = ", ".join(sorted(parameter.opts, key=len))
        if parameter.secondary_opts:
            names = f"{names}/{parameter.secondary_opts[0]}"
        if set(parameter.opts) & set(self.context.help_option_names):
            if self.panels.keys() <= set(COMMON_PANELS):
                return names, "Show this help."
            return f"{names} [PANEL]", f"Show this help, or that of one panel; `{ALL_PANELS}`: everything."
        default = _default(parameter)
        notes = ["required"] if parameter.required else [f"default: {default}"] if default else []
        help_ = parameter.help or ""
        return f"{names} {kind}".rstrip(), f"{help_} [{'; '.join(notes)}]" if notes else help_

    def _table(self, rows: Iterable[tuple[str, str]], names_width: int = NAMES_WIDTH) -> str:
        lines: list[str] = []
        for name, text in rows:
            wrapped_lines = _wrap(text.replace("``", "`"), self.width - names_width)
            indented_lines = [" " * names_width + part for part in wrapped_lines]
            if wrapped_lines and len(name) + 4 <= names_width:
                indented_lines[0] = f"  {name:<{names_width - 2}}{wrapped_lines[0]}"
                lines += indented_lines
            else:
                lines += [f"  {name}", *indented_lines]
        return "\n".join(lines)

    def _index(self, few_examples: bool) -> str:
        """Return one line for each panel except the panels of common options."""
        rows = []
        for title in self.panels:
            if title not in COMMON_PANELS:
                names = ", ".join(max(parameter.opts, key=len) for parameter in self.panels[title])
                while len(names) > self.width - 15:
                    names = names.removesuffix(", ...").rpartition(", ")[0] + ", ..."
                rows.append((title.lower(), names))
        if few_examples:
            rows.append((EXAMPLES, "further examples"))
        rows.append((ALL_PANELS, "every option and example"))
        command = f"{self.context.command_path} --help PANEL"
        return f"{_title(f'More options, shown by {command}')}\n{self._table(rows, 15)}"

    def _examples(self, is_shortened: bool = False) -> str:
        lines = []
        for text in self.examples.split("\n\n"):
            if text.strip():
                lines += self._paragraph(text).splitlines()
        return (
            "\n".join([_title("Examples"), *(lines[:FEW_EXAMPLES] if is_shortened else lines)])
            if lines
            else ""
        )


def argument_name(argument: Any) -> str:
    """Return the name of an argument in usage and help, such as ``TEXT...``."""
    name = str(argument.metavar or argument.name.upper())
    return name if argument.nargs == 1 or "..." in name else f"{name}..."


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False, break_long_words=False)


def _title(text: str) -> str:
    return typer.style(f"{text}:", bold=True)


def _kind(parameter: Any, context: Any) -> str:
    """Return the type of an option's value, such as ``<int>`` or ``<auto|never>``."""
    if parameter.metavar:
        return str(parameter.metavar)
    kind = str(parameter.display_type(context)).removeprefix("<").removesuffix(">")
    kind = kind.removeprefix("list[").removesuffix("]").removesuffix(" range")
    return f"<{'text' if kind == 'str' else kind.lower()}>"


def _default(parameter: Any) -> str:
    """Return the text for an option's default, or an empty string if the default is not shown."""
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    value = getattr(parameter.default, "value", parameter.default)
    if not parameter.show_default or value is None or value is False or value == "":
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
