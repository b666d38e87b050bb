"""The model of a run before its first update: a new model, or one derived from the base model (``init``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from uwaga.checkpoints.to_torch import to_torch
from uwaga.errors import SettingsError
from uwaga.models.adapters import add_adapters, match_names, simulate_int8
from uwaga.models.base import Seq2Seq
from uwaga.models.build import build_model
from uwaga.models.transformer import Transformer
from uwaga.settings import ModelSettings, Settings, TransformerSettings
from uwaga.tokenizers.subwords import TrainingSubwords
from uwaga.tokenizers.tokeniser import Tokeniser
from uwaga.training.base_model import BaseCheckpoint

SPACE_SYMBOL = "\u2581"
TokeniserPair = tuple[TrainingSubwords, TrainingSubwords]


def replace_vocabulary(
    model: Seq2Seq,
    settings: ModelSettings,
    old_tokenisers: TokeniserPair,
    new_tokenisers: tuple[Tokeniser, Tokeniser],
) -> Seq2Seq:
    """Return a copy of a model with new vocabularies; all weights except embeddings and output are unchanged.

    Args:
        model: a Transformer.
        settings: settings of the model.
        old_tokenisers: tokenisers of the old source and target vocabularies.
        new_tokenisers: tokenisers of the new source and target vocabularies.
    """
    if not isinstance(settings, TransformerSettings):
        raise SettingsError(
            "adapt.vocabulary: only Transformers support new vocabularies, not the family "
            f"{settings.family!r}; "
            "set it to keep"
        )
    if (
        settings.tie in ("all", "embeddings")
        and new_tokenisers[0].model_bytes != new_tokenisers[1].model_bytes
    ):
        raise SettingsError(
            f"text.joint: the model named by init shares its embeddings (tie: {settings.tie}), so both sides "
            "must share one vocabulary; set text.joint: true"
        )
    new_model = build_model(
        settings, new_tokenisers[1].symbols, new_tokenisers[0].size, new_tokenisers[1].size
    )
    weights = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    tied_names = {
        "all": ("source_embedding.weight", "output_weight"),
        "embeddings": ("source_embedding.weight",),
    }
    shared_names = tied_names.get(settings.tie, ())
    for name, side in (
        ("source_embedding.weight", 0),
        ("target_embedding.weight", 1),
        ("output_weight", 1),
        ("output_bias", 1),
    ):
        if name in weights:
            is_shared = bool(shared_names) and (settings.tie == "all" or name != "output_weight")
            sources = old_tokenisers if is_shared and weights[name].dim() == 2 else (old_tokenisers[side],)
            weights[name] = remap_rows(weights[name], sources, new_tokenisers[side])
    new_model.load_state_dict(weights)
    return new_model


def remap_rows(table: Tensor, old_tokenisers: Sequence[TrainingSubwords], new_tokeniser: Tokeniser) -> Tensor:
    """Return the rows of a table, such as embeddings, for a new vocabulary.

    Special symbols and pieces of the old vocabulary keep their rows. Any other piece is split by the old
    tokeniser that needs the fewest pieces, and its row is the mean of the rows of these old pieces.

    Args:
        table: (old vocabulary, ...).
        old_tokenisers: tokenisers of the old vocabulary: one, or two if both sides share the vocabulary.
        new_tokeniser: tokeniser of the new vocabulary.

    Returns:
        (new vocabulary, ...).
    """
    piece_ids = {
        piece: token_id
        for token_id, piece in reversed(list(enumerate(old_tokenisers[0].pieces(range(len(table))))))
    }
    old_symbols, new_symbols = old_tokenisers[0].symbols, new_tokeniser.symbols
    special_rows = {
        getattr(new_symbols, name): getattr(old_symbols, name) for name in ("start", "end", "pad", "unknown")
    }
    mean_row = table.mean(0)
    rows = []
    for token_id, piece in enumerate(new_tokeniser.pieces(range(new_tokeniser.size))):
        if token_id in special_rows:
            rows.append(table[special_rows[token_id]])
        elif piece in piece_ids:
            rows.append(table[piece_ids[piece]])
        else:
            parts = min(
                (_split_piece(tokeniser, piece) for tokeniser in old_tokenisers),
                key=lambda ids: (not ids, len(ids)),
            )
            rows.append(table[parts].mean(0) if parts else mean_row)
    return torch.stack(rows)


def _split_piece(tokeniser: TrainingSubwords, piece: str) -> list[int]:
    """Return the ids of the pieces into which an old tokeniser splits a new piece."""
    if isinstance(tokeniser, Tokeniser):
        return tokeniser.encode_piece(piece)
    unknown, end = tokeniser.symbols.unknown, tokeniser.symbols.end
    ids = [
        token for token in tokeniser.encode(piece.replace(SPACE_SYMBOL, " ")) if token not in (unknown, end)
    ]
    if not piece.startswith(SPACE_SYMBOL) and ids and tokeniser.pieces(ids[:1]) == [SPACE_SYMBOL]:
        ids = ids[1:]  # the space that the tokeniser adds before every text
    return ids


def make_initial_model(
    settings: Settings, base: BaseCheckpoint | None, source: TrainingSubwords, target: TrainingSubwords
) -> Seq2Seq:
    """Return the initial model of a run, on the CPU; only the weights to train require gradients.

    Args:
        settings: settings of the run, completed by :func:`uwaga.training.base_model.open_base`.
        base: base model, or None.
        source: tokeniser of the source side.
        target: tokeniser of the target side.
    """
    torch.manual_seed(settings.training.seed)
    if base is None:
        model = build_model(settings.model, target.symbols, source.size, target.size)
    else:
        model = _model_from_base(settings, base, source, target)
    guide_settings = settings.training.guided_alignment
    if guide_settings is not None and isinstance(model, Transformer):
        model.guided_head = guided_head(model, guide_settings.layer, guide_settings.head)
    elif guide_settings is not None and (guide_settings.layer or guide_settings.head):
        raise SettingsError("training.guided_alignment: layer and head apply only to Transformers; omit both")
    if settings.training.quantisation == "int8":
        if settings.adapt.lora is not None:
            raise SettingsError(
                "training.quantisation: adapters of quantised matrices are not supported; train the adapter "
                "without quantisation, merge it (`uwaga merge`), and then train the merged model with "
                "quantisation"
            )
        simulate_int8(model)
    return model


def learning_rate_factors(settings: Settings, model: Seq2Seq) -> dict[str, float]:
    """Return the learning-rate factor that ``adapt.rates`` sets for each weight, by name of the weight."""
    names, first_names = _weight_names(model)
    rates: dict[str, float] = {}
    for pattern, rate in settings.adapt.rates.items():
        for name in match_names(pattern, names, "adapt.rates", "weight"):
            rates[first_names[name]] = rate
    return rates


def _model_from_base(
    settings: Settings, base: BaseCheckpoint, source: TrainingSubwords, target: TrainingSubwords
) -> Seq2Seq:
    model = to_torch(replace(base.checkpoint, settings=settings.model))
    assert isinstance(model, Seq2Seq)
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()  # otherwise they would share the checkpoint's memory
    model.requires_grad_(True)
    if settings.adapt.vocabulary == "new":
        assert isinstance(source, Tokeniser)
        assert isinstance(target, Tokeniser)
        model = replace_vocabulary(model, settings.model, (base.source, base.target), (source, target))
    elif not base.is_native and isinstance(model, Transformer):
        if model.output_bias is not None:
            model.output_bias.requires_grad_(False)
        if base.checkpoint.family != "t5":  # T5 treats padding as an ordinary token
            model.source_embedding.padding_idx = model.symbols.pad
            model.target_embedding.padding_idx = model.symbols.pad
    names, _ = _weight_names(model)
    weights = dict(model.named_parameters(remove_duplicate=False))
    for pattern in settings.adapt.freeze:
        for name in match_names(pattern, names, "adapt.freeze", "weight"):
            weights[name].requires_grad_(False)
    if settings.adapt.lora is not None:
        add_adapters(model, settings.adapt.lora)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise SettingsError("adapt.freeze: all weights are frozen; remove a pattern")
    return model.train()


def _weight_names(model: Seq2Seq) -> tuple[list[str], dict[str, str]]:
    """Return all names of the weights, and a mapping from each name to the first name of its tensor."""
    first_names: dict[int, str] = {}
    names = {
        name: first_names.setdefault(id(parameter), name)
        for name, parameter in model.named_parameters(remove_duplicate=False)
    }
    return list(names), names


def guided_head(model: Transformer, layer: int | None, head: int | None) -> tuple[int, int]:
    """Return the decoder layer and the head, from 0, that guided alignment trains (Garg 2019 §4).

    Args:
        model: the model.
        layer: number of the decoder layer, from 1; None for the penultimate layer, or the only layer.
        head: number of the head in the layer, from 1; None for the first.

    Raises:
        SettingsError: there is no such layer or head.
    """
    layers, heads = len(model.decoder), model.settings.decoder_heads or model.settings.heads
    layer, head = max(1, layers - 1) if layer is None else layer, head or 1
    if layer > layers:
        raise SettingsError(f"training.guided_alignment.layer: {layer}, but the decoder has {layers} layers")
    if head > heads:
        raise SettingsError(f"training.guided_alignment.head: {head}, but the layer has {heads} heads")
    return layer - 1, head - 1
