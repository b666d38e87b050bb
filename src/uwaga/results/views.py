"""HTML views of attention and of word probabilities, for notebooks and pages.

:func:`attention_view` shows every attention matrix of a sentence in three views, as BertViz does (Vig 2019):
lines between tokens, a heat map, and all heads of all layers at once. It is self-contained: the weights, in 8
bits, and the script that draws them (``attention_view.js``) are part of the HTML. If scripts are blocked, a
static heat map remains.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uwaga.errors import SettingsError, quoted
from uwaga.results.attention import Attentions, Floats
from uwaga.results.confidence import END, START, WORD_PREFIXES, Word, split_words
from uwaga.results.html import escape

CELL, LETTER, MARGIN = 18, 7, 8
"""Sizes of a cell, of a letter of a label, and of the margin, in pixels."""
MAX_LABEL_CHARACTERS = 14
SHADES = (0.1, 0.25, 0.45, 0.65, 0.85)
"""Lowest weight of each shade; cells below the lowest shade are left empty."""
COLOUR = "#3b82d6"
"""A colour that is visible on white and on black."""


def static_heat_map(
    kind: str, rows: Sequence[str], columns: Sequence[str], weights: NDArray[np.floating]
) -> str:
    """Return a heat map of an attention matrix in five shades, as inline SVG without script or style.

    Args:
        kind: kind of attention for the title: ``cross``, ``encoder`` or ``decoder``.
        rows: labels of the queries.
        columns: labels of the keys.
        weights: (queries, keys).
    """
    left = LETTER * min(MAX_LABEL_CHARACTERS, max(map(len, rows))) + MARGIN
    top = LETTER * min(MAX_LABEL_CHARACTERS, max(map(len, columns))) + MARGIN
    width, height = left + CELL * len(columns) + MARGIN, top + CELL * len(rows) + MARGIN
    labels = [
        f'<text x="{left - 5}" y="{top + CELL * i + 13}" text-anchor="end">{_shorten(text)}</text>'
        for i, text in enumerate(rows)
    ]
    labels += [
        f'<text transform="translate({left + CELL * i + 13},{top - 5}) rotate(-90)">{_shorten(text)}</text>'
        for i, text in enumerate(columns)
    ]
    title = f"{kind} attention, mean of the last layer's heads: rows are queries, columns are keys"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" style="max-width:100%;height:auto" role="img" aria-label="{escape(title)}" '
        'fill="currentColor" font-family="system-ui, sans-serif" font-size="12">'
        f'<g transform="translate({left},{top}) scale({CELL})" stroke="{COLOUR}" fill="none">'
        f"{''.join(_paths(weights))}</g>{''.join(labels)}</svg>"
    )


def _paths(weights: NDArray[np.floating]) -> list[str]:
    """Return an SVG path for each shade; adjacent cells of a row are joined into one line to save space."""
    paths = []
    shade = np.searchsorted(SHADES, weights, side="right")  # (queries, keys): 0 for none
    for number, threshold in enumerate(SHADES, start=1):
        runs = []
        for row, is_selected in enumerate((shade == number).astype(np.int8)):
            edges = np.flatnonzero(np.diff(is_selected, prepend=0, append=0))
            runs += [f"M{start} {row}.5h{stop - start}" for start, stop in edges.reshape(-1, 2).tolist()]
        if runs:
            opacity = min(1.0, threshold + 0.1)
            paths.append(f'<path stroke-opacity="{opacity:.2f}" d="{"".join(runs)}"/>')
    return paths


def _shorten(text: str) -> str:
    return escape(text if len(text) <= MAX_LABEL_CHARACTERS else text[: MAX_LABEL_CHARACTERS - 1] + "…")


LANGUAGES = ("en", "de", "es", "pl", "zh")
"""Codes of the languages of the view: English, and the languages of ``attention_phrases.json``."""
MAX_LEVEL = 255
"""The weight 1 in 8 bits."""
ELEMENT_ID = re.compile(r"[A-Za-z][A-Za-z0-9-]*")


def attention_view(
    attentions: Attentions,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    *,
    name: str | None = None,
    language: str | None = None,
) -> str:
    """Return HTML that shows attention matrices: a self-contained ``div``.

    Args:
        attentions: weights from 0 to 1; kinds of attention that are None are not shown.
        source_tokens: pieces of the source; the end symbol may be left out.
        target_tokens: pieces of the target; the end symbol may be left out.
        name: ``id`` of the ``div``, unique in the page, of letters, digits and hyphens; None for a random
            name.
        language: code of the language of labels and explanations: ``en``, ``de``, ``es``, ``pl`` or ``zh``;
            None for the language of the document (``<html lang>``), or English if it is not one of these.

    Raises:
        SettingsError: the shape of a matrix does not match the tokens, there is no matrix, or the name or
            the language is invalid.
    """
    if language is not None and language not in LANGUAGES:
        raise SettingsError(f"language {quoted(language)}: choose one of {', '.join(LANGUAGES)}")
    name = f"uwaga-{secrets.token_hex(6)}" if name is None else name
    if not ELEMENT_ID.fullmatch(name):
        raise SettingsError(f"name must consist of letters, digits and hyphens, not {quoted(name)}")
    kinds = _present_kinds(attentions, source_tokens, target_tokens)
    data = _view_data(kinds) | {"phrases": _pack_phrases()}
    if language is not None:
        data["language"] = language
    # ASCII JSON without "<" is a JavaScript value that cannot close the script element.
    value = json.dumps(data).replace("<", "\\u003c")
    first_kind = kinds[0]
    static_map = static_heat_map(
        first_kind.name, first_kind.queries, first_kind.keys, first_kind.weights[-1].mean(axis=0)
    )
    return (
        f'<div id="{name}" class="uwaga-attention"><div data-still>{static_map}</div><script>\n'
        f"(function () {{\n{view_script()}\n"
        f'for (const root of document.querySelectorAll("[id=\\"{name}\\"]:not([data-started])")) {{\n'
        f'  root.dataset.started = "";\n  attentionView(root, {value});\n}}\n}})();\n</script></div>'
    )


def attention_view_data(
    attentions: Attentions, source_tokens: Sequence[str], target_tokens: Sequence[str]
) -> dict[str, object]:
    """Return the data of an attention view, for a page that already has :func:`view_script`.

    Args:
        attentions: see :func:`attention_view`.
        source_tokens: see :func:`attention_view`.
        target_tokens: see :func:`attention_view`.

    Returns:
        a dictionary with ``style``, a style sheet, and ``kinds``, a list of dictionaries with ``kind``,
        ``layers``, ``heads``, the labels ``rows`` and ``columns``, and ``weights``: bytes (layers, heads,
        rows, columns), compressed by zlib, in base64.

    Raises:
        SettingsError: the shape of a matrix does not match the tokens, or there is no matrix.
    """
    return _view_data(_present_kinds(attentions, source_tokens, target_tokens))


def view_script() -> str:
    """Return JavaScript that defines ``attentionView(root, data)``, which draws data in an element.

    The view takes the place of the child of the element that has the attribute ``data-still``.
    """
    return _read_file("attention_drawing.js") + _read_file("attention_view.js")


def view_module() -> str:
    """Return a JavaScript module that exports ``attentionView``, its ``style`` and its ``phrases``."""
    style = json.dumps(_read_file("attention_view.css"))
    phrases = _read_file("attention_phrases.json").rstrip()
    constants = f"export const style = {style};\nexport const phrases = {phrases};\n"
    return f"{view_script()}\n{constants}export {{ attentionView }};\n"


def label(piece: str) -> str:
    """Return a piece without its word-boundary mark, or ``␣`` for white space."""
    for mark in WORD_PREFIXES:
        piece = piece.removeprefix(mark)
    return piece if piece.strip() else "␣"


class _AttentionKind(NamedTuple):
    """A kind of attention, with the labels of its axes."""

    name: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights: Floats


def _present_kinds(
    attentions: Attentions, source_tokens: Sequence[str], target_tokens: Sequence[str]
) -> list[_AttentionKind]:
    """Return the kinds of attention that are present, after checking their shapes."""
    source, target = tuple(map(label, source_tokens)), tuple(map(label, target_tokens))
    kinds = []
    for kind, weights in (
        ("cross", attentions.cross),
        ("encoder", attentions.encoder),
        ("decoder", attentions.decoder),
    ):
        if weights is None:
            continue
        rows, columns = weights.shape[2:] if weights.ndim == 4 else (0, 0)
        queries = _axis_labels(source if kind == "encoder" else target, rows)
        keys = _axis_labels(target if kind == "decoder" else source, columns)
        if (rows, columns) != (len(queries), len(keys)) or 0 in weights.shape:
            raise SettingsError(
                f"{kind} attention of shape {weights.shape} does not fit {len(source)} source and "
                f"{len(target)} target tokens: it must be (layers, heads, queries, keys)"
            )
        if kind == "decoder" and source:  # a step reads the previous token; an end precedes each sentence
            keys = tuple(START if token == END else token for token in (END, *queries)[:columns])
        kinds.append(_AttentionKind(kind, queries, keys, weights))
    if not kinds:
        raise SettingsError("there is no attention to show: encoder, decoder and cross are all None")
    return kinds


def _view_data(kinds: Sequence[_AttentionKind]) -> dict[str, object]:
    return {"style": _read_file("attention_view.css"), "kinds": list(map(_pack, kinds))}


def _axis_labels(tokens: tuple[str, ...], length: int) -> tuple[str, ...]:
    """Return the labels of an axis, with the end symbol if the axis includes it."""
    return (*tokens, END) if length == len(tokens) + 1 else tokens


def _pack(kind: _AttentionKind) -> dict[str, object]:
    levels = np.rint(np.clip(np.nan_to_num(kind.weights), 0.0, 1.0) * MAX_LEVEL).astype(np.uint8)
    packed = base64.b64encode(zlib.compress(levels.tobytes(), 9)).decode("ascii")
    layers, heads = kind.weights.shape[:2]
    return {
        "kind": kind.name,
        "layers": layers,
        "heads": heads,
        "rows": list(map(_replace_surrogates, kind.queries)),
        "columns": list(map(_replace_surrogates, kind.keys)),
        "weights": packed,
    }


def _replace_surrogates(text: str) -> str:
    """Return a label without lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode("utf-8")


@cache
def _pack_phrases() -> str:
    phrases = json.dumps(json.loads(_read_file("attention_phrases.json")), ensure_ascii=False)
    return base64.b64encode(zlib.compress(phrases.encode("utf-8"), 9)).decode("ascii")


@cache
def _read_file(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


UNSURE_THRESHOLD = 0.5
"""Mean piece probability below which words are coloured; lower probabilities have stronger colours."""


def colour_words(text: str, words: Sequence[Word]) -> str:
    """Return a translation as HTML with a background colour on improbable words.

    Args:
        text: the translation.
        words: its words, from :func:`uwaga.results.confidence.words_from_tokens`.
    """
    return "".join(
        escape(part) if word is None else _colour_word(word) for part, word in split_words(text, words)
    )


def _colour_word(word: Word) -> str:
    title = f"probability {word.probability:.2f}, mean of its pieces {word.mean:.2f}"
    if word.entropy is not None:
        title += f", entropy {word.entropy:.2f}"
    doubt = max(0.0, UNSURE_THRESHOLD - word.mean) / UNSURE_THRESHOLD
    style = f' style="background:rgba(235,110,20,{0.55 * doubt:.2f})"' if doubt else ""
    return f'<span title="{title}"{style}>{escape(word.text)}</span>'
