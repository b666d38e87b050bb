"""The base model of a run (``init``), and the settings taken from it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.adapter import weights_checksum
from uwaga.checkpoints.checkpoint import MODEL_KINDS, Checkpoint
from uwaga.checkpoints.formats.uwaga.read import decoding_settings, read_tokeniser
from uwaga.checkpoints.languages import UNSTATED_LANGUAGES, Languages
from uwaga.checkpoints.registry import UWAGA
from uwaga.checkpoints.rewrite import can_rewrite
from uwaga.checkpoints.storage.safetensors_files import open_tensors
from uwaga.checkpoints.weight_map import Table, View, Weights
from uwaga.errors import ModelError, SettingsError
from uwaga.library.hub import find_model
from uwaga.search import SearchOptions, options_from_settings
from uwaga.settings import (
    AdaptSettings,
    DecoderOnlySettings,
    DecodingSettings,
    Family,
    Settings,
    TextSettings,
    load_settings,
)
from uwaga.tokenizers.rows import RowTokeniser
from uwaga.tokenizers.subwords import TrainingSubwords
from uwaga.tokenizers.tokeniser import Tokeniser

_CHECKPOINT_NAME_PATTERN = re.compile(r"step-[0-9]+\.safetensors")
WEIGHT_PREFIX = "model."


def is_run_checkpoint(name: str | Path) -> bool:
    """Return True if a path names a checkpoint of a run: ``RUN/checkpoints/step-00001000.safetensors``."""
    return bool(_CHECKPOINT_NAME_PATTERN.fullmatch(Path(name).name))


def read_run_checkpoint(name: str | Path) -> Checkpoint:
    """Return the model in a checkpoint of a run, with the settings and tokenisers of the run."""
    path = Path(name)
    run = path.parent.parent
    if not path.is_file():
        raise ModelError(f"{path}: no such checkpoint; `ls {path.parent}` lists the existing ones")
    settings = load_settings(run / "settings.yaml")
    if settings.init is not None and settings.adapt.vocabulary == "keep":
        raise ModelError(
            f"{path}: its run started from {settings.init} and does not contain the tokenisers; write a "
            f"model folder first: `uwaga average {run} FOLDER --last 1`"
        )
    sides = ("joint", "joint") if settings.text.joint else ("source", "target")
    source, target = (read_tokeniser(run / "text" / f"{side}.spm") for side in sides)
    target = source if settings.text.joint else target
    tensors = open_tensors(path)
    names = [name.removeprefix(WEIGHT_PREFIX) for name in tensors if name.startswith(WEIGHT_PREFIX)]
    weights = Weights(
        {name: tensors[WEIGHT_PREFIX + name].shape for name in names},
        Table({name: (View(WEIGHT_PREFIX + name),) for name in names}),
        tensors,
    )
    decoding, text = options_from_settings(settings.decoding)
    return Checkpoint(
        path=path,
        format=UWAGA.name,
        family=settings.model.family,
        settings=settings.model,
        symbols=target.symbols,
        source_vocabulary=source.size,
        target_vocabulary=target.size,
        vocabulary=(source.size, target.size),
        source=source,
        target=target,
        languages=Languages(source, target, settings.data.languages, location=str(path)),
        decoding=decoding,
        text=text,
        weights=weights,
        trained_to_translate=isinstance(settings.model, DecoderOnlySettings),
    )


DROPOUT_SETTINGS = ("dropout", "attention_dropout", "activation_dropout", "variational")
"""Dropout settings of a model. A run may change them, because no weights depend on them."""


@dataclass(frozen=True)
class BaseCheckpoint:
    """The base model of a run.

    Attributes:
        name: value of ``init`` in the settings.
        checkpoint: the model, prepared for the languages of the run.
        sha256: SHA-256 checksum of the model's weights.
        source: tokeniser of the source side.
        target: tokeniser of the target side.
        search: default search options of the finished model.
    """

    name: str
    checkpoint: Checkpoint
    sha256: str
    source: TrainingSubwords
    target: TrainingSubwords
    search: SearchOptions

    @property
    def is_native(self) -> bool:
        """True for a model in the format of uwaga, False for other formats such as Hugging Face's."""
        return self.checkpoint.format == UWAGA.name


def open_base(settings: Settings) -> tuple[Settings, BaseCheckpoint | None]:
    """Read the base model named by ``init``, and complete the settings with those that it determines.

    The base model determines the groups ``model`` and ``decoding``, and the languages. The run may still set
    dropout probabilities in ``model``, and settings in ``decoding`` if the format of the model's folder can
    store them.

    Returns:
        the completed settings and the base model; without ``init``, the unchanged settings and None.
    """
    if settings.init is None:
        if settings.adapt != AdaptSettings():
            raise SettingsError("adapt: there is no model to adapt; set init to its name")
        return settings, None
    is_rewritten = settings.adapt.vocabulary == "keep" and settings.adapt.lora is None
    checkpoint = _read_checkpoint(settings.init, is_rewritten)
    languages = [
        None if name == placeholder_code else name
        for name, placeholder_code in zip(settings.data.languages, UNSTATED_LANGUAGES, strict=True)
    ]
    try:
        direction = checkpoint.languages.direction(*languages)
    except SettingsError as error:
        raise SettingsError(f"data.languages: {error}") from None
    if not isinstance(checkpoint.source, Tokeniser):  # corpora of uwaga's models contain the tags
        checkpoint = checkpoint.for_direction(direction)
    source, target = _subword_tokenisers(checkpoint)
    model = _merge_model_settings(settings, checkpoint)
    max_tokens = settings.data.max_tokens
    if settings.adapt.vocabulary == "keep":
        _check_no_subword_settings(settings)
        max_tokens = _limit_max_tokens(settings, checkpoint, (source, target))
    decoding, search = _merge_decoding(settings, checkpoint)
    changes = {"languages": tuple(direction.languages), "max_tokens": max_tokens}
    data = settings.data.model_copy(update=changes)
    assert checkpoint.weights is not None
    base = BaseCheckpoint(
        settings.init, checkpoint, weights_checksum(checkpoint.weights), source, target, search
    )
    return settings.model_copy(update={"model": model, "data": data, "decoding": decoding}), base


def _read_checkpoint(name: str, is_rewritten: bool) -> Checkpoint:
    """Return the base model, after checking that it can be trained.

    Args:
        name: value of ``init``.
        is_rewritten: whether the finished model will be written in the format of this model, which must
            then support writing.
    """
    try:
        checkpoint = read_run_checkpoint(name) if is_run_checkpoint(name) else formats.read(find_model(name))
    except ModelError as error:
        raise ModelError(f"init: {error}") from None
    if checkpoint.task != "translate":
        raise SettingsError(
            f"init: {checkpoint.path}: {MODEL_KINDS[checkpoint.task][0]}, not a translation model"
        )
    if checkpoint.weights is None:
        raise SettingsError(
            f"init: {checkpoint.path}: int8 weights cannot be trained; set init to the model from which it "
            "was converted, and convert the trained model to int8"
        )
    if is_rewritten and not can_rewrite(checkpoint):
        raise SettingsError(
            f"init: {checkpoint.path}: uwaga reads but does not write the format {checkpoint.format}; "
            "train an adapter (adapt.lora), or convert the model first: `uwaga convert MODEL FOLDER --to "
            "marian`"
        )
    return checkpoint


def _subword_tokenisers(checkpoint: Checkpoint) -> tuple[TrainingSubwords, TrainingSubwords]:
    source, target = checkpoint.source, checkpoint.target
    if isinstance(source, Tokeniser) and isinstance(target, Tokeniser):
        return source, target
    first_token, name = checkpoint.decoding.first, str(checkpoint.path)
    return (
        RowTokeniser.for_side(source, checkpoint.source_vocabulary, "source", name=name),
        RowTokeniser.for_side(target, checkpoint.target_vocabulary, "target", first_token, name),
    )


def _merge_model_settings(settings: Settings, checkpoint: Checkpoint) -> Family:
    """Return the settings of the base model with the dropout probabilities of the run."""
    base_settings, run_settings = cast(Family, checkpoint.settings), settings.model
    if "model" not in settings.model_fields_set:
        return base_settings
    # A preset sets all values, but a group sets only the values that it names.
    group = "family" in run_settings.model_fields_set
    explicit = run_settings.model_dump(include=run_settings.model_fields_set if group else None)
    if explicit.get("family", run_settings.family) != base_settings.family:
        explicit = {"family": run_settings.family}
    for name, value in explicit.items():
        if name not in DROPOUT_SETTINGS and value != getattr(base_settings, name):
            raise SettingsError(
                f"model.{name}: {value!r}, but the model named by init ({settings.init}) has "
                f"{getattr(base_settings, name)!r}; omit it"
            )
    dropouts = {
        name: explicit[name] for name in DROPOUT_SETTINGS if name in explicit and hasattr(base_settings, name)
    }
    return base_settings.model_copy(update=dropouts)


def _check_no_subword_settings(settings: Settings) -> None:
    """Raise SettingsError if a subword setting is set: these settings apply only to a new vocabulary."""
    default = TextSettings()
    for name in TextSettings.model_fields:
        if getattr(settings.text, name) != getattr(default, name):
            raise SettingsError(
                f"text.{name}: the run uses the tokenisers of the model named by init ({settings.init}); "
                "omit text, or set adapt.vocabulary: new"
            )


def _limit_max_tokens(
    settings: Settings, checkpoint: Checkpoint, tokenisers: tuple[TrainingSubwords, TrainingSubwords]
) -> int:
    """Return ``data.max_tokens``, lowered to the limit of the model if the run does not set it."""
    base_settings, requested_length = checkpoint.settings, settings.data.max_tokens
    if getattr(base_settings, "positions", "") == "relative":
        return requested_length
    limit = base_settings.max_length - max(
        side.special_token_count if isinstance(side, RowTokeniser) else 1 for side in tokenisers
    )
    if requested_length <= base_settings.max_length - 1:
        return requested_length
    if "max_tokens" in settings.data.model_fields_set or limit < 1:
        raise SettingsError(
            f"data.max_tokens: {requested_length}, but the model named by init accepts "
            f"{base_settings.max_length} tokens, including special tokens; lower it to {max(1, limit)}"
        )
    return limit


def _merge_decoding(settings: Settings, checkpoint: Checkpoint) -> tuple[DecodingSettings, SearchOptions]:
    """Return the ``decoding`` settings of the finished model, and the search options for validation."""
    run_settings = settings.decoding
    changes = (
        run_settings.model_dump(include=run_settings.model_fields_set)
        if settings.decoding != DecodingSettings()
        else {}
    )
    base_decoding = decoding_settings(checkpoint.decoding, checkpoint.text)
    if checkpoint.format == UWAGA.name or settings.adapt.vocabulary == "new":
        decoding = (base_decoding or DecodingSettings()).model_copy(update=changes)
        DecodingSettings.model_validate(decoding.model_dump())
        return decoding, options_from_settings(decoding)[0]
    if changes:
        raise SettingsError(
            f"decoding.{next(iter(changes))}: the finished model keeps the generation_config.json of the "
            f"model named by init ({settings.init}); omit decoding, and set it when translating"
        )
    return run_settings, replace(
        checkpoint.decoding, nbest=1, sample=False, temperature=1.0, top_k=0, top_p=1.0
    )
