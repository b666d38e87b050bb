"""From what a user asks for to a job: its models, its input, and the record of what bears on the result."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from uwaga import __version__
from uwaga.checkpoints import registry as formats
from uwaga.errors import DataError, ModelError, SettingsError
from uwaga.jobs.corpora.backtranslation import Backtranslation, check_tag
from uwaga.jobs.corpora.distillation import Choose, Distillation, check_choice
from uwaga.jobs.corpora.in_batches import Way
from uwaga.jobs.corpora.job import Job, Worker
from uwaga.jobs.corpora.lines import InputIdentity, JobInput, corpus_input, text_input
from uwaga.jobs.corpora.manifest import Manifest, Setting, StoredInput, StoredModel, model_identity
from uwaga.library.hub import find_model
from uwaga.search import SearchOptions, SearchOverrides
from uwaga.search.mbr import Utility
from uwaga.translator.loading import NO_SHORTLIST, LoadOptions
from uwaga.translator.segmentation import Split
from uwaga.translator.translator import Translator


@dataclass(frozen=True)
class JobModels:
    """The models of a job and how they translate.

    Attributes:
        names: as :meth:`uwaga.translator.Translator.load` has them.
        load: how to load each.
        search: what is asked of the search; None is as the models' own settings say.
        split: when a line is translated sentence by sentence.
        batch_tokens: source tokens translated together; no result depends on it.
        pool: several models search apart and put what they find together, instead of being an ensemble.
    """

    names: tuple[str, ...]
    load: LoadOptions
    search: SearchOverrides
    split: Split = "auto"
    batch_tokens: int | None = None
    pool: bool = False

    def stored(self) -> tuple[StoredModel, ...]:
        """Each model by the sum of its files.

        Raises:
            ModelError: there is no such model, or it cannot be read.
        """
        return tuple(StoredModel(name=name, sha256=model_identity(find_model(name))) for name in self.names)

    def settings(self) -> dict[str, Setting]:
        """What bears on the result; not threads, memory and batches."""
        shortlist = self.load.shortlist
        asked = {name: value for name, value in self.search.items() if isinstance(value, Setting)}
        return {
            **asked,
            "split": self.split,
            "pool": self.pool,
            "from": self.load.source_language,
            "to": self.load.target_language,
            "precision": self.load.dtype,
            "engine": self.load.engine,
            "device": self.load.device,
            "shortlist": file_sum(shortlist),
        }

    def ways(self, change: Callable[[SearchOptions], SearchOptions]) -> list[Way]:
        """The models, loaded; ``change`` makes of a model's options, with what is asked, those of the job.

        Raises:
            ModelError, SettingsError, MissingExtraError: as :meth:`uwaga.translator.Translator.load`.
        """
        groups = [[name] for name in self.names] if self.pool else [list(self.names)]
        ways = []
        for names in groups:
            try:
                translator = Translator.load(names, *self.load)
            except SettingsError as error:
                if len(names) > 1 and "must share their vocabularies" in str(error):
                    raise SettingsError(f"{error}, or search apart: add --pool") from None
                raise
            asked: SearchOverrides = {**self.search, "batch_tokens": self.batch_tokens}
            ways.append(Way(translator, change(translator.options(**asked)), self.split))
        return ways


class Choosing(NamedTuple):
    """How a target is chosen: see :class:`Distillation`.

    ``utility`` None is ``bleu``, with ``mbr`` ``chrf``. ``nbest`` are the candidates of each teacher; with
    ``model`` only its first is looked for.
    """

    choose: Choose = "reference"
    utility: Utility | None = None
    nbest: int = 8


def distil_job(
    folder: Path,
    models: JobModels,
    corpus: Path,
    reference: Path | None = None,
    how: Choosing | None = None,
    shard_size: int = 10_000,
) -> Job:
    """A job that gives sources a teacher's targets.

    Args:
        folder: for the shards.
        models: the teachers.
        corpus: as :func:`uwaga.jobs.corpora.lines.corpus_input` has it.
        reference: likewise.
        how: the target is chosen.
        shard_size: lines of a shard.

    Raises:
        DataError: the input cannot be read, or it has no references to choose by.
        ModelError: there is no such model.
        SettingsError: a pool is asked for its own best.
    """
    choose, utility, nbest = how or Choosing()
    check_choice(choose, len(models.names) if models.pool else 1)
    like = utility or ("chrf" if choose == "mbr" else "bleu")
    stored = models.stored()
    source = corpus_input(corpus, reference, _endings(models))
    read = source.identify()
    if choose == "reference" and not read.referenced:
        raise DataError(
            f"{' + '.join(source.files)}: no references to choose by; give a TSV of source and "
            "reference, or --reference FILE, or choose another way: --choose mbr or --choose model"
        )
    count = 1 if choose == "model" else nbest
    own: dict[str, Setting] = {"choose": choose, "utility": like, "nbest": count}

    def widened(options: SearchOptions) -> SearchOptions:
        beam = options.beam if options.sample else max(options.beam, count)
        return replace(options, nbest=count, beam=beam)

    def load() -> Worker:
        return Distillation(models.ways(widened), choose, like)

    settings = {**own, **models.settings()}
    manifest = _manifest("distil", settings, stored, source, read, shard_size)
    return Job(folder, source, manifest, load)


def backtranslate_job(
    folder: Path,
    models: JobModels,
    text: Sequence[Path],
    *,
    column: int = 0,
    tag: str = "",
    shard_size: int = 10_000,
) -> Job:
    """A job that gives text of the target language sources.

    Args:
        folder: for the shards.
        models: of the other direction.
        text: as :func:`uwaga.jobs.corpora.lines.text_input` has it.
        column: likewise.
        tag: what every source begins with.
        shard_size: lines of a shard.

    Raises:
        DataError: the text cannot be read.
        ModelError: there is no such model.
        SettingsError: the tag is more than a word, or no such column can be.
    """
    check_tag(tag)
    stored = models.stored()
    source = text_input(text, column)
    read = source.identify()

    def load() -> Worker:
        [way] = models.ways(lambda options: replace(options, nbest=1))
        return Backtranslation(way, tag)

    own: dict[str, Setting] = {"tag": tag, "column": column}
    manifest = _manifest("backtranslate", {**own, **models.settings()}, stored, source, read, shard_size)
    return Job(folder, source, manifest, load)


def _manifest(
    kind: Literal["distil", "backtranslate"],
    settings: dict[str, Setting],
    models: tuple[StoredModel, ...],
    source: JobInput,
    read: InputIdentity,
    shard_size: int,
) -> Manifest:
    stored = StoredInput(files=source.files, lines=read.lines, sha256=read.sha256)
    for name, value in settings.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise SettingsError(f"{name} must be a finite number, not {value}")
    return Manifest(
        uwaga=__version__, kind=kind, settings=settings, models=models, input=stored, shard_size=shard_size
    )


def _endings(models: JobModels) -> tuple[str, str]:
    """The endings of a Moses corpus's files: the languages that are asked for, or the first model's own."""
    stated = formats.describe(find_model(models.names[0])).languages
    codes = [
        asked or (known[0] if len(known) == 1 else "")
        for asked, known in zip(
            (models.load.source_language, models.load.target_language), stated or ((), ()), strict=True
        )
    ]
    return codes[0] or "src", codes[1] or "tgt"


def file_sum(path: str | Path | None) -> str | None:
    """The SHA-256 of a file's content; a word that is no file stands for itself.

    Raises:
        ModelError: it cannot be read.
    """
    if path is None or str(path) == NO_SHORTLIST:
        return None if path is None else str(path)
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None
