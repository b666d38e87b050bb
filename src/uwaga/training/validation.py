"""Validation on a dev set: loss of the references, metrics of translations, and sample translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from uwaga.checkpoints.score_stats import ScoreStats, summarise_scores
from uwaga.data.batches import Batch
from uwaga.data.corpus import Pair
from uwaga.engine import NativeModel, pack
from uwaga.engine.layout import unsupported_reason
from uwaga.errors import ModelError
from uwaga.evaluation import MetricScore, evaluate
from uwaga.models.adapters import adapted_layers
from uwaga.models.base import Seq2Seq
from uwaga.models.decoder_only import DecoderOnly
from uwaga.models.recurrent import Recurrent
from uwaga.models.transformer import Transformer
from uwaga.search import SearchInput, SearchOptions, search
from uwaga.settings import TrainingSettings
from uwaga.tokenizers.subwords import TrainingSubwords
from uwaga.training.step import batch_loss

SAMPLE_COUNT = 5
LENGTH_BOUNDS = (5, 10, 20, 40)
"""Maximum number of source words in each length group except the last, which has no maximum."""


@dataclass(frozen=True)
class Sample:
    """A dev sentence, its current translation, and its first reference."""

    source: str
    translation: str
    reference: str


@dataclass(frozen=True)
class LengthScore:
    """BLEU of the sentences with ``min_words`` to ``max_words`` source words; None stands for no limit."""

    min_words: int
    max_words: int | None
    sentences: int
    bleu: float


def choose_samples(pairs: Sequence[Pair], texts: Sequence[str]) -> tuple[Sample, ...]:
    """Return at most :data:`SAMPLE_COUNT` samples, for evenly spaced sentences.

    The sentences are the same in each validation; ``texts`` are the translations of ``pairs``.
    """
    count = min(SAMPLE_COUNT, len(pairs))
    indices = [index * len(pairs) // count for index in range(count)]
    return tuple(Sample(pairs[index].source, texts[index], pairs[index].references[0]) for index in indices)


def scores_by_length(pairs: Sequence[Pair], texts: Sequence[str], tokenize: str) -> tuple[LengthScore, ...]:
    """Return BLEU for each group of source lengths; empty groups are omitted."""
    scores = []
    for minimum, maximum in zip(
        (1, *(bound + 1 for bound in LENGTH_BOUNDS)), (*LENGTH_BOUNDS, None), strict=True
    ):
        group = [
            (text, pair.references)
            for pair, text in zip(pairs, texts, strict=True)
            if max(1, len(pair.source.split())) >= minimum
            and (maximum is None or max(1, len(pair.source.split())) <= maximum)
        ]
        if group:
            report = evaluate(
                [text for text, _ in group],
                [references for _, references in group],
                ("bleu",),
                tokenize=tokenize,
            )
            scores.append(LengthScore(minimum, maximum, len(group), report["bleu"].value))
    return tuple(scores)


def samples_record(samples: Sequence[Sample], lengths: Sequence[LengthScore]) -> dict[str, Any]:
    """Return samples and scores by length as a dict of JSON values."""
    return {
        "samples": [
            {"source": entry.source, "translation": entry.translation, "reference": entry.reference}
            for entry in samples
        ],
        "by_length": [
            {
                "least": entry.min_words,
                "most": entry.max_words,
                "sentences": entry.sentences,
                "bleu": entry.bleu,
            }
            for entry in lengths
        ],
    }


@dataclass(frozen=True)
class Validation:
    """The result of a validation.

    Attributes:
        loss: mean negative log-likelihood per target token, in nats.
        bleu: BLEU of the translations; None if no sentence was translated.
        chrf: chrF of the translations; None if no sentence was translated.
        score_stats: distribution of the model's scores of the translations.
        samples: some of the translations.
        by_length: BLEU by source length.
    """

    loss: float
    bleu: MetricScore | None = None
    chrf: MetricScore | None = None
    score_stats: ScoreStats | None = None
    samples: tuple[Sample, ...] = ()
    by_length: tuple[LengthScore, ...] = ()

    @property
    def main_score(self) -> float:
        """BLEU, or the mean log-probability of a target token if no sentence was translated."""
        return -self.loss if self.bleu is None else self.bleu.value

    def score(self, metric: str) -> float:
        """Return the value of a metric; the loss is negated, so that higher is better."""
        if metric == "loss":
            return -self.loss
        metric_score = self.bleu if metric == "bleu" else self.chrf
        return float("-inf") if metric_score is None else metric_score.value


def validate(
    model: Seq2Seq,
    batches: Sequence[Batch],
    pairs: Sequence[Pair],
    source: TrainingSubwords,
    target: TrainingSubwords,
    training: TrainingSettings,
    search_options: SearchOptions,
) -> Validation:
    """Return the loss of a model on ``batches``, and metrics of its translations of ``pairs``.

    If the native engine supports the model, the engine translates in float32, with the same results as torch
    except for ties. The model is in training mode afterwards.
    """
    model.eval()
    try:
        loss = mean_loss(model, batches, training.precision)
        if not pairs:
            return Validation(loss)
        options = search_options.changed({"beam": training.validation_beam})
        sentences = [SearchInput(source.add_special_tokens(source.encode(pair.source))) for pair in pairs]
        results = search(validation_decoder(model), sentences, options)
        texts = [target.decode(list(hypotheses[0].tokens)) for hypotheses in results]
        report = evaluate(
            texts, [pair.references for pair in pairs], ("bleu", "chrf"), tokenize=training.bleu_tokenise
        )
        return Validation(
            loss,
            report["bleu"],
            report["chrf"],
            summarise_scores([hypotheses[0] for hypotheses in results]),
            choose_samples(pairs, texts),
            scores_by_length(pairs, texts, training.bleu_tokenise),
        )
    finally:
        model.train()


@torch.no_grad()
def validation_decoder(model: Seq2Seq) -> Seq2Seq | NativeModel:
    """Return the native engine with the weights of a model, or the model itself.

    The model itself is returned if it is on a GPU, in float64, quantised, or not supported by the engine.
    """
    state = model.state_dict()
    kinds = {(weight.device.type, weight.dtype) for weight in state.values()}
    if not isinstance(model, Transformer | Recurrent | DecoderOnly) or kinds != {("cpu", torch.float32)}:
        return model
    if unsupported_reason(model.settings) or (isinstance(model, Transformer) and model.simulates_int8):
        return model
    state.update((f"{name}.weight", layer.merged()) for name, layer in adapted_layers(model).items())
    source = model.embedding if isinstance(model, DecoderOnly) else model.source_embedding
    sizes = source.num_embeddings, model.vocabulary
    try:
        packed = pack(model.settings, sizes, lambda name: state[name].numpy())
        return NativeModel(model.settings, model.symbols, sizes, packed, torch.get_num_threads())
    except ModelError:
        return model  # torch reports weights that are not finite


@torch.no_grad()
def mean_loss(model: Seq2Seq, batches: Sequence[Batch], precision: str) -> float:
    """Return the mean negative log-likelihood per target token, in nats."""
    nll, tokens = 0.0, 0
    for batch in batches:
        nll += float(batch_loss(model, batch, 0.0, precision).plain)
        tokens += batch.tokens
    return nll / max(1, tokens)
