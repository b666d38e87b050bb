"""One HTML page: no script, no font, no picture from elsewhere; readable in light and in dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape as _escape

STYLE = """
:root { color-scheme: light dark; --back: #ffffff; --text: #1f2328; --faint: #59636e; --line: #d1d9e0;
  --one: #0969da; --two: #bc4c00; --three: #1a7f37; --four: #8250df; }
@media (prefers-color-scheme: dark) { :root { --back: #0d1117; --text: #e6edf3; --faint: #9198a1; --line:
#3d444d;
  --one: #58a6ff; --two: #f0883e; --three: #3fb950; --four: #bc8cff; } }
body { background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 62rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top;
  overflow-wrap: anywhere; }
td.number, th.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
figure { margin: 1.5rem 0; } figcaption, .faint { color: var(--faint); }
svg { width: 100%; height: auto; } svg text { fill: var(--faint); font: 12px system-ui, sans-serif; }
summary { cursor: pointer; } pre { overflow-x: auto; }
"""
REPLACED = dict.fromkeys([*range(9), 11, 12, *range(14, 32), *range(0x7F, 0xA0), 0xFFFE, 0xFFFF], "\ufffd")
"""Characters that HTML forbids."""


def escape(text: object) -> str:
    """Text as HTML shows it, whatever it holds."""
    plain = str(text).encode("utf-8", "replace").decode("utf-8")
    return _escape(plain.translate(REPLACED).replace("\r", " "), quote=True)


def page(title: str, parts: Iterable[str]) -> str:
    """A whole document.

    Args:
        title: plain text.
        parts: of HTML, made by the functions here and in :mod:`uwaga.results.chart`.
    """
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src '
        "'unsafe-inline'\">\n"
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def heading(text: str) -> str:
    """The title of a part."""
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str) -> str:
    """Plain text."""
    return f"<p>{escape(text)}</p>"


def preformatted(text: str) -> str:
    """Plain text, its lines and spaces as they are."""
    return f"<pre>{escape(text)}</pre>"


def details(summary: str, inner: str) -> str:
    """HTML that a reader opens.

    Args:
        summary: plain text.
        inner: HTML.
    """
    return f"<details><summary>{escape(summary)}</summary>\n{inner}\n</details>"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of plain cells; numbers stand to the right."""
    body = "\n".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    return f"<table>\n<thead><tr>{titles}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def shown_number(value: float) -> str:
    """A number as tables and charts have it: counts with commas, others with four digits."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def _cell(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f'<td class="number">{escape(shown_number(value))}</td>'
    return f"<td>{escape(value)}</td>"
