"""What int8 costs: uwaga's engine and CTranslate2, each against float32, on the same weights and targets.

    python benchmarks/exactness.py
    python benchmarks/exactness.py --text test.en --sentences 500

Two models: one of an OPUS-MT model's size with random weights, and the bundled one, written for CTranslate2
by `uwaga convert --to pegasus`. Both engines score the same targets, the greedy translations in float32,
token by token; the error of int8 is the difference of a token's log-probability from the same engine's
float32. The logits of the first token are compared over the whole vocabulary, each row's mean taken off.
Agreement: of the greedy translations in int8 with those in float32.
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

from uwaga.engine.cpu import usable

HERE = Path(__file__).parent
MODELS = ("random", "bundled")
BATCH, LONGEST = 32, 120


@dataclass(frozen=True)
class Folders:
    """One model's weights for everybody; ``target``: tokens of each greedy translation, 0 for its own end."""

    hugging_face: Path
    ours: Path
    ours_int8: Path
    ct2: Path
    ct2_int8: Path
    target: int


def folders(folder: Path, which: str) -> Folders:
    if which == "random":
        names = ("marian", "marian", "uwaga-int8", "ct2-float32", "ct2-int8")
        return Folders(*(folder / name for name in names), TARGET)
    import uwaga.library.hub as hub

    names = ("bundled-int8", "bundled-ct2-float32", "bundled-ct2-int8")
    return Folders(folder / "bundled-hf", hub.BUNDLED, *(folder / name for name in names), 0)


def make(folder: Path, which: str) -> Folders:
    """Make what is not there yet."""
    from ctranslate2.converters import TransformersConverter

    from uwaga.conversion.quantise import quantise

    found = folders(folder, which)
    if which == "random":
        prepare(folder)
    elif not found.hugging_face.exists():
        command = ["-m", "uwaga", "convert", "bundled", str(found.hugging_face), "--to", "pegasus"]
        subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
    if not found.ours_int8.exists():
        quantise(found.ours, found.ours_int8)
    for out, quantization in ((found.ct2, None), (found.ct2_int8, "int8")):
        if not out.exists():
            TransformersConverter(str(found.hugging_face)).convert(str(out), quantization=quantization)
    return found


def prose() -> list[str]:
    """The sentences of the documentation: English that comes with the repository."""
    from uwaga.tokenizers.sentences import split_sentences

    found: list[str] = []
    for path in sorted((HERE.parent / "docs").rglob("*.md")):
        text = re.sub(r"^(```|---).*?^(```|---)", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
        for paragraph in re.split(r"\n\s*\n", text):
            if re.match(r"\w", paragraph) and "://" not in paragraph:
                plain = re.sub(r"\[(.*?)\]\(.*?\)|[*`_]", r"\1", " ".join(paragraph.split()))
                found += [one.strip() for one in split_sentences(plain, "en")]
    return [one for one in found if 3 <= len(one.split()) <= 30]


def encoded(which: str, text: Path | None, count: int) -> list[list[int]]:
    """Sources as token ids, each with its end symbol."""
    if which == "random":
        return random_sources(count, seed=3)
    from uwaga.checkpoints.formats.uwaga.names import BUNDLED
    from uwaga.checkpoints.registry import read

    lines = text.read_text(encoding="utf-8").splitlines() if text else prose()
    tokeniser = read(BUNDLED).source
    framed = [
        list(tokeniser.add_special_tokens(tokeniser.encode(line.strip()))) for line in lines if line.strip()
    ]
    return [one for one in framed if len(one) <= 100][:count]


# --- the systems: from sources and targets to log-probabilities, translations and first logits


def run_uwaga(given: Folders, precision: str, job: dict[str, Any]) -> dict[str, Any]:
    """``precision``: float32 or int8 (the folder)."""
    from uwaga.checkpoints.registry import read
    from uwaga.checkpoints.to_engine import to_engine
    from uwaga.decoder import Choice
    from uwaga.search import SearchOptions, search
    from uwaga.translator.score import in_batches, step_scorer

    place = given.ours_int8 if precision == "int8" else given.ours
    asked: Any = precision
    model = to_engine(read(place), asked)
    sources = job["sources"]
    limit = {"max_length": TARGET, "min_length": TARGET} if given.target else {"max_length": LONGEST}
    options = SearchOptions(beam=1, max_ratio=float("inf"), batch_tokens=1 << 11, **limit)
    greedy = [list(one.tokens) for [one] in search(model, sources, options)]
    targets = job["targets"] or greedy
    ended = [[*one, model.symbols.end] for one in targets]
    scores = in_batches(step_scorer(model), sources, ended, 1 << 11)
    logits = []
    for first in range(0, len(sources), BATCH):
        batch = sources[first : first + BATCH]
        state = model.start(model.encode(batch), 1)
        start = np.full(len(batch), model.symbols.start, dtype=np.int64)
        logits.append(model.step(start, state, Choice(count=1, all_tokens=True)).log_probs)
    return {"greedy": greedy, "scores": scores, "logits": np.concatenate(logits)}


def run_ctranslate2(given: Folders, precision: str, job: dict[str, Any]) -> dict[str, Any]:
    import ctranslate2

    place = given.ct2_int8 if precision == "int8" else given.ct2
    translator = ctranslate2.Translator(str(place), compute_type=precision, intra_threads=1)
    ids: dict[str, int] = json.loads((given.hugging_face / "vocab.json").read_text(encoding="utf-8"))
    pieces = {number: piece for piece, number in ids.items()}
    ends = not json.loads((place / "config.json").read_text())["add_source_eos"]
    sources = [[pieces[token] for token in (one if ends else one[:-1])] for one in job["sources"]]
    targets = [[pieces[token] for token in one] for one in job["targets"]]
    length = (
        {"min_decoding_length": TARGET, "max_decoding_length": TARGET}
        if given.target
        else {"max_decoding_length": LONGEST}
    )
    found = translator.translate_batch(sources, beam_size=1, max_batch_size=BATCH, **length)
    scored = translator.score_batch(sources, targets, max_batch_size=BATCH)
    logits = []
    for first in range(0, len(sources), BATCH):
        for one in translator.translate_batch(
            sources[first : first + BATCH],
            beam_size=1,
            max_decoding_length=1,
            min_decoding_length=0,
            return_scores=True,
            return_logits_vocab=True,
        ):
            logits.append(np.asarray(one.logits[0][0]).reshape(-1))
    return {
        "greedy": [[ids[piece] for piece in one.hypotheses[0]] for one in found],
        "scores": [list(one.log_probs) for one in scored],
        "logits": np.stack(logits),
    }


SYSTEMS = {"uwaga": run_uwaga, "ctranslate2": run_ctranslate2}


def in_process(system: str, precision: str, isa: str | None, job: Path) -> dict[str, Any]:
    """What a worker held to ``isa`` found."""
    out = job.with_name("found.npz")
    command = [sys.executable, __file__, "--worker", system, "--precision", precision, "--job", str(job)]
    subprocess.run(command, env=environment(1, isa), check=True)
    with np.load(out) as file:
        found = json.loads(str(file["texts"]))
        return {**found, "logits": file["logits"]}


def work(system: str, precision: str, job: Path) -> None:
    values = json.loads(job.read_text())
    found = SYSTEMS[system](folders(Path(values["folder"]), values["which"]), precision, values)
    texts = json.dumps({name: found[name] for name in ("greedy", "scores")})
    np.savez(job.with_name("found.npz"), texts=texts, logits=found["logits"].astype(np.float32))


def measure(exact: dict[str, Any], other: dict[str, Any]) -> dict[str, float]:
    """Errors of ``other``: of token log-probabilities in nats, of first logits relative to their spread."""
    differences = np.concatenate(
        [np.subtract(one, two) for one, two in zip(exact["scores"], other["scores"], strict=True)]
    )
    width = min(exact["logits"].shape[1], other["logits"].shape[1])  # Marian's <pad> may be missing
    logits = [one["logits"][:, :width].astype(np.float64) for one in (exact, other)]
    usable_ = np.all([one > -1e3 for one in logits], axis=(0, 1))  # banned tokens have no logit
    left, right = (one[:, usable_] - one[:, usable_].mean(1, keepdims=True) for one in logits)
    pairs = list(zip(exact["greedy"], other["greedy"], strict=True))
    return {
        "mean": float(np.abs(differences).mean()),
        "rms": float(np.sqrt(np.square(differences).mean())),
        "largest": float(np.abs(differences).max()),
        "tokens": len(differences),
        "logits": float(np.sqrt(np.square(left - right).mean() / np.square(left).mean())),
        "first": sum(one[:1] == two[:1] for one, two in pairs) / len(pairs),
        "whole": sum(one == two for one, two in pairs) / len(pairs),
    }


def compare(folder: Path, which: str, text: Path | None, count: int) -> dict[str, dict[str, float]]:
    """Each int8 system against its own float32, and CTranslate2's float32 against ours."""
    make(folder, which)
    job = folder / "job.json"
    values = {"folder": str(folder), "which": which, "sources": encoded(which, text, count), "targets": []}
    job.write_text(json.dumps(values))
    ours = in_process("uwaga", "float32", None, job)
    job.write_text(json.dumps({**values, "targets": ours["greedy"]}))
    theirs = in_process("ctranslate2", "float32", None, job)
    found = {"CTranslate2 float32, against uwaga's": measure(ours, theirs)}
    for isa in (name for name in reversed(list(PEER_ISA)) if name in usable()):
        found[f"uwaga int8, {isa}"] = measure(ours, in_process("uwaga", "int8", isa, job))
    for isa in (name for name in reversed(list(PEER_ISA)) if name in usable()):
        found[f"CTranslate2 int8, {isa}"] = measure(theirs, in_process("ctranslate2", "int8", isa, job))
    return found


def show(which: str, found: dict[str, dict[str, float]]) -> None:
    tokens = next(iter(found.values()))["tokens"]
    print(
        f"\n{which} model, {tokens} tokens: error of a token's log-probability and of the logits; agreement"
    )
    print(f"{'':40} {'mean':>9} {'rms':>9} {'largest':>9} {'logits':>8} {'first':>7} {'whole':>7}")
    for name, one in found.items():
        print(
            f"{name:40} {one['mean']:9.5f} {one['rms']:9.5f} {one['largest']:9.4f} {one['logits']:8.2%} "
            f"{one['first']:7.1%} {one['whole']:7.1%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument(
        "--text", type=Path, help="English sentences; those of the documentation if not given"
    )
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument(
        "--folder", type=Path, help="where the models are kept; a temporary folder if not given"
    )
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
        for which in arguments.models:
            results[which] = compare(folder, which, arguments.text, arguments.sentences)
            show(which, results[which])
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
