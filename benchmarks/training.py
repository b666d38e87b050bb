"""Compare the training speed of uwaga, JoeyNMT 2.3 and Hugging Face's Seq2SeqTrainer, in target tokens per
second.

    python benchmarks/training.py
    python benchmarks/training.py --corpus train.en train.de --rounds 5 --json training.json

All systems train the same Transformer-Tiny (recipes/multi30k-tiny.yaml) on the same batches of the same
sentences with the same number of threads, in one process and one environment per system. Rounds alternate
between the systems, and the median counts. See benchmarks/README.md.
"""

from __future__ import annotations

from peers.comparison import Comparison, System, run

SYSTEMS = {
    "uwaga-bf16": System("uwaga", "uwaga", "bfloat16"),
    "uwaga-f32": System("uwaga", "uwaga", "float32"),
    "uwaga-bf16-1thread": System("uwaga, one thread", "uwaga", "bfloat16", threads=1),
    "uwaga-f32-1thread": System("uwaga, one thread", "uwaga", "float32", threads=1),
    "huggingface-f32": System("Hugging Face", "huggingface", "float32", "sdpa"),
    "huggingface-f32-eager": System("Hugging Face", "huggingface", "float32", "eager"),
    "huggingface-bf16": System("Hugging Face", "huggingface", "bfloat16", "sdpa"),
    "huggingface-bf16-eager": System("Hugging Face", "huggingface", "bfloat16", "eager"),
    "huggingface-f32-parallel": System("Hugging Face", "huggingface", "float32", "sdpa", parallel=True),
    "huggingface-bf16-parallel": System("Hugging Face", "huggingface", "bfloat16", "eager", parallel=True),
    "joeynmt-f32": System("JoeyNMT", "joeynmt", "float32"),
    "joeynmt-bf16": System("JoeyNMT", "joeynmt", "bfloat16"),
}
# Left out unless asked for: JoeyNMT's settings refuse 16-bit on a CPU; the others would take the time.
EXTRA = ("joeynmt-bf16", "huggingface-f32-eager", "uwaga-f32-1thread")
BARS = (("uwaga", "JoeyNMT", 5.0), ("uwaga", "Hugging Face", 1.5))

if __name__ == "__main__":
    run(Comparison(__doc__ or "", SYSTEMS, EXTRA, BARS))
