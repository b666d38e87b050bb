"""Folders of BART and related families: random models with trained tokenisers, saved by ``transformers``."""

import shutil

import pretrained_tokenisers as tokenisers
from fairseq_models import make
from json_files import edit_json

MODEL_KINDS = {
    "bart": ("bart-large-cnn", tokenisers.newer_format),
    "pegasus": ("pegasus-xsum", tokenisers.older_format),
    "mbart": ("mbart-large-en-ro", tokenisers.older_format),
    "mbart50": ("mbart-large-50-many-to-one-mmt", tokenisers.newer_format),
    "m2m100": ("m2m100_418M", tokenisers.older_format),
    "nllb": ("nllb-200-distilled-600M", tokenisers.newer_format),
}
PAIRS = {
    "mbart": ("de_DE", "ro_RO"),
    "mbart50": ("de_DE", "fr_XX"),
    "m2m100": ("de", "fr"),
    "nllb": ("deu_Latn", "fra_Latn"),
}


def model_folder(folder, kind, **changes):
    """Write a folder with a random model and a trained tokeniser of ``transformers``; return both."""
    published, files = MODEL_KINDS[kind]
    case = files(kind)
    shutil.copytree(case.folder, folder)
    if (folder / "tokenizer_config.json").exists():
        edit_json(folder / "tokenizer_config.json", src_lang=None, tgt_lang=None)
    size = {"vocab_size": case.ids.vocabulary, "max_position_embeddings": 90}
    if kind in PAIRS:
        code = PAIRS[kind][1]
        token = case.peer.convert_tokens_to_ids(f"__{code}__" if kind == "m2m100" else code)
        size["decoder_start_token_id"] = token if kind == "mbart" else 2
    model = make(folder, published, **size | changes)
    if kind in PAIRS:
        model.generation_config.forced_bos_token_id = None if kind == "mbart" else token
        edit_json(folder / "generation_config.json", forced_bos_token_id=None)
    return model, case.peer
