"""The model card of a trained model: what it is, what it saw, how well it does."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from uwaga.settings import CorpusSettings, Settings
from uwaga.training.checkpoint import Progress
from uwaga.training.validation import Validation


def model_card(
    settings: Settings,
    origin: str,
    result: Validation | None,
    progress: Progress,
    changes: Sequence[str] = (),
) -> str:
    """Markdown; licence lines are for the trainer's own hand, since data decides them.

    Args:
        settings: of the run.
        origin: where the weights come from.
        result: of the dev set, None where it was not measured.
        progress: where the run stands.
        changes: what each dev set scored before and after, a line each.
    """
    source, target = settings.data.languages
    lines = [
        f"# {source} → {target}",
        "",
        f"Trained with {made_with()}: {progress.step} updates, {origin}.",
        "",
        "| | |",
        "|---|---|",
        f"| training data | {_named(settings.data.train)} |",
        f"| dev data | {_named(settings.data.dev)} |",
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


def made_with() -> str:
    """``uwaga 0.1.0``, or without the version where it is not installed."""
    try:
        return f"uwaga {version('uwaga')}"
    except PackageNotFoundError:
        return "uwaga"


def _named(corpora: Sequence[CorpusSettings]) -> str:
    """The last parts of the corpora's names."""
    return ", ".join(file.rpartition("/")[2] for corpus in corpora for file in corpus.files)
