"""A sound model of every format that is read."""

import shutil
from pathlib import Path

MODEL = Path(__file__).parent / "models" / "numbers-en-de"


def make_all(place):
    """A sound model of every format, by name; a file where the format is one."""
    import fairseq_folders
    import gguf_files
    import test_ctranslate2
    import test_gap_filler
    import test_marian_npz
    import transformers
    from hostile_files import make_files
    from marian_folders import make
    from marian_students import write_student

    int8, shortlist = make_files(MODEL, place)
    made = {"uwaga": shutil.copytree(MODEL, place / "uwaga"), "int8": int8, "shortlist": shortlist}
    make(place / "marian")
    make(place / "torch", safe=False)
    fairseq_folders.whole(place / "bart", "bart")
    gpt2_folder(place / "gpt2")
    t5_folder(place / "t5")
    made |= {name: place / name for name in ("marian", "torch", "bart", "gpt2", "t5")}
    test_gap_filler.make(place / "bert", transformers.BertForMaskedLM)
    made["bert"] = place / "bert"
    made["ctranslate2"] = test_ctranslate2.spec(place / "ctranslate2", encodings=50)
    made["argos"] = test_ctranslate2.package(made["ctranslate2"], place / "a.argosmodel")
    test_marian_npz.written(place)
    made["npz"] = place / "npz"
    made["gguf"] = gguf_files.write(place / "m.gguf", "gemma3", form="Q8_0")
    write_student(place / "firefox")
    write_student(place / "firefox32", kind="float32", alphas=False, shared=False)
    made |= {name: place / name for name in ("firefox", "firefox32")}
    settings = place / "settings.yaml"
    settings.write_text((Path(__file__).parent / "models" / "numbers.yaml").read_text())
    return made | {"settings": settings}


def t5_folder(place):
    """A random T5 with a tokeniser of its own."""
    import pretrained_tokenisers
    import torch
    import transformers

    case = pretrained_tokenisers.newer("t5")
    case.peer.save_pretrained(place)
    torch.manual_seed(4)
    sizes = {"d_model": 20, "d_kv": 6, "d_ff": 26, "num_layers": 2, "num_heads": 3}
    config = transformers.T5Config(vocab_size=case.ids.vocabulary, decoder_start_token_id=0, **sizes)
    transformers.T5ForConditionalGeneration(config).save_pretrained(place)
    return place


def gpt2_folder(place):
    """A random GPT-2 with a tokeniser of its own."""
    import pretrained_tokenisers
    import torch
    import transformers

    case = pretrained_tokenisers.newer("gpt2")
    case.peer.save_pretrained(place)
    end, torch_seed = case.peer.eos_token_id, 2
    torch.manual_seed(torch_seed)
    sizes = {"n_positions": 64, "n_embd": 24, "n_layer": 2, "n_head": 3}
    config = transformers.GPT2Config(
        vocab_size=case.ids.vocabulary, bos_token_id=end, eos_token_id=end, pad_token_id=end, **sizes
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(place)
    return place
