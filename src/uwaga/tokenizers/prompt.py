"""Prompts that ask a language model for a translation, and the tokeniser that puts texts into them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from uwaga.decoder import Symbols
from uwaga.errors import ModelError, SettingsError
from uwaga.languages.codes import base_language
from uwaga.languages.names import chinese_language_name, language_name
from uwaga.tokenizers.chat_template import ChatTemplate
from uwaga.tokenizers.framed import FramedTokeniser
from uwaga.tokenizers.pretrained_files import SETTINGS, Declared, read_bytes

BASE = "base"
"""Name of the prompt for models without a chat template."""
TEMPLATE = "chat_template.jinja"
BYTE_LEVEL_LINE = "\u010a"
"""A line break in the tokens of byte-level BPE."""
PLACE = "\ue000uwaga\ue000"
"""Stands for the text while a prompt is rendered; private characters, which no template contains."""


@dataclass(frozen=True)
class TranslationPrompt:
    """How the models of a family are asked for a translation.

    Attributes:
        name: of the family.
        models: matches the names of its models.
        wording: the message, with ``{source}`` and ``{target}`` for the names of the languages,
            ``{source_code}`` and ``{target_code}`` for their codes, ``{target_in_chinese}``, and ``{text}``.
        by_language: other wordings, where one of the two languages has this code.
        structured: the message is a list with one entry of these fields instead.
        stop: the text that ends an answer, for models that do not end it themselves.
        source: where the model's authors state it.
    """

    name: str
    models: re.Pattern[str]
    wording: str = ""
    by_language: Mapping[str, str] = field(default_factory=dict)
    structured: Mapping[str, str] = field(default_factory=dict)
    stop: str = ""
    source: str = ""

    def message(self, source: str, target: str) -> Any:
        """Return the content of the message for two codes of languages, with :data:`PLACE` for the text."""
        values = {
            "source": language_name(source),
            "target": language_name(target),
            "source_code": source,
            "target_code": target,
            "target_in_chinese": chinese_language_name(target),
            "text": PLACE,
        }
        if self.structured:
            return [{key: value.format(**values) for key, value in self.structured.items()}]
        pair = (base_language(source), base_language(target))
        wording = next((text for code, text in self.by_language.items() if code in pair), self.wording)
        return wording.format(**values)


HUNYUAN = "Translate the following segment into {target}, without additional explanation.\n\n{text}"
HUNYUAN_CHINESE = "将以下文本翻译为{target_in_chinese}，注意只需要输出翻译后的结果，不要额外解释：\n\n{text}"

PROMPTS = (
    TranslationPrompt(
        "translategemma",
        re.compile(r"translate-?gemma", re.IGNORECASE),
        structured={
            "type": "text",
            "source_lang_code": "{source_code}",
            "target_lang_code": "{target_code}",
            "text": "{text}",
        },
        source="card of google/translategemma-4b-it",
    ),
    TranslationPrompt(
        "hy-mt2",
        re.compile(r"(hunyuan|\bhy)-?mt-?2", re.IGNORECASE),
        "Translate the following text into {target}. Note that you should only output the translated result "
        "without any additional explanation:\n\n{text}",
        {"zh": HUNYUAN_CHINESE},
        source="README of Tencent-Hunyuan/Hy-MT2",
    ),
    TranslationPrompt(
        "hy-mt1.5",
        re.compile(r"(hunyuan|\bhy)-?mt-?1\.5", re.IGNORECASE),
        HUNYUAN,
        {"zh": HUNYUAN_CHINESE},
        source="README of Tencent-Hunyuan/HY-MT",
    ),
    TranslationPrompt(
        "hunyuan-mt",
        re.compile(r"(hunyuan|\bhy)-?mt", re.IGNORECASE),
        HUNYUAN,
        {"zh": "把下面的文本翻译成{target_in_chinese}，不要额外解释。\n\n{text}"},
        source="README of Tencent-Hunyuan/Hunyuan-MT",
    ),
    TranslationPrompt(
        "salamandra-ta",
        re.compile(r"salamandra-?ta", re.IGNORECASE),
        "Translate the following text from {source} into {target}.\n{source}: {text} \n{target}:",
        source="card of BSC-LT/salamandraTA-7b-instruct",
    ),
    TranslationPrompt(
        "eurollm",
        re.compile(r"eurollm", re.IGNORECASE),
        "Translate the following {source} source text to {target}:\n{source}: {text} \n{target}: ",
        source="card of utter-project/EuroLLM-1.7B-Instruct",
    ),
    TranslationPrompt(
        BASE,
        re.compile(r"(?!)"),  # no name: it is for models without a chat template
        "{source}: {text}\n{target}:",
        stop="\n",
        source="Vilar et al. 2023, Prompting PaLM for Translation",
    ),
    TranslationPrompt(
        "chat",
        re.compile(""),
        "Translate the following text from {source} into {target}.\n{source}: {text}\n{target}:",
        source="card of Unbabel/TowerInstruct-7B-v0.1",
    ),
)
"""The families in the order in which they are tried; the last one is for every chat model."""


def prompt_for(names: Iterable[str]) -> TranslationPrompt:
    """Return the prompt of a model by its names: those of its folder and of its settings."""
    named = " ".join(names)
    return next(prompt for prompt in PROMPTS if prompt.models.search(named))


def prompt_called(name: str) -> TranslationPrompt:
    """Return the prompt of a family; that of chat models for an unknown name."""
    return next((prompt for prompt in PROMPTS if prompt.name == name), PROMPTS[-1])


def read_chat_template(folder: Path, declared: Declared, names: Iterable[str]) -> ChatTemplate | None:
    """Read the chat template of a folder in Hugging Face format; None if it has none.

    Args:
        folder: it has the template in ``chat_template.jinja``, or in ``tokenizer_config.json``, there perhaps
            as one of several with names.
        declared: what ``tokenizer_config.json`` says.
        names: names of the model, by which the prompt of its family is chosen.

    Raises:
        ModelError: a file is damaged.
    """
    path = folder / TEMPLATE
    if path.exists():
        try:
            text: object = read_bytes(path, "chat template").decode("utf-8")
        except UnicodeDecodeError:
            raise ModelError(f"{path}: not UTF-8 text; fetch it again") from None
    else:
        path, text = folder / SETTINGS, declared.settings.get("chat_template")
        if isinstance(text, list):
            named = {one.get("name"): one.get("template") for one in text if isinstance(one, dict)}
            text = named.get("default")
    if not isinstance(text, str) or not text:
        return None
    special = {f"{role}_token": token.content for role, token in declared.named.items()}
    return ChatTemplate(text, special, prompt_for(names).name, str(path))


def answer_end(tokeniser: FramedTokeniser, template: ChatTemplate) -> int:
    """Return the token that ends the assistant's message in a template; else the model's end symbol."""
    prompt, codec = prompt_called(template.family), tokeniser.codec
    content = prompt.message("en", "en") if prompt.structured else "a"
    asked = [{"role": "user", "content": content}, {"role": "assistant", "content": PLACE}]
    _, found, after = template.render(asked, generate=False).rpartition(PLACE)
    ids = codec.encode(after.strip()) if found else []
    special = (token for token in ids if codec.piece(token) is not None and codec.decode([token]) == "")
    return next(special, tokeniser.symbols.end)


@dataclass(frozen=True)
class PromptTokeniser:
    """The source side of a language model that translates: a text's tokens within those of a prompt.

    The tokens are those of the whole prompt, except that special tokens spelt in the text are plain text.

    Attributes:
        inner: the model's tokeniser.
        template: the model's chat template; None for a model that continues the prompt itself.
        prompt: how it is asked for a translation.
        where: the model, for messages.
        languages: codes of source and target, None before they are chosen.
    """

    inner: FramedTokeniser
    template: ChatTemplate | None
    prompt: TranslationPrompt
    where: str
    languages: tuple[str, str] | None = None

    def between(self, source: str | None, target: str | None) -> PromptTokeniser:
        """Return the tokeniser for two languages.

        Raises:
            SettingsError: one of them is not given.
        """
        if source is None or target is None:
            missing = "source (--from)" if source is None else "target (--to)"
            raise SettingsError(
                f"{self.where}: a language model translates between the languages that it is asked for: "
                f"name the {missing}; `uwaga generate` continues texts"
            )
        return replace(self, languages=(source, target))

    @property
    def symbols(self) -> Symbols:
        """The special token ids; a target ends where the assistant's message or a text ends."""
        inner = self.inner.symbols
        others = tuple(token for token in inner.ends if token != self.end)
        return replace(inner, end=self.end, other_ends=others)

    @property
    def vocabulary(self) -> int:
        """Rows of the model's embeddings."""
        return self.inner.vocabulary

    @property
    def model_bytes(self) -> bytes:
        """Serialisation of everything that determines the ids."""
        return self.inner.model_bytes + repr((self.template, self.prompt.name, self.languages)).encode()

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text as it stands in the prompt, without those of the prompt.

        Raises:
            DataError: the text is not valid Unicode.
        """
        lead, begun = self._lead
        return self.inner.encode_plain(lead + text)[begun:]

    def add_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """Return the ids with those of the prompt around them."""
        before, after = self.frame
        return [*before, *ids, *after]

    def language_prefix(self, text: str) -> str:
        """Return an empty string: the prompt is around every text anyway."""
        return ""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, without special tokens."""
        return self.inner.decode(ids)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the pieces of ids as they are in the vocabulary."""
        return self.inner.pieces(ids)

    @cached_property
    def frame(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The ids before and after a text."""
        before, after = self._around
        lead = "a"
        whole, begun = self.inner.codec.encode(lead + after), self.inner.codec.encode(lead)
        first = self.inner.prefix if self.template is None else ()  # else the template spells it
        return (*first, *self.inner.codec.encode(before.rstrip(" "))), tuple(whole[len(begun) :])

    @cached_property
    def end(self) -> int:
        """The token that ends the assistant's message, or a text."""
        return self.inner.symbols.end if self.template is None else answer_end(self.inner, self.template)

    def answer_symbols(self) -> Symbols:
        """Return the special token ids of the target side: tokens that contain the stop end a target, too."""
        codec, stop, symbols = self.inner.codec, self.prompt.stop, self.symbols
        if not stop:
            return symbols
        spelt = (stop, stop.replace("\n", BYTE_LEVEL_LINE), "<0x0A>")
        silent, spoken = list[int](), list[int]()
        for token in range(min(codec.size, self.vocabulary)):
            if any(each in (codec.piece(token) or "") for each in spelt):
                before, found, _ = codec.decode([token]).partition(stop)
                if found and token not in symbols.ends:
                    (spoken if before.strip() else silent).append(token)
        return replace(symbols, other_ends=(*symbols.other_ends, *silent), stops=tuple(spoken))

    @cached_property
    def _around(self) -> tuple[str, str]:
        if self.languages is None:
            raise SettingsError(f"{self.where}: name the languages, with source and target (--from and --to)")
        content = self.prompt.message(*self.languages)
        if self.template is None:
            before, _, after = content.partition(PLACE)
            return before, after
        before, found, after = self.template.render([{"role": "user", "content": content}]).partition(PLACE)
        if not found or PLACE in after:
            raise ModelError(f"{self.template.where}: the chat template does not contain the message once")
        return before, after

    @cached_property
    def _lead(self) -> tuple[str, int]:
        """The part of the prompt that may share tokens with the text, and its number of tokens alone.

        It begins with the last line break, which no token crosses; the blanks before the text go into the
        text's first token.
        """
        before, _ = self._around
        at = len(before.rstrip("\n")) if before.endswith("\n") else before.rfind("\n")
        lead = before[max(at, 0) :]
        return lead, len(self.inner.encode_plain(lead.rstrip(" ")))
