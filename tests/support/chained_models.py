"""Random models from one language to another that share a tokeniser, to be put one after the other."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import tiny_models as tiny

import uwaga
from uwaga.checkpoints.formats.uwaga.folder import save_model
from uwaga.settings import TextSettings
from uwaga.tokenizers.training import train_tokeniser


@cache
def tokeniser():
    """Without bytes: what a random model says with it is text that another model reads in as many tokens."""
    settings = TextSettings(kind="bpe", size=200, byte_fallback=False)
    with tempfile.TemporaryDirectory() as folder:
        return train_tokeniser([*tiny.ENGLISH, *tiny.GERMAN, "3.14 42"], settings, Path(folder) / "tiny")


@cache
def chained(source, target, seed, longest=40):
    settings = tiny.TINY.model_copy(update={"tie": "none", "max_length": longest})
    both = tokeniser()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / f"{source}-{target}"
        model = tiny.transformer(settings, both, both, seed=seed)
        decoding = tiny.DECODING.model_copy(update={"max_length": 12})
        save_model(place, model, settings, decoding, both, both, (source, target), "card")
        return uwaga.load(place, engine="native")
