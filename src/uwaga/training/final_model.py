"""The finished model of a run: its weights, model card and folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from torch import Tensor

from uwaga.checkpoints.adapter import Adapter, write_adapter
from uwaga.checkpoints.formats.uwaga.folder import FolderContents, save_model
from uwaga.checkpoints.rewrite import rewrite
from uwaga.checkpoints.score_stats import ScoreStats
from uwaga.errors import CheckpointError, SettingsError
from uwaga.models.adapters import adapted_layers
from uwaga.models.base import Seq2Seq
from uwaga.models.build import build_model
from uwaga.results.attention import Floats
from uwaga.settings import (
    AlignmentHead,
    CorpusSettings,
    Settings,
    TrainingSettings,
    TransformerSettings,
    load_settings,
)
from uwaga.tokenizers.subwords import TrainingSubwords
from uwaga.tokenizers.tokeniser import Tokeniser
from uwaga.training.base_model import BaseCheckpoint, open_base
from uwaga.training.checkpoint import (
    Progress,
    average_checkpoints,
    checkpoint_path,
    checkpoint_steps,
    regular_steps,
)
from uwaga.training.initial_model import make_initial_model
from uwaga.training.run import Run, load_weights
from uwaga.training.validation import Validation


def model_card(
    settings: Settings,
    origin: str,
    result: Validation | None,
    progress: Progress,
    changes: Sequence[str] = (),
) -> str:
    """Return the model card as Markdown.

    Args:
        settings: settings of the run.
        origin: description of how the weights were obtained.
        result: validation on the dev set; None if it was not measured.
        progress: progress of the run.
        changes: one line per dev set with the scores before and after training.
    """
    source, target = settings.data.languages
    lines = [
        f"# {source} → {target}",
        "",
        f"Trained with {uwaga_version()}: {progress.step} updates, {origin}.",
        "",
        "| | |",
        "|---|---|",
        f"| training data | {_list_file_names(settings.data.train)} |",
        f"| dev data | {_list_file_names(settings.data.dev)} |",
        f"| licence of the data | {settings.data.licence or 'not stated'} |",
    ]
    if settings.init is not None:
        lines.append(f"| started from | {settings.init} |")
    if result:
        lines.append(f"| dev loss | {result.loss:.4f} nats per target token |")
        lines += [
            f"| dev {score.metric} | {score.value:.2f} ({score.signature}) |"
            for score in (result.bleu, result.chrf)
            if score
        ]
    if changes:
        lines += ["", "Before and after:", "", *(f"- {change}" for change in changes)]
    return "\n".join(lines) + "\n"


def uwaga_version() -> str:
    """Return the name and version, as in ``uwaga 0.1.0``, or only the name if uwaga is not installed."""
    try:
        return f"uwaga {version('uwaga')}"
    except PackageNotFoundError:
        return "uwaga"


def _list_file_names(corpora: Sequence[CorpusSettings]) -> str:
    """Return the names of the files of the corpora, without folders, joined with commas."""
    return ", ".join(file.rpartition("/")[2] for corpus in corpora for file in corpus.files)


@dataclass(frozen=True)
class FinalWeights:
    """The origin of a finished model's weights: the steps of the checkpoints used, and a description."""

    steps: tuple[int, ...]
    origin: str


def load_final_weights(run: Run) -> FinalWeights:
    """Load the finished model's weights into the run's model.

    The mean of the newest ``training.average`` checkpoints is validated and used. If its score in
    ``training.early_stopping_metric`` is worse than that of the best checkpoint, that checkpoint is used
    instead. Both scores are reported and logged.
    """
    best_step = _best_step(run)
    if run.training.average and (
        steps := tuple(regular_steps(run.folder, run.training)[-run.training.average :])
    ):
        mean_description = describe_mean(steps)
        _load_mean(run, steps)
        if best_step is None or steps == (best_step,):
            return FinalWeights(steps, mean_description)
        result = run.validate("the mean", run.training.validation_beam)
        run.reporter.validation(run.progress, result, "mean", steps)
        scores = _describe_comparison(run, result, best_step)
        if result.score(run.training.early_stopping_metric) >= run.progress.best[best_step]:
            return FinalWeights(
                steps, f"{mean_description}, not worse on the dev set than step {best_step} ({scores})"
            )
        _load_mean(run, (best_step,))
        return FinalWeights(
            (best_step,),
            f"checkpoint of step {best_step}, better on the dev set than the {mean_description} ({scores})",
        )
    if best_step is not None:
        _load_mean(run, (best_step,))
        return FinalWeights((best_step,), f"checkpoint of step {best_step}, the best on the dev set")
    return FinalWeights((run.progress.step,), f"weights of step {run.progress.step}")


def _best_step(run: Run) -> int | None:
    existing_steps = [step for step in run.progress.best if checkpoint_path(run.folder, step).exists()]
    return max(existing_steps, key=lambda step: run.progress.best[step], default=None)


def _load_mean(run: Run, steps: tuple[int, ...]) -> None:
    paths = [checkpoint_path(run.folder, step) for step in steps]
    load_weights(run.model, average_checkpoints(paths), paths[-1])


def _describe_comparison(run: Run, mean_validation: Validation, best_step: int) -> str:
    """Return a text such as ``dev loss 4.281 for the mean, 3.120 for step 240``."""
    metric = run.training.early_stopping_metric
    sign = -1 if metric == "loss" else 1
    return (
        f"dev {metric} {sign * mean_validation.score(metric):.6g} for the mean, "
        f"{sign * run.progress.best[best_step]:.6g} for step {best_step}"
    )


def write_final_model(
    folder: Path,
    settings: Settings,
    base: BaseCheckpoint | None,
    model: Seq2Seq,
    tokenisers: tuple[TrainingSubwords, TrainingSubwords],
    card: str,
    score_stats: ScoreStats | None = None,
) -> None:
    """Write the finished model of a run or, with ``adapt.lora``, its adapter to ``folder``.

    Args:
        folder: folder to create; an existing model or adapter folder is replaced.
        settings: settings of the run.
        base: base model, or None.
        model: model with the weights to write.
        tokenisers: tokenisers of source and target.
        card: model card as Markdown.
        score_stats: distribution of the model's scores on the dev set, or None.
    """
    if base is not None and settings.adapt.lora is not None:
        write_adapter(folder, _make_adapter(folder, settings, base, model), card)
        return
    source, target = tokenisers
    if isinstance(source, Tokeniser) and isinstance(target, Tokeniser):
        contents = FolderContents(
            settings.model,
            settings.decoding,
            source,
            target,
            settings.data.languages,
            card,
            score_stats,
            trained_alignment_head(settings) or (base.checkpoint.alignment_head if base else None),
        )
        plain_model = _without_quantisation(settings, model, source, target)
        save_model(folder, plain_model, contents, settings.training.save_dtype)
        return
    assert base is not None
    check_save_dtype(settings, base)
    state = model.state_dict()

    def read(name: str) -> Floats:
        values: Floats = state[name].detach().cpu().numpy().astype(np.float32, copy=False)
        return values

    checkpoint = replace(
        base.checkpoint, alignment_head=trained_alignment_head(settings) or base.checkpoint.alignment_head
    )
    rewrite(checkpoint, folder, read, card, half_precision=settings.training.save_dtype == "float16")


def trained_alignment_head(settings: Settings) -> AlignmentHead | None:
    """Return the attention head that guided alignment trains, or None without guided alignment."""
    guide_settings = settings.training.guided_alignment
    if guide_settings is None:
        return None
    if not isinstance(settings.model, TransformerSettings):
        return AlignmentHead(layer=1, step=guide_settings.step)
    layer = guide_settings.layer or max(1, settings.model.decoder_layers - 1)
    return AlignmentHead(layer=layer, head=guide_settings.head or 1, step=guide_settings.step)


def check_save_dtype(settings: Settings, base: BaseCheckpoint | None) -> None:
    """Raise SettingsError if the format of the finished model does not support ``training.save_dtype``."""
    is_foreign = base is not None and not base.is_native and settings.adapt.vocabulary == "keep"
    if is_foreign and settings.training.save_dtype in ("bfloat16", "int8"):
        raise SettingsError(
            "training.save_dtype: a folder in Hugging Face's layout can be written only in float32 or float16"
        )


def final_folder(settings: Settings) -> Path:
    """Return the path of the folder of the finished model or adapter."""
    return settings.run / ("model" if settings.adapt.lora is None else "adapter")


def _without_quantisation(
    settings: Settings, model: Seq2Seq, source: Tokeniser, target: Tokeniser
) -> Seq2Seq:
    """Return a copy of the model without simulated quantisation, or the model itself if it has none."""
    if settings.training.quantisation == "none":
        return model
    plain_model = build_model(settings.model, target.symbols, source.size, target.size)
    plain_model.load_state_dict(model.state_dict())
    return plain_model


def _make_adapter(folder: Path, settings: Settings, base: BaseCheckpoint, model: Seq2Seq) -> Adapter:
    assert settings.adapt.lora is not None
    matrices = {
        name: (layer.lora_a.detach().cpu().numpy(), layer.lora_b.detach().cpu().numpy())
        for name, layer in adapted_layers(model).items()
    }
    lora = settings.adapt.lora
    return Adapter(folder, base.name, base.sha256, lora.rank, lora.alpha, matrices)


def average_run(run: Path, out: Path, count: int | None = None) -> list[int]:
    """Write the mean of the newest checkpoints of a run to the model folder ``out``; the run is not changed.

    The averaged checkpoints are those written at regular steps, which `uwaga train` averages at the end, and
    the newest one, even if it was written because of an interrupt or a good score.

    Args:
        run: folder of a run of ``uwaga train``; the corpora are not needed.
        out: folder to create.
        count: number of checkpoints; None for the run's ``training.average``, or 1 if that is 0.

    Returns:
        the steps of the averaged checkpoints.
    """
    if not (run / "settings.yaml").is_file():
        raise SettingsError(f"{run}/settings.yaml: no such file; give the folder of a run of `uwaga train`")
    settings, base = open_base(load_settings(run / "settings.yaml"))
    steps, weights = _average_newest(run / "checkpoints", settings.training, count)
    newest_path = checkpoint_path(run / "checkpoints", steps[-1])
    source, target = _load_tokenisers(run, settings, base)
    model = make_initial_model(settings, base, source, target)
    load_weights(model, weights, newest_path)
    model.eval()
    progress = Progress(step=steps[-1])
    origin = describe_mean(steps)
    card = model_card(settings, origin, None, progress)
    write_final_model(out, settings, base, model, (source, target), card)
    return steps


def describe_mean(steps: Sequence[int]) -> str:
    """Return a text that describes the mean of the checkpoints with the given steps."""
    if len(steps) == 1:
        return f"checkpoint of step {steps[0]}"
    return f"mean of the checkpoints of steps {', '.join(map(str, steps))}"


def _average_newest(
    folder: Path, training: TrainingSettings, count: int | None
) -> tuple[list[int], dict[str, Tensor]]:
    requested_count = count or training.average or 1
    while True:
        steps = sorted({*regular_steps(folder, training), *checkpoint_steps(folder)[-1:]})
        if requested_count > len(steps):
            raise CheckpointError(
                f"{folder}: has {len(steps)} checkpoints, not {requested_count}; average fewer checkpoints, "
                "or keep more of them with training.keep_last"
            )
        steps = steps[-requested_count:]
        paths = [checkpoint_path(folder, step) for step in steps]
        try:
            return steps, average_checkpoints(paths)
        except CheckpointError:
            if all(path.exists() for path in paths):
                raise
            # The run is still training and has removed one of them.


def _load_tokenisers(
    run: Path, settings: Settings, base: BaseCheckpoint | None
) -> tuple[TrainingSubwords, TrainingSubwords]:
    if base is not None and settings.adapt.vocabulary == "keep":
        return base.source, base.target
    names = ("joint",) if settings.text.joint else ("source", "target")
    tokenisers = [Tokeniser.load(run / "text" / f"{name}.spm") for name in names]
    return tokenisers[0], tokenisers[-1]
