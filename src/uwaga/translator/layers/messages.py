"""Translation of ICU messages inside texts: nested branches are translated as separate texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from uwaga.markup.icu import IcuMessage, parse_message
from uwaga.markup.inline import Inline, Tag, is_kept, plain_text, written_text
from uwaga.markup.placeholders import Placeholders as Patterns
from uwaga.scheduling.call_context import while_active
from uwaga.translator.layers.placeholders import with_placeholders
from uwaga.translator.text import Layer, Text


@dataclass(frozen=True)
class _Message:
    """An ICU message in a text, and its branches as texts."""

    message: IcuMessage
    branches: list[Text]

    def written(self) -> str:
        """Return the message with the translations of its branches."""
        return self.message.with_branches(
            [written_text(branch.spaced_translations()[0].inline) for branch in self.branches]
        )


class Messages:
    """A layer that translates texts together with the branches of their ICU messages.

    Args:
        layer: the next layer.
        patterns: the patterns of placeholders inside branches.
    """

    def __init__(self, layer: Layer, patterns: Patterns) -> None:
        self._layer, self._patterns = layer, patterns

    def translate(self, texts: Sequence[Text]) -> None:
        messages: dict[Text, dict[Tag, _Message]] = {}
        for text in while_active(texts):
            self._read(text, messages)
        branches = [
            branch for tags in messages.values() for message in tags.values() for branch in message.branches
        ]
        self._layer.translate([*texts, *branches])
        for text in reversed(messages):  # messages inside branches come after their text
            _write(text, messages[text])

    def _read(self, text: Text, messages: dict[Text, dict[Tag, _Message]], in_plural: bool = False) -> None:
        """Add the messages of a text and of the branches of its messages to ``messages``, by text and tag.

        Args:
            text: a text with its placeholders as tags.
            messages: the messages of each text.
            in_plural: whether the text is a branch of a plural, in which ``#`` stands for the number.
        """
        tags: dict[Tag, _Message] = {}
        for part in text.content:
            message = parse_message(part.raw) if is_kept(part) and part not in tags else None
            if message is None or not isinstance(part, Tag):
                continue
            has_count = in_plural or message.has_number
            branches = [Text(self._content(b, has_count), text.name, parent=text) for b in message.branches]
            tags[part] = _Message(message, branches)
            messages[text] = tags
            for branch in branches:
                self._read(branch, messages, has_count)

    def _content(self, branch: str, has_count: bool) -> Inline:
        content = with_placeholders((branch,), self._patterns)
        return _with_number_tags(content) if has_count else content


def _write(text: Text, messages: dict[Tag, _Message]) -> None:
    """Write the translated branches of messages into a translated text, and add their warnings."""

    def written(part: str | Tag) -> str | Tag:
        message = messages.get(part) if isinstance(part, Tag) else None
        if message is None or isinstance(part, str):
            return part
        source_text = message.written()
        return replace(part, raw=source_text, text=source_text)

    tagged = text.spaced_translations()
    warnings = [
        warning
        for part in tagged[0].inline
        if isinstance(part, Tag) and part in messages
        for branch in messages[part].branches
        for warning in branch.result.warnings
    ]
    text.inlines = [tuple(map(written, inline)) for _, inline in tagged]
    best, *alternatives = [
        replace(translation, text=plain_text(inline)) for translation, inline in text.tagged_translations
    ]
    text.translation = replace(
        best, warnings=tuple(dict.fromkeys([*best.warnings, *warnings])), alternatives=tuple(alternatives)
    )


def _with_number_tags(content: Inline) -> Inline:
    """Return a branch of a plural in which every ``#`` is a tag that stays untranslated."""
    parts: list[str | Tag] = []
    for part in content:
        if isinstance(part, Tag):
            parts.append(part)
            continue
        for index, text in enumerate(part.split("#")):
            parts += [Tag("kept", "#", "#")] if index else []
            parts += [text] if text else []
    return tuple(parts)
