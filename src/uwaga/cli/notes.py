"""What is said on standard error of the lines that were translated, without flooding it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import typer

from uwaga.cli.errors import MISTAKE

if TYPE_CHECKING:
    from uwaga.errors import UwagaError
    from uwaga.results.translation import Translation

NAMED = 3
"""Lines that are named one by one; of the others only the number is said."""

DEMONSTRATION = (
    "note: the bundled model is a small demonstration for short everyday sentences (uwaga info bundled); "
    "name another with --model"
)


@dataclass
class Notes:
    """What is to be said of lines or texts, which ``unit`` it is; ``bundled``: whether by the bundled model.

    A line that failed is named at once, however many they are; of doubtful ones the first few.
    """

    unit: str
    bundled: bool = False
    cut: list[int] = field(default_factory=list)
    doubted: int = 0
    failed: int = 0
    _said: bool = False

    def take(self, number: int, translation: Translation) -> None:
        """Look at the translation of line ``number``."""
        if translation.error is not None:
            self.fail(translation.error, bool(translation.text))
        self.doubt(number, translation.warnings)
        if translation.truncated:
            self.cut.append(number)

    def doubt(self, number: int, warnings: tuple[str, ...]) -> None:
        """Say the warnings of line ``number``."""
        from uwaga.translator.checks import UNLIKE

        if not warnings:
            return
        self.doubted += 1
        if self.doubted <= NAMED:
            for warning in warnings:
                typer.echo(f"warning: {self.unit} {number}: {warning}", err=True)
        if self.bundled and not self._said and any(one.startswith(UNLIKE) for one in warnings):
            self._said = True
            typer.echo(DEMONSTRATION, err=True)

    def fail(self, error: UwagaError, copied: bool) -> None:
        """Say that a line, which the error names, was not translated."""
        self.failed += 1
        typer.echo(f"error: {error}; {'copied' if copied else 'left empty'}", err=True)

    def finish(self) -> None:
        """Say the numbers of what was not named.

        Raises:
            typer.Exit: with status 1, if a line was not translated.
        """
        if self.doubted > NAMED:
            more = self.doubted - NAMED
            typer.echo(f"warning: and {more} more such {self.unit}{'' if more == 1 else 's'}", err=True)
        for number in self.cut[:NAMED]:
            typer.echo(
                f"warning: the translation of {self.unit} {number} was cut at the length limit "
                "(--max-length, or the model's)",
                err=True,
            )
        if len(self.cut) > NAMED:
            typer.echo(f"warning: and so were {len(self.cut) - NAMED} more", err=True)
        if self.failed:
            plural = "" if self.failed == 1 else "s"
            typer.echo(f"error: {self.failed} {self.unit}{plural} could not be translated", err=True)
            raise typer.Exit(MISTAKE)
