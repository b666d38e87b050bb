"""Compare load time and peak memory of uwaga and transformers for an OPUS-MT model of 74 million weights.

    python benchmarks/loading.py
    python benchmarks/loading.py --rounds 9 --json loading.json --check

Both systems load the same folder, with random weights in the shape of opus-mt-en-de, in a new process every
round. Rounds alternate between the systems, and the median counts. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from peers.machine import machine, show_machine

import uwaga

FOLDER = Path(__file__).parent
CACHE = FOLDER / ".peers" / "opus-size"
SYSTEMS = ("uwaga", "transformers")
BARS = {"seconds": 0.5, "peak_mib": 0.6}
VOCABULARY = 58_101
PIECES = 32_000
STEPS = 24
MOMENTS = {"loaded": "to the loaded model", "translated": "to the first translated sentence"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a bar is missed")
    arguments = parser.parse_args()
    if not (CACHE / "complete").exists():
        make_model(CACHE)
    host = machine()
    show_machine(host)
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in SYSTEMS}
    for name in SYSTEMS:
        measure(name, arguments.threads)  # fills the page cache, and Python's own of compiled files
    for number in range(arguments.rounds):
        for name in SYSTEMS if number % 2 == 0 else reversed(SYSTEMS):
            runs[name].append(measure(name, arguments.threads))
            print(f"round {number + 1} of {arguments.rounds}: {name}", file=sys.stderr)
    missed = report(runs)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": host, "runs": runs}, indent=2) + "\n")
    if arguments.check and missed:
        raise SystemExit(1)


def measure(name: str, threads: int) -> dict[str, Any]:
    """Load a model and translate a sentence in a new process, and return the figures that it prints."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    environment |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": ""}
    environment["PYTHONPATH"] = str(Path(uwaga.__file__).parents[1])
    command = [sys.executable, str(FOLDER / "peers" / "loading_worker.py"), name, str(CACHE)]
    process = subprocess.run(command, env=environment, capture_output=True, text=True)
    if process.returncode:
        raise SystemExit(f"{name} failed with exit code {process.returncode}:\n{process.stderr[-3000:]}")
    result: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return result


def report(runs: dict[str, list[dict[str, Any]]]) -> bool:
    """Print the table and the ratios; True if a bar is missed."""
    versions = {name: version for rounds in runs.values() for name, version in rounds[0]["versions"].items()}
    print("versions " + ", ".join(f"{name} {version}" for name, version in sorted(versions.items())))
    texts = {run["translation"] for rounds in runs.values() for run in rounds}
    print("translations " + ("alike" if len(texts) == 1 else f"DIFFER: {sorted(texts)}"))
    missed = False
    for moment, words in MOMENTS.items():
        print(f"\n{words:34}{'seconds':>9}{'lowest':>9}{'highest':>9}{'peak MiB':>10}{'private':>9}")
        for name, rounds in runs.items():
            seconds = [run[moment]["seconds"] for run in rounds]
            peak, private = (
                statistics.median(run[moment][key] for run in rounds) for key in ("peak_mib", "private_mib")
            )
            print(
                f"{name:34}{statistics.median(seconds):9.2f}{min(seconds):9.2f}{max(seconds):9.2f}"
                f"{peak:10,.0f}{private:9,.0f}"
            )
        for key, bar in BARS.items():
            ratios = [
                uwaga_round[moment][key] / peer_round[moment][key]
                for uwaga_round, peer_round in zip(runs["uwaga"], runs["transformers"], strict=True)
            ]
            ratio = statistics.median(ratios)
            missed |= ratio > bar
            print(
                f"{key:10} uwaga / transformers {ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f}); "
                f"the bar is {bar}: {'met' if ratio <= bar else 'MISSED'}"
            )
    importing = [run["torch_seconds"] for run in runs["transformers"]]
    seconds = statistics.median(importing)
    print(f"\nbefore that, in transformers: {seconds:.2f} s to import torch, which uwaga does not need")
    return missed


def make_model(folder: Path) -> None:
    """Write a Marian folder in the shape of opus-mt-en-de with transformers."""
    import sentencepiece
    import torch
    import transformers

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    draws = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocabularies: list[str] = []
    for side in ("source", "target"):
        words = ["".join(draws.choices(letters, k=draws.randint(3, 9))) for _ in range(2 * PIECES)]
        lines = [" ".join(words[start : start + 100]) for start in range(0, len(words), 100)]
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_prefix=str(folder / side),
            model_type="word",
            vocab_size=PIECES,
            minloglevel=2,
        )
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
        (folder / f"{side}.vocab").unlink()
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        vocabularies += [model.id_to_piece(number) for number in range(3, model.get_piece_size())]
    pieces = list(dict.fromkeys(["</s>", "<unk>", *vocabularies]))[: VOCABULARY - 1]
    pieces += [f"unused{number}" for number in range(len(pieces), VOCABULARY - 1)] + ["<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(pieces)}))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"source_lang": "en", "target_lang": "de", "tokenizer_class": "MarianTokenizer"})
    )
    pad = VOCABULARY - 1
    config = transformers.MarianConfig(
        **{"vocab_size": VOCABULARY, "d_model": 512, "encoder_layers": 6, "decoder_layers": 6},
        **{"encoder_attention_heads": 8, "decoder_attention_heads": 8, "encoder_ffn_dim": 2048},
        **{"decoder_ffn_dim": 2048, "max_position_embeddings": 512, "activation_function": "swish"},
        **{"scale_embedding": True, "pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": 0},
        **{"bos_token_id": 0, "forced_eos_token_id": 0, "dtype": "float32"},
    )
    torch.manual_seed(1)
    model = transformers.MarianMTModel(config)
    # The end symbol at the last step only: every system makes as many steps.
    model.generation_config.update(
        max_length=STEPS, min_length=STEPS, num_beams=4, bad_words_ids=[[pad]], forced_eos_token_id=0
    )
    model.save_pretrained(folder)
    (folder / "complete").touch()


if __name__ == "__main__":
    main()
