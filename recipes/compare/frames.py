"""Record how training changes the attention of the four models, as JSON.

    python frames.py [--runs DIR] [--out FILE]

A frame is one checkpoint of a run. All are forced along the same three translations. A frame has the
cross-attention in 8 bits, the loss on dev pairs, the number of source positions that a row looks at (e to the
power of its entropy), and the share of target pieces whose largest weight is on a piece of the right word.
"""

from __future__ import annotations

import argparse
import base64
import json
import math
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uwaga.models.base import Seq2Seq
from uwaga.settings import load_settings
from uwaga.tokenizers.tokeniser import Tokeniser
from uwaga.training.base_model import open_base
from uwaga.training.checkpoint import average_checkpoints, checkpoint_path
from uwaga.training.initial_model import make_initial_model
from uwaga.training.run import load_weights

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("cho", "bahdanau", "luong", "transformer")
FRAMES = 40
DEV = 200
"""Number of dev pairs for the loss and for the number of positions."""
COUNTED = 40_000
"""Number of training pairs whose target tokens are counted."""
FROM_SINGLE = 20
"""Weight, as a count, of a token's own frequency where it is predicted from the token before it."""
SENTENCES = (
    ("I want to buy a car.", "Ich möchte ein Auto kaufen.", "0-0 1-1 4-2 5-3 3-4 2-4 6-5"),
    (
        "The old man sits on the bench and reads a newspaper.",
        "Der alte Mann sitzt auf der Bank und liest eine Zeitung.",
        "0-0 1-1 2-2 3-3 4-4 5-5 6-6 7-7 8-8 9-9 10-10 11-11",
    ),
    (
        "She said that she had lost her keys.",
        "Sie sagte, dass sie ihre Schlüssel verloren hatte.",
        "0-0 1-1 2-2 2-3 3-4 6-5 7-6 5-7 4-8 8-9",
    ),
)
"""Source, target, and links from source to target words; a punctuation mark is a word."""


def losses_without_source(tokeniser: Tokeniser, train: Path, dev: list[list[int]]) -> dict[str, float]:
    """Return the mean loss of a dev token predicted by frequency: alone, and after the previous token."""
    start = tokeniser.symbols.start
    single, pairs = np.full(tokeniser.size, 0.5), Counter[tuple[int, int]]()
    for line in train.read_text(encoding="utf-8").splitlines()[:COUNTED]:
        target = framed(tokeniser, line.split("\t")[1])
        np.add.at(single, target, 1)
        pairs.update(pairwise([start, *target]))
    first = Counter[int]()
    for (before, _), count in pairs.items():
        first[before] += count
    shares = single / single.sum()
    alone, after = [], []
    for before, token in (pair for target in dev for pair in pairwise([start, *target])):
        alone.append(-math.log(shares[token]))
        mixed = (pairs[before, token] + FROM_SINGLE * shares[token]) / (first[before] + FROM_SINGLE)
        after.append(-math.log(mixed))
    return {"alone": round(float(np.mean(alone)), 3), "after": round(float(np.mean(after)), 3)}


def words_of(pieces: list[str]) -> list[int]:
    """Return the index of the word that each piece belongs to; the end symbol is a word."""
    frames, index = [], -1
    for piece in pieces:
        mark = piece.lstrip("▁") in (".", ",", "</s>")
        if piece.startswith("▁") or mark or index < 0:
            index += 1
        frames.append(index)
    return frames


def framed(tokeniser: Tokeniser, text: str) -> list[int]:
    """Return the tokens of a text with the end symbol."""
    return list(tokeniser.add_special_tokens(tokeniser.encode(text)))


def updates_of(folder: Path) -> list[int]:
    """Return the numbers of about 40 updates with checkpoints, dense at the beginning; 0 is the untrained
    model.
    """
    steps = sorted(int(path.stem.removeprefix("step-")) for path in folder.glob("step-*.safetensors"))
    steps = [step for step in steps if step % 50 == 0]
    targets = np.geomspace(steps[0], steps[-1], 2 * FRAMES)
    spaced = {min(steps, key=lambda step: abs(step - target)) for target in targets}
    return [0, *sorted(spaced | {step for step in steps if step % 500 == 0})]


@torch.no_grad()
def dev_loss(model: Seq2Seq, pairs: list[tuple[list[int], list[int]]]) -> float:
    """Return the mean loss per target token in nats, including end symbols."""
    total = count = 0.0
    for first in range(0, len(pairs), 50):
        part = pairs[first : first + 50]
        start, pad = model.symbols.start, model.symbols.pad
        source = pad_rows([source_ids for source_ids, _ in part], pad)
        inputs = pad_rows([[start, *target[:-1]] for _, target in part], pad)
        outputs = pad_rows([target for _, target in part], pad)
        scores = model(source, inputs).gather(-1, outputs.unsqueeze(-1)).squeeze(-1)
        total -= scores[outputs != pad].sum().item()
        count += (outputs != pad).sum().item()
    return total / count


def pad_rows(rows: list[list[int]], pad: int) -> Tensor:
    """Return rows as an array (rows, longest)."""
    longest = max(map(len, rows))
    return torch.tensor([row + [pad] * (longest - len(row)) for row in rows])


def crosses(model: Seq2Seq, pairs: list[tuple[list[int], list[int]]]) -> list[np.ndarray]:
    """Return the cross-attention (layers, heads, target, source) of each pair."""
    inputs = [[model.symbols.start, *target[:-1]] for _, target in pairs]
    matrices = [attention.cross for attention in model.attentions([source for source, _ in pairs], inputs)]
    return [cross for cross in matrices if cross is not None]


def positions_seen(weights: list[np.ndarray]) -> float:
    """Return the mean of e to the power of a row's entropy: 1 for one position, n for n equal weights."""
    rows = [row for matrix in weights for row in matrix]
    return float(np.mean([math.exp(-float((row * np.log(np.maximum(row, 1e-30))).sum())) for row in rows]))


class Recorder:
    """The sentences as tokens, and the measurements of a model."""

    def __init__(self, tokeniser: Tokeniser, dev: Path, head: tuple[int, int]) -> None:
        self.head = head
        pairs = [line.split("\t")[:2] for line in dev.read_text(encoding="utf-8").splitlines()[:DEV]]
        self.dev = [(framed(tokeniser, source), framed(tokeniser, target)) for source, target in pairs]
        self.shown = [
            (framed(tokeniser, source), framed(tokeniser, target)) for source, target, _ in SENTENCES
        ]
        self.pieces = [
            {"source": tokeniser.pieces(source), "target": tokeniser.pieces(target)}
            for source, target in self.shown
        ]
        self.links = []
        for (_, _, links), pieces in zip(SENTENCES, self.pieces, strict=True):
            linked_indices = {tuple(map(int, link.split("-"))) for link in links.split()}
            source, target = words_of(pieces["source"]), words_of(pieces["target"])
            ends = (source[-1], target[-1])
            rows = [
                [(source_index, other) in linked_indices for source_index in source]
                for other in target
                if other != ends[1]
            ]
            self.links.append(np.array(rows))

    def share_linked(self, weights: list[np.ndarray]) -> float:
        """Return the share of pieces of the three targets whose largest weight is on the right word."""
        correct = [
            bool(links[row_index, row.argmax()])
            for links, matrix in zip(self.links, weights, strict=True)
            for row_index, row in enumerate(matrix[: len(links)])
        ]
        return sum(correct) / len(correct)

    def frame(self, model: Seq2Seq) -> dict[str, Any]:
        """Measure one checkpoint: its loss and, if it has attention, each view of its matrices."""
        examples, dev = crosses(model, self.shown), crosses(model, self.dev)
        views = {}
        if examples:
            heads = examples[0].shape[1]
            layer, head = self.head if heads > 1 else (1, 1)
            head_slices = {"head": slice(head - 1, head)} | ({"mean": slice(0, heads)} if heads > 1 else {})
            for name, part in head_slices.items():
                matrices = [cross[layer - 1, part].mean(axis=0) for cross in examples]
                positions = positions_seen([cross[layer - 1, part].mean(axis=0) for cross in dev])
                views[name] = {"seen": positions, "linked": self.share_linked(matrices), "weights": matrices}
        return {"loss": dev_loss(model, self.dev), "views": views}


def record(run: Path, recorder: Recorder, tokeniser: Tokeniser) -> dict[str, object]:
    """Return the frames of a run: a list for each measure, and matrices as base64 of bytes."""
    settings, base = open_base(load_settings(run / "settings.yaml"))
    model = make_initial_model(settings, base, tokeniser, tokeniser)
    model.eval()
    updates = updates_of(run / "checkpoints")
    frames = []
    for update in updates:
        if update:
            path = checkpoint_path(run / "checkpoints", update)
            load_weights(model, average_checkpoints([path]), path)
        frames.append(recorder.frame(model))
        summary = {
            name: (round(view["seen"], 2), round(view["linked"], 3))
            for name, view in frames[-1]["views"].items()
        }
        print(run.name, update, round(frames[-1]["loss"], 3), summary)
    return {
        "updates": updates,
        "loss": [round(frame["loss"], 3) for frame in frames],
        "bleu": bleu_of(run),
        "views": {
            name: merge_frames([frame["views"][name] for frame in frames]) for name in frames[0]["views"]
        },
    }


def merge_frames(frames: list[dict[str, Any]]) -> dict[str, object]:
    """Join the frames of a view; the weights become base64 of bytes, frame by frame and row by row."""
    shades = [
        np.rint(255 * matrix).astype(np.uint8).tobytes() for frame in frames for matrix in frame["weights"]
    ]
    return {
        "seen": [round(frame["seen"], 2) for frame in frames],
        "linked": [round(frame["linked"], 3) for frame in frames],
        "weights": base64.b64encode(b"".join(shades)).decode(),
    }


def bleu_of(run: Path) -> list[list[float]]:
    """Return the updates at which dev BLEU was measured, each with the BLEU."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [[line["step"], round(line["bleu"], 2)] for line in lines if line["part"] == "dev"]


def main() -> None:
    """Record all finished runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs/compare"))
    parser.add_argument("--out", type=Path, default=ROOT / "docs/learn/models/frames.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    entries = json.loads((ROOT / "docs/learn/models/models.json").read_text(encoding="utf-8"))
    head = next((entry["head"] for entry in entries if "head" in entry), {"layer": 1, "head": 1})
    runs = [arguments.runs / name for name in NAMES if (arguments.runs / name / "finished.json").exists()]
    tokeniser = Tokeniser.load(runs[0] / "text" / "joint.spm")
    recorder = Recorder(tokeniser, arguments.runs / "dev.tsv", (head["layer"], head["head"]))
    recorded_runs = {run.name: record(run, recorder, tokeniser) for run in runs}
    without = losses_without_source(
        tokeniser, arguments.runs / "train.tsv", [target for _, target in recorder.dev]
    )
    content = {"sentences": recorder.pieces, "without": without, "runs": recorded_runs}
    arguments.out.write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{arguments.out}: {arguments.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
