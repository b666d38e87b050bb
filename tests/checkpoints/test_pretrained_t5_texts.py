"""Translations of T5 models with a tokeniser trained in the test."""

import io
import json

import pretrained_tokenisers
import pytest
import torch
from command_line import run_uwaga
from pretrained_texts import LINES
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

import uwaga
from uwaga.errors import SettingsError

transformers = pytest.importorskip("transformers")
TEXTS = [
    "translate English to German: Where is the station?",
    "a dog",
    "summarize: " + "The dog sees the cat and the car. " * 9 + "Hi.",
    "Ünï 你好 🚗 of <extra_id_0> a",
]


@pytest.mark.numerical
@pytest.mark.parametrize("files", ["older_format", "newer_format"])
def test_M19_translations_match_transformers(tmp_path, files):
    case = getattr(pretrained_tokenisers, files)("t5")
    case.peer.save_pretrained(tmp_path)
    if files == "older_format":
        (tmp_path / "tokenizer.json").unlink(missing_ok=True)
        (tmp_path / "spiece.model").write_bytes((case.folder / "spiece.model").read_bytes())
    sizes = {"d_model": 20, "d_kv": 6, "d_ff": 26, "num_layers": 2, "num_heads": 3}
    torch.manual_seed(4)
    model = transformers.T5ForConditionalGeneration(
        transformers.T5Config(vocab_size=case.ids.vocabulary, decoder_start_token_id=0, **sizes)
    ).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "layer_norm" not in name:
                weight.normal_(0.0, 0.4)
        model.lm_head.weight[1] *= 2.0
    model.generation_config.update(max_length=12, num_beams=4, bad_words_ids=[[0]])
    model.save_pretrained(tmp_path)
    translator = uwaga.load(tmp_path, device="cpu")
    assert isinstance(translator, uwaga.Translator)
    batch = case.peer(TEXTS, return_tensors="pt", padding=True)
    rows = model.generate(input_ids=batch.input_ids, attention_mask=batch.attention_mask)
    expected = case.peer.batch_decode(rows, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    translations = translator.translate(TEXTS, placeholders=False)
    assert [translation.text.strip() for translation in translations] == [text.strip() for text in expected]
    assert len(set(expected)) > 2
    single = [translator.translate(text, placeholders=False) for text in TEXTS]
    assert [translation.text for translation in single] == [translation.text for translation in translations]
    long_translation = translator.translate("the dog " * 700, max_length=4)
    assert len(long_translation.source_tokens) > 1024 and len(long_translation.tokens) <= 4
    assert translator.score([("a dog", "ein Hund")])[0].log_prob < 0


@pytest.fixture(scope="module", params=["tokenizer.json", "spiece.model"])
def madlad(tmp_path_factory, request):
    """Return a folder like those of MADLAD-400: T5 with ``<2xx>`` in its vocabulary."""
    path = tmp_path_factory.mktemp("madlad")
    model = io.BytesIO()
    tags = ["<2de>", "<2en>", "<2fr>", "<2zh_Latn>", "<2zh>", "<2translate>"]
    SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, model_type="unigram", vocab_size=300,
        user_defined_symbols=tags, hard_vocab_limit=False, minloglevel=2, num_threads=1,
        **{"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1},
    )  # fmt: skip
    (path / "spiece.model").write_bytes(model.getvalue())
    settings = {
        "tokenizer_class": "T5Tokenizer", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<s>",
    }  # fmt: skip
    (path / "tokenizer_config.json").write_text(json.dumps(settings | {"extra_ids": 0}))
    peer = transformers.T5Tokenizer.from_pretrained(path)
    if request.param == "tokenizer.json":
        peer.save_pretrained(path)
        peer = transformers.AutoTokenizer.from_pretrained(path)
    sizes = {"d_model": 20, "d_kv": 6, "d_ff": 26, "num_layers": 2, "num_heads": 3}
    torch.manual_seed(4)
    config = transformers.T5Config(
        vocab_size=len(peer),
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
        **{"decoder_start_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, **sizes},
    )
    network = transformers.T5ForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if "layer_norm" not in name:
                weight.normal_(0.0, 0.4)
    network.generation_config.update(max_length=9, bad_words_ids=[[0], [1]])
    network.save_pretrained(path)
    return path, peer, network


def test_madlad_translates_into_the_chosen_target_language(madlad):
    path, peer, network = madlad
    pieces = SentencePieceProcessor(model_file=str(path / "spiece.model"))
    translator = uwaga.load(path, device="cpu")
    assert translator.languages.targets == ("de", "en", "fr", "zh", "zh_Latn")
    assert translator.languages.sources == translator.languages.targets
    texts, outputs = [text for text in LINES if text.isascii()][:40:9], set()
    for target, code in (
        ("de", "de"),
        ("deu_Latn", "de"),
        ("fr", "fr"),
        ("zh", "zh"),
        ("zh_Latn", "zh_Latn"),
    ):
        for text in texts:
            ids = peer(f"<2{code}> {text}").input_ids
            if not (path / "tokenizer.json").exists():  # without it transformers departs from SentencePiece
                ids = [*pieces.encode(f"<2{code}> {text}"), 2]
            [row] = network.generate(input_ids=torch.tensor([ids]))
            expected = peer.decode(row, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            translation = translator.translate(text, target=target, placeholders=False)
            assert translation.text.strip() == expected.strip()
            assert (
                translator.between("en", target).translate(text, placeholders=False).text == translation.text
            )
            outputs.add((code, text, translation.text))
    assert len({text for _, _, text in outputs}) > len(texts)


def test_madlad_rejects_unknown_languages(madlad):
    path, _, _ = madlad
    translator = uwaga.load(path, device="cpu")
    for pair in ({"target": "ja"}, {"source": "ja", "target": "de"}):
        with pytest.raises(SettingsError, match="no language 'ja'"):
            translator.translate("a dog", **pair)
    with pytest.raises(SettingsError, match="no language 'translate'"):
        uwaga.load(path, target="translate", device="cpu")


def test_madlad_conversion_keeps_languages(madlad, tmp_path):
    path, _, _ = madlad
    run_uwaga("convert", "--int8", path, tmp_path / "m")
    assert "zh_Latn" in run_uwaga("info", tmp_path / "m").output
    converted, original = (uwaga.load(folder, device="cpu") for folder in (tmp_path / "m", path))
    for target in ("de", "fr"):
        rows = [
            translator.translate("a dog", target=target).source_tokens for translator in (converted, original)
        ]
        assert rows[0] == rows[1]
