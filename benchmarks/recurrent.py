"""Compare the training speed of uwaga's and JoeyNMT 2.3's recurrent models, in target tokens per second.

    python benchmarks/recurrent.py
    python benchmarks/recurrent.py --corpus train.en train.de --rounds 5 --json recurrent.json

Bahdanau-small and Luong-small (recipes/multi30k-bahdanau.yaml and multi30k-luong.yaml) are compared with
JoeyNMT's recurrent encoder and decoder of the same widths. All systems train on the same batches of the same
sentences with the same number of threads, in one process and one environment per system. Rounds alternate
between the systems, and the median counts. See benchmarks/README.md for the differences of the models.
"""

from __future__ import annotations

from peers.comparison import Comparison, System, run

RECIPES = {"Bahdanau": "multi30k-bahdanau", "Luong": "multi30k-luong"}
PEER, PRECISIONS = "JoeyNMT", {"f32": "float32", "bf16": "bfloat16"}
SYSTEMS = {
    f"{worker}-{paper.lower()}-{short}": System(f"{family} {paper}", worker, precision, recipe=recipe)
    for paper, recipe in RECIPES.items()
    for worker, family in (("uwaga", "uwaga"), ("joeynmt", PEER))
    for short, precision in PRECISIONS.items()
}
# Left out unless asked for: JoeyNMT's settings refuse 16-bit on a CPU.
EXTRA = tuple(name for name in SYSTEMS if name.startswith("joeynmt") and name.endswith("bf16"))
BARS = tuple((f"uwaga {paper}", f"{PEER} {paper}", 1.5) for paper in RECIPES)

if __name__ == "__main__":
    run(Comparison(__doc__ or "", SYSTEMS, EXTRA, BARS))
