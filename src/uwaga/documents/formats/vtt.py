"""WebVTT: settings, notes, styles and regions stay, sentences run through cues."""

from __future__ import annotations

import re

from uwaga.documents.document import DocumentSource, Reading
from uwaga.documents.encodings import decode_text
from uwaga.documents.registry import DocumentFormat
from uwaga.documents.subtitles import LINE_END, Cue, end_of_line, subtitle_pieces
from uwaga.errors import DataError

TIMES = re.compile(
    r"(?:^|(?<=\r))[ \t]*(?:(\d+):)?(\d{2}):(\d{2})\.(\d{3})[ \t]+-->[ \t]+"
    r"(?:(\d+):)?(\d{2}):(\d{2})\.(\d{3})[^\r\n]*"
    rf"{LINE_END}",
    re.MULTILINE,
)
BLANK = re.compile(rf"{LINE_END}[ \t]*(?={LINE_END})|{LINE_END}?\Z")


def read(source: DocumentSource) -> Reading:
    """Take a file apart into sentences.

    Raises:
        DataError: it does not begin as WebVTT does.
    """
    text, encoding, mark = decode_text(source.content, source.options.encoding, source.name)
    if not text.startswith("WEBVTT"):
        raise DataError(f"{source.name}: does not begin with WEBVTT: is it a file of WebVTT?")
    cues = []
    for found in TIMES.finditer(text):
        end = BLANK.search(text, end_of_line(found))
        assert end is not None
        times = [int(one or 0) for one in found.groups()]
        if end.start() > found.end():
            cues.append(Cue(found.end(), end.start(), _milliseconds(times[:4]), _milliseconds(times[4:])))
    return Reading(subtitle_pieces(text, cues, escaped=True), encoding, mark=mark)


def _milliseconds(times: list[int]) -> int:
    hours, minutes, seconds, rest = times
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + rest


FORMAT = DocumentFormat("vtt", (".vtt", ".webvtt"), read)
