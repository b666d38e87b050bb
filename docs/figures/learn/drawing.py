"""Draw figures of the course as SVG, in light and dark colours, with a description for screen readers.

A script of this folder defines ``draw() -> Drawing`` and writes the file of its own name:

    python docs/figures/learn/c05_variance.py      writes docs/figures/learn/c05_variance.svg

Its colours are those of ``page/src/look.css``: one each for queries, keys, values, source and target.

A figure of the bundled model names the SHA-256 of its weights, so that a test notices one of another model.
"""

from __future__ import annotations

import hashlib
import html
import math
import sys
from pathlib import Path

from uwaga.checkpoints.formats.uwaga.names import BUNDLED

STYLE = """
svg {
  color: #1d1b16; --soft: #5c574c; --line: #ddd8ca; --accent: 11 95 88; --second: 173 58 0; --pane: #f0ecdf;
  --query: 29 95 180; --key: 163 82 0; --value: 168 37 122; --source: 115 85 0; --target: 11 95 88;
}
@media (prefers-color-scheme: dark) {
  svg {
    color: #ece8dd; --soft: #aea796; --line: #3b382e; --accent: 111 214 198; --second: 255 158 100;
    --pane: #2b2920; --query: 125 181 255; --key: 255 176 106; --value: 255 143 195; --source: 227 192 74;
    --target: 111 214 198;
  }
}
text { fill: currentColor; font: 14px system-ui, sans-serif; }
.soft { fill: var(--soft); } .small { font-size: 12px; } .bold { font-weight: 600; }
.code { font-family: ui-monospace, monospace; }
.middle { text-anchor: middle; } .end { text-anchor: end; }
.box { fill: var(--pane); stroke: var(--line); }
.line { fill: none; stroke: currentColor; stroke-width: 1.5; }
.grid { fill: none; stroke: var(--line); }
.accent { fill: rgb(var(--accent)); } .second { fill: rgb(var(--second)); }
.query { fill: rgb(var(--query)); } .key { fill: rgb(var(--key)); } .value { fill: rgb(var(--value)); }
.source { fill: rgb(var(--source)); } .target { fill: rgb(var(--target)); }
.accent-line { fill: none; stroke: rgb(var(--accent)); stroke-width: 2; }
.second-line { fill: none; stroke: rgb(var(--second)); stroke-width: 2; }
.query-line { fill: none; stroke: rgb(var(--query)); stroke-width: 2; }
.key-line { fill: none; stroke: rgb(var(--key)); stroke-width: 2; }
.value-line { fill: none; stroke: rgb(var(--value)); stroke-width: 2; }
.source-line { fill: none; stroke: rgb(var(--source)); stroke-width: 2; }
.target-line { fill: none; stroke: rgb(var(--target)); stroke-width: 2; }
"""


class Drawing:
    """A figure with a coordinate system in pixels, the origin at the top left.

    Args:
        width: of the figure.
        height: of the figure.
        title: what the figure shows, in one sentence of at least eight words.
        model: whether the bundled model drew it.
    """

    def __init__(self, width: int, height: int, title: str, *, model: bool = False) -> None:
        self.width, self.height, self.title, self.model = width, height, title, model
        self.parts: list[str] = []

    def text(self, x: float, y: float, text: str, look: str = "") -> None:
        """Write a text whose baseline begins at a point; ``look`` names classes of ``STYLE``."""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{look}">{html.escape(text)}</text>')

    def rectangle(
        self, x: float, y: float, width: float, height: float, look: str = "box", alpha: float = 1
    ) -> None:
        """Draw a rectangle with round corners; ``alpha`` from 0 to 1 is the opacity of its colour."""
        opacity = "" if alpha == 1 else f' fill-opacity="{alpha:.3f}"'
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
            f'rx="3" class="{look}"{opacity}/>'
        )

    def line(
        self, *points: tuple[float, float], look: str = "line", arrow: bool = False, alpha: float = 1
    ) -> None:
        """Draw a line through points, with an arrow at its end if requested; ``alpha`` is its opacity."""
        path = "M" + "L".join(f"{x:g} {y:g}" for x, y in points)
        end = ' marker-end="url(#arrow)"' if arrow else ""
        opacity = "" if alpha == 1 else f' stroke-opacity="{alpha:.3f}"'
        self.parts.append(f'<path d="{path}" class="{look}"{end}{opacity}/>')

    def circle(self, x: float, y: float, radius: float, look: str = "grid") -> None:
        """Draw a circle around a point."""
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" class="{look}"/>')

    def vector(self, start: tuple[float, float], length: float, angle: float, look: str, label: str) -> None:
        """Draw an arrow from a point at an angle in radians, counter-clockwise, with a label at its end."""
        (x, y), (cosine, sine) = start, (math.cos(angle), math.sin(angle))
        self.line(start, (x + length * cosine, y - length * sine), look=f"{look}-line", arrow=True)
        far = length + 15
        self.text(x + far * cosine, y - far * sine + 5, label, f"middle bold {look}")

    def table(
        self,
        x: float,
        y: float,
        values: list[list[float]],
        rows: list[str],
        columns: list[str],
        *,
        cell: int = 46,
        digits: int = 2,
        shade: bool = True,
        largest: float = 1,
    ) -> None:
        """Draw numbers (rows, columns) in cells whose colour is as strong as the number is near ``largest``.

        The top left cell is at ``(x, y)``; labels are to the left and above.
        """
        for index, name in enumerate(columns):
            self.text(x + (index + 0.5) * cell, y - 8, name, "middle small")
        for row, (name, line) in enumerate(zip(rows, values, strict=True)):
            top = y + row * 30
            self.text(x - 8, top + 20, name, "end small")
            for index, value in enumerate(line):
                self.rectangle(x + index * cell, top, cell, 30, "grid")
                if shade and value > 0:
                    self.rectangle(
                        x + index * cell, top, cell, 30, "accent", min(0.75, 0.75 * value / largest)
                    )
                self.text(x + (index + 0.5) * cell, top + 20, f"{value:.{digits}f}", "middle small")

    def svg(self) -> str:
        """Return the SVG file as a string."""
        checksum = (
            hashlib.sha256((BUNDLED / "model.safetensors").read_bytes()).hexdigest() if self.model else ""
        )
        metadata = f"<metadata>model sha256:{checksum}</metadata>" if checksum else ""
        arrow = (
            '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0 0L10 5L0 10z" fill="context-stroke"/></marker></defs>'
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" role="img">\n'
            f"<title>{html.escape(self.title)}</title>{metadata}\n"
            f"<style>{STYLE}</style>{arrow}\n" + "\n".join(self.parts) + "\n</svg>\n"
        )

    def save(self) -> None:
        """Write the figure beside the script that is running."""
        path = Path(sys.argv[0]).with_suffix(".svg")
        path.write_text(self.svg(), encoding="utf-8")
        print(f"wrote {path}")  # noqa: T201
