"""Models with edited attention, and the importance of each attention head (Michel 2019)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, cast

import numpy as np

from uwaga.decoder import Decoder
from uwaga.engine import NativeModel
from uwaga.engine.interventions import Heads, Intervention, Kind
from uwaga.engine.layout import Sizes
from uwaga.errors import SettingsError
from uwaga.inspection.figures import new_figure
from uwaga.results.attention import Floats
from uwaga.results.translation import JsonRecord, Translation, json_number
from uwaga.settings.recurrent import RecurrentSettings
from uwaga.translator import Translator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from uwaga.models.transformer import Transformer


@dataclass(frozen=True, eq=False)
class Effect:
    """The effect of interventions on a text.

    ``before`` and ``after`` are the translations without and with the interventions; ``log_prob_before`` and
    ``log_prob_after`` are the log-probabilities of a target, by default of ``before``.
    """

    before: Translation
    after: Translation
    log_prob_before: float
    log_prob_after: float


def intervene(translator: Translator, *interventions: Intervention) -> Translator:
    """Return a translator with edited attention; it shares the weights of the original.

    Raises:
        SettingsError: the model is not a Transformer, or lacks the edited layers, heads or positions.
    """
    if isinstance(translator.decoder, NativeModel):
        return translator.with_decoder(translator.decoder.with_interventions(*interventions))
    from uwaga.models.decoder_only import DecoderOnly
    from uwaga.models.interventions import with_interventions
    from uwaga.translator.loading import limit_threads
    from uwaga.translator.score import parallel_scorer

    decoder = (
        translator.decoder if isinstance(translator.decoder, DecoderOnly) else torch_transformer(translator)
    )
    model = with_interventions(decoder, interventions)
    if (threads := getattr(decoder, "threads", 0)) and isinstance(threads, int):
        limit_threads(model, threads)
    return translator.with_decoder(cast(Decoder, model), parallel_scorer(model))


def compare(
    translator: Translator, text: str, *interventions: Intervention, target: str | None = None
) -> Effect:
    """Return a text's translation and a target's log-probability without and with interventions.

    Args:
        translator: a Transformer.
        text: text to translate.
        interventions: edits, applied in order.
        target: target to score; None for the translation without interventions.

    Raises:
        SettingsError: as for :func:`intervene`.
    """
    edited_translator = intervene(translator, *interventions)
    original, edited = (
        translator.translate(text, sample=False),
        edited_translator.translate(text, sample=False),
    )
    pair = [(text, original.text if target is None else target)]
    return Effect(
        original, edited, translator.score(pair)[0].log_prob, edited_translator.score(pair)[0].log_prob
    )


def head_counts(translator: Translator, kind: Kind) -> tuple[int, int]:
    """Return the number of layers with a kind of attention, and the number of heads per layer.

    Raises:
        SettingsError: the model is not a Transformer.
    """
    decoder = translator.decoder
    settings = (
        decoder.settings if isinstance(decoder, NativeModel) else torch_transformer(translator).settings
    )
    if isinstance(settings, RecurrentSettings):
        raise SettingsError("the model is recurrent; only a Transformer has heads")
    sizes = Sizes.from_settings(settings)
    if kind == "encoder":
        return sizes.encoder_layers, settings.heads
    return sizes.decoder_layers, sizes.decoder_heads


def head_importance(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    kind: Kind = "cross",
    on_head: Callable[[], None] = lambda: None,
) -> Floats:
    """Return the loss of log-probability per target token caused by masking each head (Michel 2019 §3.2).

    Args:
        translator: a Transformer.
        pairs: sources and targets to average over.
        kind: kind of attention: ``encoder``, ``decoder`` or ``cross``.
        on_head: function called after each head.

    Returns:
        (layers, heads) float32, in nats; negative if the model improves without the head.

    Raises:
        SettingsError: as for :func:`intervene`.
    """
    layers, heads = head_counts(translator, kind)
    if isinstance(translator.decoder, NativeModel):
        translator = translator.with_decoder(translator.decoder.caching_sources())
    baseline = _mean_log_prob(translator, pairs)
    lost_log_probs = np.zeros((layers, heads), dtype=np.float32)
    for layer, head in np.ndindex(layers, heads):
        masked = intervene(translator, Heads(kind, layer + 1, head + 1, "silent"))
        lost_log_probs[layer, head] = baseline - _mean_log_prob(masked, pairs)
        on_head()
    return lost_log_probs


def _mean_log_prob(translator: Translator, pairs: Sequence[tuple[str, str]]) -> float:
    scores = translator.score(pairs)
    return sum(score.log_prob for score in scores) / sum(len(score.token_scores) for score in scores)


def torch_transformer(translator: Translator) -> Transformer:
    """Return the Transformer of a translator that runs in torch.

    Raises:
        SettingsError: the model is not a Transformer in torch.
    """
    from uwaga.models.transformer import Transformer

    if not isinstance(translator.decoder, Transformer):
        raise SettingsError(
            "only a single Transformer in torch can be inspected in this way, not a recurrent model, an "
            "ensemble or a model on the native engine: load the model with engine='torch'"
        )
    return translator.decoder


CELL_INCHES = 0.5  # inches
TITLE_INCHES = 0.5


@dataclass(frozen=True, eq=False)
class HeadImportance(JsonRecord):
    """The importance of each attention head.

    ``lost`` maps each kind of attention to an array (layers, heads) float32: the loss of log-probability per
    target token, in nats, if the head is masked, which is negative if the model improves. ``pairs`` is the
    number of sentence pairs.
    """

    lost: Mapping[str, Floats]
    pairs: int

    def to_dict(self) -> dict[str, object]:
        """Return the importance as JSON values: for each kind, a list of layers, each a list of heads."""
        tables = {
            kind: [[json_number(x) for x in row] for row in table.tolist()]
            for kind, table in self.lost.items()
        }
        return {"pairs": self.pairs, "lost": tables}


def measure_heads(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    kinds: Sequence[Kind],
    on_head: Callable[[int], None] = lambda count: None,
) -> HeadImportance:
    """Return the importance of each head of a Transformer, measured by masking it and scoring translations.

    Args:
        translator: a Transformer.
        pairs: sources and targets.
        kinds: kinds of attention.
        on_head: function called with the number of heads that have been measured.

    Raises:
        SettingsError: the model is not a Transformer, or there are no pairs.
    """
    if not pairs:
        raise SettingsError("no sentence pairs to score: all lines of the files are empty")
    counter = count(1)
    lost_log_probs: dict[str, Floats] = {
        kind: head_importance(translator, pairs, kind, lambda: on_head(next(counter))) for kind in kinds
    }
    return HeadImportance(lost_log_probs, len(pairs))


def draw_importance(importance: HeadImportance) -> Figure:
    """Return a figure with a panel per kind of attention, a row per layer and a column per head.

    Darker cells are more important heads; red means that the model improves without the head.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    tables = list(importance.lost.items())
    widths = [CELL_INCHES * table.shape[1] + TITLE_INCHES for _, table in tables]
    height = CELL_INCHES * max(len(table) for _, table in tables) + 2 * TITLE_INCHES
    figure = new_figure(sum(widths) + TITLE_INCHES, height)
    panels = figure.subplots(1, len(tables), squeeze=False, width_ratios=widths)[0]
    limit = max(float(abs(table).max()) for _, table in tables) or 1.0
    for axes, (kind, table) in zip(panels, tables, strict=True):
        axes.pcolormesh(table, cmap="RdGy", vmin=-limit, vmax=limit, edgecolors="#dddddd", linewidth=0.4)
        axes.invert_yaxis()
        axes.set_aspect("equal")
        axes.set_title(kind, fontsize=9)
        layers, heads = table.shape
        axes.set_xticks([head + 0.5 for head in range(heads)], list(map(str, range(1, heads + 1))))
        axes.set_yticks([layer + 0.5 for layer in range(layers)], list(map(str, range(1, layers + 1))))
        axes.set_xlabel("head", fontsize=8)
        axes.set_ylabel("layer", fontsize=8)
        axes.tick_params(length=0, labelsize=8)
        for (layer, head), nats in np.ndenumerate(table):
            colour = "white" if abs(nats) > 0.6 * limit else "black"
            axes.text(
                head + 0.5, layer + 0.5, f"{nats:.2f}", ha="center", va="center", fontsize=6, color=colour
            )
    return figure
