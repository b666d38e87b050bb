"""JoeyNMT 2.3's worker: its model, its datasets and its TrainManager, on the same batches as uwaga.

JoeyNMT is not changed. Two settings are made through its public classes so that the systems do the same work,
and both can only make it faster: the batches are given (its own sampler does not sort by length, so it would
train on more padding), and the dropout that uwaga does not have in this setting (on attention weights and
inside the feed-forward) is set to 0.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import joeynmt
import torch
from clock import Clock, Job
from joeynmt.config import parse_global_args, set_validation_args
from joeynmt.datasets import PlaintextDataset
from joeynmt.model import Model, build_model
from joeynmt.tokenizers import BasicTokenizer
from joeynmt.training import TrainManager
from joeynmt.transformer_layers import MultiHeadedAttention, PositionwiseFeedForward
from joeynmt.vocabulary import Vocabulary
from torch.utils.data import DataLoader

LANGUAGES = ("src", "trg")


class ReadyBatches:
    """A batch sampler that returns given batches."""

    def __init__(self, groups: list[list[int]]) -> None:
        self.groups = groups

    def __iter__(self) -> Any:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def set_seed(self, seed: int) -> None:
        """Do nothing, as the order of the batches is fixed."""

    def get_state(self) -> torch.Tensor:
        return torch.zeros(0)


class Pairs(PlaintextDataset):  # type: ignore[misc]
    """JoeyNMT's dataset of aligned text files, with its collation, on given batches."""

    groups: list[list[int]]

    def make_iter(self, pad_index: int, eos_index: int, device: torch.device, **_: Any) -> DataLoader:  # type: ignore[type-arg]
        collate = partial(self.collate_fn, pad_index=pad_index, eos_index=eos_index, device=device)
        return DataLoader(self, batch_sampler=ReadyBatches(self.groups), collate_fn=collate)  # type: ignore[arg-type]


def make_settings(job: Job) -> dict[str, Any]:
    training = job.training
    make = transformer if job.model["family"] == "transformer" else recurrent
    encoder, decoder = make(job.model)
    return {
        "name": "benchmark",
        "model_dir": str(job.folder),
        "use_cuda": False,
        "data": {},
        "model": {
            "initializer": "xavier_uniform",
            "embed_initializer": "xavier_uniform",
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": encoder,
            "decoder": decoder,
        },
        "training": {
            "optimizer": "adamw",
            "adam_betas": training["betas"],
            "learning_rate": training["schedule"]["peak"],
            "learning_rate_min": 1e-9,
            "learning_rate_warmup": training["schedule"]["warmup"],
            "scheduling": "warmupinversesquareroot",
            "clip_grad_norm": training["clip"] or None,
            "normalization": "tokens",
            "label_smoothing": training["label_smoothing"],
            "batch_size": training["batch_tokens"],
            "batch_type": "token",
            "batch_multiplier": training["accumulate"],
            "epochs": 1,
            "updates": job.updates,
            "logging_freq": 1000,
            "validation_freq": 1000,
        },
        "testing": {},
    }


def transformer(model: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of the encoder and the decoder."""

    def stack(layers: int) -> dict[str, Any]:
        return {
            "type": "transformer",
            "num_layers": layers,
            "num_heads": model["heads"],
            "hidden_size": model["width"],
            "ff_size": model["feed_forward"],
            "dropout": model["dropout"],
            "layer_norm": model["norm"],
            "activation": model["activation"],
            "embeddings": {"embedding_dim": model["width"], "scale": True, "dropout": model["dropout"]},
        }

    return stack(model["encoder_layers"]), stack(model["decoder_layers"])


def recurrent(model: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of an encoder and a decoder with uwaga's widths.

    Bahdanau's model has GRUs and the additive score, Luong's has LSTMs and the general score. JoeyNMT gives
    ``hidden_size`` units to each direction of an encoder; uwaga's Luong divides its ``hidden`` units between
    them.
    """
    luong = model["family"] == "luong"
    if luong and not (model["bidirectional"] and model["score"] == "general" and model["input_feeding"]):
        raise SystemExit("JoeyNMT's twin of this Luong needs two directions, general score, input feeding")
    common = {
        "type": "recurrent",
        "rnn_type": "lstm" if luong else "gru",
        "num_layers": model.get("layers", 1),
        "dropout": model["dropout"],
        "embeddings": {"embedding_dim": model["embedding"], "scale": False, "dropout": model["dropout"]},
    }
    encoder = {"hidden_size": model["hidden"] // 2 if luong else model["hidden"], "bidirectional": True}
    decoder = {
        "hidden_size": model["hidden"],
        "hidden_dropout": model["dropout"],
        "attention": "luong" if luong else "bahdanau",
        "input_feeding": True,
        "init_hidden": "bridge",
    }
    return common | encoder, common | decoder


def make_data(job: Job, special: Any) -> tuple[Pairs, Vocabulary]:
    """Write the batches as text files in which each id is a word, and return them as read by JoeyNMT."""
    marks = set(job.symbols.values())
    vocabulary = Vocabulary([f"t{i}" for i in range(job.vocabulary) if i not in marks], special)
    assert len(vocabulary) == job.vocabulary
    names = {job.symbols["unknown"]: special.unk_token}
    *columns, groups = job.pairs()
    for side, language in zip(columns, LANGUAGES, strict=True):
        lines = (" ".join(names.get(i, f"t{i}") for i in row) for row in side)
        (job.folder / f"train.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    data = Pairs(
        path=str(job.folder / "train"),
        src_lang="src",
        trg_lang="trg",
        has_trg=True,
        has_prompt=dict.fromkeys(LANGUAGES, False),
        tokenizer={language: BasicTokenizer(level="word") for language in LANGUAGES},
        sequence_encoder=dict.fromkeys(LANGUAGES, vocabulary.sentences_to_ids),
    )
    data.groups = groups
    return data, vocabulary


def keep_only_published_dropout(model: Model) -> None:
    """Remove all dropout but that on embeddings and residual branches (Vaswani 2017 §5.4)."""
    for module in model.modules():
        if isinstance(module, MultiHeadedAttention):
            module.dropout.p = 0.0
        elif isinstance(module, PositionwiseFeedForward):
            inner, *_ = (part for part in module.pwff_layer if isinstance(part, torch.nn.Dropout))
            inner.p = 0.0


def main() -> None:
    job = Job.from_arguments()
    clock = Clock(job)
    arguments = parse_global_args(make_settings(job), rank=0, mode="train")
    data, vocabulary = make_data(job, arguments.data["special_symbols"])
    model = build_model(arguments.model, src_vocab=vocabulary, trg_vocab=vocabulary)
    model.loss_function = (arguments.train.loss, arguments.train.label_smoothing)
    keep_only_published_dropout(model)
    # JoeyNMT's settings turn 16-bit off on a CPU; its TrainManager takes any autocast.
    autocast = {"device_type": "cpu", "enabled": job.precision != "float32", "dtype": torch.bfloat16}
    manager = TrainManager(
        rank=0,
        model=model,
        model_dir=arguments.model_dir,
        device=arguments.device,
        autocast=autocast,
        train_args=arguments.train,
        dev_args=set_validation_args(arguments.test),
    )
    manager.train_and_validate(data, data)
    clock.finish(job, manager.stats.total_tokens, model, {"joeynmt": joeynmt.__version__})


if __name__ == "__main__":
    main()
