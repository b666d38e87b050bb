"""Every attention matrix of a sentence as one piece of HTML, to be looked at in a notebook or a page.

Three views, as BertViz (Vig 2019) has them: lines between tokens, a heat map, and every head of every layer
at once. It needs no network: the weights lie in it, in 8 bits, and what draws them (``attention_view.js``).
Where scripts may not run, a still picture is left.
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
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from uwaga.errors import SettingsError, shown
from uwaga.results.confidence import END, SPACES, START
from uwaga.results.still_attention import still_attention

Weights = NDArray[np.float32]
LEVELS = 255
NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*")


class SeveralAttentions(Protocol):
    """Matrices ``(layers, heads, query, key)`` as :class:`uwaga.results.attention.Attentions` has them."""

    @property
    def encoder(self) -> Weights | None: ...
    @property
    def decoder(self) -> Weights | None: ...
    @property
    def cross(self) -> Weights | None: ...


def attention_view(
    attentions: SeveralAttentions,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    *,
    name: str | None = None,
) -> str:
    """HTML that shows attention: a ``div`` with all that it needs in it.

    Args:
        attentions: cross (target, source), decoder (target, target) and encoder (source, source), each with
            its layers and heads in front, weights from 0 to 1; what is None is not shown.
        source_tokens: pieces of the source; the end symbol may be left out.
        target_tokens: pieces of the target, likewise.
        name: the ``id`` of the ``div``, letters, digits and hyphens, which nothing else in the page has; a
            random one if None.

    Raises:
        SettingsError: a matrix has other axes than its tokens, or there is none; an impossible name.
    """
    name = f"uwaga-{secrets.token_hex(6)}" if name is None else name
    if not NAME.fullmatch(name):
        raise SettingsError(f"name must be letters, digits and hyphens, not {shown(name)}")
    kinds = _kinds(attentions, source_tokens, target_tokens)
    data = _view_data(kinds)
    # JSON in ASCII without "<" is a JavaScript value that can end no script, whatever the tokens hold.
    value = json.dumps(data).replace("<", "\\u003c")
    first, rows, columns, weights = kinds[0]
    still = still_attention(first, rows, columns, weights[-1].mean(axis=0))
    return (
        f'<div id="{name}" class="uwaga-attention"><div data-still>{still}</div><script>\n'
        f"(function () {{\n{view_script()}\n"
        f'for (const root of document.querySelectorAll("[id=\\"{name}\\"]:not([data-started])")) {{\n'
        f'  root.dataset.started = "";\n  attentionView(root, {value});\n}}\n}})();\n</script></div>'
    )


def attention_view_data(
    attentions: SeveralAttentions, source_tokens: Sequence[str], target_tokens: Sequence[str]
) -> dict[str, object]:
    """What :func:`view_script` draws, as JSON holds it, for a page that has the script already.

    Args:
        attentions: as :func:`attention_view` takes them.
        source_tokens: likewise.
        target_tokens: likewise.

    Returns:
        ``style``, a style sheet, and ``kinds``, a list of ``kind``, ``layers``, ``heads``, the labels
        ``rows`` and ``columns``, and ``weights``: base64 of zlib of bytes (layers, heads, rows, columns).

    Raises:
        SettingsError: a matrix has other axes than its tokens, or there is none.
    """
    return _view_data(_kinds(attentions, source_tokens, target_tokens))


def view_script() -> str:
    """JavaScript with the function ``attentionView(root, data)``: it draws the data in an element.

    The element holds another one, marked ``data-still``, that the view takes the place of.
    """
    return _file("attention_drawing.js") + _file("attention_view.js")


def label(piece: str) -> str:
    """A piece as it is shown: without the mark in front where a word begins, white space as ``␣``."""
    for mark in SPACES:
        piece = piece.removeprefix(mark)
    return piece if piece.strip() else "␣"


Kind = tuple[str, tuple[str, ...], tuple[str, ...], Weights]


def _kinds(
    attentions: SeveralAttentions, source_tokens: Sequence[str], target_tokens: Sequence[str]
) -> list[Kind]:
    """Name, labels of queries and of keys, and matrices of each attention that there is."""
    source, target = tuple(map(label, source_tokens)), tuple(map(label, target_tokens))
    found = []
    for kind, given in (
        ("cross", attentions.cross),
        ("encoder", attentions.encoder),
        ("decoder", attentions.decoder),
    ):
        if given is None:
            continue
        rows, columns = given.shape[2:] if given.ndim == 4 else (0, 0)
        queries = _as_long(source if kind == "encoder" else target, rows)
        keys = _as_long(target if kind == "decoder" else source, columns)
        if (rows, columns) != (len(queries), len(keys)) or 0 in given.shape:
            raise SettingsError(
                f"{kind} attention of shape {given.shape} does not fit {len(source)} source and "
                f"{len(target)} target tokens: it must be (layers, heads, queries, keys)"
            )
        if kind == "decoder" and source:  # a step reads what was made before it; behind an end one starts
            keys = tuple(START if one == END else one for one in (END, *queries)[:columns])
        found.append((kind, queries, keys, given))
    if not found:
        raise SettingsError("there is no attention to show: all of encoder, decoder and cross are None")
    return found


def _view_data(kinds: Sequence[Kind]) -> dict[str, object]:
    return {"style": _file("attention_view.css"), "kinds": [_packed(*kind) for kind in kinds]}


def _as_long(tokens: tuple[str, ...], length: int) -> tuple[str, ...]:
    """The labels of an axis, which may count the end of the sentence."""
    return (*tokens, END) if length == len(tokens) + 1 else tokens


def _packed(
    kind: str, rows: tuple[str, ...], columns: tuple[str, ...], weights: Weights
) -> dict[str, object]:
    levels = np.rint(np.clip(np.nan_to_num(weights), 0.0, 1.0) * LEVELS).astype(np.uint8)
    packed = base64.b64encode(zlib.compress(levels.tobytes(), 9)).decode("ascii")
    layers, heads = weights.shape[:2]
    return {
        "kind": kind,
        "layers": layers,
        "heads": heads,
        "rows": list(map(_shown, rows)),
        "columns": list(map(_shown, columns)),
        "weights": packed,
    }


def _shown(text: str) -> str:
    """A label without lone surrogates, which no page can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


@cache
def _file(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
