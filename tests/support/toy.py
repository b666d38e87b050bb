"""A toy corpus: letter sequences and their reversals."""

import random
from pathlib import Path
from typing import Any

from uwaga.settings import Settings, parse
from uwaga.training.process import Interrupt


def write_reversal_corpus(folder: Path, pairs: int = 600, max_length: int = 6, seed: int = 0) -> None:
    """Write ``train.tsv`` and ``dev.tsv``, whose targets are the letters of the source reversed."""
    rng = random.Random(seed)
    for name, count in (("train", pairs), ("dev", 40)):
        lines = []
        for _ in range(count):
            letters = rng.choices("abcdefghijkl", k=rng.randint(1, max_length))
            lines.append("".join(letters) + "\t" + "".join(reversed(letters)))
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def toy_values(folder: Path, **training: Any) -> dict[str, Any]:
    """Return unparsed settings of a run in ``folder``; ``training`` overrides settings of its group."""
    return {
        "run": str(folder / "run"),
        "data": {
            "train": [str(folder / "train.tsv")],
            "dev": [str(folder / "dev.tsv")],
            "languages": ["abc", "cba"],
        },
        "text": {"kind": "bpe", "size": 17, "byte_fallback": False, "normalisation": "identity"},
        "model": {
            "encoder_layers": 1, "decoder_layers": 1, "width": 32, "heads": 2, "feed_forward": 64,
            "max_length": 40, "dropout": 0.1, "norm": "pre",
        },
        "training": {
            "steps": 30, "batch_tokens": 200,
            "schedule": {"kind": "inverse_sqrt", "peak": 0.01, "warmup": 20}, "threads": 1, "device": "cpu",
            "validate_every": 10, "validation_sentences": 10, "save_every": 5, "average": 2, **training,
        },
        "decoding": {"beam": 2, "max_length": 30},
    }  # fmt: skip


def toy_settings(folder: Path, **training: Any) -> Settings:
    """Return the settings of :func:`toy_values` after validation."""
    return parse(Settings, toy_values(folder, **training), "toy")


class Stop(Interrupt):
    """Raises KeyboardInterrupt after a number of updates."""

    after = 0

    @property
    def requested(self) -> bool:
        Stop.after -= 1
        return Stop.after == 0

    @requested.setter
    def requested(self, value: bool) -> None:
        pass
