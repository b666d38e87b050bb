"""Adaptation of a model to a memory: a low-rank adapter, kept if it translates held-out pairs better.

One source in :data:`HELD_OUT` is held out with all of its translations. The choice depends only on the text,
so the same sources are always held out, and no adapter has been trained on them. The others are copied to a
folder next to the adapter, from which an interrupted adaptation resumes with the same pairs, although the
memory may have grown.
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
from uwaga.training.base import open_base
from uwaga.training.checkpoint import newest_checkpoint
from uwaga.training.train import train
from uwaga_memory.store import Memory, normalise_spaces

HELD_OUT = 20
"""About one of this many sources is held out."""
MIN_SCORED, MAX_SCORED = 10, 1_000
"""Minimum and maximum number of held-out sources to translate."""
EPOCHS = 10
"""Number of passes over the pairs, within the limits of the number of updates."""
CHARACTERS_PER_STEP = 5_000
"""Characters of translations in an update: about 2,048 tokens with their padding."""
MIN_STEPS, MAX_STEPS = 50, 2_000
RECIPE: dict[str, Any] = {
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
"""Settings of the training, which a call may change."""
JOB, PAIRS, HELD_OUT_PAIRS, RUN = "job.json", "pairs.tsv", "held-out.tsv", "run"
"""Files of an adaptation: its arguments, the training pairs, the held-out pairs, and the training run."""


@dataclass(frozen=True)
class AdaptationScores:
    """chrF of the translations of held-out sources.

    Attributes:
        sources: number of sources.
        base: chrF of the model without an adapter.
        present: chrF with the previous adapter; None if there was none.
        new: chrF with the new adapter.
    """

    sources: int
    base: float
    present: float | None
    new: float

    @property
    def is_better(self) -> bool:
        """True if the new adapter is better than both the model and the current adapter."""
        return self.new > max(self.base, self.present or 0.0)

    def __str__(self) -> str:
        present = "" if self.present is None else f", {self.present:.2f} with the present one"
        return (
            f"chrF {self.base:.2f} without an adapter{present}, {self.new:.2f} with the new one, "
            f"on {self.sources:,} held-out sources"
        )


def is_held_out(source: str) -> bool:
    """Return whether the pairs of a source are held out from training."""
    return _digest(source) % HELD_OUT == 0


def adapt(
    memory: Memory, folder: Path, model: str | None = None, changes: Sequence[str] = ()
) -> AdaptationScores | None:
    """Train an adapter on the pairs of a memory, and keep it if it translates held-out pairs better.

    The same call resumes an interrupted adaptation. An adapter in ``folder`` is replaced if the new one is
    better, and is otherwise unchanged.

    Args:
        memory: the memory.
        folder: folder of the adapter.
        model: the model; by default that of the adapter in ``folder``, or the bundled model.
        changes: changes to the training settings, such as ``training.steps=1000``.

    Returns:
        the scores; None if the training was interrupted and can be resumed.

    Raises:
        DataError: the memory has too few pairs.
        ModelError: the model cannot be trained, or the adapter in ``folder`` belongs to another model.
        RunInUseError: another process is training the adapter.
        SettingsError: a setting is invalid, the model has other languages, or an interrupted adaptation had
            other arguments.
    """
    present = read_adapter(folder) if folder.exists() else None
    model = model or (present.base if present else "bundled")
    job = {"memory": memory.origin, "model": model, "set": list(changes)}
    work = folder.with_name(f".{folder.name}.adapting")
    work.mkdir(parents=True, exist_ok=True)
    with RunLock(work, "trains an adapter", "another name of the adapter"), _remove_if_not_started(work):
        _copy_pairs(memory, work, job)
        settings = _settings(memory, model, work, changes)
        open_base(settings)  # reports a model that cannot be trained before any is scored
        held_out = _read_held_out(work)
        base_score = _score(memory, model, None, held_out)
        present_score = _score(memory, model, folder, held_out) if present else None
        adapter = train(settings)
        if adapter is None:
            return None
        score = _score(memory, model, adapter, held_out)
        scores = AdaptationScores(len(held_out), base_score, present_score, score)
        if scores.is_better:
            card = (adapter / CARD).read_text(encoding="utf-8")
            write_adapter(folder, read_adapter(adapter), f"{card}\nPairs of {memory.origin}: {scores}.\n")
        shutil.rmtree(work / RUN)
    return scores


@contextmanager
def _remove_if_not_started(work: Path) -> Iterator[None]:
    """Remove the folder of an adaptation at the end of a block if there is no training to resume."""
    try:
        yield
    finally:
        if newest_checkpoint(work / RUN / "checkpoints") is None:
            shutil.rmtree(work, ignore_errors=True)


def _copy_pairs(memory: Memory, work: Path, job: dict[str, Any]) -> None:
    """Copy the pairs of a memory to the folder of an adaptation, unless an interrupted one has done so."""
    path = work / JOB
    if path.exists():
        check_same_job(str(work), json.loads(path.read_text(encoding="utf-8")), job, f"delete {work}")
        return
    pairs = dict.fromkeys(
        (normalise_spaces(pair.source), normalise_spaces(pair.target)) for _, pair in memory.pairs()
    )
    sources = {source for source, _ in pairs}
    held_out = sorted(filter(is_held_out, sources), key=_digest)[:MAX_SCORED]
    if len(held_out) < MIN_SCORED:
        raise DataError(
            f"{memory.origin}: of its {len(sources):,} sources, {len(held_out)} are held out to compare "
            f"models; at least {MIN_SCORED} are needed: add pairs, up to about {MIN_SCORED * HELD_OUT} "
            "sources"
        )
    scored = set(held_out)
    write_file(work / HELD_OUT_PAIRS, _lines(pair for pair in pairs if pair[0] in scored))
    write_file(work / PAIRS, _lines(_with_symbols(*pair) for pair in pairs if not is_held_out(pair[0])))
    write_file(path, json.dumps(job))  # last: it says that the others are complete


def _with_symbols(source: str, target: str) -> tuple[str, str]:
    """Return a pair as the model translates it, with symbols for its placeholders."""
    inlines = pair_with_symbols(COMMON_PLACEHOLDERS.split(source), COMMON_PLACEHOLDERS.split(target))
    source, target = map(plain_text, inlines)
    return source, target


def _lines(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


def _read_pairs(path: Path) -> list[tuple[str, str]]:
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [(source, target) for source, _, target in (line.partition("\t") for line in lines)]


def _read_held_out(work: Path) -> dict[str, list[str]]:
    """Return the held-out sources with their translations."""
    references: dict[str, list[str]] = {}
    for source, target in _read_pairs(work / HELD_OUT_PAIRS):
        references.setdefault(source, []).append(target)
    return references


def _settings(memory: Memory, model: str, work: Path, changes: Sequence[str]) -> Settings:
    """Return the settings of the training."""
    characters = sum(len(target) for _, target in _read_pairs(work / PAIRS))
    steps = min(MAX_STEPS, max(MIN_STEPS, EPOCHS * characters // CHARACTERS_PER_STEP))
    values = deepcopy(RECIPE)
    values["training"]["steps"] = steps
    values |= {"init": model, "run": str(work / RUN)}
    values["data"] = {
        "train": [str(work / PAIRS)],
        "dev": [str(work / HELD_OUT_PAIRS)],
        "languages": list(memory.languages),
    }
    for change in changes:
        change_setting(values, change)
    # Validations in between would choose a checkpoint by the pairs that decide.
    values["training"].setdefault("validate_every", values["training"]["steps"])
    settings = parse(Settings, values, "--set")
    if (settings.init, settings.run) != (model, work / RUN) or settings.adapt.lora is None:
        raise SettingsError(
            "--set: init and run are set by the arguments of the command, and adapt.lora is required; use "
            "`uwaga train` to change all settings"
        )
    return settings


def _score(memory: Memory, model: str, adapter: Path | None, references: dict[str, list[str]]) -> float:
    """Return the chrF of a model's translations of sources."""
    source, target = memory.languages
    translator = uwaga.load(model, source=source, target=target, adapter=adapter)
    texts = [translation.text for translation in translator.translate(list(references))]
    return evaluate(texts, list(references.values()), ("chrf",))["chrf"].value


def _digest(source: str) -> int:
    return int.from_bytes(hashlib.blake2b(normalise_spaces(source).encode(), digest_size=8).digest())
