"""The model that a run starts from (``init``), and the settings that follow from it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.adapter import weights_checksum
from uwaga.checkpoints.checkpoint import KINDS, Checkpoint
from uwaga.checkpoints.files.safetensors_read import open_tensors
from uwaga.checkpoints.formats.uwaga.checks import read_tokeniser
from uwaga.checkpoints.formats.uwaga.format import UWAGA
from uwaga.checkpoints.formats.uwaga.schema import decoding_settings
from uwaga.checkpoints.languages import UNKNOWN, Languages
from uwaga.checkpoints.rewrite import can_rewrite
from uwaga.checkpoints.weight_map import Table, View, Weights
from uwaga.errors import ModelError, SettingsError
from uwaga.library.hub import find_model
from uwaga.search import SearchOptions, from_settings
from uwaga.settings import AdaptSettings, DecodingSettings, Family, Settings, TextSettings, load_settings
from uwaga.tokenizers.rows import RowTokeniser
from uwaga.tokenizers.subwords import TrainingSubwords
from uwaga.tokenizers.tokeniser import Tokeniser

NAME = re.compile(r"step-[0-9]+\.safetensors")
PREFIX = "model."


def is_run_checkpoint(name: str | Path) -> bool:
    """Whether a name is that of a run's checkpoint, ``RUN/checkpoints/step-00001000.safetensors``."""
    return bool(NAME.fullmatch(Path(name).name))


def read_run_checkpoint(name: str | Path) -> Checkpoint:
    """The model in a checkpoint, with the settings and tokenisers of its run.

    Raises:
        ModelError: it is missing, or of a run that itself began from a model: parts of that lie elsewhere.
        SettingsError: the run's ``settings.yaml`` is missing or damaged.
    """
    path = Path(name)
    run = path.parent.parent
    if not path.is_file():
        raise ModelError(f"{path}: no such checkpoint; `ls {path.parent}` lists those that are kept")
    settings = load_settings(run / "settings.yaml")
    if settings.init is not None and settings.adapt.vocabulary == "keep":
        raise ModelError(
            f"{path}: of a run that began from {settings.init}, whose tokenisers are not in it; make a model "
            f"of it first: `uwaga average {run} FOLDER --last 1`"
        )
    sides = ("joint", "joint") if settings.text.joint else ("source", "target")
    source, target = (read_tokeniser(run / "text" / f"{side}.spm") for side in sides)
    target = source if settings.text.joint else target
    stored = open_tensors(path)
    names = [one.removeprefix(PREFIX) for one in stored if one.startswith(PREFIX)]
    weights = Weights(
        {one: stored[PREFIX + one].shape for one in names},
        Table({one: (View(PREFIX + one),) for one in names}),
        stored,
    )
    decoding, text = from_settings(settings.decoding)
    return Checkpoint(
        place=path,
        format=UWAGA.name,
        family=settings.model.family,
        settings=settings.model,
        symbols=target.symbols,
        source_vocabulary=source.size,
        target_vocabulary=target.size,
        vocabulary=(source.size, target.size),
        source=source,
        target=target,
        languages=Languages(source, target, settings.data.languages, where=str(path)),
        decoding=decoding,
        text=text,
        weights=weights,
    )


DROPOUTS = ("dropout", "attention_dropout", "activation_dropout", "variational")
"""Settings of a model that decide no weight, which a run may choose for itself."""


@dataclass(frozen=True)
class Base:
    """A model to start from.

    Attributes:
        name: as the settings have it.
        checkpoint: the model, for the languages of the run.
        sha256: checksum of its weights.
        source: its tokeniser of the source side, as training reads texts.
        target: of the target side.
        search: how the finished model translates unless told otherwise.
    """

    name: str
    checkpoint: Checkpoint
    sha256: str
    source: TrainingSubwords
    target: TrainingSubwords
    search: SearchOptions

    @property
    def own(self) -> bool:
        """Whether it is a folder of uwaga's."""
        return self.checkpoint.format == UWAGA.name


def open_base(settings: Settings) -> tuple[Settings, Base | None]:
    """Read the model named by ``init``, and fill in what the run takes from it.

    Model, languages and decoding of the settings become the model's; the dropouts of ``model`` are the run's
    own, and so are settings of ``decoding`` where the folder's format can say them.

    Returns:
        the whole settings, and the model; as they were and None where there is no ``init``.

    Raises:
        ModelError: there is no such model, or it is damaged.
        SettingsError: it cannot be trained, or a setting contradicts it; the message names the key.
    """
    if settings.init is None:
        if settings.adapt != AdaptSettings():
            raise SettingsError("adapt: there is nothing to adapt; name the model to start from with init")
        return settings, None
    checkpoint = _read(settings.init, keep=settings.adapt.vocabulary == "keep")
    languages = [None if one == no else one for one, no in zip(settings.data.languages, UNKNOWN, strict=True)]
    try:
        direction = checkpoint.languages.direction(*languages)
    except SettingsError as error:
        raise SettingsError(f"data.languages: {error}") from None
    if not isinstance(checkpoint.source, Tokeniser):  # whose corpora have tags of their own
        checkpoint = checkpoint.towards(direction)
    source, target = _sides(checkpoint)
    model = _model(settings, checkpoint)
    longest = settings.data.max_tokens
    if settings.adapt.vocabulary == "keep":
        _check_text(settings)
        longest = _longest(settings, checkpoint, (source, target))
    decoding, search = _decoding(settings, checkpoint)
    taken = {"languages": tuple(direction.languages), "max_tokens": longest}
    data = settings.data.model_copy(update=taken)
    assert checkpoint.weights is not None
    base = Base(settings.init, checkpoint, weights_checksum(checkpoint.weights), source, target, search)
    return settings.model_copy(update={"model": model, "data": data, "decoding": decoding}), base


def _read(name: str, keep: bool) -> Checkpoint:
    """The model, if it can be trained and written again."""
    try:
        checkpoint = read_run_checkpoint(name) if is_run_checkpoint(name) else formats.read(find_model(name))
    except ModelError as error:
        raise ModelError(f"init: {error}") from None
    if checkpoint.task != "translate":
        raise SettingsError(
            f"init: {checkpoint.place}: {KINDS[checkpoint.task][0]}, which does not translate"
        )
    if checkpoint.weights is None:
        raise SettingsError(
            f"init: {checkpoint.place}: an int8 model, whose rounded weights cannot be trained; name the "
            "model that it was made of, and convert again afterwards"
        )
    if keep and not can_rewrite(checkpoint):
        raise SettingsError(
            f"init: {checkpoint.place}: of the format {checkpoint.format}, which uwaga reads but does not "
            "write; make a folder of it first: `uwaga convert MODEL FOLDER --to marian`"
        )
    return checkpoint


def _sides(checkpoint: Checkpoint) -> tuple[TrainingSubwords, TrainingSubwords]:
    source, target = checkpoint.source, checkpoint.target
    if isinstance(source, Tokeniser) and isinstance(target, Tokeniser):
        return source, target
    first, name = checkpoint.decoding.first, str(checkpoint.place)
    return (
        RowTokeniser.of(source, checkpoint.source_vocabulary, "source", name=name),
        RowTokeniser.of(target, checkpoint.target_vocabulary, "target", first, name),
    )


def _model(settings: Settings, checkpoint: Checkpoint) -> Family:
    """The model's settings with the run's dropouts."""
    found, given = cast(Family, checkpoint.settings), settings.model
    if "model" not in settings.model_fields_set:
        return found
    # A preset's name stands for all that is in it; a group for what it names.
    group = "family" in given.model_fields_set
    stated = given.model_dump(include=given.model_fields_set if group else None)
    if stated.get("family", given.family) != found.family:
        stated = {"family": given.family}
    for name, value in stated.items():
        if name not in DROPOUTS and value != getattr(found, name):
            raise SettingsError(
                f"model.{name}: {value!r}, but the model named by init ({settings.init}) has "
                f"{getattr(found, name)!r}; leave it out"
            )
    drops = {name: stated[name] for name in DROPOUTS if name in stated and hasattr(found, name)}
    return found.model_copy(update=drops)


def _check_text(settings: Settings) -> None:
    """Subword settings are for a new vocabulary."""
    default = TextSettings()
    for name in TextSettings.model_fields:
        if getattr(settings.text, name) != getattr(default, name):
            raise SettingsError(
                f"text.{name}: the tokenisers are those of the model named by init ({settings.init}); leave "
                "text out, or say adapt.vocabulary: new"
            )


def _longest(
    settings: Settings, checkpoint: Checkpoint, sides: tuple[TrainingSubwords, TrainingSubwords]
) -> int:
    """``data.max_tokens``: what is stated, which must fit the positions, or as many as there are at most."""
    found, stated = checkpoint.settings, settings.data.max_tokens
    if getattr(found, "positions", "") == "relative":
        return stated
    most = found.max_length - max(side.added if isinstance(side, RowTokeniser) else 1 for side in sides)
    if stated <= found.max_length - 1:
        return stated
    if "max_tokens" in settings.data.model_fields_set or most < 1:
        raise SettingsError(
            f"data.max_tokens: {stated}, but the model named by init takes {found.max_length} tokens with "
            f"its special ones; lower it to {max(1, most)}"
        )
    return most


def _decoding(settings: Settings, checkpoint: Checkpoint) -> tuple[DecodingSettings, SearchOptions]:
    """The group ``decoding`` of the finished model, and how the run searches."""
    given = settings.decoding
    asked = (
        given.model_dump(include=given.model_fields_set) if settings.decoding != DecodingSettings() else {}
    )
    stated = decoding_settings(checkpoint.decoding, checkpoint.text)
    if checkpoint.format == UWAGA.name or settings.adapt.vocabulary == "new":
        made = (stated or DecodingSettings()).model_copy(update=asked)
        DecodingSettings.model_validate(made.model_dump())
        return made, from_settings(made)[0]
    if asked:
        raise SettingsError(
            f"decoding.{next(iter(asked))}: the finished model keeps the generation_config.json of the model "
            f"named by init ({settings.init}); leave decoding out, and say it when translating"
        )
    return given, replace(checkpoint.decoding, nbest=1, sample=False, temperature=1.0, top_k=0, top_p=1.0)
