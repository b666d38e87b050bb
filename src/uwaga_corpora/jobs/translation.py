"""Translation of texts by the workers of a job, and the fingerprint that they must share."""

from __future__ import annotations

import hashlib
import math
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from uwaga import __version__, errors
from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.formats.uwaga.names import ADAPTER
from uwaga.errors import ModelError, SettingsError, UwagaError
from uwaga.results.translation import Translation
from uwaga.search import SearchOptions, SearchOverrides
from uwaga.settings.load_options import NO_SHORTLIST, LoadOptions
from uwaga.translator.choose_models import ChosenModels, choose_for
from uwaga.translator.memories import STORES, TextContext, open_memory
from uwaga.translator.request import Request
from uwaga.translator.translator import Translator
from uwaga_corpora.jobs.distillation import TargetChoice, choose_target

WINDOW, WINDOW_CHARACTERS = 2048, 1 << 19
"""Maximum number of candidates in memory at once, and maximum number of characters of their sources."""

REQUEST_FIELDS = ("split", "glossary", "glossary_mode", "memory", "threshold")
"""The fields of a request that jobs set."""
Scalar = str | int | float | bool | None
Setting = Scalar | tuple[str, ...]


class Task(NamedTuple):
    """The texts of a block.

    Attributes:
        number: the number of the block.
        unit: the word for a row in messages, such as ``line``.
        rows: (texts,) the row number of each text, for messages.
        texts: (texts,) the texts to translate.
        references: (texts,) the reference translations of each text, for distillation.
        keys: (texts,) the keys of the texts in a translation memory; empty without keys.
    """

    number: int
    unit: str
    rows: list[int]
    texts: list[str]
    references: list[list[str]]
    keys: Sequence[str] = ()

    def request(self, request: Request, index: int) -> Request:
        """Return a request for a text."""
        context = TextContext(self.keys[index]) if self.keys else None
        name = f"{self.unit} {self.rows[index]}"
        return replace(request, text=self.texts[index], name=name, context=context)


class TranslatedText(NamedTuple):
    """The translation of a text.

    Attributes:
        text: the translation; None if it failed.
        score: the score of the translation; None if there was nothing to translate.
        alignment: the word alignment in Moses format; None if there is none.
        error: the reason why the translation failed; None if it succeeded.
        truncated: whether the translation reached a length limit.
        memory: similarity in percent of the memory's pair that was used; the lowest similarity if several
            pairs were used, or None if none was used.
    """

    text: str | None
    score: float | None = None
    alignment: str | None = None
    error: str | None = None
    truncated: bool = False
    memory: float | None = None


@dataclass(frozen=True)
class TranslationSpec:
    """The models and options of a job, in a form that can be sent between processes.

    Attributes:
        models: names as :meth:`uwaga.translator.Translator.load` accepts them; empty for the bundled model,
            the base model of an adapter, or the installed models between the two languages.
        load: how to load each model.
        search: search options; None for the model's defaults.
        batch_tokens: source tokens per batch; no result depends on it.
        alignment: whether to align words.
        via: codes of the languages between source and target.
        choice: for distillation, how the target is chosen from several candidates.
        request: the fields of a request in :data:`REQUEST_FIELDS`; glossary and memory are files.
    """

    models: tuple[str, ...] = ()
    load: LoadOptions = field(default_factory=LoadOptions)
    search: SearchOverrides = field(default_factory=SearchOverrides)
    batch_tokens: int | None = None
    alignment: bool = False
    via: tuple[str, ...] = ()
    choice: TargetChoice | None = None
    request: Request = field(default_factory=lambda: Request(""))

    @property
    def glossary(self) -> str | None:
        """Path of the glossary file, or None if no glossary is used."""
        return None if self.request.glossary is None else str(self.request.glossary)

    @property
    def memory(self) -> str | None:
        """Path of the translation memory, or None if no memory is used."""
        return None if self.request.memory is None else str(self.request.memory)

    def to_dict(self) -> dict[str, Any]:
        """Return the specification as JSON values."""
        load = asdict(self.load)
        load |= {name: str(value) for name, value in load.items() if isinstance(value, Path)}
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        request = {name: getattr(self.request, name) for name in REQUEST_FIELDS}
        request |= {"glossary": self.glossary, "memory": self.memory}
        choice = self.choice and asdict(self.choice)
        return {**values, "load": load, "choice": choice, "request": request}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TranslationSpec:
        """Create a specification from the values of :meth:`to_dict`."""
        sequences = {name: tuple(values[name]) for name in ("models", "via")}
        choice = values["choice"] and TargetChoice(**values["choice"])
        load, request = LoadOptions(**values["load"]), Request("", **values["request"])
        return cls(**{**values, **sequences, "load": load, "choice": choice, "request": request})

    def with_threads(self, threads: int) -> TranslationSpec:
        """Return the specification with another number of threads, which affects no result."""
        return replace(self, load=replace(self.load, threads=threads))

    def settings(self) -> dict[str, Setting]:
        """Return the options that affect the result; files are represented by their SHA-256.

        Raises:
            ModelError: a file cannot be read.
            SettingsError: a number is infinite or not a number.
        """
        search = {name: value for name, value in self.search.items() if isinstance(value, Scalar)}
        values: dict[str, Setting] = {
            **({} if self.choice is None else asdict(self.choice)),
            **search,
            "split": self.request.split,
            "from": self.load.source,
            "to": self.load.target,
            "via": self.via,
            "precision": self.load.dtype,
            "engine": self.load.engine,
            "device": self.load.device,
            **self.file_hashes(),
            "glossary_mode": None if self.glossary is None else self.request.glossary_mode,
            "threshold": None if self.memory is None else self.request.threshold,
        }
        for name, value in values.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise SettingsError(f"{name} must be a finite number, not {value}")
        return values

    def file_hashes(self) -> dict[str, str | None]:
        """Return the SHA-256 of each file that affects the result, except for the models.

        The value for a file that is not used is None.

        Raises:
            DataError, MissingExtraError: as in :func:`uwaga.translator.memories.open_memory`.
            ModelError: a file cannot be read.
        """
        adapter = self.load.adapter
        return {
            "adapter": None
            if adapter is None
            else file_sha256(Path(adapter) / ADAPTER),  # contains the SHA-256 of the weights
            "shortlist": file_sha256(self.load.shortlist),
            "glossary": file_sha256(self.glossary),
            "memory": memory_sha256(self.memory),
        }

    def select_models(self) -> ChosenModels:
        """Return the named models, or the models that are selected by the two languages.

        Raises:
            ModelError, SettingsError: as in :func:`uwaga.translator.choose_models.choose_for`.
        """
        return choose_for(self.models, self.load, self.via or None)

    def translators(self) -> list[tuple[Translator, Request]]:
        """Load the models: one translator, or for a pool of teachers one translator each.

        Returns:
            the translators, each with a request that has all fields except the text.

        Raises:
            ModelError, SettingsError, DataError, MissingExtraError: as in
                :meth:`uwaga.translator.Translator.load` and ``prepare``.
        """
        is_pooled = self.choice is not None and self.choice.pool
        groups = [(name,) for name in self.models] if is_pooled else [self.models]
        return [replace(self, models=names)._translator() for names in groups]

    def _translator(self) -> tuple[Translator, Request]:
        try:
            translator = self.select_models().load(self.load)
        except SettingsError as error:
            if self.choice is not None and "must share their vocabularies" in str(error):
                raise SettingsError(f"{error}, or add --pool to search with each model alone") from None
            raise
        search: SearchOverrides = {**self.search, "nbest": 1, "alignment": self.alignment}
        search["batch_tokens"] = self.batch_tokens
        request = replace(
            self.request,
            search=search
            if self.choice is None
            else self.choice.search_options(translator.options(**search)),
            on_error="return",
        )
        return translator, translator.prepare(request)


class WorkerFingerprint(NamedTuple):
    """A worker's version of uwaga, and the SHA-256 of its models and files.

    These must be equal for all workers of a job; only ``location``, which is for messages, may differ.
    """

    uwaga: str
    models: tuple[str, ...]
    files: dict[str, str | None]
    location: str

    @classmethod
    def from_values(cls, values: Sequence[Any]) -> WorkerFingerprint:
        """Create a fingerprint from its values as sent between processes."""
        version, models, files, location = values
        return cls(version, tuple(models), dict(files), location)

    def check(self, other: WorkerFingerprint) -> None:
        """Check that another worker would translate identically.

        Raises:
            ModelError: the other worker's version of uwaga, models or files differ; the message says where
                that worker runs.
        """
        if other.uwaga != self.uwaga:
            raise ModelError(
                f"{other.location} has uwaga {other.uwaga}, but {self.location} has {self.uwaga}: install "
                "the same version on all nodes"
            )
        if len(other.models) != len(self.models):
            raise ModelError(
                f"{other.location} selects a chain of {len(other.models)} models for these languages, but "
                f"{self.location} one of {len(self.models)}: install the same models on all nodes"
            )
        hashes = [("model", *pair) for pair in zip(self.models, other.models, strict=True)]
        hashes += [(label, sha or "", other.files.get(label) or "") for label, sha in self.files.items()]
        for label, expected, actual in hashes:
            if expected != actual:
                raise ModelError(
                    f"{other.location} has a different {label} under this name (SHA-256 {actual[:12]}, but "
                    f"{expected[:12]} on {self.location}): copy the same file to all nodes"
                )


def worker_fingerprint(spec: TranslationSpec) -> WorkerFingerprint:
    """Return the fingerprint of this process.

    Raises:
        ModelError: there is no such model.
    """
    models = tuple(model_sha256(path) for _, path in spec.select_models().locations())
    location = f"{socket.gethostname()} (process {os.getpid()})"
    return WorkerFingerprint(__version__, models, spec.file_hashes(), location)


class WorkerLostError(Exception):
    """A worker ended unexpectedly: its process was killed or its node failed.

    ``ready`` is True if the worker had loaded its models.
    """

    def __init__(self, message: str, ready: bool = False) -> None:
        super().__init__(message)
        self.ready = ready


class TaskTranslator:
    """The loaded models of a specification.

    Raises:
        ModelError, SettingsError, DataError, MissingExtraError: as in :meth:`TranslationSpec.translators`.
    """

    def __init__(self, spec: TranslationSpec) -> None:
        self._spec = spec
        self._translators = spec.translators()

    def translate(
        self, task: Task, on_texts: Callable[[int], None] = lambda count: None
    ) -> list[TranslatedText]:
        """Translate the texts of a task; a failed text does not affect the other texts.

        Args:
            task: the texts.
            on_texts: called with the number of texts translated since the last call.

        Returns:
            (texts,) the translations.
        """
        order = sorted(range(len(task.texts)), key=lambda index: -len(task.texts[index]))
        limit = max(1, WINDOW // (self._spec.choice.nbest if self._spec.choice else 1))
        translated_texts: dict[int, TranslatedText] = {}
        for window in windows(order, [len(task.texts[index]) for index in order], limit):
            results = [
                translator.run(
                    [task.request(request, index) for index in window],
                    window=len(window),
                )
                for translator, request in self._translators
            ]
            for index, *translations in zip(window, *results, strict=True):
                translated_texts[index] = self._result(task, index, translations)
            on_texts(len(window))
        return [translated_texts[index] for index in range(len(task.texts))]

    def _result(self, task: Task, index: int, translations: Sequence[Translation]) -> TranslatedText:
        if self._spec.choice is None:
            [translation] = translations
        else:
            search = self._translators[0][1].search
            is_sampled = isinstance(search, SearchOptions) and search.sample
            translation = choose_target(self._spec.choice, translations, task.references[index], is_sampled)
        if translation.error is not None:
            return TranslatedText(None, error=str(translation.error))
        links = None if translation.alignment is None else str(translation.alignment)
        memory = min((use.score for use in translation.memory), default=None)
        return TranslatedText(
            translation.text, translation.score, links, truncated=translation.truncated, memory=memory
        )


def windows(texts: Sequence[int], sizes: Sequence[int], limit: int) -> Iterator[Sequence[int]]:
    """Yield consecutive texts in windows of at most ``limit`` texts and :data:`WINDOW_CHARACTERS` characters.

    A longer text has a window to itself.

    Args:
        texts: the texts, or their indices.
        sizes: (texts,) the number of characters of each text.
        limit: maximum number of texts in a window.
    """
    start = total = 0
    for index, size in enumerate(sizes):
        total += size
        if index > start and (index - start >= limit or total > WINDOW_CHARACTERS):
            yield texts[start:index]
            start, total = index, size
    if texts:
        yield texts[start:]


def pack_error(error: UwagaError) -> list[str]:
    """Return the type and message of an error, as JSON values."""
    return [type(error).__name__, str(error)]


def unpack_error(packed: Sequence[str]) -> UwagaError:
    """Return the error that :func:`pack_error` converted to JSON values."""
    kind = getattr(errors, packed[0], None)
    if isinstance(kind, type) and issubclass(kind, UwagaError):
        return kind(packed[1])
    return UwagaError(packed[1])


def file_sha256(path: str | Path | None) -> str | None:
    """Return the SHA-256 of a file; None and :data:`NO_SHORTLIST` are returned unchanged.

    Raises:
        ModelError: the file cannot be read.
    """
    if path is None or str(path) == NO_SHORTLIST:
        return None if path is None else str(path)
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None


def memory_sha256(path: str | None) -> str | None:
    """Return the SHA-256 of the pairs of a translation memory, or of a file of translations.

    Raises:
        DataError, MissingExtraError: as in :func:`uwaga.translator.memories.open_memory`.
        ModelError: the file of translations cannot be read.
    """
    if path is None:
        return None
    if "sqlite" not in STORES:
        open_memory(path)  # says what is missing
    from uwaga_memory.files import format_by_name
    from uwaga_memory.store import Memory

    if format_by_name(Path(path)) is not None:
        return file_sha256(path)
    with Memory(path) as memory:
        return memory.digest()


def model_sha256(location: Path) -> str:
    """Return the SHA-256 of a model: of its file, or of the names and contents of the files in its folder.

    Args:
        location: as :func:`uwaga.library.hub.find_model` returns it.

    Raises:
        ModelError: a file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        for path in _model_files(location):
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{path.name if path != location else ''}\0{content}\n".encode())
    except OSError as error:
        raise ModelError(f"{error.filename}: cannot be read: {error.strerror}") from None
    return digest.hexdigest()


def _model_files(location: Path) -> list[Path]:
    """Return the files of a model's folder that a format of the registry reads, or all if none are read."""
    if location.is_file():
        return [location]
    files = formats.files()
    patterns = (*files.auxiliary, *files.weights, *files.fallback_weights)
    paths = {
        path
        for pattern in patterns
        for path in location.glob(pattern)
        if path.is_file() and path.suffix != ".md"  # a card describes the model and changes nothing
    }
    return sorted(paths or {path for path in location.iterdir() if path.is_file()})
