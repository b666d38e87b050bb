"""Figures made without a display and written whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from uwaga.errors import MissingExtraError, SettingsError
from uwaga.files.atomic import new_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
DOTS_PER_INCH = 150


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of that size in inches; nothing of it is global, so that threads may draw.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("drawing needs matplotlib: pip install 'uwaga[inspect]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def check_format(path: Path) -> None:
    """Refuse a file name that says no known format, before work is done for it.

    Raises:
        SettingsError: names the endings that are known.
    """
    if path.suffix.lower() not in FORMATS:
        raise SettingsError(f"{path}: a figure's name must end in one of {', '.join(FORMATS)}")


def check_drawing(path: Path) -> None:
    """Refuse what could not be drawn, before work is done for it.

    Raises:
        SettingsError: a file name that says no known format.
        MissingExtraError: matplotlib is not installed.
    """
    check_format(path)
    new_figure(1, 1)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format that its name ends in; one made again gives the same bytes.

    The file takes its name when all is written: after an error there is none, or still the old one.

    Raises:
        SettingsError: an unknown format.
        DataError: the file cannot be written.
    """
    check_format(path)
    from matplotlib import rc_context

    kind = path.suffix.lower().removeprefix(".")
    dates = {"svg": "Date", "pdf": "CreationDate"}
    with rc_context({"svg.hashsalt": "uwaga"}), new_file(path) as file:
        metadata = {dates[kind]: None} if kind in dates else None
        figure.savefig(file, format=kind, dpi=DOTS_PER_INCH, metadata=metadata)
