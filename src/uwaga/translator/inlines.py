"""Texts with tags inside: tags leave the text before the model sees it and come back by alignment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from uwaga.errors import shown
from uwaga.markup import Inline, Tag, plain_text
from uwaga.markup.icu import parse_message
from uwaga.markup.lifting import Lifted, lift
from uwaga.markup.placeholders import Placeholders, kept_placeholders
from uwaga.markup.placing import joined, place
from uwaga.markup.realign import realign
from uwaga.markup.symbols import missing, restore
from uwaga.results.translation import Translation, WordAlignment
from uwaga.search import SearchOptions
from uwaga.translator.keeping import Kept, translate_kept
from uwaga.translator.pipeline import OnError
from uwaga.translator.segmentation import Split, listed_prefixes
from uwaga.translator.text_path import TextPath

USUAL = kept_placeholders(True)


@dataclass(frozen=True)
class TranslatedInline:
    """A translation with the tags of its source, ``inline``, and without them, ``translation``.

    ``alternatives`` are those of the translation, with their tags.
    """

    inline: Inline
    translation: Translation
    alternatives: tuple[Inline, ...] = ()


def translate_inlines(
    translator: TextPath,
    inlines: Sequence[Inline],
    options: SearchOptions | None = None,
    *,
    prefix: str | Sequence[str] | None = None,
    split: Split = "auto",
    names: Sequence[str] | None = None,
    on_error: OnError = "raise",
    placeholders: Placeholders | None = USUAL,
) -> list[TranslatedInline]:
    """Translate texts with tags inside, all together.

    Every tag comes back exactly once, pairs around the words that mean what they stood around. A text without
    tags and placeholders takes the plain path; only where a tag stands between words are the words aligned.
    For what is kept a symbol goes through the model, so that it stands where it belongs; where no symbol
    comes out, the alignment says where, and a warning that.

    Args:
        translator: one model, or several one after the other.
        inlines: the texts; white space at their ends stays as it is.
        options: from ``translator.options(...)``, by default the model's own.
        prefix: as in :meth:`uwaga.translator.Translator.translate`.
        split: likewise.
        names: of the texts, for messages.
        on_error: as in :meth:`uwaga.translator.Translator.translate`; the copy of a text has its tags.
        placeholders: what is kept beside the tags that say so: from
            :func:`uwaga.markup.placeholders.kept_placeholders`. The branches of ICU messages are translated.

    Returns:
        as many translations, in the same order. One that has failed has the tags of its source and, unless it
        is copied, no text.

    Raises:
        TextTooLongError, SettingsError, DataError: as :meth:`uwaga.translator.Translator.translate`.
    """
    wanted = translator.options() if options is None else options
    called = [f"text {number}" for number in range(1, len(inlines) + 1)] if names is None else list(names)
    prefixes = listed_prefixes(prefix, len(inlines))
    found = _with_kept(inlines, placeholders, prefixes)
    messages = _Messages(placeholders)
    texts = [messages.taken_apart(inline, name) for inline, name in zip(found, called, strict=True)]
    units, unit_names = [*texts, *messages.units], [*called, *messages.names]
    begun = [*prefixes, *[""] * len(messages.units)]

    def run(numbers: Sequence[int], parts: Sequence[Inline], forced: Sequence[str]) -> list[Translation]:
        return _translate_texts(
            translator,
            [lift(part) for part in parts],
            wanted,
            prefixes=[_begun(one, begun[at]) for at, one in zip(numbers, forced, strict=True)],
            names=[unit_names[at] for at in numbers],
            kept=[any(_is_kept(part) for part in units[at]) for at in numbers],
            split=split,
            on_error=on_error,
        )

    made = [_finished(inline, one) for inline, one in zip(units, translate_kept(units, run), strict=True)]
    messages.translated(made[len(texts) :])
    return [messages.put_together(one) for one in made[: len(texts)]]


def _is_kept(part: str | Tag) -> bool:
    return isinstance(part, Tag) and part.kind == "kept"


def _says_more(inline: Inline) -> bool:
    """Whether there are letters beside what is kept: else a prefix is all that there is to go on from."""
    return any(character.isalpha() for part in inline if isinstance(part, str) for character in part)


def _begun(forced: str, prefix: str) -> str:
    """What a translation begins with: what was asked for, and more of it where that is to be led further."""
    return forced if forced.startswith(prefix) else prefix


def _with_kept(
    inlines: Sequence[Inline], placeholders: Placeholders | None, prefixes: Sequence[str] = ()
) -> list[Inline]:
    """The texts with their placeholders as tags; but those that have a prefix and say nothing else."""
    if placeholders is None:
        return list(inlines)
    split: Callable[[str], Inline] = placeholders.split
    found: list[Inline] = [
        tuple(one for part in inline for one in (split(part) if isinstance(part, str) else (part,)))
        for inline in inlines
    ]
    for at, prefix in enumerate(prefixes):
        if prefix and not _says_more(found[at]):
            found[at] = inlines[at]
    return found


class _Messages:
    """ICU messages inside texts: their branches are texts of their own, to any depth."""

    def __init__(self, placeholders: Placeholders | None) -> None:
        self.units: list[Inline] = []
        self.names: list[str] = []
        self._placeholders = placeholders
        self._branches: dict[int, list[int]] = {}  # of a message's tag the numbers of its branches' units
        self._tags: list[Tag] = []
        self._made: list[TranslatedInline] = []

    def taken_apart(self, inline: Inline, name: str, counts: bool = False) -> Inline:
        """The same text, each message in it a tag of its own, whose branches are noted.

        ``counts``: it is inside a plural, where ``#`` is the number.
        """
        if self._placeholders is None or not any(_is_kept(part) for part in inline):
            return inline
        parts: list[str | Tag] = []
        for part in inline:
            message = parse_message(part.raw) if isinstance(part, Tag) and part.kind == "kept" else None
            if message is None or not isinstance(part, Tag):
                parts.append(part)
                continue
            tag = replace(part)
            self._tags.append(tag)
            own = self._branches[id(tag)] = []
            for branch in message.branches:
                [split] = _with_kept([(branch,)], self._placeholders)
                numbered = counts or message.counts
                if numbered:
                    split = _numbers_kept(split)
                own.append(len(self.units))
                self.units.append(())
                self.names.append(name)
                self.units[own[-1]] = self.taken_apart(split, name, numbered)
            parts.append(tag)
        return tuple(parts)

    def translated(self, made: Sequence[TranslatedInline]) -> None:
        """Take the translations of the branches."""
        self._made = list(made)

    def put_together(self, one: TranslatedInline) -> TranslatedInline:
        """A translation with its messages' branches translated; it has their warnings too."""
        if not self._branches:
            return one
        warnings = list(one.translation.warnings)
        inline = tuple(self._written(part, warnings) for part in one.inline)
        if inline == one.inline:
            return one
        translation = replace(
            one.translation, text=plain_text(inline), warnings=tuple(dict.fromkeys(warnings))
        )
        return TranslatedInline(inline, translation)

    def _written(self, part: str | Tag, warnings: list[str]) -> str | Tag:
        own = self._branches.get(id(part)) if isinstance(part, Tag) else None
        if own is None or not isinstance(part, Tag):
            return part
        message = parse_message(part.raw)
        assert message is not None
        branches = []
        for number in own:
            made = self._made[number]
            warnings += made.translation.warnings
            failed = made.translation.error is not None
            parts = self.units[number] if failed else made.inline
            branches.append(plain_text([self._written(one, warnings) for one in parts]))
        raw = message.with_branches(branches)
        return replace(part, raw=raw, text=raw)


def _numbers_kept(inline: Inline) -> Inline:
    """A branch of a plural with every ``#`` kept."""
    parts: list[str | Tag] = []
    for part in inline:
        if isinstance(part, Tag):
            parts.append(part)
            continue
        for number, text in enumerate(part.split("#")):
            parts += [Tag("kept", "#", "#")] if number else []
            parts += [text] if text else []
    return tuple(parts)


def _translate_texts(
    translator: TextPath,
    lifted: Sequence[Lifted],
    options: SearchOptions,
    *,
    prefixes: Sequence[str],
    names: Sequence[str],
    kept: Sequence[bool],
    split: Split,
    on_error: OnError,
) -> list[Translation]:
    """Translate texts without their tags: those whose words are to be aligned apart from the others."""
    to_align = [
        translator.aligns and (keeps or _needs_alignment(one))
        for one, keeps in zip(lifted, kept, strict=True)
    ]
    made: dict[int, Translation] = {}
    for aligned in (False, True):
        own = [at for at, needs in enumerate(to_align) if needs is aligned]
        if not own:
            continue
        found = translator.translate_named(
            [lifted[at].text for at in own],
            [names[at] for at in own],
            options.changed({"alignment": True}) if aligned else options,
            prefix=[prefixes[at] for at in own],
            split=split,
            on_error=on_error,
        )
        made |= zip(own, found, strict=True)
    return [made[at] for at in range(len(lifted))]


def _needs_alignment(lifted: Lifted) -> bool:
    """Whether a tag stands anywhere but around the whole text."""
    text = lifted.text
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    return any(start < mark.at < end for mark in lifted.marks)


def _finished(inline: Inline, one: Kept) -> TranslatedInline:
    """A translation with everything in its place."""
    translation = one.translation
    if not any(isinstance(part, Tag) for part in inline):
        ways = [_with_ends((other.text,), inline) for other in (translation, *translation.alternatives)]
        return TranslatedInline(ways[0], translation, tuple(ways[1:]))
    if translation.error is not None:
        copied = inline if translation.text else tuple(part for part in inline if isinstance(part, Tag))
        return TranslatedInline(copied, translation)
    lifted = lift(one.inline)
    keeps = any(_is_kept(part) for part in inline)
    good = [other for other in translation.alternatives if not missing(one.symbols, other.text)]
    ways = [_placed(lifted, one, other) for other in (translation, *good)]
    marked = [_with_ends(way, inline) for way in ways]
    if not keeps:
        return TranslatedInline(marked[0], translation, tuple(marked[1:]))
    warnings = [
        f"no symbol for {shown(text)} came through the model: it stands where the words around it suggest"
        for text in one.dropped
    ]
    if len(good) < len(translation.alternatives):
        warnings.append(f"{len(translation.alternatives) - len(good)} alternatives lacked what is kept")
    source = plain_text(inline)
    texts = [
        replace(other, text=text, source=source, alignment=_realigned(other, text, lifted, source, one))
        for other, text in zip((translation, *good), map(plain_text, ways), strict=True)
    ]
    told = (*translation.warnings, *warnings)
    whole = replace(texts[0], warnings=told, alternatives=tuple(texts[1:]))
    return TranslatedInline(marked[0], whole, tuple(marked[1:]))


def _realigned(
    translation: Translation, text: str, lifted: Lifted, source: str, one: Kept
) -> WordAlignment | None:
    """The alignment of a translation with symbols, for what these stand for."""
    if translation.alignment is None:
        return None
    texts = (lifted.text, source), (translation.text, text)
    return realign(translation.alignment, *texts, one.symbols, one.dropped)


def _placed(lifted: Lifted, one: Kept, translation: Translation) -> Inline:
    words = [symbol.text for symbol in one.symbols]
    return restore(place(lifted, translation.text, translation.alignment, words), one.symbols)


def _with_ends(found: Inline, inline: Inline) -> Inline:
    """The same, with the white space that a text begins or ends with before and behind its words."""
    first = inline[0] if inline else ""
    last = inline[-1] if inline else ""
    if isinstance(first, str) and not first.isspace() and first[:1].isspace():
        found = (first[: len(first) - len(first.lstrip())], *found)
    if isinstance(last, str) and not last.isspace() and last[-1:].isspace():
        found = (*found, last[len(last.rstrip()) :])
    return joined(found)
