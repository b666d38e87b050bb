"""How many threads torch computes with: the property of a loaded model, not of the process."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import nn

Given = ParamSpec("Given")
Made = TypeVar("Made")

CALLS = ("encode", "start", "step", "features", "logits", "forward")
"""What loaded models are asked for."""


def with_threads(model: nn.Module, threads: int) -> None:
    """Let a model's calls run on so many threads, whatever the process does elsewhere.

    torch keeps the number for each thread that calls it, so a call sets it and puts back what its own
    thread had. (Of the libraries below torch one keeps it for the process: calls of two models at the same
    time may lend each other their numbers, which changes the time that they take and nothing else.)

    Args:
        model: the model.
        threads: threads of one call.
    """
    model.threads = threads  # type: ignore[assignment]  # a number, beside the weights
    for name in CALLS:
        call = getattr(model, name, None)
        if call is not None:
            setattr(model, name, _limited(call, threads))
    head: Any = getattr(model, "head", None)
    if isinstance(head, nn.Module):
        with_threads(head, threads)


def _limited(call: Callable[Given, Made], threads: int) -> Callable[Given, Made]:
    @wraps(call)
    def limited(*args: Given.args, **named: Given.kwargs) -> Made:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            return call(*args, **named)
        finally:
            torch.set_num_threads(before)

    return limited
