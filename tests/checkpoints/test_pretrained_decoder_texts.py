"""Whole folders of today's decoders, with their tokenisers: continued, described, converted."""

import json
import shutil

import pytest
from decoder_folders import Version, make
from decoder_tokenisers import BEGINS, BYTES, ENDS, folder, pieces
from pretrained_texts import write_json
from typer.testing import CliRunner

import uwaga
from uwaga.cli.main import app

transformers = pytest.importorskip("transformers")
RUN = CliRunner()
FOLDERS = {
    "llama3": ("llama", {}),
    "smollm2": ("llama", {"tie_word_embeddings": True}),
    "eurollm": ("llama", {}),
    "mistral": ("mistral", {"sliding_window": 6}),
    "qwen": ("qwen2", {"tie_word_embeddings": True}),
    "gemma": ("gemma3_text", {"sliding_window": 6, "tie_word_embeddings": True}),
    "hunyuan": ("hunyuan_v1_dense", {"tie_word_embeddings": True}),
    "llama2 pieces": ("llama", {}),
}
PROMPTS = ["the dog sees", "Frau Müller kauft 3,000 cars", "naïve 🚗 café\nMünchen", "a "]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Each folder, with the tokeniser's own beginning and end, and one row too few for Gemma."""
    found = {}
    for name, (family, changes) in FOLDERS.items():
        place = tmp_path_factory.mktemp("whole") / name.replace(" ", "-")
        kind = name.removesuffix(" pieces")
        source = pieces(kind) if name.endswith("pieces") else folder(kind)
        peer = transformers.AutoTokenizer.from_pretrained(source)
        ids = {"bos_token_id": BEGINS.get(kind), "eos_token_id": ENDS[kind], "pad_token_id": ENDS[kind]}
        # Bytes that are no valid text are read differently by SentencePiece and by transformers.
        unused = {*peer.all_special_ids, *peer.convert_tokens_to_ids(BYTES)} - {ENDS[kind], None}
        size = len(peer) if name in ("gemma", "llama2 pieces") else len(peer) + 9
        model = make(place, Version(name, family, changes), vocab_size=size, head_dim=8, **ids)
        model.generation_config.update(bad_words_ids=None, max_new_tokens=9, suppress_tokens=sorted(unused))
        model.save_pretrained(place)
        shutil.copytree(source, place, dirs_exist_ok=True)
        if name == "gemma":
            config = json.loads((place / "tokenizer_config.json").read_text())
            write_json(place / "tokenizer_config.json", config | {"mask_token": "<image>"})
        found[name] = place
    return found


@pytest.mark.parametrize("name", FOLDERS)
def test_continuations_are_those_of_transformers(made, name):
    model = transformers.AutoModelForCausalLM.from_pretrained(made[name], attn_implementation="eager")
    peer = transformers.AutoTokenizer.from_pretrained(made[name])
    generator = uwaga.load(made[name], device="cpu")
    for prompt in PROMPTS:
        found = generator.generate(prompt)
        [row] = model.generate(**peer(prompt, return_tensors="pt", return_token_type_ids=False))
        assert found.whole == peer.decode(row, skip_special_tokens=True)
        assert "".join(generator.stream(prompt)) == found.text


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_are_described_and_converted(made, tmp_path, name):
    shown = RUN.invoke(app, ["info", str(made[name])])
    assert shown.exit_code == 0 and FOLDERS[name][0] in shown.output, shown.output
    for flag in ("--int8", "--int4"):
        out = tmp_path / flag
        done = RUN.invoke(app, ["convert", flag, str(made[name]), str(out)])
        assert done.exit_code == 0, done.output
        ours, first = uwaga.load(out), uwaga.load(made[name], device="cpu")
        for prompt in PROMPTS:
            ids = first.tokeniser.add_special_tokens(first.tokeniser.encode(prompt))
            assert ours.tokeniser.add_special_tokens(ours.tokeniser.encode(prompt)) == ids
            assert ours.generate(prompt, max_length=3).whole.startswith(prompt)
