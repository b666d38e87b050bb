"""Folders of decoder-only models with their tokenisers: continuations, descriptions and conversions."""

import json
import shutil

import pytest
from command_line import run_uwaga
from decoder_folders import Variant, make
from decoder_tokenisers import BOS_IDS, BYTES, EOS_IDS, folder, sentencepiece_folder
from pretrained_texts import write_json

import uwaga

transformers = pytest.importorskip("transformers")
FOLDERS = {
    "llama3": ("llama", {}), "smollm2": ("llama", {"tie_word_embeddings": True}), "eurollm": ("llama", {}),
    "mistral": ("mistral", {"sliding_window": 6}), "qwen": ("qwen2", {"tie_word_embeddings": True}),
    "gemma": ("gemma3_text", {"sliding_window": 6, "tie_word_embeddings": True}),
    "hunyuan": ("hunyuan_v1_dense", {"tie_word_embeddings": True}), "llama2 pieces": ("llama", {}),
}  # fmt: skip
PROMPTS = ["the dog sees", "Frau Müller kauft 3,000 cars", "naïve 🚗 café\nMünchen", "a "]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return the model folders by family; Gemma's embeddings lack the last token of its tokeniser."""
    paths = {}
    for name, (family, changes) in FOLDERS.items():
        path = tmp_path_factory.mktemp("whole") / name.replace(" ", "-")
        kind = name.removesuffix(" pieces")
        source = sentencepiece_folder(kind) if name.endswith("pieces") else folder(kind)
        peer = transformers.AutoTokenizer.from_pretrained(source)
        ids = {
            "bos_token_id": BOS_IDS.get(kind),
            "eos_token_id": EOS_IDS[kind],
            "pad_token_id": EOS_IDS[kind],
        }
        # SentencePiece and transformers decode invalid bytes differently.
        unused = {*peer.all_special_ids, *peer.convert_tokens_to_ids(BYTES)} - {EOS_IDS[kind], None}
        size = len(peer) if name in ("gemma", "llama2 pieces") else len(peer) + 9
        model = make(path, Variant(name, family, changes), vocab_size=size, head_dim=8, **ids)
        model.generation_config.update(bad_words_ids=None, max_new_tokens=9, suppress_tokens=sorted(unused))
        model.save_pretrained(path)
        shutil.copytree(source, path, dirs_exist_ok=True)
        if name == "gemma":
            config = json.loads((path / "tokenizer_config.json").read_text())
            write_json(path / "tokenizer_config.json", config | {"mask_token": "<image>"})
        paths[name] = path
    return paths


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FOLDERS)
def test_continuations_match_transformers(folders, name):
    model = transformers.AutoModelForCausalLM.from_pretrained(folders[name], attn_implementation="eager")
    peer = transformers.AutoTokenizer.from_pretrained(folders[name])
    generator = uwaga.load(folders[name], device="cpu")
    for prompt in PROMPTS:
        continuation = generator.generate(prompt)
        [row] = model.generate(**peer(prompt, return_tensors="pt", return_token_type_ids=False))
        assert continuation.full_text == peer.decode(row, skip_special_tokens=True)
        assert "".join(generator.stream(prompt)) == continuation.text


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FOLDERS)
def test_folders_are_described_and_converted(folders, tmp_path, name):
    result = run_uwaga("info", folders[name])
    assert FOLDERS[name][0] in result.output
    for flag in ("--int8", "--int4"):
        out = tmp_path / flag
        run_uwaga("convert", flag, folders[name], out)
        converted, original = uwaga.load(out), uwaga.load(folders[name], device="cpu")
        for prompt in PROMPTS:
            ids = original.tokeniser.add_special_tokens(original.tokeniser.encode(prompt))
            assert converted.tokeniser.add_special_tokens(converted.tokeniser.encode(prompt)) == ids
            assert converted.generate(prompt, max_length=3).full_text.startswith(prompt)
