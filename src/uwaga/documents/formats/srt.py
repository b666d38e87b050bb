"""SubRip (.srt): numbers and times stay, sentences run through cues."""

from __future__ import annotations

import re

from uwaga.documents.document import DocumentSource, Reading
from uwaga.documents.encodings import decode_text
from uwaga.documents.registry import DocumentFormat
from uwaga.documents.subtitles import LINE_END, Cue, end_of_line, subtitle_pieces
from uwaga.errors import DataError

TIMES = re.compile(
    r"(?:^|(?<=\r))[ \t]*(\d+):(\d{1,2}):(\d{1,2})[,.](\d{1,3})[ \t]*-->[ \t]*"
    r"(\d+):(\d{1,2}):(\d{1,2})[,.](\d{1,3})[^\r\n]*"
    rf"(?:{LINE_END}|\Z)",
    re.MULTILINE,
)
NEXT = re.compile(
    rf"{LINE_END}[ \t]*{LINE_END}"
    rf"|{LINE_END}[ \t]*\d+[ \t]*{LINE_END}(?=[ \t]*\d+:\d{{1,2}}:\d{{1,2}}[,.]\d)"
    rf"|{LINE_END}?\Z"
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
        end = NEXT.search(text, end_of_line(found))
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
