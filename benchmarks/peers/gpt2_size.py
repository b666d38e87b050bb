"""Write a GPT-2 folder of the published size with random weights, whose values do not affect the speed."""

from __future__ import annotations

import json
from pathlib import Path

VOCABULARY = 50257


def write_gpt2(folder: Path) -> None:
    """Write a folder of GPT-2's size with transformers; only the pieces of the 256 bytes are real."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config()).eval()
    model.generation_config.pad_token_id = VOCABULARY - 1
    model.save_pretrained(folder)
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    pieces = [chr(code) for code in (*printable, *range(256, 512 - len(printable)))]
    pieces += [f"unused{number}" for number in range(VOCABULARY - 1 - len(pieces))] + ["<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(pieces)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
