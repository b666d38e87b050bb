"""Validation: loss on the references, metrics of decoded text, and sample translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from uwaga.checkpoints.score_stats import ScoreStats, summarise_scores
from uwaga.data.batches import Batch
from uwaga.data.corpus import Pair
from uwaga.engine import NativeModel, pack
from uwaga.engine.layout import engine_refusal
from uwaga.errors import ModelError
from uwaga.evaluation import MetricScore, evaluate
from uwaga.models.adapters import adapted_layers
from uwaga.models.base import Seq2Seq
from uwaga.models.decoder_only import DecoderOnly
from uwaga.models.recurrent import Recurrent
from uwaga.models.transformer import Transformer
from uwaga.search import SearchOptions
from uwaga.search.search import search
from uwaga.settings import TrainingSettings
from uwaga.tokenizers.subwords import TrainingSubwords
from uwaga.training.step import batch_loss

KEPT = 5
BOUNDS = (5, 10, 20, 40)
"""Longest sources, in words, of each group but the last."""


@dataclass(frozen=True)
class Sample:
    """A dev sentence, its current translation, and its first reference."""

    source: str
    translation: str
    reference: str


@dataclass(frozen=True)
class LengthScore:
    """BLEU of the sentences whose sources have ``least`` to ``most`` words (None: no limit)."""

    least: int
    most: int | None
    sentences: int
    bleu: float


def choose_samples(pairs: Sequence[Pair], texts: Sequence[str]) -> tuple[Sample, ...]:
    """Return :data:`KEPT` translations spread over a dev set, the same sentences at each validation."""
    count = min(KEPT, len(pairs))
    indices = [number * len(pairs) // count for number in range(count)]
    return tuple(Sample(pairs[at].source, texts[at], pairs[at].references[0]) for at in indices)


def scores_by_length(pairs: Sequence[Pair], texts: Sequence[str], tokenize: str) -> tuple[LengthScore, ...]:
    """Return BLEU by length of the source; groups without a sentence are omitted."""
    scores = []
    for least, most in zip((1, *(bound + 1 for bound in BOUNDS)), (*BOUNDS, None), strict=True):
        chosen = [
            (text, pair.references)
            for pair, text in zip(pairs, texts, strict=True)
            if max(1, len(pair.source.split())) >= least
            and (most is None or max(1, len(pair.source.split())) <= most)
        ]
        if chosen:
            report = evaluate(
                [text for text, _ in chosen],
                [references for _, references in chosen],
                ("bleu",),
                tokenize=tokenize,
            )
            scores.append(LengthScore(least, most, len(chosen), report["bleu"].value))
    return tuple(scores)


def samples_record(samples: Sequence[Sample], lengths: Sequence[LengthScore]) -> dict[str, Any]:
    """Return samples and scores as JSON values."""
    return {
        "samples": [
            {"source": entry.source, "translation": entry.translation, "reference": entry.reference}
            for entry in samples
        ],
        "by_length": [
            {"least": entry.least, "most": entry.most, "sentences": entry.sentences, "bleu": entry.bleu}
            for entry in lengths
        ],
    }


@dataclass(frozen=True)
class Validation:
    """The result of a validation.

    Attributes:
        loss: mean negative log-likelihood per target token, in nats.
        bleu: BLEU of the decoded texts, None if none were decoded.
        chrf: chrF of the same texts.
        score_stats: distribution of the scores of the decoded texts.
        samples: some of the decoded texts.
        by_length: BLEU by the length of the source.
    """

    loss: float
    bleu: MetricScore | None = None
    chrf: MetricScore | None = None
    score_stats: ScoreStats | None = None
    samples: tuple[Sample, ...] = ()
    by_length: tuple[LengthScore, ...] = ()

    @property
    def main(self) -> float:
        """BLEU, or if nothing was decoded the mean log-probability of a target token."""
        return -self.loss if self.bleu is None else self.bleu.value

    def score(self, metric: str) -> float:
        """Return the value of a metric, negated for the loss so that higher is better."""
        if metric == "loss":
            return -self.loss
        measured = self.bleu if metric == "bleu" else self.chrf
        return float("-inf") if measured is None else measured.value


def validate(
    model: Seq2Seq,
    batches: Sequence[Batch],
    pairs: Sequence[Pair],
    source: TrainingSubwords,
    target: TrainingSubwords,
    training: TrainingSettings,
    search_options: SearchOptions,
) -> Validation:
    """Validate on all ``batches`` and by decoding ``pairs``; the model is left in training mode.

    A model that the native engine runs is decoded there in float32, with the same scores as in torch up to
    ties.
    """
    model.eval()
    try:
        loss = mean_loss(model, batches, training.precision)
        if not pairs:
            return Validation(loss)
        options = search_options.changed({"beam": training.validation_beam})
        sources = [source.add_special_tokens(source.encode(pair.source)) for pair in pairs]
        results = search(validation_decoder(model), sources, options)
        texts = [target.decode(list(hypotheses[0].tokens)) for hypotheses in results]
        report = evaluate(
            texts,
            [pair.references for pair in pairs],
            ("bleu", "chrf"),
            tokenize=training.bleu_tokenise,
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
    """Return the native engine with the model's weights, or the model itself if only torch computes it.

    The latter are models on a GPU, in float64, and those that compute as int8.
    """
    state = model.state_dict()
    kinds = {(weight.device.type, weight.dtype) for weight in state.values()}
    if not isinstance(model, Transformer | Recurrent | DecoderOnly) or kinds != {("cpu", torch.float32)}:
        return model
    if engine_refusal(model.settings) or (isinstance(model, Transformer) and model.rounded):
        return model
    state.update((f"{name}.weight", layer.merged()) for name, layer in adapted_layers(model).items())
    source = model.embedding if isinstance(model, DecoderOnly) else model.source_embedding
    sizes = source.num_embeddings, model.vocabulary
    try:
        packed = pack(model.settings, *sizes, lambda name: state[name].numpy())
        return NativeModel(model.settings, model.symbols, *sizes, packed, torch.get_num_threads())
    except ModelError:
        return model  # torch reports weights that are not finite


@torch.no_grad()
def mean_loss(model: Seq2Seq, batches: Sequence[Batch], precision: str) -> float:
    """Return the mean negative log-likelihood of a target token, in nats."""
    nll, tokens = 0.0, 0
    for batch in batches:
        nll += float(batch_loss(model, batch, 0.0, precision).plain)
        tokens += batch.tokens
    return nll / max(1, tokens)
