"""The tokeniser of a chat model, which converts messages to token ids."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from uwaga.errors import DataError
from uwaga.tokenizers.chat_template import ChatTemplate, Message
from uwaga.tokenizers.framed import FramedTokeniser
from uwaga.tokenizers.prompt import find_answer_end


@dataclass(frozen=True)
class ChatTokeniser:
    """The tokeniser of a model with its chat template.

    As in ``transformers``, a special token spelt in a message is encoded as that token.

    Attributes:
        inner: the model's tokeniser.
        template: the model's chat template.
    """

    inner: FramedTokeniser
    template: ChatTemplate

    def text(self, messages: Sequence[Message], name: str) -> str:
        """Return the text of a chat up to the point where the assistant's next message begins.

        Args:
            messages: the chat so far.
            name: the name of the chat, for error messages.
        """
        for number, message in enumerate(messages, start=1):
            if (
                not isinstance(message, Mapping)
                or not isinstance(message.get("role"), str)
                or not isinstance(message.get("content"), str | list)
            ):
                raise DataError(
                    f"{name}: message {number} must be a mapping with a 'role' and a 'content', such as "
                    "{'role': 'user', 'content': 'Hello'}"
                )
        chat = [dict(message) for message in messages]
        try:
            json.dumps(chat)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"{name}: the messages contain values that JSON cannot represent: {error}"
            ) from None
        return self.template.render(chat)

    def encode(self, text: str) -> list[int]:
        """Return the ids of the text of a chat, in which the special tokens are spelt out."""
        return self.inner.encode(text) or [self.inner.symbols.start]

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """Ids of the tokens that end the assistant's message: the template's end token and end symbols."""
        return tuple(dict.fromkeys((find_answer_end(self.inner, self.template), *self.inner.symbols.ends)))
