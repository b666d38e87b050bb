"""T5 from text to text, with a tokeniser trained in the test."""

import pretrained_tokenisers
import pytest
import torch

import uwaga

transformers = pytest.importorskip("transformers")
TEXTS = [
    "translate English to German: Where is the station?",
    "a dog",
    "summarize: " + "The dog sees the cat and the car. " * 9 + "Hi.",
    "Ünï 你好 🚗 of <extra_id_0> a",
]


@pytest.mark.numerical
@pytest.mark.parametrize("files", ["older", "newer"])
def test_M19_texts_equal_transformers(tmp_path, files):
    case = getattr(pretrained_tokenisers, files)("t5")
    case.peer.save_pretrained(tmp_path)
    if files == "older":
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
    wanted = case.peer.batch_decode(rows, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    together = translator.translate(TEXTS, placeholders=False)
    assert [one.text.strip() for one in together] == [text.strip() for text in wanted]
    assert len(set(wanted)) > 2
    alone = [translator.translate(text, placeholders=False) for text in TEXTS]
    assert [one.text for one in alone] == [one.text for one in together]
    found = translator.translate("the dog " * 700, max_length=4)
    assert len(found.source_tokens) > 1024 and len(found.tokens) <= 4
    assert translator.score([("a dog", "ein Hund")])[0].log_prob < 0
