"""Convert finished runs to the int8 models that the laboratory loads.

    python publish.py [--runs DIR] [--out DIR]

Each finished run of ``train.sh`` becomes a folder ``docs/learn/models/NAME``. ``models.json`` beside the
folders lists the models with BLEU on the test pairs, weights and size. The tokenisers must be equal.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

import sacrebleu

import uwaga
from uwaga.checkpoints.registry import describe
from uwaga.conversion.quantise import quantise
from uwaga.inspection.head_selection import head_errors

ROOT = Path(__file__).resolve().parents[2]
TITLES = {
    "cho": "Cho 2014: one vector",
    "bahdanau": "Bahdanau 2014",
    "luong": "Luong 2015",
    "transformer": "Transformer",
}
LARGEST = 3_000_000
"""Maximum bytes of a model's weights."""
SAMPLE = 300
"""Number of test pairs for comparing int8 with float32, and for choosing the Transformer's alignment head."""


def pairs_of(path: Path) -> list[tuple[str, list[str]]]:
    """Return each source with its references."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(source, references) for source, *references in (line.split("\t") for line in lines)]


def aligning_head(folder: Path, pairs: list[tuple[str, str]]) -> dict[str, int]:
    """Return the layer and the head, from 1, whose links are most similar to those of uwaga's own aligner."""
    errors = head_errors(uwaga.load(folder, device="cpu"), pairs)
    single = [error for error in errors if error.head is not None and error.step == "predicting"]
    best = min(single, key=errors.__getitem__)
    print(f"  aligning head: layer {best.layer}, head {best.head}, error {errors[best]:.3f}")
    return {"layer": best.layer, "head": best.head or 1}


def publish(run: Path, out: Path, test: list[tuple[str, list[str]]]) -> dict[str, object]:
    """Write the int8 folder of a finished run, measure it, and return its entry of ``models.json``."""
    name = run.name
    with tempfile.TemporaryDirectory() as folder:
        agreement = quantise(
            run / "model", Path(folder) / name, sample=[source for source, _ in test[:SAMPLE]]
        )
        shutil.rmtree(out / name, ignore_errors=True)
        shutil.copytree(Path(folder) / name, out / name)
    weights = describe(run / "model").weights.parameters
    size = sum(path.stat().st_size for path in (out / name).iterdir())
    if (out / name / "engine.safetensors").stat().st_size > LARGEST:
        sys.exit(f"error: {out / name} has more than {LARGEST} bytes of weights")
    translator = uwaga.load(out / name, device="cpu")
    outputs = [translation.text for translation in translator.translate([source for source, _ in test])]
    max_references = max(len(references) for _, references in test)
    columns = [
        [row[index] if index < len(row) else None for _, row in test] for index in range(max_references)
    ]
    bleu = sacrebleu.corpus_bleu(outputs, columns).score
    print(f"{name}: {weights} weights, {size} bytes, BLEU {bleu:.2f}, {agreement.tokens:.1%} as in float32")
    entry: dict[str, object] = {
        "name": name,
        "title": TITLES[name],
        "weights": weights,
        "bytes": size,
        "bleu": round(bleu, 2),
    }
    if name == "transformer":
        entry["head"] = aligning_head(run / "model", [(source, row[0]) for source, row in test[:SAMPLE]])
    return entry


def main() -> None:
    """Publish all finished runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs/compare"))
    parser.add_argument("--out", type=Path, default=ROOT / "docs/learn/models")
    arguments = parser.parse_args()
    test = pairs_of(arguments.runs / "test.tsv")
    index = arguments.out / "models.json"
    entries = {entry["name"]: entry for entry in json.loads(index.read_text())} if index.exists() else {}
    for name in TITLES:
        if (arguments.runs / name / "finished.json").exists():
            entries[name] = publish(arguments.runs / name, arguments.out, test)
        elif name not in entries:
            print(f"{name}: not finished")
    if len({(arguments.out / name / "source.spm").read_bytes() for name in entries}) > 1:
        sys.exit("error: the tokenisers of the models differ; train all on the same train.tsv")
    index.write_text(json.dumps([entries[name] for name in TITLES if name in entries], indent=1) + "\n")


if __name__ == "__main__":
    main()
