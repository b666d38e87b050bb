"""Tiny trained tokenisers and random Transformers, created once per test run."""

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import torch

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.adapter import Adapter, weights_checksum, write_adapter
from uwaga.checkpoints.formats.uwaga.folder import FolderContents, save_model
from uwaga.models.transformer import Transformer
from uwaga.search import options_from_settings
from uwaga.settings import DecodingSettings, TextSettings, TransformerSettings
from uwaga.tokenizers.tokeniser import Tokeniser
from uwaga.tokenizers.training import train_tokeniser

ENGLISH = """I want to buy a car.
The dog sees the cat and the cat sees the dog.
Where is the station? It is not far from here.
She has read the book twice, and he has not.
We are going home now. They stay for another hour.
Do you know what time it is?
A small house stands on the hill behind the river.
My brother never drinks coffee in the evening.""".splitlines()
GERMAN = """Ich möchte ein Auto kaufen.
Der Hund sieht die Katze und die Katze sieht den Hund.
Wo ist der Bahnhof? Er ist nicht weit von hier.
Sie hat das Buch zweimal gelesen, und er nicht.
Wir gehen jetzt nach Hause. Sie bleiben noch eine Stunde.
Weißt du, wie spät es ist?
Ein kleines Haus steht auf dem Hügel hinter dem Fluss.
Mein Bruder trinkt abends nie Kaffee.""".splitlines()


@cache
def tokeniser(side: str = "joint", normalisation: str = "nfkc", size: int = 340) -> Tokeniser:
    lines = {"joint": ENGLISH + GERMAN, "source": ENGLISH, "target": GERMAN}[side]
    settings = TextSettings(kind="bpe", size=size, normalisation=normalisation)
    with tempfile.TemporaryDirectory() as folder:
        return train_tokeniser(lines, settings, Path(folder) / "tiny")


def transformer(
    settings: TransformerSettings, source: Tokeniser, target: Tokeniser, seed: int = 0, sharp: float = 2.0
) -> Transformer:
    """Return a random model; ``sharp`` scales its output embeddings, so that results of searches vary."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Transformer(settings, target.symbols, source.size, target.size)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() == 2:
                    parameter.normal_(std=sharp * parameter.shape[1] ** -0.5)
    return model.eval()


TINY = TransformerSettings(
    encoder_layers=1, decoder_layers=2, width=16, heads=2, feed_forward=24, max_length=40, dropout=0.1
)
DECODING = DecodingSettings(beam=3, max_length=8)
SEARCH, TEXT = options_from_settings(DECODING)


def save(folder, model, source, target=None, dtype="float32", **contents) -> None:
    """Save a model with its settings and one or two tokenisers; ``contents`` are others of its folder."""
    target = source if target is None else target
    usual = FolderContents(model.settings, DECODING, source, target, ("en", "de"), "card")
    save_model(folder, model, replace(usual, **contents), dtype)


def write_random_adapter(model_folder: Path, folder: Path) -> None:
    """Write a random low-rank adapter of the model in ``place`` that changes its translations."""
    weights = formats.read(model_folder, False).weights
    assert weights is not None
    rng = np.random.default_rng(0)
    weight = next(key for key in weights.names() if "feed_forward" in key and key.endswith(".weight"))
    name, (outputs, inputs) = weight.removesuffix(".weight"), weights.shape(weight)
    sides = {name: (rng.normal(size=(2, inputs)), rng.normal(size=(outputs, 2)))}
    write_adapter(
        folder, Adapter(folder, str(model_folder), weights_checksum(weights), 2, 8.0, sides), "card"
    )
