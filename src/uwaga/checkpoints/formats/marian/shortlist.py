"""Marian's binary shortlists, ``lex.*.s2t.bin``: which target tokens each source token may become.

Six 64-bit numbers (magic, checksum, how many tokens every sentence may become, how many each source token has
at most, offsets, entries), then the offsets, then the entries as 32-bit numbers. The checksum is of all that
stands behind it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from uwaga.checkpoints.storage.memory import read_private
from uwaga.engine.shortlist import Shortlist, lexical_checksum
from uwaga.errors import ModelError

MAGIC = 0xF11A48D5013417F5
HEAD = 6
MULTIPLE = 8
"""Marian fills lists up to this, as its products want it."""


def read_lexical_shortlist(path: Path, sizes: tuple[int, int], padded: int, shared: bool) -> Shortlist:
    """Read a shortlist, everything in it verified.

    Args:
        path: the file.
        sizes: pieces of the source and the target vocabulary as Marian counts them.
        padded: tokens of both sides here, of which the last have no entries.
        shared: whether both sides have the same tokens; a source token may then stay what it is.

    Raises:
        ModelError: cut short, damaged, or of other vocabularies.
    """
    content = read_private(path)
    if len(content) < 8 * HEAD:
        raise ModelError(f"{path}: {len(content)} bytes are no shortlist; fetch it again")
    magic, checksum, common, _, offsets, entries = content[: 8 * HEAD].view("<u8").tolist()
    if magic != MAGIC:
        raise ModelError(f"{path}: no binary shortlist of Marian's (it begins with {magic:#x})")
    if 8 * HEAD + 8 * offsets + 4 * entries != len(content):
        raise ModelError(
            f"{path}: states {offsets} offsets and {entries} entries, which are not its {len(content)} "
            "bytes: it is cut short or damaged; fetch it again"
        )
    words = content[16 : 16 + (len(content) - 16) // 8 * 8].view("<u8")
    if lexical_checksum(words) != checksum:
        raise ModelError(f"{path}: the checksum is not that of the file; it is damaged: fetch it again")
    if offsets != sizes[0] + 1:
        raise ModelError(
            f"{path}: is for {offsets - 1} source tokens, and the model has {sizes[0]}; the files are of "
            "different models"
        )
    first = content[8 * HEAD : 8 * (HEAD + offsets)].view("<u8")
    targets = content[8 * (HEAD + offsets) :].view("<u4")
    if first[0] != 0 or first[-1] != entries or (first[1:] < first[:-1]).any():
        raise ModelError(f"{path}: its offsets do not go from 0 to its {entries} entries")
    if common < 1 or common > sizes[1] or (entries and int(targets.max()) >= sizes[1]):
        raise ModelError(
            f"{path}: holds target tokens beyond the {sizes[1]} of the model; the files are of different "
            "models"
        )
    ends = np.full(padded - sizes[0], entries, dtype=np.int32)
    try:
        return Shortlist(
            np.arange(common, dtype=np.int32),
            np.concatenate([first.astype(np.int32), ends]),
            targets.view("<i4"),  # none is so large that it would be negative
            padded,
            own=shared,
            multiple=MULTIPLE,
        )
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
