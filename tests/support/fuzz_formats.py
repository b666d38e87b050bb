"""An intact model of every readable format."""

import shutil
from pathlib import Path

MODEL = Path(__file__).parent / "models" / "numbers-en-de"


def make_all(folder):
    """Return the path of an intact model of every format, by name."""
    import fairseq_folders
    import gguf_files
    import test_ctranslate2
    import test_marian_npz
    import test_mask_filler
    import transformers
    from hostile_files import make_files
    from marian_folders import make
    from marian_students import write_student

    int8, shortlist = make_files(MODEL, folder)
    samples = {"uwaga": shutil.copytree(MODEL, folder / "uwaga"), "int8": int8, "shortlist": shortlist}
    make(folder / "marian")
    make(folder / "torch", safe=False)
    fairseq_folders.model_folder(folder / "bart", "bart")
    gpt2_folder(folder / "gpt2")
    t5_folder(folder / "t5")
    samples |= {name: folder / name for name in ("marian", "torch", "bart", "gpt2", "t5")}
    test_mask_filler.make(folder / "bert", transformers.BertForMaskedLM)
    samples["bert"] = folder / "bert"
    samples["ctranslate2"] = test_ctranslate2.save_random_model(folder / "ctranslate2", encodings=50)
    samples["argos"] = test_ctranslate2.package(samples["ctranslate2"], folder / "a.argosmodel")
    test_marian_npz.write_models(folder)
    samples["npz"] = folder / "npz"
    samples["gguf"] = gguf_files.write(folder / "m.gguf", "gemma3", form="Q8_0")
    write_student(folder / "firefox")
    write_student(folder / "firefox32", kind="float32", alphas=False, shared=False)
    samples |= {name: folder / name for name in ("firefox", "firefox32")}
    settings = folder / "settings.yaml"
    settings.write_text((Path(__file__).parent / "models" / "numbers.yaml").read_text())
    return samples | {"settings": settings}


def t5_folder(folder):
    """Write a folder with a random T5 and a tokeniser."""
    import pretrained_tokenisers
    import torch
    import transformers

    case = pretrained_tokenisers.newer_format("t5")
    case.peer.save_pretrained(folder)
    torch.manual_seed(4)
    sizes = {"d_model": 20, "d_kv": 6, "d_ff": 26, "num_layers": 2, "num_heads": 3}
    config = transformers.T5Config(vocab_size=case.ids.vocabulary, decoder_start_token_id=0, **sizes)
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)
    return folder


def gpt2_folder(folder):
    """Write a folder with a random GPT-2 and a tokeniser."""
    import pretrained_tokenisers
    import torch
    import transformers

    case = pretrained_tokenisers.newer_format("gpt2")
    case.peer.save_pretrained(folder)
    eos, torch_seed = case.peer.eos_token_id, 2
    torch.manual_seed(torch_seed)
    sizes = {"n_positions": 64, "n_embd": 24, "n_layer": 2, "n_head": 3}
    config = transformers.GPT2Config(
        vocab_size=case.ids.vocabulary, bos_token_id=eos, eos_token_id=eos, pad_token_id=eos, **sizes
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return folder
