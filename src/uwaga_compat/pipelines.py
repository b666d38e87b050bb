"""Pipelines of ``transformers`` 4: those that version 5 removed, and two that it kept.

Tasks, inputs, outputs and keyword arguments are those of version 4. An unsupported argument raises an error
that names it; arguments are ignored only if they do not affect the result.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from uwaga.errors import DataError, SettingsError, quoted
from uwaga.library.hub import find_model

if TYPE_CHECKING:
    from uwaga.generation import Continuation, MaskFiller, TextGenerator
    from uwaga.translator import Translator

Record = dict[str, Any]

SPECIAL_TOKENS = frozenset({"[CLS]", "[SEP]", "[MASK]", "[UNK]", "[PAD]"})
WINDOW_TEXTS = 256
"""Number of texts that are read from an iterable and processed together."""
TRANSLATION_TASK = re.compile(r"translation_(\w{1,32}?)_to_(\w{1,32})")

SEARCH_OPTIONS = {
    "num_beams": "beam",
    "num_return_sequences": "nbest",
    "length_penalty": "length_penalty",
    "no_repeat_ngram_size": "no_repeat_ngram",
    "do_sample": "sample",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "renormalize_logits": "renormalise",
    "decoder_start_token_id": "start",
    "forced_bos_token_id": "first",
}
"""Names of search options by the corresponding argument of ``generate``."""
LENGTH_ARGUMENTS = ("max_length", "min_length", "max_new_tokens", "min_new_tokens")
EARLY_STOPPING = {True: True, False: "estimate", "never": False}
"""Values of ``early_stopping`` in :class:`uwaga.search.SearchOptions` by value of ``generate``'s argument."""
NEUTRAL_ARGUMENTS: Mapping[str, tuple[object, ...]] = {
    "clean_up_tokenization_spaces": (None, False),
    "return_tensors": (None, False),
    "return_text": (None, True),
    "truncation": (None, False, "do_not_truncate"),
    "repetition_penalty": (None, 1.0),
    "encoder_repetition_penalty": (None, 1.0),
    "diversity_penalty": (None, 0.0),
    "num_beam_groups": (None, 1),
    "typical_p": (None, 1.0),
    "epsilon_cutoff": (None, 0.0),
    "eta_cutoff": (None, 0.0),
    "penalty_alpha": (None,),
    "use_cache": (None, True, False),
    "batch_size": (),
    "num_workers": (),
}
"""Accepted values of arguments that are ignored, as they have no effect; empty if all values are accepted."""
EXPLANATIONS = {
    "return_tensors": "results are texts; token ids are not returned",
    "return_text": "results are texts",
    "truncation": 'texts are never truncated; split="sentences" splits texts that are too long',
}


def pipeline(
    task: str | None = None, model: str | Path | None = None, tokenizer: object = None, **options: Any
) -> Pipeline:
    """Return a pipeline with the interface of ``transformers`` 4.

    Args:
        task: ``translation``, ``translation_XX_to_YY``, ``summarization``, ``text2text-generation``,
            ``text-generation`` or ``fill-mask``; None for the task of the model.
        model: model folder or Hugging Face name; None for the bundled English–German model.
        tokenizer: None or the same value as ``model``, since the tokeniser of the model is always used.
        **options: ``device`` (-1, ``"cpu"``, 0, ``"cuda"``, ``"cuda:1"``), ``torch_dtype`` or ``dtype``, and
            default values of the arguments of calls.

    Raises:
        SettingsError: if a task or an option is unknown or not supported by uwaga.
        ModelError: if there is no such model, or it is for another task.
    """
    match = TRANSLATION_TASK.fullmatch(task or "")
    if match:
        options = {"src_lang": match[1], "tgt_lang": match[2]} | options
    kind = TASKS.get("translation" if match else str(task)) if task is not None else None
    if task is not None and kind is None:
        raise SettingsError(
            f"task {quoted(task)}: not supported; uwaga supports {', '.join(TASKS)} and translation_XX_to_YY"
        )
    if tokenizer is not None and str(tokenizer) != str(model):
        raise SettingsError("tokenizer: the tokeniser of the model is always used; omit the option")
    load_options = _pop_load_options(options)
    if model is None and kind not in (None, TranslationPipeline):
        raise SettingsError(f"model: give a model for the task {task}; only translation has a bundled model")
    if kind is None:
        kind = _pipeline_class(model)
    return kind(str(task or kind.task), model, load_options, options)


def _pop_load_options(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the options for loading from a pipeline's options, and return them by their names in uwaga."""
    load_options: dict[str, Any] = {}
    device = options.pop("device", None)
    if device is not None:
        name = str(device)
        load_options["device"] = "cpu" if name == "-1" else f"cuda:{name}" if name.isdigit() else name
    for name in ("torch_dtype", "dtype"):
        if (value := options.pop(name, None)) is not None:
            load_options["dtype"] = str(value).removeprefix("torch.")
    allowed_values: dict[str, tuple[object, ...]] = {
        "framework": (None, "pt"),
        "device_map": (None, "auto"),
        "trust_remote_code": (None, False),
        "revision": (None, "main"),
        "use_fast": (None, True, False),
        "model_kwargs": (None, {}),
    }
    for name, values in allowed_values.items():
        if (value := options.pop(name, None)) not in values:
            explanation = (
                "uwaga never runs code of models" if name == "trust_remote_code" else "not supported by uwaga"
            )
            raise SettingsError(f"{name}={quoted(value)}: {explanation}; omit the option")
    return load_options


def _pipeline_class(model: str | Path | None) -> type[Pipeline]:
    """Return the pipeline class for the task of a model."""
    from uwaga.translator.loading import read_model

    return {"translate": TranslationPipeline, "generate": TextGenerationPipeline, "fill": FillMaskPipeline}[
        read_model(model).task
    ]


class Pipeline:
    """A pipeline of ``transformers`` that runs a model with uwaga.

    Args:
        task: name of the task.
        model: model folder or name, see :func:`pipeline`.
        load_options: options of :class:`uwaga.settings.LoadOptions` by name.
        options: default arguments of calls.
    """

    task: ClassVar[str]
    arguments: ClassVar[frozenset[str]] = frozenset()
    """Names of the arguments of a call, apart from search options."""

    def __init__(
        self, task: str, model: str | Path | None, load_options: Mapping[str, Any], options: Mapping[str, Any]
    ) -> None:
        self.name = task
        self._defaults = _task_defaults(find_model(model), task) | dict(options)
        self._load(model, load_options)
        self._merge_arguments({})

    def _load(self, model: str | Path | None, load_options: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def _run(self, texts: Sequence[str], options: Record) -> list[list[Any]]:
        """Return the results of each text."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Return the result for a text, a list of texts, or another iterable of texts.

        The result for a text is a list of dictionaries. The result for a list is a list with a dictionary for
        each text, or with a list of dictionaries if a text has several results or the task is
        ``text-generation``. The result for any other iterable, such as a generator or a dataset column, is an
        iterator.

        Raises:
            DataError: if an input is not a text, or the model cannot process it.
            SettingsError: if an argument is unknown or not supported by uwaga.
        """
        merged_options = self._merge_arguments(options)
        if isinstance(inputs, str):
            return self._run([inputs], merged_options)[0]
        if isinstance(inputs, list):
            return self._format_results(self._run(_texts(inputs, 1), merged_options))
        if isinstance(inputs, Iterable):
            return self._stream(iter(inputs), merged_options)
        raise DataError(
            f"expected a text, a list of texts or an iterable of texts, not {type(inputs).__name__}"
        )

    def _format_results(self, answers: list[list[Any]]) -> list[Any]:
        return answers

    def _stream(self, texts: Iterator[Any], options: Record) -> Iterator[list[Any]]:
        number = 1
        while window := list(islice(texts, WINDOW_TEXTS)):
            yield from self._run(_texts(window, number), options)
            number += len(window)

    def _merge_arguments(self, options: Mapping[str, Any]) -> Record:
        """Return the pipeline's arguments, updated with those of a call, checked and without ignored ones."""
        merged = {**self._defaults, **options}
        allowed_options = {
            *self.arguments,
            *SEARCH_OPTIONS,
            *LENGTH_ARGUMENTS,
            *NEUTRAL_ARGUMENTS,
            "early_stopping",
            "bad_words_ids",
        }
        arguments: Record = {}
        for name, value in merged.items():
            if name not in allowed_options:
                matches = difflib.get_close_matches(name, allowed_options, n=1)
                hint = f"; did you mean {matches[0]!r}?" if matches else ", which uwaga does not support"
                raise SettingsError(f"unknown argument {name!r}{hint}")
            if name not in NEUTRAL_ARGUMENTS:
                arguments[name] = value
            elif NEUTRAL_ARGUMENTS[name] and not any(
                value is neutral_value or value == neutral_value for neutral_value in NEUTRAL_ARGUMENTS[name]
            ):
                explanation = EXPLANATIONS.get(name, "not supported by uwaga's search")
                raise SettingsError(f"{name}={quoted(value)}: {explanation}")
        return arguments


def _texts(inputs: Sequence[Any], first_number: int) -> list[str]:
    for index, text in enumerate(inputs, start=first_number):
        if not isinstance(text, str):
            raise DataError(f"text {index} is not a string but {type(text).__name__}")
    return list(inputs)


def _task_defaults(folder: Path, task: str) -> Record:
    """Return the default arguments for a task from ``task_specific_params`` in a model's ``config.json``."""
    path = folder / "config.json"
    if not path.is_file():
        return {}
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SettingsError(f"{path}: not JSON: {error}") from None
    tasks = config.get("task_specific_params") if isinstance(config, dict) else None
    defaults = tasks.get(task) if isinstance(tasks, dict) else None
    allowed_names = {
        *SEARCH_OPTIONS,
        *LENGTH_ARGUMENTS,
        "early_stopping",
        *(() if TRANSLATION_TASK.fullmatch(task) else ("prefix",)),
    }
    return (
        {name: value for name, value in defaults.items() if name in allowed_names}
        if isinstance(defaults, dict)
        else {}
    )


def search_options(arguments: Mapping[str, Any], *, context_tokens: int) -> Record:
    """Return uwaga's search options for arguments of ``generate``.

    Args:
        arguments: values by name; None means the default of the model.
        context_tokens: number of tokens that ``max_length`` and ``min_length`` include in addition to new
            tokens: the start symbol of an encoder–decoder, or the prompt of a decoder-only model.

    Raises:
        SettingsError: if a value is not supported by uwaga.
    """
    options = {
        SEARCH_OPTIONS[name]: value
        for name, value in arguments.items()
        if name in SEARCH_OPTIONS and value is not None
    }
    if (early_stopping := arguments.get("early_stopping")) is not None:
        if early_stopping not in EARLY_STOPPING:
            raise SettingsError(f"early_stopping={quoted(early_stopping)}: give True, False or 'never'")
        options["early_stopping"] = EARLY_STOPPING[early_stopping]
    if (banned := arguments.get("bad_words_ids")) is not None:
        if not all(isinstance(sequence, Sequence) and len(sequence) == 1 for sequence in banned):
            raise SettingsError("bad_words_ids: only single tokens can be banned")
        options["banned"] = tuple(sequence[0] for sequence in banned)
    if options.get("sample") and arguments.get("num_beams") not in (None, 1):
        raise SettingsError(
            "do_sample cannot be combined with num_beams > 1, because sampling with beam search is not "
            "supported; omit one of them"
        )
    if options.get("sample"):
        options.pop("beam", None)
    for bound in ("max", "min"):
        total, new_total = arguments.get(f"{bound}_length"), arguments.get(f"{bound}_new_tokens")
        if new_total is not None:
            options[f"{bound}_length"] = new_total
        elif total is not None:
            options[f"{bound}_length"] = (
                total - context_tokens if bound == "max" else max(0, total - context_tokens)
            )
    return options


class Text2TextPipeline(Pipeline):
    """The pipeline ``text2text-generation``, which transforms texts with an encoder–decoder."""

    task = "text2text-generation"
    key: ClassVar[str] = "generated_text"
    arguments = frozenset(
        {"src_lang", "tgt_lang", "prefix", "split", "glossary", "glossary_mode", "placeholders"}
    )

    def _load(self, model: str | Path | None, load_options: Mapping[str, Any]) -> None:
        from uwaga.translator import Translator

        self.model: Translator = Translator.load(model, **load_options)

    def _run(self, texts: Sequence[str], options: Record) -> list[list[Any]]:
        prefix = options.get("prefix") or ""
        request: Record = {
            "source": options.get("src_lang"),
            "target": options.get("tgt_lang"),
            "split": options.get("split", "never"),
            "placeholders": options.get("placeholders", False),
            **{name: options[name] for name in ("glossary", "glossary_mode") if name in options},
        }
        translations = self.model.translate(
            [prefix + text for text in texts], **request, **search_options(options, context_tokens=1)
        )
        return [
            [{self.key: translation.text} for translation in (best, *best.alternatives)]
            for best in translations
        ]

    def _format_results(self, answers: list[list[Any]]) -> list[Any]:
        return [answer[0] for answer in answers] if all(len(answer) == 1 for answer in answers) else answers


class TranslationPipeline(Text2TextPipeline):
    """The pipeline ``translation``, with ``src_lang`` and ``tgt_lang`` for multilingual models."""

    task = "translation"
    key = "translation_text"


class SummarizationPipeline(Text2TextPipeline):
    """The pipeline ``summarization``, which summarises texts with an encoder–decoder."""

    task = "summarization"
    key = "summary_text"


class TextGenerationPipeline(Pipeline):
    """The pipeline ``text-generation``, which continues texts or chats with a decoder-only model."""

    task = "text-generation"
    arguments = frozenset({"return_full_text", "prefix"})

    def _load(self, model: str | Path | None, load_options: Mapping[str, Any]) -> None:
        from uwaga.generation import TextGenerator

        assert model is not None
        self.model: TextGenerator = TextGenerator.load(model, **load_options)

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Return the results for texts, as :meth:`Pipeline.__call__` does, or for one or several chats.

        A chat is a list of messages, which are dictionaries with a ``role`` and a ``content``. The result's
        ``generated_text`` is the list of messages with the assistant's message appended or, if
        ``return_full_text`` is False, only the text of the assistant's message.
        """
        if isinstance(inputs, list) and inputs and isinstance(inputs[0], Mapping):
            return self._chats([inputs], self._merge_arguments(options))[0]
        if isinstance(inputs, list) and inputs and isinstance(inputs[0], list):
            return self._chats(inputs, self._merge_arguments(options))
        return super().__call__(inputs, **options)

    def _chats(self, chats: Sequence[list[Any]], options: Record) -> list[list[Record]]:
        return_full_text = options.get("return_full_text")
        answers = []
        for chat, best in zip(chats, self._continuations(chats, options), strict=True):
            texts = [continuation.text for continuation in (best, *best.alternatives)]
            extended_chats = [[*chat, {"role": "assistant", "content": text}] for text in texts]
            outputs = texts if return_full_text is False else extended_chats
            answers.append([{"generated_text": output} for output in outputs])
        return answers

    def _run(self, texts: Sequence[str], options: Record) -> list[list[Any]]:
        prefix = options.get("prefix") or ""
        return_full_text = options.get("return_full_text")
        continuations = self._continuations([prefix + text for text in texts], options)
        return [
            [
                {"generated_text": hypothesis.text if return_full_text is False else text + hypothesis.text}
                for hypothesis in (best, *best.alternatives)
            ]
            for text, best in zip(texts, continuations, strict=True)
        ]

    def _continuations(self, prompts: Sequence[str | list[Any]], options: Record) -> list[Continuation]:
        has_lengths = any(options.get(f"{bound}_length") is not None for bound in ("max", "min"))
        if not has_lengths:
            return self.model.generate(prompts, **search_options(options, context_tokens=0))
        continuations = []
        for number, prompt in enumerate(prompts, start=1):
            length = len(self.model.prompt_ids(prompt))
            search = search_options(options, context_tokens=length)
            if search.get("max_length", 1) < 1:
                raise DataError(
                    f"text {number} has {length} tokens, which count towards "
                    f"max_length={options['max_length']}; give max_new_tokens instead"
                )
            continuations.append(self.model.generate(prompt, **search))
        return continuations


class FillMaskPipeline(Pipeline):
    """The pipeline ``fill-mask``, which returns the most probable tokens for each ``[MASK]``."""

    task = "fill-mask"
    arguments = frozenset({"top_k", "targets"})

    def _load(self, model: str | Path | None, load_options: Mapping[str, Any]) -> None:
        from uwaga.generation import MaskFiller

        assert model is not None
        self.model: MaskFiller = MaskFiller.load(model, **load_options)

    def _run(self, texts: Sequence[str], options: Record) -> list[list[Any]]:
        for name in options:
            if name not in self.arguments:
                raise SettingsError(f"{name}: not supported in the task fill-mask, which generates no text")
        tokeniser, vocabulary = self.model.tokeniser, self.model.model.vocabulary
        targets = options.get("targets")
        allowed_ids = (
            None
            if targets is None
            else self._first_token_ids([targets] if isinstance(targets, str) else targets)
        )
        limit = options.get("top_k") or 5
        predictions = self.model.fill(
            list(texts), k=min(limit, vocabulary) if allowed_ids is None else vocabulary
        )
        answers = []
        for text, gaps in zip(texts, predictions, strict=True):
            ids = tokeniser.encode(text)
            positions = [index for index, token in enumerate(ids) if token == tokeniser.token_id("[MASK]")]
            rows = []
            for position, fillings in zip(positions, gaps, strict=True):
                row = []
                for filling in fillings:
                    token = tokeniser.token_id(filling.token)
                    if token is None or (allowed_ids is not None and token not in allowed_ids):
                        continue
                    filled_ids = [*ids[:position], token, *ids[position + 1 :]]
                    sequence = (
                        tokeniser.decode(filled_ids)
                        if len(positions) == 1
                        else self._decode_with_special_tokens(filled_ids)
                    )
                    row.append(
                        {
                            "score": filling.probability,
                            "token": token,
                            "token_str": tokeniser.decode([token]),
                            "sequence": sequence,
                        }
                    )
                rows.append(row[:limit])
            answers.append(rows[0] if len(rows) == 1 else rows)
        return answers

    def _decode_with_special_tokens(self, ids: Sequence[int]) -> str:
        """Return the text of token ids with special tokens, as version 4 does if other masks remain."""
        tokeniser = self.model.tokeniser
        ids = tokeniser.add_special_tokens(list(ids))
        text, pending_ids = "", []  # the text so far, and the ids since the last special token
        for token, piece in [*zip(ids, tokeniser.pieces(ids), strict=True), (None, "")]:
            if token is not None and piece not in SPECIAL_TOKENS:
                pending_ids.append(token)
                continue
            if pending_ids:
                decoded_text = tokeniser.decode(pending_ids)
                text += (
                    decoded_text.removeprefix("##") if decoded_text.startswith("##") else f" {decoded_text}"
                )
                pending_ids = []
            text += f" {piece}"
        return text.strip()

    def _first_token_ids(self, targets: Sequence[str]) -> set[int]:
        """Return the ids of the targets' first tokens."""
        token_ids = set()
        for target in targets:
            ids = self.model.tokeniser.encode(target)
            if not ids:
                raise DataError(f"targets: {target!r} has no token")
            token_ids.add(ids[0])
        return token_ids

    def _format_results(self, answers: list[list[Any]]) -> list[Any]:
        return answers[0] if len(answers) == 1 else answers


TASKS: Mapping[str, type[Pipeline]] = {
    kind.task: kind
    for kind in (
        TranslationPipeline,
        SummarizationPipeline,
        Text2TextPipeline,
        TextGenerationPipeline,
        FillMaskPipeline,
    )
}
