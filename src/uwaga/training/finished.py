"""Writing what a run has made: a model folder in the format of the model it began from, or an adapter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from uwaga.checkpoints.adapter import Adapter, write_adapter
from uwaga.checkpoints.formats.uwaga.folder import save_model
from uwaga.checkpoints.rewrite import rewrite
from uwaga.checkpoints.usual import UsualScore
from uwaga.errors import SettingsError
from uwaga.models.adapters import adapters_of
from uwaga.models.base import Seq2Seq
from uwaga.models.build import build_model
from uwaga.results.attention import Floats
from uwaga.settings import AlignmentHead, Settings, TransformerSettings
from uwaga.tokenizers.subwords import TrainingSubwords
from uwaga.tokenizers.tokeniser import Tokeniser
from uwaga.training.base import Base


def write_finished(
    folder: Path,
    settings: Settings,
    base: Base | None,
    model: Seq2Seq,
    sides: tuple[TrainingSubwords, TrainingSubwords],
    card: str,
    usual: UsualScore | None = None,
) -> None:
    """Write a run's model, or with ``adapt.lora`` its adapter, as ``folder``.

    Args:
        folder: to make; an older one of the same kind is replaced.
        settings: of the run.
        base: what it began from, or None.
        model: with the weights to write.
        sides: tokenisers of source and target.
        card: Markdown.
        usual: what its scores usually are.

    Raises:
        ModelError: it cannot be written; nothing has changed then.
        SettingsError: the format of the model that the run began from has no such number format.
    """
    if base is not None and settings.adapt.lora is not None:
        write_adapter(folder, _adapter(folder, settings, base, model), card)
        return
    source, target = sides
    if isinstance(source, Tokeniser) and isinstance(target, Tokeniser):
        save_model(
            folder,
            _plain(settings, model, source, target),
            settings.model,
            settings.decoding,
            source,
            target,
            settings.data.languages,
            card,
            dtype=settings.training.save_dtype,
            usual=usual,
            alignment_head=taught_head(settings) or (base.checkpoint.alignment_head if base else None),
        )
        return
    assert base is not None
    check_dtype(settings, base)
    state = model.state_dict()

    def read(name: str) -> Floats:
        values: Floats = state[name].detach().cpu().numpy().astype(np.float32, copy=False)
        return values

    kept = replace(base.checkpoint, alignment_head=taught_head(settings) or base.checkpoint.alignment_head)
    rewrite(kept, folder, read, card, half=settings.training.save_dtype == "float16")


def taught_head(settings: Settings) -> AlignmentHead | None:
    """The head that a run teaches to align, None where it teaches none."""
    guide = settings.training.guided_alignment
    if guide is None:
        return None
    if not isinstance(settings.model, TransformerSettings):
        return AlignmentHead(layer=1, step=guide.step)
    layer = guide.layer or max(1, settings.model.decoder_layers - 1)
    return AlignmentHead(layer=layer, head=guide.head or 1, step=guide.step)


def check_dtype(settings: Settings, base: Base | None) -> None:
    """Refuse, before anything is trained, a number format that the finished folder is not written in.

    Raises:
        SettingsError: names the setting.
    """
    foreign = base is not None and not base.own and settings.adapt.vocabulary == "keep"
    if foreign and settings.training.save_dtype == "bfloat16":
        raise SettingsError(
            "training.save_dtype: a folder in Hugging Face's layout is written in float32 or float16"
        )


def finished_folder(settings: Settings) -> Path:
    """Where a run puts what it has made."""
    return settings.run / ("model" if settings.adapt.lora is None else "adapter")


def _plain(settings: Settings, model: Seq2Seq, source: Tokeniser, target: Tokeniser) -> Seq2Seq:
    """The model without what training alone needs of it."""
    if settings.training.quantisation == "none":
        return model
    made = build_model(settings.model, target.symbols, source.size, target.size)
    made.load_state_dict(model.state_dict())
    return made


def _adapter(folder: Path, settings: Settings, base: Base, model: Seq2Seq) -> Adapter:
    assert settings.adapt.lora is not None
    sides = {
        name: (layer.lora_a.detach().cpu().numpy(), layer.lora_b.detach().cpu().numpy())
        for name, layer in adapters_of(model).items()
    }
    lora = settings.adapt.lora
    return Adapter(folder, base.name, base.sha256, lora.rank, lora.alpha, sides)
