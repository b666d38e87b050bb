"""Splitting of texts into sentences that a model accepts, and the characters that its tokeniser knows."""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate, pairwise

from uwaga.errors import TextTooLongError, quoted
from uwaga.languages.codes import ALPHABETS, LANGUAGE_TAG, base_language, language_scripts
from uwaga.results.translation import Span
from uwaga.scheduling.call_context import while_active
from uwaga.settings.text_options import TextOptions
from uwaga.tokenizers.subwords import BYTE_PIECES, Subwords
from uwaga.tokenizers.text import JOINERS, LINE_BREAK, clusters, compose, is_all_capitals, is_control, is_mark
from uwaga.tokenizers.tokeniser import TARGET_TAG
from uwaga.translator.checks import (
    UNKNOWN_LANGUAGE_CODES,
    has_different_languages,
    is_language_independent,
    lacks_final_punctuation,
    script_warning,
)
from uwaga.translator.request import Split
from uwaga.translator.text import Passage, Sentence

CLAUSE_END = re.compile(r"(?<=[,;:–—])(?=\s)|(?<=[،؛、，；：])")
"""The position after clause punctuation; in scripts with spaces, a space must follow the position."""
WORD_START = re.compile(r"(?<=\s)(?=\S)")
PIECES_PER_PART = 4
"""Number of pieces per part when an overlong word is divided; more pieces make the parts more even."""


def cut_to_fit(text: str, limit: int, count: Callable[[str], int]) -> list[str]:
    """Split a text into as few parts as the limit allows, of even lengths; joined, they equal the text.

    The text is split after clause punctuation, an overlong clause at spaces, and an overlong word between
    characters. The running time is linear in the length of the text.

    Args:
        text: the text.
        limit: maximum number of tokens of a part.
        count: function that returns the number of tokens of a text, end symbol included. A part that yields
            no tokens on its own may yield some when it is joined to its neighbours.
    """
    pieces = list(_split_pieces(text, limit, count, (CLAUSE_END, WORD_START)))
    if len(pieces) < 2:
        return [piece for piece, _ in pieces]
    parts = []
    for start, end in _even_ranges([size for _, size in pieces], limit):
        # Token counts of pieces add up if no token crosses a space; otherwise, joined pieces may have more.
        parts += [
            part for part, _ in _divide_units([piece for piece, _ in pieces[start:end]], limit, limit, count)
        ]
    return parts


def divide_text(
    text: str, sizes: Sequence[int], unsplittable: Callable[[str], Sequence[tuple[int, int]]] | None = None
) -> list[str]:
    """Split a text into parts with lengths roughly proportional to ``sizes``; joined, they equal the text.

    Args:
        text: the text.
        sizes: the relative length of each part; empty for no parts.
        unsplittable: function that returns the spans of the text that must not be split.
    """
    if len(sizes) < 2:
        return [text] * len(sizes)
    forbidden_positions = _inner_positions(unsplittable(text)) if unsplittable else ()
    cuts = [match.start() for match in WORD_START.finditer(text)]
    allowed_positions = [0, *(cut for cut in cuts if cut not in forbidden_positions), len(text)]
    bounds, total = [0], sum(sizes)
    for size in accumulate(sizes[:-1]):
        ideal_position = len(text) * size / total
        index = bisect_left(allowed_positions, ideal_position)
        _, nearest = min(
            (abs(cut - ideal_position), cut) for cut in allowed_positions[max(index - 1, 0) : index + 1]
        )
        bounds.append(nearest)
    return [text[start:end] for start, end in pairwise([*bounds, len(text)])]


def _inner_positions(spans: Iterable[Span]) -> set[int]:
    """Return the positions inside spans, except their starts and ends."""
    return {position for start, end in spans for position in range(start + 1, end)}


def _split_pieces(
    text: str, limit: int, count: Callable[[str], int], cuts: Sequence[re.Pattern[str]]
) -> Iterator[tuple[str, int]]:
    """Yield clauses, words of overlong clauses, and parts of overlong words, with their numbers of tokens."""
    if not cuts:
        yield from _divide_units(clusters(text), limit, max(1, limit // PIECES_PER_PART), count)
        return
    for piece in filter(None, cuts[0].split(text)):
        size = count(piece)
        if size <= limit:
            yield piece, size
        else:
            yield from _split_pieces(piece, limit, count, cuts[1:])


def _divide_units(
    units: Sequence[str], limit: int, group_tokens: int, count: Callable[[str], int]
) -> Iterator[tuple[str, int]]:
    """Yield the joined units with their number of tokens if they fit the limit; else divide them into groups.

    The number of groups is chosen by the number of tokens, so that a very long text is not tokenised a dozen
    times.
    """
    text = "".join(units)
    tokens = count(text)
    if tokens <= limit:
        yield text, tokens
        return
    if len(units) == 1:
        raise TextTooLongError(
            f"the character {quoted(text)} has {tokens} tokens, but the model accepts at most {limit}"
        )
    groups = min(len(units), -(-tokens // group_tokens))
    bounds = [len(units) * index // groups for index in range(groups + 1)]
    for start, end in pairwise(bounds):
        yield from _divide_units(units[start:end], limit, group_tokens, count)


def _even_ranges(sizes: Sequence[int], limit: int) -> list[tuple[int, int]]:
    """Divide pieces into the fewest ranges of at most ``limit`` tokens, with sizes as even as possible."""
    best_ranges = _pack(sizes, limit)
    low, high = 0, limit
    while low < high:
        middle = (low + high) // 2
        packed_ranges = _pack(sizes, middle)
        if len(packed_ranges) <= len(best_ranges) and max(sizes) <= middle:
            best_ranges, high = packed_ranges, middle
        else:
            low = middle + 1
    return best_ranges


def _pack(sizes: Sequence[int], limit: int) -> list[tuple[int, int]]:
    ranges, start, total = [], 0, 0
    for index, size in enumerate(sizes):
        if index > start and total + size > limit:
            ranges.append((start, index))
            start, total = index, 0
        total += size
    ranges.append((start, len(sizes)))
    return ranges


BLANKS = re.compile(r"[ \t\v\f](?:[ \t\v\f]+|(?<! ))")
"""Blanks to replace by one space; a single space does not match, so that most texts need no replacement."""
UNSPACED_LANGUAGES = frozenset(
    "bo bod dz dzo ja jpn km khm lo lao my mya th tha yue zh zho cmn".split()  # noqa: SIM905
)
"""Codes of languages that are written without spaces between sentences."""

INVISIBLE_CATEGORIES = frozenset({"Zs", "Zl", "Zp", "Cc", "Cf"})
"""Unicode categories of invisible characters: white space, control and format characters."""


@dataclass(frozen=True)
class Segmenter:
    """A splitter of texts into sentences for one model.

    ``limit``: maximum number of source tokens of the model, end symbol included, None for no limit.
    ``languages``: codes of source and target. ``options``: the form in which the model expects its texts.
    ``unsplittable`` returns the spans of a line, in characters, that must not be split. ``max_unsplit``:
    maximum number of tokens of a text with ``split="never"``, None for ``limit``.
    """

    source: Subwords
    limit: int | None
    languages: tuple[str, str]
    options: TextOptions
    unsplittable: Callable[[str], Sequence[tuple[int, int]]] | None = None
    max_unsplit: int | None = None

    def split_text(self, text: str, split: Split, name: str) -> Passage:
        """Split a text into sentences.

        Lines are translated separately, and line breaks are kept. A line is split into sentences if it is
        longer than ``limit`` or ``options.split_above`` (``auto``), always (``sentences``) or never. A
        sentence beyond ``limit`` is split further, with a warning. White space at the ends of a line is
        dropped, and a run of blanks inside it becomes one space. If the model's two languages are known,
        sentences that are the same in both are marked to be copied.
        """
        warnings, lines, start = self._script_warnings(text), list[tuple[list[Sentence], str]](), 0
        parts = LINE_BREAK.split(text)
        for line, line_break in while_active(zip(parts[::2], [*parts[1::2], ""], strict=True)):
            lines.append((list(self._split_line(line, start, split, name, warnings)), line_break))
            start += len(line) + len(line_break)
        text_before, sentences = _join_lines("", lines)
        return Passage(text_before, sentences, tuple(warnings), text)

    def split_translated(self, passage: Passage, split: Split, name: str) -> Passage:
        """Split a passage that another model translated, keeping the sentence boundaries of that model.

        The text between the sentences is kept. The translation of a sentence is split like a line (see
        :meth:`split_text`): it becomes several sentences only if it is too long for this model.

        Args:
            passage: the translated text; its sentences have their ``translation``.
            split: ``auto`` or ``never``.
            name: the name of the text, for error messages.
        """
        text = passage.result.text
        warnings, lines, line = (
            self._script_warnings(text),
            list[tuple[list[Sentence], str]](),
            list[Sentence](),
        )
        start = len(passage.before)
        for number, sentence in enumerate(passage.sentences, start=1):
            added_sentences = list(self._split_line(sentence.translation, start, split, name, warnings))
            start += len(sentence.translation) + len(sentence.after)
            shares = divide_text(
                sentence.first_text, [len(part.text) for part in added_sentences], self.unsplittable
            )
            for part, share in zip(added_sentences, shares, strict=True):
                part.origin = share
            if added_sentences and sentence.joins_next:
                added_sentences[-1].after, added_sentences[-1].joins_next = "", True
            line += added_sentences
            if number == len(passage.sentences) or LINE_BREAK.search(sentence.after):
                lines.append((line, sentence.after))
                line = []
        text_before, sentences = _join_lines(passage.before, lines)
        return Passage(text_before, sentences, tuple(warnings), text)

    def ids(self, line: str) -> tuple[int, ...]:
        """Return the tokens of a line or sentence, end symbol included; empty if it has no tokens."""
        if all(unicodedata.category(character) in INVISIBLE_CATEGORIES for character in line):
            return ()
        text = BLANKS.sub(" ", line.strip())
        ids = self.source.encode(
            text.lower() if self.options.lower_capitals and is_all_capitals(text) else text
        )
        return tuple(self.source.add_special_tokens(ids)) if ids else ()

    def _split_line(
        self, line: str, start: int, split: Split, name: str, warnings: list[str]
    ) -> Iterator[Sentence]:
        """Yield the sentences of a line that begins at position ``start`` of the text."""
        line_ids = self.ids(line)
        if not line_ids:
            return
        if split == "never":
            limit = self.max_unsplit or self.limit
            if limit is not None and len(line_ids) > limit:
                check_length(line_ids, limit, name, f"sentence {_shorten(line)!r}")
            yield self._make_sentence(line_ids, line, start)
            return
        if split == "auto" and len(line_ids) <= self._longest_unsplit:
            yield self._make_sentence(line_ids, line, start)
            return
        language_prefix = self.source.language_prefix(line.strip())
        stop = start
        for index, part in enumerate(while_active(self._split_sentences(line))):
            start, stop = stop, stop + len(part)
            text_before = "" if index == 0 else language_prefix
            ids = line_ids if part == line else self.ids(text_before + part)
            if self.limit is None or len(ids) <= self.limit:
                if ids:
                    yield self._make_sentence(ids, part, start)
                continue
            text = part if index else part.strip().removeprefix(language_prefix.strip())
            parts = list(self._cut_sentence(text, start + part.index(text), language_prefix, self.limit))
            warnings.append(
                f"the sentence {_shorten(part)!r} has {len(ids)} tokens, end symbol included, but the model "
                f"accepts at most {self.limit}: it was translated in {len(parts)} parts"
            )
            yield from parts

    def _split_sentences(self, line: str) -> list[str]:
        """Return the sentences of a line; two sentences are joined if their boundary is inside a term."""
        from uwaga.tokenizers.sentences import split_sentences  # not before it is needed

        parts = split_sentences(line, self.languages[0])
        if self.unsplittable is None or len(parts) < 2:
            return parts
        forbidden_positions = _inner_positions(self.unsplittable(line))
        joined_sentences, position = [parts[0]], len(parts[0])
        for part in parts[1:]:
            if position in forbidden_positions:
                joined_sentences[-1] += part
            else:
                joined_sentences.append(part)
            position += len(part)
        return joined_sentences

    def _cut_sentence(
        self, sentence: str, start: int, language_prefix: str, limit: int
    ) -> Iterator[Sentence]:
        """Yield the parts of an overlong sentence, each encoded with ``language_prefix`` before it."""
        frame_tokens = max(len(self.ids(language_prefix)), len(self.source.add_special_tokens([])))
        if frame_tokens >= limit:
            raise TextTooLongError(f"the model accepts at most {limit} tokens, which is too few for any text")

        @cache
        def ids(part: str) -> tuple[int, ...]:
            return self.ids(language_prefix + part)

        def count(part: str) -> int:
            return max(0, len(ids(part)) - frame_tokens)

        parts: list[tuple[str, int]] = []
        for part in cut_to_fit(sentence, limit - frame_tokens, count):
            if count(part):
                parts.append((part, start))
            start += len(part)
        for (part, offset), (next_part, _) in pairwise([*parts, (" ", 0)]):
            is_separate = part[-1:].isspace() or next_part[:1].isspace()
            piece = self._make_sentence(ids(part), part, offset)
            if not is_separate:
                piece.after, piece.joins_next = "", True
            yield piece

    def _script_warnings(self, text: str) -> list[str]:
        unexpected_script = script_warning(text, self.languages[0]) if self._languages_differ else None
        return [] if unexpected_script is None else [unexpected_script]

    def _make_sentence(self, ids: tuple[int, ...], part: str, start: int) -> Sentence:
        copy = (
            BLANKS.sub(" ", part.strip())
            if self._languages_differ and is_language_independent(part)
            else None
        )
        return Sentence(ids, after=self._separator, copy=copy, span=(start, start + len(part)), text=part)

    @cached_property
    def _longest_unsplit(self) -> float:
        """The maximum number of tokens of a line that ``auto`` does not split."""
        return min(self.limit or math.inf, self.options.split_above or math.inf)

    @cached_property
    def _languages_differ(self) -> bool:
        """True if the source and target languages are known and differ."""
        return has_different_languages(self.languages)

    @cached_property
    def _separator(self) -> str:
        """The separator between two sentences in the target language."""
        return "" if base_language(self.languages[1]) in UNSPACED_LANGUAGES else " "


STYLE_TAGS = frozenset({"<font>", "<wide>", "<narrow>"})
"""Tags of the Unicode decompositions of styled letters and digits, such as ``𝒙`` and ``ｘ``."""
DOUBLE_MARKS = "‼⁇⁈⁉"
"""Double exclamation and question marks."""
ORDINAL_INDICATORS = dict.fromkeys(("ca", "es", "fr", "gl", "it", "pt"), "ªº")
"""Ordinal indicators, by the code of each language that uses them."""
SPACE_PIECE = "\u2581"
"""The character that stands for a space in the pieces of SentencePiece."""


class KnownCharacters:
    """The characters that a tokeniser knows.

    A character that the tokeniser normalises is known if the normalised form has the same meaning, which is
    not the case for ½, ², ™, … and the no-break space.

    Args:
        tokeniser: the tokeniser of a model's source side.
        has_byte_pieces: whether the model can read characters that are spelled in bytes.
        language: the code of the source language. In Chinese, Persian or Hindi, normalised full-width forms
            and joiners have the same meaning; in languages with an alphabet, they count as altered.
    """

    def __init__(self, tokeniser: Subwords, has_byte_pieces: bool = False, language: str = "") -> None:
        self._tokeniser, self._has_byte_pieces = tokeniser, has_byte_pieces
        self._reads_tags = bool(getattr(tokeniser, "tags", None))
        self._is_alphabetic = (
            base_language(language) in UNKNOWN_LANGUAGE_CODES or language_scripts(language) in ALPHABETS
        )
        self._known, self._unknown = set(ORDINAL_INDICATORS.get(base_language(language), "")), set[str]()
        self._altered = set[str]() if self._is_alphabetic else self._known

    def find_unfamiliar(self, text: str) -> set[str]:
        """Return the characters of a text that the tokeniser does not know, or reads as other characters.

        The result is empty for a text that begins with a language tag, if the model reads such tags.
        """
        characters = set(text) - self._known
        if not characters or TARGET_TAG.match(text) or (self._reads_tags and LANGUAGE_TAG.match(text)):
            return set()
        for character in characters - self._unknown - self._altered:
            self._choose_set(character).add(character)
        return characters - self._known

    def find_unknown(self, text: str) -> set[str]:
        """Return the characters of a text, with their combining marks, that the tokeniser does not know.

        A letter with combining marks is known if the tokeniser knows the composed letter.
        """
        characters = self.find_unfamiliar(text) & self._unknown
        if not any(map(is_mark, characters)):
            return characters
        return {
            cluster
            for cluster in clusters(text)
            if not characters.isdisjoint(cluster) and self.find_unfamiliar(compose(cluster)) & self._unknown
        }

    def _choose_set(self, character: str) -> set[str]:
        """Return the set (known, unknown or altered) to which a character is added."""
        category = unicodedata.category(character)
        if character in "\u00a0\u202f":  # no-break spaces
            ids = self._tokeniser.encode(f"a{character}a")
            is_lost = ids == self._tokeniser.encode("a a") or self._tokeniser.symbols.unknown in ids
            return self._unknown if is_lost else self._known
        if character.isspace() or category == "Cs" or character in "-'":  # a word would be cut at it
            return self._known
        if character in JOINERS and not self._is_alphabetic:
            return self._known
        ids = self._tokeniser.encode(character)
        pieces = self._tokeniser.pieces(ids)
        is_spelled_in_bytes = not self._has_byte_pieces and any(piece in BYTE_PIECES for piece in pieces)
        if is_spelled_in_bytes or self._tokeniser.symbols.unknown in ids or character == SPACE_PIECE:
            return self._unknown
        if character in "".join(pieces):
            return self._known
        style = unicodedata.decomposition(character).partition(" ")[0]
        is_styled = style in STYLE_TAGS or character in DOUBLE_MARKS
        if is_styled or is_control(character) or category[0] == "M":
            return self._altered
        is_raised = style in ("<super>", "<sub>")
        is_compatibility_form = style == "<compat>" or (style.startswith("<") and self._is_alphabetic)
        is_punctuation = category[0] == "P" and is_compatibility_form
        is_sign = category in ("No", "Nl", "Cn") or category[0] == "S"
        return self._unknown if is_raised or is_punctuation or is_sign else self._known


def _join_lines(text_before: str, lines: Iterable[tuple[list[Sentence], str]]) -> tuple[str, list[Sentence]]:
    """Return the text before the first sentence, and the sentences with the line breaks after them.

    Args:
        text_before: the text before the first line.
        lines: the sentences of each line, and the line break after it.
    """
    sentences, line_ends = list[Sentence](), list[tuple[Sentence, list[str]]]()
    leading_breaks = breaks = [text_before]
    for line_sentences, line_break in lines:
        if line_sentences:
            sentences += line_sentences
            breaks = []
            line_ends.append((line_sentences[-1], breaks))
        if line_break:
            if breaks and breaks[-1].endswith("\r") and line_break.startswith("\n"):
                breaks.append(" ")  # the two would become a single line break
            breaks.append(line_break)
    for sentence, line_breaks in line_ends:
        sentence.after, sentence.lacks_final_punctuation = (
            "".join(line_breaks),
            lacks_final_punctuation(sentence.text),
        )
    return "".join(leading_breaks), sentences


def _shorten(text: str) -> str:
    text = text.strip()
    return text if len(text) <= 60 else text[:57] + "..."


def check_length(ids: tuple[int, ...], limit: int | None, name: str, side: str) -> tuple[int, ...]:
    """Return ``ids``, or raise TextTooLongError if there are more than ``limit`` tokens."""
    if limit is not None and len(ids) > limit:
        raise TextTooLongError(
            f"{name}: the {side} has {len(ids)} tokens, end symbol included, but the model accepts at most "
            f"{limit}; make it shorter"
        )
    return ids
