"""SubRip (.srt): numbers and times stay, sentences run through cues."""

from __future__ import annotations

import re

from uwaga.documents.document import DocumentSource, Reading
from uwaga.documents.encodings import decode_text
from uwaga.documents.registry import DocumentFormat
from uwaga.documents.subtitles import Cue, subtitle_pieces
from uwaga.errors import DataError

END = r"(?:\r\n|\n|\r(?!\n))"
TIMES = re.compile(
    r"(?:^|(?<=\r))[ \t]*(\d+):(\d{1,2}):(\d{1,2})[,.](\d{1,3})[ \t]*-->[ \t]*"
    r"(\d+):(\d{1,2}):(\d{1,2})[,.](\d{1,3})[^\r\n]*"
    rf"(?:{END}|\Z)",
    re.MULTILINE,
)
NEXT = re.compile(
    rf"{END}[ \t]*{END}|{END}[ \t]*\d+[ \t]*{END}(?=[ \t]*\d+:\d{{1,2}}:\d{{1,2}}[,.]\d)|{END}?\Z"
)


def read(source: DocumentSource) -> Reading:
    """Take a file apart into sentences.

    Raises:
        DataError: nothing in it is the time of a cue.
    """
    text, encoding, mark = decode_text(source.content, source.options.encoding, source.name)
    cues = []
    for found in TIMES.finditer(text):
        begin = found.end()
        end = NEXT.search(text, len(found[0].rstrip("\r\n")) + found.start())
        assert end is not None
        times = [int(one) for one in found.groups()]
        cues.append(
            Cue(
                min(begin, end.start()) if end.start() < begin else begin,
                max(begin, end.start()),
                _milliseconds(times[:4]),
                _milliseconds(times[4:]),
            )
        )
    if text.strip() and not cues:
        raise DataError(f"{source.name}: holds no time such as 00:00:01,000 --> 00:00:02,000: is it SubRip?")
    cues = [cue for cue in cues if cue.end > cue.start and cue.end <= len(text)]
    return Reading(subtitle_pieces(text, cues, escaped=False), encoding, mark=mark)


def _milliseconds(times: list[int]) -> int:
    hours, minutes, seconds, rest = times
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + rest


FORMAT = DocumentFormat("srt", (".srt",), read)
