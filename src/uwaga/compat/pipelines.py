"""The pipelines of ``transformers`` 4 that version 5 no longer has, and two that it kept.

Tasks, inputs, outputs and keyword arguments are those of version 4. What uwaga lacks is refused by name;
nothing is ignored unless it changes no result.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from uwaga.errors import DataError, SettingsError, shown
from uwaga.library.hub import find_model

if TYPE_CHECKING:
    from uwaga.translator import Continuation, MaskFiller, TextGenerator, Translator

Record = dict[str, Any]

SPECIAL = frozenset({"[CLS]", "[SEP]", "[MASK]", "[UNK]", "[PAD]"})
WINDOW = 256
"""Texts of an iterable that are read and translated together."""
TRANSLATION = re.compile(r"translation_(\w{1,32}?)_to_(\w{1,32})")

SEARCH = {
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
"""Arguments of ``generate`` and the search options that they are."""
LENGTHS = ("max_length", "min_length", "max_new_tokens", "min_new_tokens")
EARLY_STOPPING = {True: True, False: "estimate", "never": False}
"""``early_stopping`` of ``generate`` and of :class:`uwaga.search.SearchOptions`."""
NEUTRAL: Mapping[str, tuple[object, ...]] = {
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
"""Arguments that uwaga accepts with these values, which change no result; with any if there are none."""
INSTEAD = {
    "return_tensors": "the result is text; its token ids are not returned",
    "return_text": "the result is text",
    "truncation": 'a text is never cut: one that is too long is an error; split="sentences" splits it',
}


def pipeline(
    task: str | None = None, model: str | Path | None = None, tokenizer: object = None, **options: Any
) -> Pipeline:
    """Return a pipeline, called and answering as one of ``transformers`` 4.

    Args:
        task: ``translation``, ``translation_XX_to_YY``, ``summarization``, ``text2text-generation``,
            ``text-generation`` or ``fill-mask``; None for the one that the model is for.
        model: a model folder or a Hugging Face name; None for the bundled English–German model.
        tokenizer: None, or the name given as ``model``: a model's own tokeniser is used.
        **options: ``device`` (-1, ``"cpu"``, 0, ``"cuda"``, ``"cuda:1"``), ``torch_dtype`` or ``dtype``, and
            any argument of the calls, as their default.

    Raises:
        SettingsError: an unknown task or option, or one that uwaga does not have.
        ModelError: there is no such model, or it is for another task.
    """
    found = TRANSLATION.fullmatch(task or "")
    if found:
        options = {"src_lang": found[1], "tgt_lang": found[2]} | options
    kind = TASKS.get("translation" if found else str(task)) if task is not None else None
    if task is not None and kind is None:
        raise SettingsError(f"task {shown(task)}: uwaga has {', '.join(TASKS)} and translation_XX_to_YY")
    if tokenizer is not None and str(tokenizer) != str(model):
        raise SettingsError("tokenizer: a model's own tokeniser is used: leave the option out")
    loading = _loading(options)
    if model is None and kind not in (None, TranslationPipeline):
        raise SettingsError(f"model: name one for the task {task}: only translation has a bundled model")
    if kind is None:
        kind = _kind_of(model)
    return kind(str(task or kind.task), model, loading, options)


def _loading(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options of loading out of a pipeline's options; return them as uwaga's."""
    loading: dict[str, Any] = {}
    device = options.pop("device", None)
    if device is not None:
        name = str(device)
        loading["device"] = "cpu" if name == "-1" else f"cuda:{name}" if name.isdigit() else name
    for name in ("torch_dtype", "dtype"):
        if (value := options.pop(name, None)) is not None:
            loading["dtype"] = str(value).removeprefix("torch.")
    allowed: dict[str, tuple[object, ...]] = {
        "framework": (None, "pt"),
        "device_map": (None, "auto"),
        "trust_remote_code": (None, False),
        "revision": (None, "main"),
        "use_fast": (None, True, False),
        "model_kwargs": (None, {}),
    }
    for name, values in allowed.items():
        if (value := options.pop(name, None)) not in values:
            why = "no code of a model is run" if name == "trust_remote_code" else "uwaga does not have it"
            raise SettingsError(f"{name}={shown(value)}: {why}: leave the option out")
    return loading


def _kind_of(model: str | Path | None) -> type[Pipeline]:
    """Return the pipeline for what a model is for."""
    from uwaga.translator.loading import read_model

    return {"translate": TranslationPipeline, "generate": TextGenerationPipeline, "fill": FillMaskPipeline}[
        read_model(model).task
    ]


class Pipeline:
    """A task of ``transformers`` on a model of uwaga's.

    Args:
        task: its name.
        model: as :func:`pipeline`.
        loading: options of :class:`uwaga.settings.LoadOptions` by name.
        options: arguments of calls, by default.
    """

    task: ClassVar[str]
    own: ClassVar[frozenset[str]] = frozenset()
    """Arguments of a call besides those of the search."""

    def __init__(
        self, task: str, model: str | Path | None, loading: Mapping[str, Any], options: Mapping[str, Any]
    ) -> None:
        self.name = task
        self._defaults = _stated(find_model(model), task) | dict(options)
        self._load(model, loading)
        self._checked({})

    def _load(self, model: str | Path | None, loading: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def _answer(self, texts: Sequence[str], options: Record) -> list[list[Any]]:
        """Return the results of each text."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Return the result of a text, of a list of them, or of any other iterable of texts.

        A text gives a list of dictionaries. A list gives a list, with a dictionary for each text, or a list
        of dictionaries if a text has several or the task is ``text-generation``. Another iterable, such as a
        generator or a dataset's column, gives an iterator.

        Raises:
            DataError: an input is no text, or one that the model cannot take.
            SettingsError: an unknown argument, or one that uwaga does not have.
        """
        checked = self._checked(options)
        if isinstance(inputs, str):
            return self._answer([inputs], checked)[0]
        if isinstance(inputs, list):
            return self._listed(self._answer(_texts(inputs, 1), checked))
        if isinstance(inputs, Iterable):
            return self._each(iter(inputs), checked)
        raise DataError(
            f"a text, a list of texts or an iterable of them is needed, not {type(inputs).__name__}"
        )

    def _listed(self, answers: list[list[Any]]) -> list[Any]:
        return answers

    def _each(self, texts: Iterator[Any], options: Record) -> Iterator[list[Any]]:
        number = 1
        while part := list(islice(texts, WINDOW)):
            yield from self._answer(_texts(part, number), options)
            number += len(part)

    def _checked(self, options: Mapping[str, Any]) -> Record:
        """Return the pipeline's and a call's arguments, without those that change nothing."""
        merged = {**self._defaults, **options}
        known = {*self.own, *SEARCH, *LENGTHS, *NEUTRAL, "early_stopping", "bad_words_ids"}
        left: Record = {}
        for name, value in merged.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ": uwaga does not have it"
                raise SettingsError(f"unknown argument {name!r}{hint}")
            if name not in NEUTRAL:
                left[name] = value
            elif NEUTRAL[name] and not any(value is one or value == one for one in NEUTRAL[name]):
                why = INSTEAD.get(name, "uwaga's search does not have it")
                raise SettingsError(f"{name}={shown(value)}: {why}")
        return left


def _texts(inputs: Sequence[Any], number: int) -> list[str]:
    for at, one in enumerate(inputs, start=number):
        if not isinstance(one, str):
            raise DataError(f"text {at} is not a string but {type(one).__name__}")
    return list(inputs)


def _stated(place: Path, task: str) -> Record:
    """Return what a checkpoint's configuration says of a task (``task_specific_params``)."""
    path = place / "config.json"
    if not path.is_file():
        return {}
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SettingsError(f"{path}: not JSON: {error}") from None
    tasks = config.get("task_specific_params") if isinstance(config, dict) else None
    stated = tasks.get(task) if isinstance(tasks, dict) else None
    known = {*SEARCH, *LENGTHS, "early_stopping", *(() if TRANSLATION.fullmatch(task) else ("prefix",))}
    return (
        {name: value for name, value in stated.items() if name in known} if isinstance(stated, dict) else {}
    )


def search_options(arguments: Mapping[str, Any], *, before: int) -> Record:
    """Return arguments of ``generate`` as options of uwaga's search.

    Args:
        arguments: by name; None is the model's own.
        before: tokens that ``max_length`` and ``min_length`` count besides the new ones: the start symbol of
            an encoder–decoder, the prompt of a decoder.

    Raises:
        SettingsError: a value that uwaga does not have.
    """
    found = {SEARCH[name]: value for name, value in arguments.items() if name in SEARCH and value is not None}
    if (stop := arguments.get("early_stopping")) is not None:
        if stop not in EARLY_STOPPING:
            raise SettingsError(f"early_stopping={shown(stop)}: True, False or 'never'")
        found["early_stopping"] = EARLY_STOPPING[stop]
    if (banned := arguments.get("bad_words_ids")) is not None:
        if not all(isinstance(one, Sequence) and len(one) == 1 for one in banned):
            raise SettingsError("bad_words_ids: only single tokens can be banned")
        found["banned"] = tuple(one[0] for one in banned)
    if found.get("sample") and arguments.get("num_beams") not in (None, 1):
        raise SettingsError("do_sample and num_beams > 1: sampling in a beam is not supported: leave one out")
    if found.get("sample"):
        found.pop("beam", None)
    for bound in ("max", "min"):
        whole, new = arguments.get(f"{bound}_length"), arguments.get(f"{bound}_new_tokens")
        if new is not None:
            found[f"{bound}_length"] = new
        elif whole is not None:
            found[f"{bound}_length"] = whole - before if bound == "max" else max(0, whole - before)
    return found


class Text2TextPipeline(Pipeline):
    """``text2text-generation``: what an encoder–decoder makes of a text."""

    task = "text2text-generation"
    key: ClassVar[str] = "generated_text"
    own = frozenset({"src_lang", "tgt_lang", "prefix", "split", "glossary", "glossary_mode", "placeholders"})

    def _load(self, model: str | Path | None, loading: Mapping[str, Any]) -> None:
        from uwaga.translator import Translator

        self.model: Translator = Translator.load(model, **loading)

    def _answer(self, texts: Sequence[str], options: Record) -> list[list[Any]]:
        prefix = options.get("prefix") or ""
        request: Record = {
            "source": options.get("src_lang"),
            "target": options.get("tgt_lang"),
            "split": options.get("split", "never"),
            "placeholders": options.get("placeholders", False),
            **{name: options[name] for name in ("glossary", "glossary_mode") if name in options},
        }
        made = self.model.translate(
            [prefix + text for text in texts], **request, **search_options(options, before=1)
        )
        return [[{self.key: one.text} for one in (best, *best.alternatives)] for best in made]

    def _listed(self, answers: list[list[Any]]) -> list[Any]:
        return [one[0] for one in answers] if all(len(one) == 1 for one in answers) else answers


class TranslationPipeline(Text2TextPipeline):
    """``translation``: between ``src_lang`` and ``tgt_lang``, where the model has several languages."""

    task = "translation"
    key = "translation_text"


class SummarizationPipeline(Text2TextPipeline):
    """``summarization``."""

    task = "summarization"
    key = "summary_text"


class TextGenerationPipeline(Pipeline):
    """``text-generation``: a decoder continues texts, or answers chats."""

    task = "text-generation"
    own = frozenset({"return_full_text", "prefix"})

    def _load(self, model: str | Path | None, loading: Mapping[str, Any]) -> None:
        from uwaga.translator import TextGenerator

        assert model is not None
        self.model: TextGenerator = TextGenerator.load(model, **loading)

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Return the results of texts as :meth:`Pipeline.__call__` does, or those of a chat or of several.

        A chat is a list of messages, each a dictionary of a ``role`` and a ``content``. Its
        ``generated_text`` is the list with the assistant's message; with ``return_full_text`` False, only
        that message's text.
        """
        if isinstance(inputs, list) and inputs and isinstance(inputs[0], Mapping):
            return self._chats([inputs], self._checked(options))[0]
        if isinstance(inputs, list) and inputs and isinstance(inputs[0], list):
            return self._chats(inputs, self._checked(options))
        return super().__call__(inputs, **options)

    def _chats(self, chats: Sequence[list[Any]], options: Record) -> list[list[Record]]:
        full = options.get("return_full_text")
        answers = []
        for chat, best in zip(chats, self._continued(chats, options), strict=True):
            texts = [one.text for one in (best, *best.alternatives)]
            whole = [[*chat, {"role": "assistant", "content": text}] for text in texts]
            answers.append([{"generated_text": one} for one in (texts if full is False else whole)])
        return answers

    def _answer(self, texts: Sequence[str], options: Record) -> list[list[Any]]:
        prefix = options.get("prefix") or ""
        full = options.get("return_full_text")
        made = self._continued([prefix + text for text in texts], options)
        return [
            [
                {"generated_text": one.text if full is False else text + one.text}
                for one in (best, *best.alternatives)
            ]
            for text, best in zip(texts, made, strict=True)
        ]

    def _continued(self, prompts: Sequence[str | list[Any]], options: Record) -> list[Continuation]:
        counted = any(options.get(f"{bound}_length") is not None for bound in ("max", "min"))
        if not counted:
            return self.model.generate(prompts, **search_options(options, before=0))
        made = []
        for number, prompt in enumerate(prompts, start=1):
            length = len(self.model.prompt_ids(prompt))
            found = search_options(options, before=length)
            if found.get("max_length", 1) < 1:
                raise DataError(
                    f"text {number} has {length} tokens, and max_length={options['max_length']} counts them: "
                    "give max_new_tokens"
                )
            made.append(self.model.generate(prompt, **found))
        return made


class FillMaskPipeline(Pipeline):
    """``fill-mask``: the most probable tokens for each ``[MASK]``."""

    task = "fill-mask"
    own = frozenset({"top_k", "targets"})

    def _load(self, model: str | Path | None, loading: Mapping[str, Any]) -> None:
        from uwaga.translator import MaskFiller

        assert model is not None
        self.model: MaskFiller = MaskFiller.load(model, **loading)

    def _answer(self, texts: Sequence[str], options: Record) -> list[list[Any]]:
        for name in options:
            if name not in self.own:
                raise SettingsError(f"{name}: nothing is generated in the task fill-mask")
        tokeniser, vocabulary = self.model.tokeniser, self.model.model.vocabulary
        targets = options.get("targets")
        wanted = None if targets is None else self._ids([targets] if isinstance(targets, str) else targets)
        most = options.get("top_k") or 5
        made = self.model.fill(list(texts), k=min(most, vocabulary) if wanted is None else vocabulary)
        answers = []
        for text, gaps in zip(texts, made, strict=True):
            ids = tokeniser.encode(text)
            places = [at for at, token in enumerate(ids) if token == tokeniser.number("[MASK]")]
            rows = []
            for place, fillings in zip(places, gaps, strict=True):
                row = []
                for one in fillings:
                    token = tokeniser.number(one.token)
                    if token is None or (wanted is not None and token not in wanted):
                        continue
                    filled = [*ids[:place], token, *ids[place + 1 :]]
                    whole = tokeniser.decode(filled) if len(places) == 1 else self._with_specials(filled)
                    row.append(
                        {
                            "score": one.probability,
                            "token": token,
                            "token_str": tokeniser.decode([token]),
                            "sequence": whole,
                        }
                    )
                rows.append(row[:most])
            answers.append(rows[0] if len(rows) == 1 else rows)
        return answers

    def _with_specials(self, ids: Sequence[int]) -> str:
        """Return a text with its special tokens, as version 4 does where other gaps are left."""
        tokeniser = self.model.tokeniser
        ids = tokeniser.add_special_tokens(list(ids))
        whole, run = "", []  # the text so far, and the ids since the last special token
        for token, piece in [*zip(ids, tokeniser.pieces(ids), strict=True), (None, "")]:
            if token is not None and piece not in SPECIAL:
                run.append(token)
                continue
            if run:
                text = tokeniser.decode(run)
                whole += text.removeprefix("##") if text.startswith("##") else f" {text}"
                run = []
            whole += f" {piece}"
        return whole.strip()

    def _ids(self, targets: Sequence[str]) -> set[int]:
        """Return the first token of each target."""
        found = set()
        for target in targets:
            ids = self.model.tokeniser.encode(target)
            if not ids:
                raise DataError(f"targets: {target!r} has no token")
            found.add(ids[0])
        return found

    def _listed(self, answers: list[list[Any]]) -> list[Any]:
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
