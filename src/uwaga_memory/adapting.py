"""Adaptation of a model to a translation memory by training a low-rank adapter (LoRA).

The adapter is kept only if it translates held-out sources better. About one source in
:data:`HELD_OUT_DIVISOR` is held out, with all of its translations. The choice depends only on the text, so
the same sources are held out in every adaptation, and no adapter has been trained on them. The other pairs
are copied to a folder next to the adapter, so that an interrupted adaptation resumes with the same pairs even
if the memory has grown.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uwaga
from uwaga.checkpoints.adapter import read_adapter, write_adapter
from uwaga.checkpoints.card import CARD
from uwaga.errors import DataError, SettingsError
from uwaga.evaluation import evaluate
from uwaga.files.atomic import write_file
from uwaga.files.lock import RunLock
from uwaga.files.resume import check_same_job
from uwaga.markup.inline import plain_text
from uwaga.markup.placeholders import COMMON_PLACEHOLDERS
from uwaga.markup.symbols import pair_with_symbols
from uwaga.settings import Settings, change_setting, parse
from uwaga.training.base_model import open_base
from uwaga.training.checkpoint import newest_checkpoint
from uwaga.training.train import train
from uwaga_memory.store import Memory, normalise_spaces

HELD_OUT_DIVISOR = 20
"""A source is held out if its hash is divisible by this number: about one source in 20."""
MIN_HELD_OUT, MAX_HELD_OUT = 10, 1_000
"""Minimum and maximum number of held-out sources that are translated to compare models."""
EPOCHS = 10
"""Number of passes over the training pairs, unless :data:`MIN_STEPS` or :data:`MAX_STEPS` applies."""
CHARACTERS_PER_STEP = 5_000
"""Number of target characters per update: about 2,048 tokens, including padding."""
MIN_STEPS, MAX_STEPS = 50, 2_000
"""Minimum and maximum number of updates."""
DEFAULT_SETTINGS: dict[str, Any] = {
    "adapt": {"lora": {"rank": 32, "alpha": 64}},
    "training": {
        "batch_tokens": 2048,
        "schedule": {"kind": "linear", "peak": 3e-3, "warmup": 20},
        "clip": 1.0,
        "save_every": 50,
        "validation_sentences": 0,
        "keep_last": 1,
        "average": 0,
    },
}
"""Default training settings, which the caller can override."""
JOB_FILE, PAIRS_FILE, HELD_OUT_FILE, RUN_FOLDER = "job.json", "pairs.tsv", "held-out.tsv", "run"
"""Names of the files of an adaptation (arguments, training pairs, held-out pairs) and of the run folder."""


@dataclass(frozen=True)
class AdaptationScores:
    """chrF scores of translations of the held-out sources.

    Attributes:
        sources: number of held-out sources.
        base: chrF of the model without an adapter.
        previous: chrF with the previous adapter; None if there was none.
        new: chrF with the new adapter.
    """

    sources: int
    base: float
    previous: float | None
    new: float

    @property
    def is_better(self) -> bool:
        """True if the new adapter scores higher than both the base model and the previous adapter."""
        return self.new > max(self.base, self.previous or 0.0)

    def __str__(self) -> str:
        previous = "" if self.previous is None else f", {self.previous:.2f} with the previous one"
        return (
            f"chrF {self.base:.2f} without an adapter{previous}, {self.new:.2f} with the new one, "
            f"on {self.sources:,} held-out sources"
        )


def is_held_out(source: str) -> bool:
    """Return whether the pairs of a source are held out from training."""
    return _digest(source) % HELD_OUT_DIVISOR == 0


def adapt(
    memory: Memory, folder: Path, model: str | None = None, changes: Sequence[str] = ()
) -> AdaptationScores | None:
    """Train an adapter on the pairs of a memory, and keep it if it translates held-out sources better.

    Calling the function again resumes an interrupted adaptation. An existing adapter in ``folder`` is
    replaced only if the new one is better.

    Args:
        memory: the memory.
        folder: folder of the adapter.
        model: the model; by default the base model of the adapter in ``folder``, or the bundled model.
        changes: changes to the training settings, such as ``training.steps=1000``.

    Returns:
        the scores; None if the training was interrupted and can be resumed.

    Raises:
        DataError: the memory has too few pairs.
        ModelError: the model cannot be trained, or the adapter in ``folder`` belongs to another model.
        RunInUseError: another process is training the adapter.
        SettingsError: a setting is invalid, the model does not translate the memory's languages, or an
            interrupted adaptation was started with other arguments.
    """
    previous_adapter = read_adapter(folder) if folder.exists() else None
    model = model or (previous_adapter.base if previous_adapter else "bundled")
    job = {"memory": memory.origin, "model": model, "set": list(changes)}
    work_folder = folder.with_name(f".{folder.name}.adapting")
    work_folder.mkdir(parents=True, exist_ok=True)
    with (
        RunLock(work_folder, "training an adapter", "another name of the adapter"),
        _remove_if_not_started(work_folder),
    ):
        _copy_pairs(memory, work_folder, job)
        settings = _training_settings(memory, model, work_folder, changes)
        open_base(settings)  # raises an error if the model cannot be trained, before any translation
        held_out = _read_held_out(work_folder)
        base_score = _score(memory, model, None, held_out)
        previous_score = _score(memory, model, folder, held_out) if previous_adapter else None
        adapter = train(settings)
        if adapter is None:
            return None
        score = _score(memory, model, adapter, held_out)
        scores = AdaptationScores(len(held_out), base_score, previous_score, score)
        if scores.is_better:
            card = (adapter / CARD).read_text(encoding="utf-8")
            write_adapter(folder, read_adapter(adapter), f"{card}\nPairs of {memory.origin}: {scores}.\n")
        shutil.rmtree(work_folder / RUN_FOLDER)
    return scores


@contextmanager
def _remove_if_not_started(work_folder: Path) -> Iterator[None]:
    """Remove the folder of an adaptation on exit if there is no training to resume."""
    try:
        yield
    finally:
        if newest_checkpoint(work_folder / RUN_FOLDER / "checkpoints") is None:
            shutil.rmtree(work_folder, ignore_errors=True)


def _copy_pairs(memory: Memory, work_folder: Path, job: dict[str, Any]) -> None:
    """Copy the pairs of a memory to the folder of an adaptation, unless an earlier call has copied them."""
    path = work_folder / JOB_FILE
    if path.exists():
        check_same_job(
            str(work_folder), json.loads(path.read_text(encoding="utf-8")), job, f"delete {work_folder}"
        )
        return
    pairs = dict.fromkeys(
        (normalise_spaces(pair.source), normalise_spaces(pair.target)) for _, pair in memory.pairs()
    )
    sources = {source for source, _ in pairs}
    held_out = sorted(filter(is_held_out, sources), key=_digest)[:MAX_HELD_OUT]
    if len(held_out) < MIN_HELD_OUT:
        raise DataError(
            f"{memory.origin}: only {len(held_out)} of its {len(sources):,} sources would be held out to "
            f"compare models, but at least {MIN_HELD_OUT} are needed; add pairs until the memory has about "
            f"{MIN_HELD_OUT * HELD_OUT_DIVISOR} sources"
        )
    held_out_set = set(held_out)
    write_file(work_folder / HELD_OUT_FILE, _format_tsv(pair for pair in pairs if pair[0] in held_out_set))
    write_file(
        work_folder / PAIRS_FILE,
        _format_tsv(_replace_placeholders(*pair) for pair in pairs if not is_held_out(pair[0])),
    )
    write_file(path, json.dumps(job))  # written last: it marks the other files as complete


def _replace_placeholders(source: str, target: str) -> tuple[str, str]:
    """Return a pair with its placeholders replaced by symbols, as the model processes it."""
    inlines = pair_with_symbols(COMMON_PLACEHOLDERS.split(source), COMMON_PLACEHOLDERS.split(target))
    source, target = map(plain_text, inlines)
    return source, target


def _format_tsv(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


def _read_pairs(path: Path) -> list[tuple[str, str]]:
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [(source, target) for source, _, target in (line.partition("\t") for line in lines)]


def _read_held_out(work_folder: Path) -> dict[str, list[str]]:
    """Return the reference translations of each held-out source."""
    references: dict[str, list[str]] = {}
    for source, target in _read_pairs(work_folder / HELD_OUT_FILE):
        references.setdefault(source, []).append(target)
    return references


def _training_settings(memory: Memory, model: str, work_folder: Path, changes: Sequence[str]) -> Settings:
    """Return the training settings."""
    characters = sum(len(target) for _, target in _read_pairs(work_folder / PAIRS_FILE))
    steps = min(MAX_STEPS, max(MIN_STEPS, EPOCHS * characters // CHARACTERS_PER_STEP))
    values = deepcopy(DEFAULT_SETTINGS)
    values["training"]["steps"] = steps
    values |= {"init": model, "run": str(work_folder / RUN_FOLDER)}
    values["data"] = {
        "train": [str(work_folder / PAIRS_FILE)],
        "dev": [str(work_folder / HELD_OUT_FILE)],
        "languages": list(memory.languages),
    }
    for change in changes:
        change_setting(values, change)
    # Earlier validations would select a checkpoint by the pairs that are used for the comparison.
    values["training"].setdefault("validate_every", values["training"]["steps"])
    settings = parse(Settings, values, "--set")
    if (settings.init, settings.run) != (model, work_folder / RUN_FOLDER) or settings.adapt.lora is None:
        raise SettingsError(
            "--set: init and run follow from the arguments of the command, and adapt.lora is required; use "
            "`uwaga train` to change these settings"
        )
    return settings


def _score(memory: Memory, model: str, adapter: Path | None, references: dict[str, list[str]]) -> float:
    """Return the chrF score of a model's translations of the sources in ``references``."""
    source, target = memory.languages
    translator = uwaga.load(model, source=source, target=target, adapter=adapter)
    texts = [translation.text for translation in translator.translate(list(references))]
    return evaluate(texts, list(references.values()), ("chrf",))["chrf"].value


def _digest(source: str) -> int:
    return int.from_bytes(hashlib.blake2b(normalise_spaces(source).encode(), digest_size=8).digest())
