"""uwaga's worker: the loop of `uwaga train` on its own data pipeline, stopped after a number of updates."""

from __future__ import annotations

import torch
from clock import Clock, Job
from rich.console import Console

import uwaga
from uwaga.models.build import build_model
from uwaga.settings import load_settings
from uwaga.training.checkpoint import Progress
from uwaga.training.corpus import prepare_corpora
from uwaga.training.process import Interrupt, prepare_process
from uwaga.training.report import Reporter
from uwaga.training.run import Run
from uwaga.training.step import UpdateStats


class CountingReporter(Reporter):
    """Counts target tokens, and interrupts the run after the last update, as Ctrl-C does."""

    def __init__(self, job: Job, interrupt: Interrupt) -> None:
        super().__init__(job.folder, 10**9, Console(quiet=True))
        self.tokens, self.updates = 0, job.updates
        self.interrupt = interrupt

    def update(self, progress: Progress, result: UpdateStats) -> None:
        super().update(progress, result)
        self.tokens += result.tokens
        self.interrupt.requested |= progress.step == self.updates


def main() -> None:
    job = Job.from_arguments()
    settings = load_settings(job.settings)
    training = settings.training.model_copy(
        update={"precision": job.precision, "threads": job.threads, "steps": 10**9}
        | {"validate_every": 10**9, "save_every": 10**9}
    )
    settings = settings.model_copy(update={"training": training})
    clock = Clock(job)
    device = prepare_process(settings)
    with Interrupt() as interrupt, CountingReporter(job, interrupt) as reporter:
        corpora = prepare_corpora(settings, reporter.log)
        torch.manual_seed(training.seed)
        sizes = corpora.source.size, corpora.target.size
        model = build_model(settings.model, corpora.target.symbols, *sizes).to(device)
        Run(settings, model, corpora, reporter).train(interrupt)
    clock.finish(job, reporter.tokens, model, {"uwaga": uwaga.__version__})


if __name__ == "__main__":
    main()
