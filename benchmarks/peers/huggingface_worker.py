"""Hugging Face's worker: a MarianMTModel of the same shape under Seq2SeqTrainer, on the same batches.

Started by torchrun, the processes share the batches of each update, by the Trainer's own data parallelism.
"""

from __future__ import annotations

import os
from typing import Any

import accelerate
import transformers
from clock import Clock, Job
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch.utils.data import DataLoader
from transformers import (
    DataCollatorForSeq2Seq,
    MarianConfig,
    MarianMTModel,
    PreTrainedTokenizerFast,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

IGNORED = -100


class ReadyBatchTrainer(Seq2SeqTrainer):
    """A Seq2SeqTrainer that trains on given batches."""

    def __init__(self, groups: list[list[int]], **rest: Any) -> None:
        super().__init__(**rest)
        self.groups = groups

    def get_train_dataloader(self) -> DataLoader:  # type: ignore[type-arg]
        return DataLoader(self.train_dataset, batch_sampler=self.groups, collate_fn=self.data_collator)


class CountingCollator(DataCollatorForSeq2Seq):  # type: ignore[misc]
    """Hugging Face's dynamic padding, which also counts target tokens."""

    tokens = 0

    def __call__(self, features: Any, return_tensors: Any = None) -> Any:
        batch = super().__call__(features, return_tensors)
        self.tokens += int((batch["labels"] != IGNORED).sum())
        return batch


def make_model(job: Job) -> MarianMTModel:
    model, symbols = job.model, job.symbols
    settings = MarianConfig(
        vocab_size=job.vocabulary,
        d_model=model["width"],
        encoder_layers=model["encoder_layers"],
        decoder_layers=model["decoder_layers"],
        encoder_attention_heads=model["heads"],
        decoder_attention_heads=model["heads"],
        encoder_ffn_dim=model["feed_forward"],
        decoder_ffn_dim=model["feed_forward"],
        activation_function=model["activation"],
        dropout=model["dropout"],
        attention_dropout=model["attention_dropout"],
        activation_dropout=model["activation_dropout"],
        max_position_embeddings=model["max_length"],
        scale_embedding=True,
        use_cache=False,
        pad_token_id=symbols["pad"],
        eos_token_id=symbols["end"],
        forced_eos_token_id=symbols["end"],
        decoder_start_token_id=symbols["start"],
        attn_implementation=job.attention,
    )
    return MarianMTModel(settings)


def make_tokeniser(job: Job) -> PreTrainedTokenizerFast:
    """Return a tokeniser that is used only for padding, as the texts are given as ids."""
    names = {job.symbols["pad"]: "<pad>", job.symbols["end"]: "</s>", job.symbols["unknown"]: "<unk>"}
    words = {names.get(i, f"t{i}"): i for i in range(job.vocabulary)}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(words, unk_token="<unk>")),
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
    )


def main() -> None:
    job = Job.from_arguments()
    clock = Clock(job)
    training = job.training
    model = make_model(job)
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    source, target, groups = job.pairs()
    end = [job.symbols["end"]]
    data = [{"input_ids": s + end, "labels": t + end} for s, t in zip(source, target, strict=True)]
    collator = CountingCollator(make_tokeniser(job), model=model, label_pad_token_id=IGNORED)
    arguments = Seq2SeqTrainingArguments(
        output_dir=str(job.folder),
        max_steps=job.updates,
        gradient_accumulation_steps=training["accumulate"] // world,
        learning_rate=training["schedule"]["peak"],
        warmup_steps=training["schedule"]["warmup"],
        lr_scheduler_type="inverse_sqrt",
        adam_beta1=training["betas"][0],
        adam_beta2=training["betas"][1],
        adam_epsilon=training["epsilon"],
        optim="adamw_torch_fused",
        max_grad_norm=training["clip"],
        label_smoothing_factor=training["label_smoothing"],
        bf16=job.precision == "bfloat16",
        use_cpu=True,
        ddp_backend="gloo" if world > 1 else None,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
    )
    trainer = ReadyBatchTrainer(
        groups[rank::world], model=model, args=arguments, train_dataset=data, data_collator=collator
    )
    trainer.train()
    clock.finish(
        job,
        collator.tokens,
        model,
        {"transformers": transformers.__version__, "accelerate": accelerate.__version__},
    )


if __name__ == "__main__":
    main()
