"""The model card of a trained model: what it is, what it saw, how well it does."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from uwaga.settings import Settings
from uwaga.training.checkpoint import Progress
from uwaga.training.validation import Validation


def model_card(settings: Settings, origin: str, result: Validation | None, progress: Progress) -> str:
    """Markdown; licence lines are for the trainer's own hand, since data decides them."""
    try:
        made_with = f"uwaga {version('uwaga')}"
    except PackageNotFoundError:
        made_with = "uwaga"
    source, target = settings.data.languages
    lines = [
        f"# {source} → {target}",
        "",
        f"Trained with {made_with}: {progress.step} updates, {origin}.",
        "",
        "| | |",
        "|---|---|",
        f"| training data | {', '.join(path.name for path in settings.data.train)} |",
        f"| dev data | {', '.join(path.name for path in settings.data.dev)} |",
        f"| licence of the data | {settings.data.licence or 'not stated'} |",
    ]
    if result:
        lines.append(f"| dev loss | {result.loss:.4f} nats per target token |")
        lines += [
            f"| dev {score.metric} | {score.value:.2f} ({score.signature}) |"
            for score in (result.bleu, result.chrf)
            if score
        ]
    return "\n".join(lines) + "\n"
