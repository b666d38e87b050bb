"""SubRip (.srt) and WebVTT (.vtt); a sentence that spans several cues is translated as one text.

Numbers, times, settings, notes and styles are copied. The translation of a sentence is divided among its cues
in proportion to the lengths of their source texts.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from uwaga.errors import DataError
from uwaga.markup import Inline, Tag, plain_text
from uwaga.markup.inline import join_parts, match_pairs
from uwaga.markup.units import Piece, Unit, balance_tags, is_translatable, text_unit, trim
from uwaga.markup.wrapping import balance
from uwaga_documents.document import DocumentFormat, DocumentSource, ParsedDocument
from uwaga_documents.encodings import decode_text

LINE = re.compile(r"([^\r\n]*)(\r\n|\n|\r|\Z)")
LINE_END = re.compile(r"\r\n|\n|\r|<[bB][rR]\s*/?>|\\N")
"""A line break, including ``<br>``, and ``\\N`` of other subtitle formats, which players display as line
breaks."""
SRT_TIMES = re.compile(
    r"[ \t]*(\d{1,9}):(\d{1,2}):(\d{1,2})[,.](\d{1,3})[ \t]*-->[ \t]*"
    r"(\d{1,9}):(\d{1,2}):(\d{1,2})[,.](\d{1,3})"
)
VTT_TIMES = re.compile(
    r"[ \t]*(?:(\d{1,9}):)?(\d{2}):(\d{2})\.(\d{3})[ \t]+-->[ \t]+(?:(\d{1,9}):)?(\d{2}):(\d{2})\.(\d{3})"
)
TAG = re.compile(r"</?(?![bB][rR]\s*/?>)[A-Za-z][^<>\r\n]*>|<\d[\d:.]*>|\{\\[^{}\r\n]*\}|\{/?[ibu]\}")
VOICE = re.compile(r"<v(?:[.\s]([^<>\r\n]*))?>|</v>")
"""The tag of a speaker, which usually has no closing tag."""
REOPENED_TAG = re.compile(r"</([A-Za-z]+)>[ \t]*(\r\n|\n|\r)[ \t]*+<\1>")
"""A tag that is closed at the end of a line and opened again in the next line."""
NAME = re.compile(r"[<{]/?([A-Za-z]+)")
SENTENCE_END = frozenset(".!?…:;♪♫。！？」])")
CLOSING_PUNCTUATION = "\"'”’»)]"
MAX_GAP = 2000
"""Maximum time between two cues of a sentence, in milliseconds."""
MAX_SENTENCE_CUES = 8
"""Maximum number of cues of a sentence."""
LINE_WIDTH = 42
"""Maximum number of characters of a line (Netflix Timed Text Style Guide)."""
SPEAKER = re.compile(r"[ \t]*(?:<[^>]*>)*[-–—][ \t]?")
AFTER_CLAUSE = re.compile(r"[,;:.!?…][\"'”’»)]*+(?= )")


class Cue(NamedTuple):
    """A cue, or a part of a cue.

    Attributes:
        start: start of its text in the file.
        end: end of its text in the file.
        begins: the time at which it appears, in milliseconds.
        ends: the time at which it disappears, in milliseconds.
        voice: the speaker, in WebVTT.
    """

    start: int
    end: int
    begins: int
    ends: int
    voice: str = ""


def read_srt(source: DocumentSource) -> ParsedDocument:
    """Read a SubRip file."""
    decoded = decode_text(source)
    text = decoded.text
    cues = list(_cues(text, SRT_TIMES, numbered=True))
    if text.strip() and not cues:
        raise DataError(
            f"{source.name}: contains no time such as 00:00:01,000 --> 00:00:02,000: is it SubRip?"
        )
    return decoded.parsed(_pieces(text, _with_text(text, cues), is_escaped=False))


def read_vtt(source: DocumentSource) -> ParsedDocument:
    """Read a WebVTT file."""
    decoded = decode_text(source)
    text = decoded.text
    if not text.startswith("WEBVTT"):
        raise DataError(f"{source.name}: does not begin with WEBVTT: is it WebVTT?")
    cues = _voices(text, _cues(text, VTT_TIMES, numbered=False))
    return decoded.parsed(_pieces(text, _with_text(text, cues), is_escaped=True))


def _cues(text: str, times: re.Pattern[str], *, numbered: bool) -> Iterator[Cue]:
    """Yield the cues of a file.

    In WebVTT the text of a cue ends at a blank line. In SubRip it ends before the next cue; each of its
    paragraphs is yielded as a cue.

    Args:
        text: the file.
        times: the pattern of the line with the times of a cue.
        numbered: whether a line with a number precedes the times, as in SubRip.
    """
    cue_times: tuple[int, int] | None = None
    lines: list[tuple[int, int]] = []  # of the paragraph
    for line in LINE.finditer(text):
        match = times.match(line[1])
        is_blank = not line[1].strip(" \t")
        if match and numbered and lines and text[slice(*lines[-1])].strip(" \t").isdecimal():
            lines.pop()
        if cue_times is not None and lines and (match or is_blank):
            yield Cue(lines[0][0], lines[-1][1], *cue_times)
        if match or is_blank:
            lines = []
        if match:
            parts = [int(part or 0) for part in match.groups()]
            cue_times = _milliseconds(parts[:4]), _milliseconds(parts[4:])
        elif is_blank and not numbered:
            cue_times = None
        elif not is_blank and cue_times is not None:
            lines.append(line.span(1))
    if cue_times is not None and lines:
        yield Cue(lines[0][0], lines[-1][1], *cue_times)


def _voices(text: str, cues: Iterable[Cue]) -> Iterator[Cue]:
    """Yield the parts of cues between the tags that name speakers."""
    for cue in cues:
        start, voice = cue.start, ""
        for tag in VOICE.finditer(text, cue.start, cue.end):
            yield cue._replace(start=start, end=tag.start(), voice=voice)
            start, voice = tag.end(), tag[1] or ""
        yield cue._replace(start=start, voice=voice)


def _milliseconds(parts: list[int]) -> int:
    hours, minutes, seconds, milliseconds = parts
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + milliseconds


def _with_text(text: str, cues: Iterable[Cue]) -> list[Cue]:
    """Return the cues that have text, without white space at the ends of the text."""
    trimmed_cues: list[Cue] = []
    for cue in cues:
        words = text[cue.start : cue.end]
        if words.strip():
            start = cue.start + len(words) - len(words.lstrip())
            trimmed_cues.append(cue._replace(start=start, end=start + len(words.strip())))
    return trimmed_cues


def _pieces(text: str, cues: Sequence[Cue], is_escaped: bool) -> Iterator[Piece]:
    """Yield the pieces of a file.

    Args:
        text: the file.
        cues: the cues with text, in order.
        is_escaped: whether ``&`` is written as ``&amp;``, as in WebVTT.
    """
    position = 0
    for group in _sentences(text, cues):
        yield text[position : group[0].start]
        yield from (
            _speaker_pieces(text, group[0], is_escaped)
            if len(group) == 1
            else [_unit(text, group, is_escaped)]
        )
        position = group[-1].end
    yield text[position:]


def _sentences(text: str, cues: Sequence[Cue]) -> Iterator[list[Cue]]:
    """Yield groups of adjacent cues, each of which consists of complete sentences if possible."""
    group: list[Cue] = []
    for cue in cues:
        words = text[cue.start : cue.end]
        has_speaker = bool(SPEAKER.match(words))
        if group and (
            has_speaker
            or len(group) >= MAX_SENTENCE_CUES
            or cue.begins - group[-1].ends > MAX_GAP
            or cue.voice != group[-1].voice
        ):
            yield group
            group = []
        group.append(cue)
        if has_speaker or _ends_sentence(TAG.sub("", words).rstrip()):
            yield group
            group = []
    if group:
        yield group


def _ends_sentence(words: str) -> bool:
    stripped_words = words.rstrip(CLOSING_PUNCTUATION)
    return stripped_words[-1:] in SENTENCE_END or not SENTENCE_END.isdisjoint(words[len(stripped_words) :])


def _speaker_pieces(text: str, cue: Cue, is_escaped: bool) -> Iterator[Piece]:
    """Yield the pieces of a single cue: a unit, or a unit for each line if several people speak."""
    raw = text[cue.start : cue.end]
    lines = re.split(f"({LINE_END.pattern})", raw)
    if sum(bool(SPEAKER.match(line)) for line in lines[::2]) < 2:
        yield _unit(text, [cue], is_escaped)
        return
    for line, end in zip(lines[::2], [*lines[1::2], ""], strict=True):
        dash = SPEAKER.match(line)
        prefix = dash[0] if dash and "<" not in dash[0] else ""
        yield prefix
        yield text_unit(
            line[len(prefix) :],
            _read(line[len(prefix) :], is_escaped),
            lambda inline: _write(inline, is_escaped),
        )
        yield end


def _unit(text: str, group: Sequence[Cue], is_escaped: bool) -> Piece:
    raw = text[group[0].start : group[-1].end]
    raw_cues = [text[cue.start : cue.end] for cue in group]
    reopens = any(map(REOPENED_TAG.search, raw_cues))
    inlines = [_read(REOPENED_TAG.sub(r"\2", raw_cue), is_escaped) for raw_cue in raw_cues]
    inline = balance_tags(_join_cues(inlines))
    _, core, _ = trim(inline)
    if not is_translatable(core):
        return raw
    gaps = [text[cue.end : next_cue.start] for cue, next_cue in pairwise(group)]
    shares = [max(1, len(plain_text(cue_inline).strip())) for cue_inline in inlines]
    line_ends = [LINE_END.findall(text[cue.start : cue.end].strip()) for cue in group]
    preceding_line_ends = LINE_END.findall(text, max(0, group[0].start - 2), group[0].start)
    line_end = next(
        (cue_ends[0] for cue_ends in line_ends if cue_ends),
        preceding_line_ends[0] if preceding_line_ends else "\n",
    )

    def write(translations: Sequence[Inline]) -> str:
        parts = _divide(translations[0], shares)
        written_pieces = [
            _write_lines(part, len(cue_ends) + 1, line_end, is_escaped, reopens)
            for part, cue_ends in zip(parts, line_ends, strict=True)
        ]
        return "".join(cue_text + gap for cue_text, gap in zip(written_pieces, [*gaps, ""], strict=True))

    return Unit((core,), write, raw)


def _read(raw: str, is_escaped: bool) -> Inline:
    """Return the raw text of a cue as an :data:`Inline`, with its lines joined by spaces."""
    parts: list[str | Tag] = []
    position = 0
    for match in TAG.finditer(raw):
        parts.append(_words(raw[position : match.start()], is_escaped))
        tag = match[0]
        if NAME.match(tag) is None or tag.startswith("{\\"):
            parts.append(Tag("void", tag))
        else:
            parts.append(Tag("close" if tag[1] == "/" else "open", tag))
        position = match.end()
    parts.append(_words(raw[position:], is_escaped))
    return join_parts(parts)


def _words(raw: str, is_escaped: bool) -> str:
    lines = LINE_END.split(raw)
    if len(lines) > 1:
        inner_lines = [line.strip(" \t") for line in lines[1:-1]]
        raw = " ".join([lines[0].rstrip(" \t"), *inner_lines, lines[-1].lstrip(" \t")])
    return html.unescape(raw) if is_escaped else raw


def _join_cues(inlines: Sequence[Inline]) -> Inline:
    """Return cues as one text, in which a tag closed at the end of a cue and reopened in the next
    stays open.
    """
    parts: list[str | Tag] = []
    for inline in inlines:
        _, core, _ = trim(inline)
        first_line = 0
        while parts and first_line < len(core) and _reopens(parts[-1], core[first_line]):
            parts.pop()
            first_line += 1
        parts += ([" "] if parts else []) + list(core[first_line:])
    return join_parts(parts)


def _reopens(end: str | Tag, start: str | Tag) -> bool:
    if isinstance(end, str) or isinstance(start, str) or (end.kind, start.kind) != ("close", "open"):
        return False
    first, start_name = NAME.match(end.raw), NAME.match(start.raw)
    return first is not None and start_name is not None and first[1] == start_name[1]


def _divide(inline: Inline, shares: Sequence[int]) -> list[Inline]:
    """Return a text divided among cues in proportion to ``shares``; open tags are closed and opened again."""
    text = "".join(part for part in inline if isinstance(part, str))
    parts = _split(inline, _choose_cuts(text, shares))
    return [*parts, *([("…",)] * (len(shares) - len(parts)))]


def _choose_cuts(text: str, shares: Sequence[int]) -> list[int]:
    """Return the positions at which to cut a text: between words, close to the given shares, preferably after
    a clause.
    """
    spaces = [match.start() for match in re.finditer(r" +", text) if 0 < match.start() < len(text) - 1]
    clause_ends = {match.end() for match in AFTER_CLAUSE.finditer(text)}
    if not spaces and not text.isascii():
        spaces = list(range(1, len(text)))
    cuts: list[int] = []
    total, cumulative = sum(shares), 0
    for number, share in enumerate(shares[:-1], start=1):
        cumulative += share
        target = len(text) * cumulative / total
        remaining_cuts = len(shares) - number - 1  # cuts that still need a space after this one
        candidates = [space for space in spaces if not cuts or space > cuts[-1]]
        candidates = candidates[: len(candidates) - remaining_cuts] if remaining_cuts else candidates
        if not candidates:
            break
        cuts.append(
            min(candidates, key=lambda space: abs(space - target) - (8 if space in clause_ends else 0))
        )
    return cuts


def _split(inline: Inline, cuts: Sequence[int]) -> list[Inline]:
    """Cut an :data:`Inline` at positions in its text; tags open at a cut are closed and opened again."""
    pairs = match_pairs(inline)
    parts: list[list[str | Tag]] = [[]]
    open_tags: list[tuple[Tag, str | Tag]] = []
    position, remaining_cuts = 0, list(cuts)
    for index, part in enumerate(inline):
        if isinstance(part, Tag):
            if index in pairs:
                open_tags.append((part, inline[pairs[index]]))
            elif part.kind == "close" and open_tags:
                open_tags.pop()
            parts[-1].append(part)
            continue
        remainder = part
        while remaining_cuts and position <= remaining_cuts[0] < position + len(remainder):
            text_before = remainder[: remaining_cuts[0] - position]
            remainder = remainder[remaining_cuts[0] - position :]
            position = remaining_cuts.pop(0)
            parts[-1] += [text_before.rstrip(" "), *(end for _, end in reversed(open_tags))]
            parts.append([start for start, _ in open_tags])
            position += len(remainder) - len(remainder.lstrip(" "))
            remainder = remainder.lstrip(" ")
        parts[-1].append(remainder)
        position += len(remainder)
    return [trim(join_parts(part))[1] for part in parts]


def _write_lines(inline: Inline, count: int, line_end: str, is_escaped: bool, reopens: bool) -> str:
    """Return the text of a cue, written in lines of about equal length.

    Args:
        inline: the text.
        count: the minimum number of lines.
        line_end: the line break.
        is_escaped: whether ``&`` is written as ``&amp;``.
        reopens: whether tags are closed at the end of each line.
    """
    text = "".join(part for part in inline if isinstance(part, str))
    rows = max(count, min(2, -(-len(text) // LINE_WIDTH)))
    lines = balance(text, rows) if len(text) > LINE_WIDTH / 2 or count > 1 else [text]
    cuts = set[int]()
    position = 0
    for row in lines[:-1]:
        position = text.find(row, position) + len(row)
        cuts.add(position)
    parts: list[str] = []
    pairs = match_pairs(inline)
    open_tags: list[tuple[str, str]] = []
    position = 0
    for part_index, part in enumerate(inline):
        if isinstance(part, Tag):
            if part_index in pairs:
                end = inline[pairs[part_index]]
                open_tags.append((part.raw, end.raw if isinstance(end, Tag) else ""))
            elif part.kind == "close" and open_tags:
                open_tags.pop()
            parts.append(part.raw)
            continue
        for index, character in enumerate(part, start=position):
            if index in cuts:
                tags = open_tags if reopens else []
                parts += [*(end for _, end in reversed(tags)), line_end, *(start for start, _ in tags)]
            if index not in cuts or character != " ":
                parts.append(_write((character,), is_escaped))
        position += len(part)
    return "".join(parts)


def _write(inline: Inline, is_escaped: bool) -> str:
    return "".join(
        part.raw if isinstance(part, Tag) else html.escape(part, quote=False) if is_escaped else part
        for part in inline
    )


SRT = DocumentFormat("srt", (".srt",), read_srt)
VTT = DocumentFormat("vtt", (".vtt", ".webvtt"), read_vtt)
