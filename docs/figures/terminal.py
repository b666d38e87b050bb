"""Record the README's picture of a terminal: commands and their output.

python docs/figures/terminal.py        writes docs/figures/terminal.svg
"""

import os
import pty
import re
import shlex
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

COMMANDS = (
    'uwaga translate "I want to buy a car."',
    'uwaga attend "I want to buy a car."',
    'uwaga translate --format html "<b>Please</b> close {window}."',
)
COLUMNS = 64
PAUSES = {"command": 1.2, "output": 0.04}
"""Seconds before a line appears."""
TEXT = re.compile(r"<text(?=[^>]*-line-(\d+)\))")
BACKGROUND, TEXT_COLOUR = "181a26", "dee0ec"
COLOURS = "181a26 ed6a5e 7ec08c f0b040 7084d0 b284c8 60b2be dee0ec"
BRIGHT_COLOURS = "6e7286 f68c80 96d2a0 ffc85c 8296e1 c89cdc 82c8d2 ffffff"
"""Black, red, green, yellow, blue, magenta, cyan and white."""
FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>A terminal in which uwaga translates and shows attention</title>
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px ui-monospace, Menlo, Consolas, monospace; }}
{styles}
text {{ animation: appear 1ms both; }}
@keyframes appear {{ from {{ opacity: 0; }} }}
@media (prefers-reduced-motion) {{ text {{ animation: none; }} }}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>
<rect fill="{background}" x="0" y="0" width="{width}" height="{height}" rx="8"/>
<g transform="translate({terminal_x}, 18)" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def rgb(colour: str) -> tuple[int, int, int]:
    """Return the red, green and blue parts of a colour in hexadecimal digits."""
    red, green, blue = bytes.fromhex(colour)
    return red, green, blue


def output(command: str) -> str:
    """Return the output of a command on a terminal, with its colours."""
    receiver, terminal = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    program = [str(Path(sys.executable).with_name("uwaga")), *shlex.split(command)[1:]]
    process = subprocess.Popen(  # noqa: S603
        program, stdout=terminal, stderr=subprocess.DEVNULL, env=environment
    )
    os.close(terminal)
    parts = []
    while True:
        try:
            part = os.read(receiver, 65536)
        except OSError:  # the terminal is closed at the other end
            break
        if not part:
            break
        parts.append(part)
    os.close(receiver)
    if process.wait():
        raise SystemExit(f"error: {command}: exit status {process.returncode}")
    return b"".join(parts).decode().replace("\r\n", "\n")


def main() -> None:
    """Run the commands, and draw their output."""
    console = Console(
        width=COLUMNS, record=True, file=StringIO(), force_terminal=True, color_system="truecolor"
    )
    times, seconds = list[float](), 0.0
    for command in COMMANDS:
        lines = [f"[bold bright_blue]$[/] {command}", *Text.from_ansi(output(command)).split("\n"), ""]
        for number, line in enumerate(lines):
            console.print(line, soft_wrap=True, highlight=False)
            seconds += PAUSES["output" if number else "command"]
            times.append(seconds)
        seconds += PAUSES["command"]
    theme = TerminalTheme(
        rgb(BACKGROUND),
        rgb(TEXT_COLOUR),
        [rgb(colour) for colour in COLOURS.split()],
        [rgb(colour) for colour in BRIGHT_COLOURS.split()],
    )
    drawing = console.export_svg(
        theme=theme, code_format=FORMAT.replace("{background}", f"#{BACKGROUND}"), unique_id="t"
    )

    drawing = TEXT.sub(lambda text: f'<text style="animation-delay:{times[int(text[1])]:.2f}s"', drawing)
    Path(__file__).with_suffix(".svg").write_text(drawing, encoding="utf-8")


if __name__ == "__main__":
    main()
