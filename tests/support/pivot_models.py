"""Random models of language pairs with a common tokeniser, for pivot translation."""

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import tiny_models as tiny

import uwaga
from uwaga.settings import TextSettings
from uwaga.tokenizers.training import train_tokeniser
from uwaga.translator import Translator


@cache
def tokeniser():
    """Return a tokeniser without byte fallback, so that any output is a valid input of another model."""
    settings = TextSettings(kind="bpe", size=200, byte_fallback=False)
    with tempfile.TemporaryDirectory() as folder:
        return train_tokeniser([*tiny.ENGLISH, *tiny.GERMAN, "3.14 42"], settings, Path(folder) / "tiny")


@cache
def chained_model(source, target, seed, max_length=40):
    settings = tiny.TINY.model_copy(update={"tie": "none", "max_length": max_length})
    shared = tokeniser()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{source}-{target}"
        model = tiny.transformer(settings, shared, shared, seed=seed)
        decoding = tiny.DECODING.model_copy(update={"max_length": 12})
        tiny.save(path, model, shared, decoding=decoding, languages=(source, target))
        return uwaga.load(path, engine="native")


def with_changes(translator, **changes):
    """Return a translator with the given fields of its model replaced."""
    return Translator(replace(translator.model, **changes))


def with_languages(translator, source, target):
    return with_changes(translator, languages=(source, target), known=None)
