"""Estimates of the duration of a run on this machine, from updates measured for up to a minute."""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from uwaga.data.batches import Batch
from uwaga.data.corpus import read_corpus
from uwaga.data.sources import find_sources
from uwaga.decoder import Symbols
from uwaga.errors import DataError, SettingsError
from uwaga.models.base import Seq2Seq
from uwaga.models.build import build_model, check_model
from uwaga.search import SearchInput, SearchOptions, options_from_settings, search
from uwaga.settings import CorpusSettings, Settings
from uwaga.tokenizers.subwords import TrainingSubwords
from uwaga.training.base_model import BaseCheckpoint, open_base
from uwaga.training.corpus import prepare_corpora
from uwaga.training.initial_model import make_initial_model
from uwaga.training.optimiser import make_optimiser
from uwaga.training.process import prepare_process
from uwaga.training.step import Updater
from uwaga.training.validation import mean_loss, validation_decoder

MAX_SECONDS = 60.0
"""Maximum number of seconds in which updates are measured; only the last update may exceed it."""
_SAMPLE_PAIRS = 10_000  # number of pairs of the corpus that are used
_RANDOM_LENGTH = 25  # number of tokens in a random sentence, about that of a sentence in news
_MIN_UPDATES, _MAX_ERROR = (5, 0.02)  # minimum number of updates, and maximum relative error of their mean
_MIN_PIECES = 64  # minimum size of the vocabulary of a small corpus
_DECODED_SENTENCES = 100  # number of sentences translated to estimate the time of validations


@dataclass(frozen=True)
class TimeEstimate:
    """An estimate of the duration of a run.

    Attributes:
        seconds: total duration in seconds.
        validation: the part of these seconds that is spent on validations.
        rate: target tokens per second in the measured updates.
        updates: number of measured updates.
        real: whether the measured updates used the corpus of the run rather than random sentences.
        device: description of the device.
    """

    seconds: float
    validation: float
    rate: float
    updates: int
    real: bool
    device: str

    def __str__(self) -> str:
        description = "of your corpus" if self.real else f"of random sentences of {_RANDOM_LENGTH} tokens"
        return (
            f"about {_format_duration(self.seconds)} on this machine ({self.device}), "
            f"of which {_format_duration(self.validation)} for validations: "
            f"{self.rate:,.0f} target tokens/s in {self.updates} updates {description}"
        )


def estimate_time(settings: Settings, seconds: float = MAX_SECONDS) -> TimeEstimate:
    """Estimate the duration of a run from updates measured for at most ``seconds`` seconds.

    The updates use the first pairs of the corpus, or random sentences if there is no corpus. No files are
    left behind.
    """
    settings, base = open_base(settings)
    check_model(settings.model)
    device = prepare_process(settings)
    tokenisers = None if base is None else (base.source, base.target)
    try:
        model = _make_model(settings, base).to(device)
    except RuntimeError as error:
        raise SettingsError(f"training.device: {settings.training.device}: {error}") from None
    updater = Updater(model.train(), make_optimiser(model, settings.training), settings.training)
    real = _corpus_exists(settings)
    size = settings.text.size if tokenisers is None else min(side.size for side in tokenisers)
    durations: list[float] = []
    tokens: list[int] = []
    sentences = 0
    with tempfile.TemporaryDirectory() as folder:
        batches = (
            _sample_batches(settings, Path(folder), tokenisers) if real else _random_batches(settings, size)
        )
        start = time.perf_counter()
        try:
            while True:
                group = list(islice(batches, settings.training.accumulate))
                update_start = time.perf_counter()
                updater.update(group, len(durations) + 1)
                update_end = time.perf_counter()
                durations.append(update_end - update_start)
                tokens.append(sum(batch.tokens for batch in group))
                sentences += sum(len(batch.pairs) for batch in group)
                if update_end - start >= seconds or _is_steady(durations[1:]):
                    break
        finally:
            updater.close()
    first_index = int(len(durations) > 1)  # the first update allocates memory and selects kernels
    measured_durations = durations[first_index:]
    name = "GPU" if device.type == "cuda" else f"{updater.workers} CPU cores"
    training_seconds = statistics.fmean(measured_durations) * settings.training.steps
    options = options_from_settings(settings.decoding)[0] if base is None else base.search
    validation = _measure_validations(settings, model, options, group[0], sum(tokens) / sentences)
    return TimeEstimate(
        training_seconds + validation,
        validation,
        sum(tokens[first_index:]) / sum(measured_durations),
        len(measured_durations),
        real,
        name,
    )


def _make_model(settings: Settings, base: BaseCheckpoint | None) -> Seq2Seq:
    """Return the model of the run; a base model keeps its vocabulary even if the run will replace it."""
    if base is not None:
        adapt = settings.adapt.model_copy(update={"vocabulary": "keep"})
        return make_initial_model(
            settings.model_copy(update={"adapt": adapt}), base, base.source, base.target
        )
    symbols = Symbols(start=2, end=3, pad=0, unknown=1)
    torch.manual_seed(settings.training.seed)
    return build_model(settings.model, symbols, settings.text.size, settings.text.size)


def _measure_validations(
    settings: Settings, model: Seq2Seq, options: SearchOptions, batch: Batch, length: float
) -> float:
    """Measure a batch, and return the estimated number of seconds that all validations of a run take.

    ``length`` is the average number of tokens in a sentence. Translations are as long as the longest target
    of the batch, because an untrained model does not end them.
    """
    training, data = settings.training, settings.data
    model.eval()
    max_length = max(batch.target_in.shape[1], options.min_length)
    options = options.changed({"beam": training.validation_beam, "max_length": max_length})
    rows = zip(
        batch.source[:_DECODED_SENTENCES].tolist(), batch.source_lengths[:_DECODED_SENTENCES], strict=True
    )
    sentences = [SearchInput(row[:length]) for row, length in rows]
    start = time.perf_counter()
    mean_loss(model, [batch], training.precision)
    score_end = time.perf_counter()
    if training.validation_sentences:
        search(validation_decoder(model), sentences, options)
    end = time.perf_counter()
    per_pair = (score_end - start) * length / batch.tokens
    per_translation = (end - score_end) * length / int(batch.target_lengths[: len(sentences)].sum())
    seconds = 0.0
    for corpora in (data.dev, *data.also.values()):
        pairs = _count_pairs(data.resolve(corpora)) or training.validation_sentences
        seconds += per_pair * pairs + per_translation * min(pairs, training.validation_sentences)
    validation_count = math.ceil(training.steps / training.validate_every) + 1 + bool(training.average)
    return validation_count * seconds


def _count_pairs(corpora: list[CorpusSettings]) -> int:
    """Return the number of pairs in a dev set; 0 if it cannot be read yet."""
    try:
        return sum(1 for corpus in corpora for _ in read_corpus(corpus))
    except DataError:
        return 0


def _corpus_exists(settings: Settings) -> bool:
    try:
        return all(find_sources(corpus).files for corpus in settings.data.resolved("train"))
    except DataError:
        return False


def _is_steady(durations: list[float]) -> bool:
    if len(durations) < _MIN_UPDATES:
        return False
    error = statistics.stdev(durations) / math.sqrt(len(durations))
    return error < _MAX_ERROR * statistics.fmean(durations)


def _random_batches(settings: Settings, size: int) -> Iterator[Batch]:
    rng = np.random.default_rng(settings.training.seed)
    length = min(
        _RANDOM_LENGTH, settings.model.max_length, settings.data.max_tokens, settings.training.batch_tokens
    )
    sentences = max(1, settings.training.batch_tokens // length)
    lengths = np.full(sentences, length, dtype=np.int64)
    while True:
        source, target = rng.integers(min(4, size - 1), size, (2, sentences, length))  # (sentences, tokens)
        shifted_target = np.concatenate([np.full((sentences, 1), 2), target[:, :-1]], axis=1)
        yield Batch(source, lengths, shifted_target, target, lengths, np.arange(sentences))


def _sample_batches(
    settings: Settings, folder: Path, tokenisers: tuple[TrainingSubwords, TrainingSubwords] | None
) -> Iterator[Batch]:
    """Yield batches of the first pairs of the corpus; without ``tokenisers``, train some on these pairs."""
    path = folder / "sample.tsv"
    with path.open("w", encoding="utf-8") as file:
        corpora = settings.data.resolved("train")
        for corpus in corpora:
            for pair in islice(read_corpus(corpus), max(1, _SAMPLE_PAIRS // len(corpora))):
                source, target = (text.replace("\t", " ") for text in (pair.source, pair.references[0]))
                file.write(f"{source}\t{target}\n")
    pairs = [CorpusSettings(files=(str(path),))]
    changes: dict[str, object] = {"train": pairs, "dev": pairs, "also": {}, "temperature": None}
    data = settings.data.model_copy(update=changes)
    size = settings.text.size
    while True:
        text = settings.text.model_copy(update={"size": size})
        sample = settings.model_copy(update={"run": folder / str(size), "data": data, "text": text})
        try:
            prepared_corpora = prepare_corpora(sample, lambda line: None, tokenisers)
            break
        except SettingsError:  # too few pairs for a vocabulary of this size
            if size <= _MIN_PIECES or tokenisers is not None:
                raise
            size = max(_MIN_PIECES, size // 2)
        except DataError as error:
            raise DataError(f"{settings.data.train[0].files[0]}: {error}") from None
    epoch = 0
    while True:
        for index in range(prepared_corpora.train.count(epoch)):
            yield prepared_corpora.train.batch(epoch, index)
        epoch += 1


def _format_duration(seconds: float) -> str:
    minutes = max(1, round(seconds / 60))
    if minutes < 100:
        return f"{minutes} min"
    hours = minutes / 60
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} days"
