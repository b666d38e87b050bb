"""Translation prompts of families of language models."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uwaga.errors import ModelError
from uwaga.languages.codes import base_language
from uwaga.languages.names import chinese_language_name, language_name
from uwaga.tokenizers.chat_template import ChatTemplate
from uwaga.tokenizers.framed import FramedTokeniser
from uwaga.tokenizers.pretrained_files import SETTINGS_FILE, TokeniserConfig, read_bytes

BASE_PROMPT = "base"
"""Name of the prompt for models without a chat template."""
TEMPLATE_FILE = "chat_template.jinja"
TEXT_PLACEHOLDER = "\ue000uwaga\ue000"
"""Placeholder for the text while a prompt is rendered; no template contains its private-use characters."""


@dataclass(frozen=True)
class TranslationPrompt:
    """The translation prompt of a family of models.

    Attributes:
        name: the name of the family.
        models: pattern that matches the names of the models in the family.
        wording: the message, with ``{source}`` and ``{target}`` for the names of the languages,
            ``{source_code}`` and ``{target_code}`` for their codes, ``{target_in_chinese}``, and ``{text}``.
        by_language: wordings by language code, used instead if either language has that code.
        structured: if not empty, the message is a list of one entry with these fields.
        stop: the text that ends an answer, for models without an end symbol.
        source: where the model's authors document the prompt.
    """

    name: str
    models: re.Pattern[str]
    wording: str = ""
    by_language: Mapping[str, str] = field(default_factory=dict)
    structured: Mapping[str, str] = field(default_factory=dict)
    stop: str = ""
    source: str = ""

    def message(self, source: str, target: str) -> Any:
        """Return the content of the message for two language codes: a string, or a list of one dict.

        :data:`TEXT_PLACEHOLDER` takes the place of the text.
        """
        values = {
            "source": language_name(source),
            "target": language_name(target),
            "source_code": source,
            "target_code": target,
            "target_in_chinese": chinese_language_name(target),
            "text": TEXT_PLACEHOLDER,
        }
        if self.structured:
            return [{key: value.format(**values) for key, value in self.structured.items()}]
        pair = (base_language(source), base_language(target))
        wording = next((text for code, text in self.by_language.items() if code in pair), self.wording)
        return wording.format(**values)

    def render(self, languages: tuple[str, str], template: ChatTemplate | None) -> tuple[str, str]:
        """Return the parts of the prompt before and after the text.

        Args:
            languages: codes of source and target.
            template: the model's chat template; None for a model that continues the message itself.
        """
        content = self.message(*languages)
        if template is None:
            text_before, _, text_after = content.partition(TEXT_PLACEHOLDER)
            return text_before, text_after
        text_before, separator, text_after = template.render(
            [{"role": "user", "content": content}]
        ).partition(TEXT_PLACEHOLDER)
        if not separator or TEXT_PLACEHOLDER in text_after:
            raise ModelError(
                f"{template.location}: the chat template does not contain the message exactly once"
            )
        return text_before, text_after


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
        BASE_PROMPT,
        re.compile(r"(?!)"),  # matches no name: for models without a chat template
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
"""The prompts in the order in which their families are tried; the last is for all chat models."""


def choose_prompt(names: Iterable[str]) -> TranslationPrompt:
    """Return the prompt for a model, chosen by the names in its folder and its settings."""
    joined_names = " ".join(names)
    return next(prompt for prompt in PROMPTS if prompt.models.search(joined_names))


def find_prompt(name: str) -> TranslationPrompt:
    """Return the prompt with the given name, or the prompt of chat models if there is none."""
    return next((prompt for prompt in PROMPTS if prompt.name == name), PROMPTS[-1])


def read_chat_template(folder: Path, config: TokeniserConfig, names: Iterable[str]) -> ChatTemplate | None:
    """Return the chat template of a folder in Hugging Face format, or None if the folder has none.

    Args:
        folder: the folder, with the template in ``chat_template.jinja`` or in ``tokenizer_config.json``,
            which may contain several named templates.
        config: the configuration of the tokeniser.
        names: names of the model, by which the prompt of its family is chosen.
    """
    path = folder / TEMPLATE_FILE
    if path.exists():
        try:
            text: object = read_bytes(path, "chat template").decode("utf-8")
        except UnicodeDecodeError:
            raise ModelError(f"{path}: not UTF-8 text; fetch it again") from None
    else:
        path, text = folder / SETTINGS_FILE, config.settings.get("chat_template")
        if isinstance(text, list):
            templates = {
                entry.get("name"): entry.get("template") for entry in text if isinstance(entry, dict)
            }
            text = templates.get("default")
    if not isinstance(text, str) or not text:
        return None
    special_tokens = {f"{role}_token": token.content for role, token in config.special_tokens.items()}
    return ChatTemplate(text, special_tokens, choose_prompt(names).name, str(path))


def find_answer_end(tokeniser: FramedTokeniser, template: ChatTemplate) -> int:
    """Return the id of the token that ends the assistant's message in a template, or else the end symbol."""
    prompt, codec = find_prompt(template.family), tokeniser.codec
    content = prompt.message("en", "en") if prompt.structured else "a"
    messages = [{"role": "user", "content": content}, {"role": "assistant", "content": TEXT_PLACEHOLDER}]
    _, separator, text_after = template.render(messages, generate=False).rpartition(TEXT_PLACEHOLDER)
    ids = codec.encode(text_after.strip()) if separator else []
    special_ids = (token for token in ids if codec.piece(token) is not None and codec.decode([token]) == "")
    return next(special_ids, tokeniser.symbols.end)
