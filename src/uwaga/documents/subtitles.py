"""Subtitles as sentences: cues that a sentence runs through are one text, laid back into their times."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from uwaga.documents.document import Piece, Unit, balanced, joined, text_unit, translatable, trimmed
from uwaga.documents.wrapping import balance
from uwaga.markup import Inline, Tag, plain_text

TAG = re.compile(r"</?[A-Za-z][^<>\r\n]*>|<\d[\d:.]*>|\{\\[^{}\r\n]*\}|\{/?[ibu]\}")
LINE_END = r"(?:\r\n|\n|\r(?!\n))"
NAME = re.compile(r"[<{]/?([A-Za-z]+)")
END = re.compile(r"[.!?…:;♪♫。！？」\])][\"'”’»)\]]*$")
"""What a sentence ends with."""
GAP = 2000
"""Milliseconds between two cues beyond which no sentence goes on."""
MOST = 8
"""Cues of one sentence."""
LINE = 42
"""Characters of a line (Netflix's timed text style guide)."""
SPEAKER = re.compile(r"[ \t]*(?:<[^>]*>)*[-–—][ \t]?")
PREFER = re.compile(r"[,;:.!?…][\"'”’»)]*$")


class Cue(NamedTuple):
    """A cue: where its text stands, and its times in milliseconds."""

    start: int
    end: int
    begins: int
    ends: int


def subtitle_pieces(text: str, cues: Sequence[Cue], escaped: bool) -> Iterator[Piece]:
    """The pieces of a file of subtitles.

    Args:
        text: the file.
        cues: its cues, in order.
        escaped: whether ``&amp;`` stands for ``&``, as in VTT.
    """
    at = 0
    for group in _sentences(text, cues):
        yield text[at : group[0].start]
        yield from _speakers(text, group[0], escaped) if len(group) == 1 else [_unit(text, group, escaped)]
        at = group[-1].end
    yield text[at:]


def _sentences(text: str, cues: Sequence[Cue]) -> Iterator[list[Cue]]:
    """The cues of each sentence, or of several that end within one cue."""
    group: list[Cue] = []
    for cue in cues:
        said = text[cue.start : cue.end]
        alone = bool(SPEAKER.match(said))
        if group and (alone or len(group) >= MOST or cue.begins - group[-1].ends > GAP):
            yield group
            group = []
        group.append(cue)
        if alone or END.search(TAG.sub("", said).rstrip()):
            yield group
            group = []
    if group:
        yield group


def end_of_line(found: re.Match[str]) -> int:
    """Where the line ends that was found with its line end: a cue may be empty, and end with the same one."""
    return found.start() + len(found[0].rstrip("\r\n"))


def _speakers(text: str, cue: Cue, escaped: bool) -> Iterator[Piece]:
    """A cue alone; where several speak, each line by itself."""
    raw = text[cue.start : cue.end]
    lines = re.split(f"({LINE_END})", raw)
    if len([line for line in lines[::2] if SPEAKER.match(line)]) < 2:
        yield _unit(text, [cue], escaped)
        return
    for line, end in zip(lines[::2], [*lines[1::2], ""], strict=True):
        found = SPEAKER.match(line)
        lead = found[0] if found and "<" not in found[0] else ""
        yield lead
        yield text_unit(line[len(lead) :], _read(line[len(lead) :], escaped), _writer(escaped))
        yield end


def _unit(text: str, group: Sequence[Cue], escaped: bool) -> Piece:
    raw = text[group[0].start : group[-1].end]
    inlines = [_read(text[cue.start : cue.end], escaped) for cue in group]
    inline = balanced(_together(inlines))
    _, core, _ = trimmed(inline)
    if not translatable(core):
        return raw
    between = [text[one.end : following.start] for one, following in pairwise(group)]
    shares = [max(1, len(plain_text(one).strip())) for one in inlines]
    counts = [len(re.findall(LINE_END, text[cue.start : cue.end].strip())) + 1 for cue in group]
    found = re.search(LINE_END, text[max(0, group[0].start - 2) : group[-1].end])
    end = found[0] if found else "\n"

    def write(made: Sequence[Inline]) -> str:
        parts = _divided(made[0], shares)
        written = [_lines(part, count, end, escaped) for part, count in zip(parts, counts, strict=True)]
        return "".join(one + gap for one, gap in zip(written, [*between, ""], strict=True))

    return Unit((core,), write, raw)


def _read(raw: str, escaped: bool) -> Inline:
    """What a cue says, its lines one text."""
    parts: list[str | Tag] = []
    at = 0
    for found in TAG.finditer(raw):
        parts.append(_words(raw[at : found.start()], escaped))
        tag = found[0]
        name = NAME.match(tag)
        paired = name is not None and not tag.startswith("{\\")
        kind = ("close" if tag[1] == "/" else "open") if paired else "void"
        parts.append(Tag(kind, tag))  # type: ignore[arg-type]
        at = found.end()
    parts.append(_words(raw[at:], escaped))
    return joined(parts)


def _words(raw: str, escaped: bool) -> str:
    text = re.sub(rf"[ \t]*{LINE_END}[ \t]*", " ", raw)
    return html.unescape(text) if escaped else text


def _together(inlines: Sequence[Inline]) -> Inline:
    """Cues as one text; italics that end with one and begin again with the next go on."""
    parts: list[str | Tag] = []
    for inline in inlines:
        _, core, _ = trimmed(inline)
        rest = list(core)
        while parts and rest and _goes_on(parts[-1], rest[0]):
            parts.pop()
            rest.pop(0)
        parts += ([" "] if parts else []) + rest
    return joined(parts)


def _goes_on(end: str | Tag, begin: str | Tag) -> bool:
    if isinstance(end, str) or isinstance(begin, str) or (end.kind, begin.kind) != ("close", "open"):
        return False
    first, second = NAME.match(end.raw), NAME.match(begin.raw)
    return first is not None and second is not None and first[1] == second[1]


def _divided(inline: Inline, shares: Sequence[int]) -> list[Inline]:
    """A text laid into so many cues, as much into each as its source had; tags that are open go on."""
    text = "".join(part for part in inline if isinstance(part, str))
    cuts = _cuts(text, shares)
    parts = _split(inline, cuts)
    return [*parts, *([("…",)] * (len(shares) - len(parts)))]


def _cuts(text: str, shares: Sequence[int]) -> list[int]:
    """Where a text is cut: between words, near the shares, rather behind a comma."""
    spaces = [found.start() for found in re.finditer(r" +", text) if 0 < found.start() < len(text) - 1]
    if not spaces and not text.isascii():
        spaces = list(range(1, len(text)))
    cuts: list[int] = []
    total, wanted = sum(shares), 0
    for number, share in enumerate(shares[:-1], start=1):
        wanted += share
        place = len(text) * wanted / total
        left = len(shares) - number - 1  # cuts that must still find a place behind this one
        free = [one for one in spaces if not cuts or one > cuts[-1]]
        free = free[: len(free) - left] if left else free
        if not free:
            break
        cuts.append(min(free, key=lambda one: abs(one - place) - (8 if PREFER.search(text[:one]) else 0)))
    return cuts


def _split(inline: Inline, cuts: Sequence[int]) -> list[Inline]:
    """An inline cut at places of its text; what is open there is ended and opened again."""
    ends = _ends(inline)
    parts: list[list[str | Tag]] = [[]]
    opened: list[tuple[Tag, Tag]] = []
    at, left = 0, list(cuts)
    for number, part in enumerate(inline):
        if isinstance(part, Tag):
            if number in ends:
                opened.append((part, ends[number]))
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


def _ends(inline: Inline) -> dict[int, Tag]:
    opened: list[int] = []
    found = {}
    for at, part in enumerate(inline):
        if isinstance(part, Tag) and part.kind == "open":
            opened.append(at)
        elif isinstance(part, Tag) and part.kind == "close" and opened:
            found[opened.pop()] = part
    return found


def _lines(inline: Inline, count: int, end: str, escaped: bool) -> str:
    """A cue's text in lines that are about equally long."""
    text = "".join(part for part in inline if isinstance(part, str))
    wanted = max(count, min(2, -(-len(text) // LINE)))
    rows = balance(text, wanted) if len(text) > LINE / 2 or count > 1 else [text]
    cuts = []
    at = 0
    for row in rows[:-1]:
        at = text.find(row, at) + len(row)
        cuts.append(at)
    written: list[str] = []
    at = 0
    for part in inline:
        if isinstance(part, Tag):
            written.append(part.raw)
            continue
        chunk = ""
        for place, character in enumerate(part, start=at):
            broken = place in cuts
            chunk += (end if broken else "") + ("" if broken and character == " " else character)
        written.append(_escape(chunk) if escaped else chunk)
        at += len(part)
    return "".join(written)


def _writer(escaped: bool) -> Callable[[Inline], str]:
    return lambda made: "".join(
        part.raw if isinstance(part, Tag) else _escape(part) if escaped else part for part in made
    )


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
