"""Folders with a tiny trained tokeniser for each pretrained family, read by uwaga and transformers."""

import json
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import transformers
from pretrained_texts import byte_level, sentencepiece, word_piece, write_json
from sentencepiece import SentencePieceProcessor

from uwaga.languages.codes import M2M100, MBART, MBART50, NLLB200
from uwaga.tokenizers import multilingual, pretrained
from uwaga.tokenizers.pretrained import TokenIds, TokeniserPair

FAMILIES = ("bart", "gpt2", "bert", "bert-cased", "t5", "pegasus", "mbart", "mbart50", "nllb", "m2m100")
SENTENCEPIECE_FAMILIES = ("t5", "pegasus", "mbart", "mbart50", "nllb", "m2m100")
"""The families that use SentencePiece."""
LANGUAGE_CODES = {"mbart": "de_DE", "mbart50": "de_DE", "nllb": "deu_Latn", "m2m100": "de"}
SPECIAL_TOKENS = {
    "bart": ("<s>", "</s>", "<pad>", "<unk>", "<mask>"), "gpt2": ("<|endoftext|>",),
    "bert": ("[CLS]", "[SEP]", "[UNK]", "[MASK]"), "bert-cased": ("[CLS]", "[SEP]", "[PAD]", "[MASK]"),
    "t5": ("</s>", "<pad>", "<unk>", "<extra_id_0>", "<extra_id_17>"),
    "pegasus": ("</s>", "<pad>", "<mask_1>", "<mask_2>", "<unk_7>"),
    "mbart": ("<s>", "</s>", "<mask>", "en_XX"), "mbart50": ("<s>", "</s>", "<mask>", "sl_SI"),
    "nllb": ("<s>", "</s>", "<mask>"), "m2m100": ("</s>", "<unk>", "__en__"),
}  # fmt: skip
TOKENISER_CLASSES = {
    "bart": "BartTokenizer", "gpt2": "GPT2Tokenizer", "bert": "BertTokenizer", "bert-cased": "BertTokenizer",
    "t5": "T5Tokenizer", "pegasus": "PegasusTokenizer", "mbart": "MBartTokenizer",
    "mbart50": "MBart50Tokenizer", "nllb": "NllbTokenizer", "m2m100": "M2M100Tokenizer",
}  # fmt: skip
READERS = {
    "bert-cased": pretrained.read_bert_tokeniser,
    "mbart50": multilingual.read_mbart_tokeniser,
    "nllb": multilingual.read_nllb_tokeniser,
    "m2m100": multilingual.read_m2m100_tokeniser,
    "mbart": multilingual.read_mbart_tokeniser,
    **{
        name: getattr(pretrained, f"read_{name}_tokeniser")
        for name in ("bart", "gpt2", "bert", "t5", "pegasus")
    },
}


@dataclass(frozen=True)
class Case:
    """A folder, and its tokenisers as ``transformers`` and uwaga read them."""

    folder: Path
    peer: Any
    ids: TokenIds
    sides: TokeniserPair

    @property
    def uwaga(self):
        return self.sides.source


@cache
def model(kind: str, t5: bool = False) -> bytes:
    return sentencepiece(kind, **({"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1} if t5 else {}))


@cache
def older_format(name: str) -> Case:
    """Return a folder with the older files: ``vocab.json``, ``vocab.txt`` or a SentencePiece model."""
    folder = Path(mkdtemp()) / name
    folder.mkdir()
    size = _write(name, folder)
    return case(name, folder, size)


@cache
def newer_format(name: str) -> Case:
    """Return the folder that ``transformers`` saves, with ``tokenizer.json``."""
    original = older_format(name)
    folder = original.folder.with_name(f"{name}-json")
    original.peer.save_pretrained(folder)
    return case(name, folder, original.ids.vocabulary)


def case(name: str, folder: Path, size: int) -> Case:
    """Return the folder with its tokenisers as both libraries read them."""
    options: dict[str, Any] = {"src_lang": LANGUAGE_CODES[name]} if name in LANGUAGE_CODES else {}
    if name == "bart":
        options["mask_token"] = transformers.AddedToken("<mask>", lstrip=True)
    if name == "m2m100":
        options["additional_special_tokens"] = [f"__{code}__" for code in M2M100]
    peer_folder = (
        _with_language_ids(folder) if name == "nllb" and not (folder / "tokenizer.json").exists() else folder
    )
    peer = getattr(transformers, TOKENISER_CLASSES[name]).from_pretrained(peer_folder, **options)
    ids = TokenIds(size, end=None if name.startswith("bert") else peer.eos_token_id, pad=peer.pad_token_id)
    sides = READERS[name](folder, ids)
    if name in LANGUAGE_CODES:
        sides = TokeniserPair(
            sides.source.with_language(LANGUAGE_CODES[name]), sides.target.with_language(LANGUAGE_CODES[name])
        )
    return Case(folder, peer, ids, sides)


def _with_language_ids(folder: Path) -> Path:
    """Copy a folder and add the ids of languages that published ones state; transformers 5 needs them."""
    copied = folder.with_name(f"{folder.name}-stated")
    shutil.copytree(folder, copied)
    size = SentencePieceProcessor(model_file=str(folder / "sentencepiece.bpe.model")).get_piece_size()
    tokens = {size + 1 + index: {"content": code, "special": True} for index, code in enumerate(NLLB200)}
    tokens[size + 1 + len(NLLB200)] = {"content": "<mask>", "special": True, "lstrip": True}
    write_json(copied / "tokenizer_config.json", {"added_tokens_decoder": tokens})
    return copied


def _write(name: str, folder: Path) -> int:
    """Write the files, and return the size of their vocabulary."""
    if name == "bart":
        return byte_level(folder, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    if name == "gpt2":
        return byte_level(folder, ["<|endoftext|>"])
    if name.startswith("bert"):
        write_json(folder / "tokenizer_config.json", {"do_lower_case": name == "bert"})
        return word_piece(folder, lowercase=name == "bert")
    content = model("bpe" if name in ("nllb", "m2m100") else "unigram", name in ("t5", "pegasus"))
    (folder / ("spiece.model" if name in ("t5", "pegasus") else "sentencepiece.bpe.model")).write_bytes(
        content
    )
    processor = SentencePieceProcessor(model_proto=content)
    size = processor.get_piece_size()
    if name == "m2m100":
        pieces = processor.id_to_piece(list(range(3, size - 5)))  # some pieces have no number
        vocabulary = ["<s>", "<pad>", "</s>", "<unk>", *sorted(pieces), "madeupword0001"]
        (folder / "vocab.json").write_text(
            json.dumps({piece: number for number, piece in enumerate(vocabulary)})
        )
        return len(vocabulary) + len(M2M100) + 8
    extra_ids = {"t5": 100, "pegasus": 103, "mbart": len(MBART) + 2, "mbart50": len(MBART50) + 2}
    return size + extra_ids.get(name, len(NLLB200) + 2)
