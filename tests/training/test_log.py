"""Logs of a run: metrics, TensorBoard events, and the progress bar."""

import io
import json
import math
from pathlib import Path

import pytest
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from toy import toy_settings, write_reversal_corpus

from uwaga.evaluation import MetricScore
from uwaga.training import checkpoint
from uwaga.training.checkpoint import Progress, checkpoint_path
from uwaga.training.page import METRICS_FILE
from uwaga.training.report import MAX_SAMPLE_LENGTH, EventFile, Reporter, TrainingBar, clock_time
from uwaga.training.step import UpdateStats
from uwaga.training.train import train
from uwaga.training.validation import Sample, Validation


def metrics(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / METRICS_FILE).read_text().splitlines()]


def scalars(folder: Path, tag: str) -> list[tuple[int, float]]:
    """Return the steps and values that TensorBoard reads."""
    accumulator = EventAccumulator(str(folder))
    accumulator.Reload()
    return [(event.step, event.value) for event in accumulator.Scalars(tag)]


def test_tensorboard_reads_the_written_events(tmp_path: Path) -> None:
    file = EventFile(tmp_path, 0)
    values = {1: 2.5, 300: -1e-30, 10**6: math.inf, 10**6 + 1: 1e300}
    for step, value in values.items():
        file.add(step, {"train/loss": value, "dev/ä": 1.0})
    assert [step for step, _ in scalars(tmp_path, "dev/ä")] == list(values)
    losses = scalars(tmp_path, "train/loss")
    assert [value for _, value in losses] == [2.5, pytest.approx(-1e-30, rel=1e-6), math.inf, math.inf]


def test_events_after_the_resumed_step_are_removed(tmp_path: Path) -> None:
    first = EventFile(tmp_path, 0)
    for step in (5, 10, 15):
        first.add(step, {"x": float(step)})
    second = EventFile(tmp_path, 10)
    second.add(12, {"x": 0.0})
    assert scalars(tmp_path, "x") == [(5, 5.0), (10, 10.0), (12, 0.0)]


def test_metrics_after_the_resumed_step_are_removed(tmp_path: Path) -> None:
    write_reversal_corpus(tmp_path)
    settings = toy_settings(tmp_path, steps=10, validate_every=2, save_every=2)
    train(settings)
    expected = metrics(settings.run)
    assert [(m["part"], m["step"]) for m in expected if m["part"] != "train"] == [
        *(("dev", step) for step in (2, 4, 6, 8, 10)),
        *([("mean", 10)] if any(m["part"] == "mean" for m in expected) else []),
        ("final", 10),
    ]
    for step in (8, 10):  # as if killed after step 6 while writing a line
        checkpoint_path(settings.run / "checkpoints", step).unlink(missing_ok=True)
    with (settings.run / METRICS_FILE).open("a") as file:
        file.write('{"part": "tr')
    train(settings)

    def without_speed(records: list[dict[str, object]]) -> list[dict[str, object]]:
        return [{k: v for k, v in line.items() if k != "tokens_per_second"} for line in records]

    assert without_speed([m for m in metrics(settings.run) if m["part"] != "train"]) == without_speed(
        [m for m in expected if m["part"] != "train"]
    )
    assert [step for step, _ in scalars(settings.run / "logs", "dev/loss")] == [2, 4, 6, 8, 10]
    steps = [m["step"] for m in metrics(settings.run)]
    assert steps == sorted(steps)

    train(toy_settings(tmp_path, steps=14, validate_every=2, save_every=2))
    finals = [m["step"] for m in metrics(settings.run) if m["part"] == "final"]
    assert finals == [10, 14]  # the result of the shorter run is kept


def test_appending_to_the_log_is_atomic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    checkpoint.append_to_file(path, b"one\n")
    write = checkpoint.os.write

    def partial_write(handle: int, content: memoryview) -> int:
        if bytes(content) == b"o\n":
            raise OSError(28, "No space left on device")
        return write(handle, content[:2])

    monkeypatch.setattr(checkpoint.os, "write", partial_write)
    with pytest.raises(OSError, match="No space") as error:
        checkpoint.append_to_file(path, b"two\n")
    assert error.value.filename == str(path) and path.read_bytes() == b"one\n"


class Clock:
    """A clock that is advanced manually."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def screen(console: Console, bar: TrainingBar) -> str:
    with console.capture() as capture:
        console.print(bar.bar.get_renderable())
    return capture.get()


@pytest.mark.parametrize("width", [80, 120])
def test_progress_bar_shows_progress_and_refreshes(width: int) -> None:
    console, clock = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None), Clock()
    bar = TrainingBar(console, 20_000, clock)
    assert "preparing" in screen(console, bar)
    bar.start(1000, 2, "")
    for step in (1001, 1002):
        clock.now += 2.0
        bar.update(step, 3, "loss 2.345  BLEU 23.10  2,100 tokens/s")
    output = screen(console, bar)
    for part in ("epoch 3", "1,002/20,000", "loss 2.345", "BLEU 23.10", "2,100 tokens/s"):
        assert part in output
    assert f"{clock_time(2.0 * 18_998)} left" in output  # from the updates since the start, not from step 0
    outputs = {output}
    for _ in range(5):
        clock.now += 1.0
        outputs.add(screen(console, bar))
    assert len(outputs) == 6
    bar.restart_pace()  # those seconds were spent on a validation
    clock.now += 2.0
    bar.update(1003, 3, "")
    assert f"{clock_time(2.0 * 18_997)} left" in screen(console, bar)


def test_progress_bar_shows_the_best_score_after_resume(tmp_path: Path) -> None:
    def progress_bar(step: int, validated: bool) -> str:
        console = Console(file=io.StringIO(), width=120, force_terminal=True, color_system=None)
        with Reporter(tmp_path, 100, console) as reporter:
            reporter.start(Progress(step=step))
            if validated:
                result = Validation(1.0, MetricScore("bleu", 12.34, "s"), None)
                reporter.validation(Progress(step=step), result)
            reporter.update(Progress(step=step + 1), UpdateStats(20.0, 20.0, 10, 1.0, 1e-3))
            assert reporter.bar is not None
            return screen(console, reporter.bar)

    output = progress_bar(4, True)
    assert "BLEU 12.34" in output and "loss 2.000" in output and "epoch 1" in output
    assert "BLEU 12.34" in progress_bar(7, False)


def test_log_lines_are_short_and_use_common_metric_names(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=80)
    sample = Sample("A group.", "Gruppe " * 500, "Eine Gruppe.")
    bleu, chrf = MetricScore("bleu", 1.894, "s"), MetricScore("chrf", 13.2, "s")
    with Reporter(tmp_path, 100, console) as reporter:
        reporter.start(Progress(step=40))
        reporter.validation(Progress(step=40), Validation(3.1234, bleu, chrf, samples=(sample,)))
        reporter.report_dev_set(Progress(step=40), "news", Validation(2.0, bleu), "also")
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[0] == "step 40: dev loss 3.123  perplexity 22.7  BLEU 1.89  chrF 13.20"
    assert lines[-1] == "news, step 40: dev loss 2.000  BLEU 1.89"
    assert [line.split()[0] for line in lines[1:4]] == ["source", "translation", "reference"]
    assert max(map(len, lines)) <= MAX_SAMPLE_LENGTH + len("  translation ") and "…" in lines[2]
    stored = json.loads((tmp_path / "samples.jsonl").read_text())["samples"][0]
    assert stored["translation"] == sample.translation
