"""Validation: loss on known targets, and metrics of text that was really decoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from sacrebleu.metrics import BLEU, CHRF

from uwaga.config import DecodingSettings, TrainingSettings
from uwaga.data.batches import Batch
from uwaga.data.corpus import Pair
from uwaga.decoding.options import SearchOptions
from uwaga.decoding.search import search
from uwaga.models.base import Seq2Seq
from uwaga.text.tokeniser import Tokeniser
from uwaga.training.step import batch_loss


@dataclass(frozen=True)
class Validation:
    """Mean negative log-likelihood per target token in nats; BLEU and chrF where text was decoded."""

    loss: float
    bleu: float | None
    chrf: float | None
    sample: tuple[str, str, str] | None
    bleu_signature: str = ""
    chrf_signature: str = ""

    def score(self, metric: str) -> float:
        """The value of a metric, turned so that higher is better."""
        value = {"loss": -self.loss, "bleu": self.bleu, "chrf": self.chrf}[metric]
        return float("-inf") if value is None else value


def validate(
    model: Seq2Seq,
    batches: Sequence[Batch],
    pairs: Sequence[Pair],
    source: Tokeniser,
    target: Tokeniser,
    training: TrainingSettings,
    decoding: DecodingSettings,
) -> Validation:
    """Validate on all ``batches`` and on the decoding of ``pairs``; the model is left in training mode."""
    model.eval()
    try:
        loss = _loss(model, batches, training.precision)
        if not pairs:
            return Validation(loss, None, None, None)
        options = SearchOptions.from_settings(decoding.model_copy(update={"beam": training.validation_beam}))
        end = source.symbols.end
        sources = [[*source.encode(pair.source), end] for pair in pairs]
        found = search(model, sources, options)
        texts = [target.decode(list(hypotheses[0].tokens)) for hypotheses in found]
        most = max(len(pair.references) for pair in pairs)
        references = [
            [pair.references[i] if i < len(pair.references) else None for pair in pairs] for i in range(most)
        ]
        bleu = BLEU(tokenize=training.bleu_tokenise, force=True)
        chrf = CHRF()
        return Validation(
            loss,
            bleu.corpus_score(texts, references).score,
            chrf.corpus_score(texts, references).score,
            (pairs[0].source, texts[0], pairs[0].references[0]),
            str(bleu.get_signature()),
            str(chrf.get_signature()),
        )
    finally:
        model.train()


@torch.no_grad()
def _loss(model: Seq2Seq, batches: Sequence[Batch], precision: str) -> float:
    nll, tokens = 0.0, 0
    for batch in batches:
        nll += float(batch_loss(model, batch, 0.0, precision).plain)
        tokens += batch.tokens
    return nll / max(1, tokens)
