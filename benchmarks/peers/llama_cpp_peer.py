"""llama.cpp as a peer, through llama-cpp-python, which pip builds from source."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TYPES = {"Q8_0": 7, "Q4_0": 2}
"""llama.cpp's numbers of file types (llama.h, llama_ftype), by name."""


def requantise(path: Path, name: str, folder: Path) -> Path:
    """Write the weights of a GGUF file in another type of llama.cpp, and return the path."""
    import llama_cpp

    target = folder / f"{path.stem}.{name}.gguf"
    if not target.exists():
        parameters = llama_cpp.llama_model_quantize_default_params()
        parameters.ftype, parameters.allow_requantize = TYPES[name], True
        assert llama_cpp.llama_model_quantize(str(path).encode(), str(target).encode(), parameters) == 0
    return target


def open_model(path: Path, cores: int, all_logits: bool = False) -> Any:
    """Open a file; with ``all_logits``, the model returns the logits of all tokens."""
    import llama_cpp

    return llama_cpp.Llama(
        str(path), n_ctx=1024, n_threads=cores, n_threads_batch=cores, logits_all=all_logits, verbose=False
    )


def generator(path: Path, cores: int) -> Callable[[list[list[int]], int], None]:
    """Return a function that continues prompts greedily, one after the other."""
    model = open_model(path, cores)

    def run(prompts: list[list[int]], new: int) -> None:
        for prompt in prompts:
            model.reset()
            model.eval(prompt)
            for number in range(new):
                token = model.sample(temp=0.0)
                if number + 1 < new:
                    model.eval([token])

    return run


def perplexity(path: Path, texts: list[list[int]], cores: int) -> float:
    """Return the perplexity of texts, each of which is scored independently."""
    model = open_model(path, cores, every=True)
    nats = 0.0
    for text in texts:
        model.reset()
        model.eval(text)
        logits = np.asarray(model.scores[: len(text) - 1], dtype=np.float64)
        logits -= logits.max(axis=-1, keepdims=True)
        log_probs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        nats -= float(log_probs[np.arange(len(text) - 1), text[1:]].sum())
    return math.exp(nats / sum(len(text) - 1 for text in texts))
