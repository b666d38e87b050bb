"""Measure the errors of int8 in uwaga's engine and CTranslate2, against float32 on the same weights and
targets.

    python benchmarks/exactness.py
    python benchmarks/exactness.py --text test.en --sentences 500

There are two models: one of an OPUS-MT model's size with random weights, and the bundled one, which `uwaga
convert --to pegasus` converts for CTranslate2. Both engines score the same targets, the greedy translations
in float32, token by token; the error of int8 is the difference of a token's log-probability from that of the
same engine in float32. The logits of the first token are compared over the whole vocabulary, after
subtracting the mean of each row. The agreement is that of the greedy translations in int8 and in float32.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from engine import PEER_ISA, TARGET, environment, prepare
from peers.machine import machine
from peers.opus_size import sources as random_sources

from uwaga.engine.cpu import available_isas

FOLDER = Path(__file__).parent
MODELS = ("random", "bundled")
BATCH, LONGEST = 32, 120


@dataclass(frozen=True)
class Folders:
    """The folders with a model's weights for each system.

    ``target`` is the number of tokens of each greedy translation; 0 if the end symbol ends it.
    """

    hugging_face: Path
    ours: Path
    ours_int8: Path
    ct2: Path
    ct2_int8: Path
    target: int


def folders(folder: Path, model: str) -> Folders:
    if model == "random":
        names = ("marian", "marian", "uwaga-int8", "ct2-float32", "ct2-int8")
        return Folders(*(folder / name for name in names), TARGET)
    import uwaga.library.hub as hub

    names = ("bundled-int8", "bundled-ct2-float32", "bundled-ct2-int8")
    return Folders(folder / "bundled-hf", hub.BUNDLED, *(folder / name for name in names), 0)


def make(folder: Path, model: str) -> Folders:
    """Return the folders of a model, after writing those that are missing."""
    from ctranslate2.converters import TransformersConverter

    from uwaga.conversion.quantise import quantise

    paths = folders(folder, model)
    if model == "random":
        prepare(folder)
    elif not paths.hugging_face.exists():
        command = ["-m", "uwaga", "convert", "bundled", str(paths.hugging_face), "--to", "pegasus"]
        subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
    if not paths.ours_int8.exists():
        quantise(paths.ours, paths.ours_int8)
    for out, quantization in ((paths.ct2, None), (paths.ct2_int8, "int8")):
        if not out.exists():
            TransformersConverter(str(paths.hugging_face)).convert(str(out), quantization=quantization)
    return paths


def prose() -> list[str]:
    """Return the English sentences of the documentation in this repository."""
    from uwaga.tokenizers.sentences import split_sentences

    sentences: list[str] = []
    for path in sorted((FOLDER.parent / "docs").rglob("*.md")):
        text = re.sub(r"^(```|---).*?^(```|---)", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
        for paragraph in re.split(r"\n\s*\n", text):
            if re.match(r"\w", paragraph) and "://" not in paragraph:
                plain = re.sub(r"\[(.*?)\]\(.*?\)|[*`_]", r"\1", " ".join(paragraph.split()))
                sentences += [sentence.strip() for sentence in split_sentences(plain, "en")]
    return [sentence for sentence in sentences if 3 <= len(sentence.split()) <= 30]


def encode_sources(model: str, text: Path | None, count: int) -> list[list[int]]:
    """Return sources as token ids, each with its end symbol."""
    if model == "random":
        return random_sources(count, seed=3)
    from uwaga.checkpoints.formats.uwaga.names import BUNDLED
    from uwaga.checkpoints.registry import read

    lines = text.read_text(encoding="utf-8").splitlines() if text else prose()
    tokeniser = read(BUNDLED).source
    framed = [
        list(tokeniser.add_special_tokens(tokeniser.encode(line.strip()))) for line in lines if line.strip()
    ]
    return [ids for ids in framed if len(ids) <= 100][:count]


# --- the systems: from sources and targets to log-probabilities, translations and first logits


def run_uwaga(paths: Folders, precision: str, job: dict[str, Any]) -> dict[str, Any]:
    """Run a job with uwaga's engine in ``precision``: ``float32`` or ``int8``."""
    from uwaga.checkpoints.registry import read
    from uwaga.checkpoints.to_engine import to_engine
    from uwaga.decoder import Choice
    from uwaga.search import SearchInput, SearchOptions, search
    from uwaga.translator.score import score_in_batches, step_scorer
    from uwaga.translator.text import TokenPair

    path = paths.ours_int8 if precision == "int8" else paths.ours
    engine_precision: Any = precision
    model = to_engine(read(path), engine_precision)
    sources = job["sources"]
    limit = {"max_length": TARGET, "min_length": TARGET} if paths.target else {"max_length": LONGEST}
    options = SearchOptions(beam=1, max_ratio=float("inf"), batch_tokens=1 << 11, **limit)
    sentences = list(map(SearchInput, sources))
    greedy = [list(hypothesis.tokens) for [hypothesis] in search(model, sentences, options)]
    targets = job["targets"] or greedy
    pairs = [
        TokenPair(source, [*target, model.symbols.end])
        for source, target in zip(sources, targets, strict=True)
    ]
    scores = score_in_batches(step_scorer(model), pairs, 1 << 11)
    logits = []
    for first in range(0, len(sources), BATCH):
        batch = sources[first : first + BATCH]
        state = model.start(model.encode(batch), 1)
        start = np.full(len(batch), model.symbols.start, dtype=np.int64)
        logits.append(model.step(start, state, Choice(count=1, all_tokens=True)).log_probs)
    return {"greedy": greedy, "scores": scores, "logits": np.concatenate(logits)}


def run_ctranslate2(paths: Folders, precision: str, job: dict[str, Any]) -> dict[str, Any]:
    import ctranslate2

    path = paths.ct2_int8 if precision == "int8" else paths.ct2
    translator = ctranslate2.Translator(str(path), compute_type=precision, intra_threads=1)
    ids: dict[str, int] = json.loads((paths.hugging_face / "vocab.json").read_text(encoding="utf-8"))
    pieces = {number: piece for piece, number in ids.items()}
    ends = not json.loads((path / "config.json").read_text())["add_source_eos"]
    sources = [
        [pieces[token] for token in (sentence if ends else sentence[:-1])] for sentence in job["sources"]
    ]
    targets = [[pieces[token] for token in target] for target in job["targets"]]
    length = (
        {"min_decoding_length": TARGET, "max_decoding_length": TARGET}
        if paths.target
        else {"max_decoding_length": LONGEST}
    )
    results = translator.translate_batch(sources, beam_size=1, max_batch_size=BATCH, **length)
    scored = translator.score_batch(sources, targets, max_batch_size=BATCH)
    logits = []
    for first in range(0, len(sources), BATCH):
        for result in translator.translate_batch(
            sources[first : first + BATCH],
            beam_size=1,
            max_decoding_length=1,
            min_decoding_length=0,
            return_scores=True,
            return_logits_vocab=True,
        ):
            logits.append(np.asarray(result.logits[0][0]).reshape(-1))
    return {
        "greedy": [[ids[piece] for piece in result.hypotheses[0]] for result in results],
        "scores": [list(result.log_probs) for result in scored],
        "logits": np.stack(logits),
    }


SYSTEMS = {"uwaga": run_uwaga, "ctranslate2": run_ctranslate2}


def in_process(system: str, precision: str, isa: str | None, job: Path) -> dict[str, Any]:
    """Return the results of a worker process that is limited to the instruction set ``isa``."""
    out = job.with_name("found.npz")
    command = [sys.executable, __file__, "--worker", system, "--precision", precision, "--job", str(job)]
    subprocess.run(command, env=environment(1, isa), check=True)
    with np.load(out) as file:
        texts = json.loads(str(file["texts"]))
        return {**texts, "logits": file["logits"]}


def work(system: str, precision: str, job: Path) -> None:
    values = json.loads(job.read_text())
    result = SYSTEMS[system](folders(Path(values["folder"]), values["which"]), precision, values)
    texts = json.dumps({name: result[name] for name in ("greedy", "scores")})
    np.savez(job.with_name("found.npz"), texts=texts, logits=result["logits"].astype(np.float32))


def measure(exact: dict[str, Any], other: dict[str, Any]) -> dict[str, float]:
    """Return the errors of ``other`` against ``exact``.

    Those of token log-probabilities are in nats, those of the first logits are relative to their spread.
    """
    differences = np.concatenate(
        [
            np.subtract(expected, actual)
            for expected, actual in zip(exact["scores"], other["scores"], strict=True)
        ]
    )
    width = min(exact["logits"].shape[1], other["logits"].shape[1])  # Marian's <pad> may be missing
    logits = [result["logits"][:, :width].astype(np.float64) for result in (exact, other)]
    usable_ = np.all([table > -1e3 for table in logits], axis=(0, 1))  # banned tokens have no logit
    left, second = (table[:, usable_] - table[:, usable_].mean(1, keepdims=True) for table in logits)
    pairs = list(zip(exact["greedy"], other["greedy"], strict=True))
    return {
        "mean": float(np.abs(differences).mean()),
        "rms": float(np.sqrt(np.square(differences).mean())),
        "largest": float(np.abs(differences).max()),
        "tokens": len(differences),
        "logits": float(np.sqrt(np.square(left - second).mean() / np.square(left).mean())),
        "first": sum(expected[:1] == actual[:1] for expected, actual in pairs) / len(pairs),
        "whole": sum(expected == actual for expected, actual in pairs) / len(pairs),
    }


def compare(folder: Path, model: str, text: Path | None, count: int) -> dict[str, dict[str, float]]:
    """Compare each int8 system with its own float32, and CTranslate2's float32 with that of uwaga."""
    make(folder, model)
    job = folder / "job.json"
    values = {
        "folder": str(folder),
        "which": model,
        "sources": encode_sources(model, text, count),
        "targets": [],
    }
    job.write_text(json.dumps(values))
    reference = in_process("uwaga", "float32", None, job)
    job.write_text(json.dumps({**values, "targets": reference["greedy"]}))
    peer = in_process("ctranslate2", "float32", None, job)
    differences = {"CTranslate2 float32, against uwaga's": measure(reference, peer)}
    for isa in (name for name in reversed(list(PEER_ISA)) if name in available_isas()):
        differences[f"uwaga int8, {isa}"] = measure(reference, in_process("uwaga", "int8", isa, job))
    for isa in (name for name in reversed(list(PEER_ISA)) if name in available_isas()):
        differences[f"CTranslate2 int8, {isa}"] = measure(peer, in_process("ctranslate2", "int8", isa, job))
    return differences


def show(model: str, differences: dict[str, dict[str, float]]) -> None:
    tokens = next(iter(differences.values()))["tokens"]
    print(
        f"\n{model} model, {tokens} tokens: error of a token's log-probability and of the logits; agreement"
    )
    print(f"{'':40} {'mean':>9} {'rms':>9} {'largest':>9} {'logits':>8} {'first':>7} {'whole':>7}")
    for name, figures in differences.items():
        print(
            f"{name:40} {figures['mean']:9.5f} {figures['rms']:9.5f} {figures['largest']:9.4f} "
            f"{figures['logits']:8.2%} {figures['first']:7.1%} {figures['whole']:7.1%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument(
        "--text", type=Path, help="file of English sentences; default: those of the documentation"
    )
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--folder", type=Path, help="folder for the models; default: a temporary folder")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", choices=list(SYSTEMS), help=argparse.SUPPRESS)
    parser.add_argument("--precision", help=argparse.SUPPRESS)
    parser.add_argument("--job", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker, arguments.precision, arguments.job)
        return
    print(machine())
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        results = {}
        for model in arguments.models:
            results[model] = compare(folder, model, arguments.text, arguments.sentences)
            show(model, results[model])
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
