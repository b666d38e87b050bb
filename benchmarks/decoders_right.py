"""Compare decoders from GGUF files with transformers: logits and tokens, and the loss of quality from int8.

    python benchmarks/decoders_right.py SmolLM2-135M-Instruct.Q4_1.gguf --data ../shared/data
    python benchmarks/decoders_right.py gemma-3-270m-q4_k_m.gguf --data ../shared/data --engine torch

The peer reads the same file (`gguf_file=`, which needs `pip install gguf accelerate`), in float32.

- tokenisers: the ids of 10,000 lines of FLORES, Tatoeba and Multi30k in four languages;
- logits: 100 English texts of FLORES with 200 tokens each; the figure is the largest difference of a token's
  log-probability as a share of the range of the logits at its position;
- greedy: 64 new tokens after each of 200 prompts of 16 tokens. At the first different token, the difference
  of the two logits in transformers is listed; the continuations may differ after it;
- int8, int4: the perplexity of the 100 texts in int8 or int4 against float32 (native engine only);
- Q8_0, Q4_0: the same for llama.cpp (`pip install llama-cpp-python`), which rounds the same weights.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from peers import llama_cpp_peer
from peers.machine import machine

from uwaga import TextGenerator
from uwaga.decoder import Choice, Decoder
from uwaga.search import SearchInput, search

LINES, TEXTS, LENGTH = 10_000, 100, 200
PROMPTS, PROMPT, NEW = 200, 16, 64
BATCH = 10
TIE = 1e-4
Floats = NDArray[np.float32]


def lines(data: Path) -> list[str]:
    """Return lines of four languages: FLORES, then Tatoeba, then Multi30k."""
    texts: list[str] = []
    for name in ("flores/dev.en.gz", "flores/dev.pt.gz"):
        texts += read(data / name)
    for line in read(data / "tatoeba/train.en-de.tsv.gz")[:2500]:
        texts += line.split("\t")
    for language in ("de", "fr", "en"):
        texts += read(data / f"multi30k/train.{language}.gz")[:1100]
    return list(filter(None, texts))[:LINES]


def split_into_batches(items: list[list[int]], size: int) -> Iterator[list[list[int]]]:
    yield from (items[start : start + size] for start in range(0, len(items), size))


def read(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def log_probs(decoder: Decoder, texts: list[list[int]]) -> Iterator[tuple[int, Floats]]:
    """Yield the number of each token of texts of one length, and the log-probabilities (texts, vocabulary)
    after it.

    torch reads a text at once; the engine reads the first token of each as a prompt, then one by one.
    """
    if isinstance(decoder, torch.nn.Module):
        with torch.inference_mode():
            logits = decoder.logits(decoder.read(torch.tensor(texts)))  # type: ignore[operator]
            log_probs_ = torch.log_softmax(logits, dim=-1).numpy()
        yield from ((position, log_probs_[:, position]) for position in range(log_probs_.shape[1]))
        return
    state = decoder.start(decoder.encode([text[:1] for text in texts]), 1)
    tokens = np.full(len(texts), decoder.symbols.start, dtype=np.int64)
    for position in range(len(texts[0])):
        step = decoder.step(tokens, state, Choice(count=1, all_tokens=True))
        yield position, step.log_probs
        if position + 1 < len(texts[0]):
            state, tokens = step.state, np.array([text[position + 1] for text in texts], dtype=np.int64)


def check_tokenisers(generator: TextGenerator, path: Path, data: Path) -> dict[str, Any]:
    peer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    texts = lines(data)
    different = [
        line
        for line in texts
        if generator.tokeniser.encode(line) != peer.encode(line, add_special_tokens=False)
    ]
    return {"lines": len(texts), "different": len(different), "first": different[:3]}


def check_logits(decoder: Decoder, peer: Any, texts: list[list[int]]) -> dict[str, Any]:
    worst, nats, theirs_nats = 0.0, 0.0, 0.0
    for group in split_into_batches(texts, 1 if isinstance(decoder, torch.nn.Module) else BATCH):
        with torch.inference_mode():
            logits = [peer(torch.tensor([text])).logits[0] for text in group]
        spans = [(row.max(-1).values - row.min(-1).values).numpy() for row in logits]
        expected = [torch.log_softmax(row, dim=-1).numpy() for row in logits]
        del logits
        for position, actual in log_probs(decoder, group):
            for row, text in enumerate(group):
                reference = expected[row][position]
                worst = max(worst, float(np.abs(actual[row] - reference).max()) / float(spans[row][position]))
                if position + 1 < len(text):
                    nats -= float(actual[row][text[position + 1]])
                    theirs_nats -= float(reference[text[position + 1]])
    count = sum(len(text) - 1 for text in texts)
    return {
        "largest difference / range": worst,
        "perplexity": math.exp(nats / count),
        "transformers' perplexity": math.exp(theirs_nats / count),
    }


def perplexity(decoder: Decoder, texts: list[list[int]]) -> float:
    nats = 0.0
    for batch in split_into_batches(texts, BATCH):
        for position, actual in log_probs(decoder, batch):
            for row, text in enumerate(batch):
                if position + 1 < len(text):
                    nats -= float(actual[row][text[position + 1]])
    return math.exp(nats / sum(len(text) - 1 for text in texts))


def check_greedy(generator: TextGenerator, peer: Any, prompts: list[list[int]]) -> dict[str, Any]:
    options = generator.options(beam=1, max_length=NEW, min_length=NEW)
    sentences = list(map(SearchInput, prompts))
    outputs = [list(hypothesis.tokens) for [hypothesis] in search(generator.decoder, sentences, options)]
    peer_outputs: list[list[int]] = []
    for batch in split_into_batches(prompts, 20):
        ids = torch.tensor(batch)
        with torch.inference_mode():
            generated = peer.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=NEW,
                min_new_tokens=NEW,
                do_sample=False,
                pad_token_id=0,
            )
        peer_outputs += generated[:, ids.shape[1] :].tolist()
    different = []
    for number, (output, peer_output) in enumerate(zip(outputs, peer_outputs, strict=True)):
        if output == peer_output:
            continue
        position = next(index for index in range(NEW) if output[index] != peer_output[index])
        with torch.inference_mode():
            logits = peer(torch.tensor([prompts[number] + peer_output[:position]])).logits[0, -1]
        gap = float((logits[peer_output[position]] - logits[output[position]]).abs())
        different.append({"prompt": number, "token": position, "difference of logits": gap})
    ties = sum(difference["difference of logits"] <= TIE for difference in different)
    return {"prompts": len(prompts), "equal": len(prompts) - len(different), "ties": ties, "list": different}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with flores/, tatoeba/ and multi30k/"
    )
    parser.add_argument("--engine", choices=("native", "torch"), default="native")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--texts", type=int, default=TEXTS)
    parser.add_argument("--prompts", type=int, default=PROMPTS)
    parser.add_argument("--parts", nargs="*", default=["tokenisers", "logits", "greedy", "int8"])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    transformers.logging.set_verbosity_error()

    generator = TextGenerator.load(
        arguments.file, device="cpu", engine=arguments.engine, threads=arguments.threads
    )
    ids = [
        token
        for line in read(arguments.data / "flores/dev.en.gz")
        for token in generator.tokeniser.encode(line + "\n")
    ]
    first = generator.tokeniser.add_special_tokens([])
    size = LENGTH - len(first)
    texts = [first + ids[size * number : size * (number + 1)] for number in range(arguments.texts)]
    short = PROMPT - len(first)
    prompts = [first + ids[100 * number : 100 * number + short] for number in range(arguments.prompts)]
    result: dict[str, Any] = {"machine": machine(), "file": arguments.file.name, "engine": arguments.engine}
    if "tokenisers" in arguments.parts:
        result["tokenisers"] = check_tokenisers(generator, arguments.file, arguments.data)
        print(json.dumps({"tokenisers": result["tokenisers"]}), flush=True)
    if {"logits", "greedy"} & set(arguments.parts):
        peer = transformers.AutoModelForCausalLM.from_pretrained(
            arguments.file.parent, gguf_file=arguments.file.name, dtype=torch.float32
        ).eval()
        for name, check, inputs in (("logits", check_logits, texts), ("greedy", check_greedy, prompts)):
            if name in arguments.parts:
                subject: Any = generator.decoder if name == "logits" else generator
                result[name] = check(subject, peer, inputs)
                print(json.dumps({name: result[name]}), flush=True)
    rounded = [part for part in arguments.parts if part in ("int8", "int4", *llama_cpp_peer.TYPES)]
    if rounded and arguments.engine == "native":
        plain = result["logits"]["perplexity"] if "logits" in result else perplexity(generator.decoder, texts)
        for name in rounded:
            if name in llama_cpp_peer.TYPES:
                with tempfile.TemporaryDirectory() as folder:
                    path = llama_cpp_peer.requantise(arguments.file, name, Path(folder))
                    quantised = llama_cpp_peer.perplexity(path, texts, arguments.threads)
            else:
                model = TextGenerator.load(
                    arguments.file, dtype=name, engine="native", threads=arguments.threads
                )
                quantised = perplexity(model.decoder, texts)
            result[name] = {"float32": plain, name: quantised, "per cent": 100 * (quantised / plain - 1)}
            print(json.dumps({name: result[name]}), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
