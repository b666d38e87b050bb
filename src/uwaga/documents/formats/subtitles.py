"""SubRip (.srt) and WebVTT (.vtt): a sentence that runs through several cues is translated as one text.

Numbers, times, settings, notes and styles are copied. The translation of a sentence is divided among its cues
in proportion to the length of their source texts.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from uwaga.documents.document import DocumentFormat, DocumentSource, Reading
from uwaga.documents.encodings import decode_text
from uwaga.errors import DataError
from uwaga.markup import Inline, Tag, plain_text
from uwaga.markup.inline import joined, paired_tags
from uwaga.markup.units import Piece, Unit, balanced, text_unit, translatable, trimmed
from uwaga.markup.wrapping import balance

LINE = re.compile(r"([^\r\n]*)(\r\n|\n|\r|\Z)")
LINE_END = re.compile(r"\r\n|\n|\r|<[bB][rR]\s*/?>|\\N")
"""Also as players show it: ``<br>``, and ``\\N`` of other formats of subtitles."""
SRT_TIMES = re.compile(
    r"[ \t]*(\d{1,9}):(\d{1,2}):(\d{1,2})[,.](\d{1,3})[ \t]*-->[ \t]*"
    r"(\d{1,9}):(\d{1,2}):(\d{1,2})[,.](\d{1,3})"
)
VTT_TIMES = re.compile(
    r"[ \t]*(?:(\d{1,9}):)?(\d{2}):(\d{2})\.(\d{3})[ \t]+-->[ \t]+(?:(\d{1,9}):)?(\d{2}):(\d{2})\.(\d{3})"
)
TAG = re.compile(r"</?(?![bB][rR]\s*/?>)[A-Za-z][^<>\r\n]*>|<\d[\d:.]*>|\{\\[^{}\r\n]*\}|\{/?[ibu]\}")
NAME = re.compile(r"[<{]/?([A-Za-z]+)")
SENTENCE_END = frozenset(".!?…:;♪♫。！？」])")
CLOSING = "\"'”’»)]"
GAP = 2000
"""Milliseconds between two cues beyond which a sentence is taken to end."""
MOST = 8
"""Most cues of one sentence."""
WIDTH = 42
"""Characters of a line (Netflix Timed Text Style Guide)."""
SPEAKER = re.compile(r"[ \t]*(?:<[^>]*>)*[-–—][ \t]?")
AFTER_CLAUSE = re.compile(r"[,;:.!?…][\"'”’»)]*+(?= )")


class Cue(NamedTuple):
    """A cue: the span of its text, and its times in milliseconds."""

    start: int
    end: int
    begins: int
    ends: int


def read_srt(source: DocumentSource) -> Reading:
    """Read a SubRip file."""
    text, encoding, mark = decode_text(source.content, source.options.encoding, source.name)
    cues = list(_cues(text, SRT_TIMES, numbered=True))
    if text.strip() and not cues:
        raise DataError(f"{source.name}: holds no time such as 00:00:01,000 --> 00:00:02,000: is it SubRip?")
    return Reading(_pieces(text, _with_text(text, cues), escaped=False), encoding, mark=mark)


def read_vtt(source: DocumentSource) -> Reading:
    """Read a WebVTT file."""
    text, encoding, mark = decode_text(source.content, source.options.encoding, source.name)
    if not text.startswith("WEBVTT"):
        raise DataError(f"{source.name}: does not begin with WEBVTT: is it a file of WebVTT?")
    cues = _cues(text, VTT_TIMES, numbered=False)
    return Reading(_pieces(text, _with_text(text, cues), escaped=True), encoding, mark=mark)


def _cues(text: str, times: re.Pattern[str], *, numbered: bool) -> Iterator[Cue]:
    """Yield the cues of a file; the text of one ends at a blank line, or before the next cue.

    Args:
        text: the file.
        times: the pattern of a line with times.
        numbered: whether a line with a number stands before that line.
    """
    stamp: tuple[int, int] | None = None
    start = end = before = 0  # of the text; where it ends without its last line
    number = False  # whether its last line is a number
    for line in LINE.finditer(text):
        match = times.match(line[1])
        if stamp is not None and (match or not line[1].strip(" \t")):
            yield Cue(start, before if match and numbered and number else end, *stamp)
            stamp = None
        if match:
            parts = [int(part or 0) for part in match.groups()]
            stamp = _milliseconds(parts[:4]), _milliseconds(parts[4:])
            start = end = before = line.end()
            number = False
        elif stamp is not None:
            before, end = end, line.end(1)
            number = line[1].strip(" \t").isdecimal()
    if stamp is not None:
        yield Cue(start, end, *stamp)


def _milliseconds(parts: list[int]) -> int:
    hours, minutes, seconds, rest = parts
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + rest


def _with_text(text: str, cues: Iterator[Cue] | Sequence[Cue]) -> list[Cue]:
    return [cue for cue in cues if text[cue.start : cue.end].strip()]


def _pieces(text: str, cues: Sequence[Cue], escaped: bool) -> Iterator[Piece]:
    """Yield the pieces of a file.

    Args:
        text: the file.
        cues: those that have a text, in order.
        escaped: whether ``&amp;`` stands for ``&``, as in WebVTT.
    """
    at = 0
    for group in _sentences(text, cues):
        yield text[at : group[0].start]
        yield from _speakers(text, group[0], escaped) if len(group) == 1 else [_unit(text, group, escaped)]
        at = group[-1].end
    yield text[at:]


def _sentences(text: str, cues: Sequence[Cue]) -> Iterator[list[Cue]]:
    """Yield the cues of each sentence, or of several sentences of which only the last ends with a cue."""
    group: list[Cue] = []
    for cue in cues:
        words = text[cue.start : cue.end]
        alone = bool(SPEAKER.match(words))
        if group and (alone or len(group) >= MOST or cue.begins - group[-1].ends > GAP):
            yield group
            group = []
        group.append(cue)
        if alone or _ends_sentence(TAG.sub("", words).rstrip()):
            yield group
            group = []
    if group:
        yield group


def _ends_sentence(words: str) -> bool:
    bare = words.rstrip(CLOSING)
    return bare[-1:] in SENTENCE_END or not SENTENCE_END.isdisjoint(words[len(bare) :])


def _speakers(text: str, cue: Cue, escaped: bool) -> Iterator[Piece]:
    """Yield the pieces of a single cue: one unit, or one for each line where several people speak."""
    raw = text[cue.start : cue.end]
    lines = re.split(f"({LINE_END.pattern})", raw)
    if sum(bool(SPEAKER.match(line)) for line in lines[::2]) < 2:
        yield _unit(text, [cue], escaped)
        return
    for line, end in zip(lines[::2], [*lines[1::2], ""], strict=True):
        dash = SPEAKER.match(line)
        lead = dash[0] if dash and "<" not in dash[0] else ""
        yield lead
        yield text_unit(
            line[len(lead) :], _read(line[len(lead) :], escaped), lambda made: _write(made, escaped)
        )
        yield end


def _unit(text: str, group: Sequence[Cue], escaped: bool) -> Piece:
    raw = text[group[0].start : group[-1].end]
    inlines = [_read(text[cue.start : cue.end], escaped) for cue in group]
    inline = balanced(_together(inlines))
    _, core, _ = trimmed(inline)
    if not translatable(core):
        return raw
    between = [text[cue.end : following.start] for cue, following in pairwise(group)]
    shares = [max(1, len(plain_text(one).strip())) for one in inlines]
    ends = [LINE_END.findall(text[cue.start : cue.end].strip()) for cue in group]
    around = LINE_END.findall(text, max(0, group[0].start - 2), group[0].start)
    end = next((own[0] for own in ends if own), around[0] if around else "\n")

    def write(made: Sequence[Inline]) -> str:
        parts = _divided(made[0], shares)
        written = [_lines(part, len(own) + 1, end, escaped) for part, own in zip(parts, ends, strict=True)]
        return "".join(one + gap for one, gap in zip(written, [*between, ""], strict=True))

    return Unit((core,), write, raw)


def _read(raw: str, escaped: bool) -> Inline:
    """Return the text of a cue, its lines joined by spaces."""
    parts: list[str | Tag] = []
    at = 0
    for found in TAG.finditer(raw):
        parts.append(_words(raw[at : found.start()], escaped))
        tag = found[0]
        if NAME.match(tag) is None or tag.startswith("{\\"):
            parts.append(Tag("void", tag))
        else:
            parts.append(Tag("close" if tag[1] == "/" else "open", tag))
        at = found.end()
    parts.append(_words(raw[at:], escaped))
    return joined(parts)


def _words(raw: str, escaped: bool) -> str:
    lines = LINE_END.split(raw)
    if len(lines) > 1:
        inner = [line.strip(" \t") for line in lines[1:-1]]
        raw = " ".join([lines[0].rstrip(" \t"), *inner, lines[-1].lstrip(" \t")])
    return html.unescape(raw) if escaped else raw


def _together(inlines: Sequence[Inline]) -> Inline:
    """Join cues into one text; a tag that one ends with and the next begins with again is not interrupted."""
    parts: list[str | Tag] = []
    for inline in inlines:
        _, core, _ = trimmed(inline)
        first = 0
        while parts and first < len(core) and _reopens(parts[-1], core[first]):
            parts.pop()
            first += 1
        parts += ([" "] if parts else []) + list(core[first:])
    return joined(parts)


def _reopens(end: str | Tag, begin: str | Tag) -> bool:
    if isinstance(end, str) or isinstance(begin, str) or (end.kind, begin.kind) != ("close", "open"):
        return False
    first, second = NAME.match(end.raw), NAME.match(begin.raw)
    return first is not None and second is not None and first[1] == second[1]


def _divided(inline: Inline, shares: Sequence[int]) -> list[Inline]:
    """Divide a text among cues in proportion to ``shares``; open tags are closed and opened again."""
    text = "".join(part for part in inline if isinstance(part, str))
    parts = _split(inline, _cuts(text, shares))
    return [*parts, *([("…",)] * (len(shares) - len(parts)))]


def _cuts(text: str, shares: Sequence[int]) -> list[int]:
    """Choose where to cut a text: between words, near the shares, preferably after a clause."""
    spaces = [found.start() for found in re.finditer(r" +", text) if 0 < found.start() < len(text) - 1]
    clauses = {found.end() for found in AFTER_CLAUSE.finditer(text)}
    if not spaces and not text.isascii():
        spaces = list(range(1, len(text)))
    cuts: list[int] = []
    total, reached = sum(shares), 0
    for number, share in enumerate(shares[:-1], start=1):
        reached += share
        place = len(text) * reached / total
        left = len(shares) - number - 1  # cuts that still need a space after this one
        free = [space for space in spaces if not cuts or space > cuts[-1]]
        free = free[: len(free) - left] if left else free
        if not free:
            break
        cuts.append(min(free, key=lambda space: abs(space - place) - (8 if space in clauses else 0)))
    return cuts


def _split(inline: Inline, cuts: Sequence[int]) -> list[Inline]:
    """Cut an inline at characters of its text; tags that are open there are closed and opened again."""
    pairs = paired_tags(inline)
    parts: list[list[str | Tag]] = [[]]
    opened: list[tuple[Tag, str | Tag]] = []
    at, left = 0, list(cuts)
    for number, part in enumerate(inline):
        if isinstance(part, Tag):
            if number in pairs:
                opened.append((part, inline[pairs[number]]))
            elif part.kind == "close" and opened:
                opened.pop()
            parts[-1].append(part)
            continue
        rest = part
        while left and at <= left[0] < at + len(rest):
            before, rest = rest[: left[0] - at], rest[left[0] - at :]
            at = left.pop(0)
            parts[-1] += [before.rstrip(" "), *(end for _, end in reversed(opened))]
            parts.append([begin for begin, _ in opened])
            at, rest = at + len(rest) - len(rest.lstrip(" ")), rest.lstrip(" ")
        parts[-1].append(rest)
        at += len(rest)
    return [trimmed(joined(part))[1] for part in parts]


def _lines(inline: Inline, count: int, end: str, escaped: bool) -> str:
    """Write the text of a cue in lines of about equal length."""
    text = "".join(part for part in inline if isinstance(part, str))
    rows = max(count, min(2, -(-len(text) // WIDTH)))
    lines = balance(text, rows) if len(text) > WIDTH / 2 or count > 1 else [text]
    cuts = set[int]()
    at = 0
    for row in lines[:-1]:
        at = text.find(row, at) + len(row)
        cuts.add(at)
    written: list[str] = []
    at = 0
    for part in inline:
        if isinstance(part, Tag):
            written.append(part.raw)
            continue
        for place, character in enumerate(part, start=at):
            written.append(end if place in cuts else "")
            if place not in cuts or character != " ":
                written.append(_write((character,), escaped))
        at += len(part)
    return "".join(written)


def _write(made: Inline, escaped: bool) -> str:
    return "".join(
        part.raw if isinstance(part, Tag) else html.escape(part, quote=False) if escaped else part
        for part in made
    )


SRT = DocumentFormat("srt", (".srt",), read_srt)
VTT = DocumentFormat("vtt", (".vtt", ".webvtt"), read_vtt)
