"""Predictions and states of BERT by MaskFiller, in Python and with `uwaga fill`."""

import json

import numpy as np
import pretrained_tokenisers
import pytest
import torch
from command_line import run_uwaga
from precision import tolerance

import uwaga
from uwaga.errors import DataError, ModelError, SettingsError, TextTooLongError

transformers = pytest.importorskip("transformers")
TEXTS = [
    "The [MASK] is here.", "[MASK] sees the [MASK] of a car", "a dog[MASK]", "Where [MASK]?" + " it is" * 9,
]  # fmt: skip


def make(folder, kind, **changes):
    """Save a random BERT and a tokeniser with transformers; return both."""
    case = pretrained_tokenisers.older_format("bert")
    case.peer.save_pretrained(folder)
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 30}
    torch.manual_seed(2)
    config = transformers.BertConfig(
        vocab_size=case.ids.vocabulary,
        max_position_embeddings=50,
        pad_token_id=case.peer.pad_token_id,
        **sizes | changes,
    )
    model = kind(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "LayerNorm" not in name:
                weight.normal_(0.0, 0.3)
    model.save_pretrained(folder)
    return model, case.peer


@pytest.fixture(scope="module")
def peer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert") / "model"
    return folder, *make(folder, transformers.BertForMaskedLM)


@pytest.fixture(scope="module")
def filler(peer):
    return uwaga.load(peer[0], device="cpu")


@pytest.mark.numerical
def test_M17_fillings_match_transformers(peer, filler):
    _, model, tokeniser = peer
    assert isinstance(filler, uwaga.MaskFiller)
    batch = tokeniser(TEXTS, return_tensors="pt", padding=True)
    with torch.no_grad():
        probabilities = torch.softmax(model(**batch).logits, -1)
    fillings = filler.fill(TEXTS, k=7)
    for row, gaps in enumerate(fillings):
        positions = (batch.input_ids[row] == tokeniser.mask_token_id).nonzero()[:, 0]
        assert len(positions) == len(gaps) == TEXTS[row].count("[MASK]")
        for position, gap in zip(positions, gaps, strict=True):
            best = probabilities[row, position].topk(7)
            assert [filling.token for filling in gap] == tokeniser.convert_ids_to_tokens(
                best.indices.tolist()
            )
            expected = best.values.numpy()
            np.testing.assert_allclose(
                [filling.probability for filling in gap], expected, **tolerance(expected)
            )


def test_M17_fillings_do_not_depend_on_the_batch(filler):
    for text, batched in zip(TEXTS, filler.fill(TEXTS), strict=True):
        separate = filler.fill(text)
        assert [[filling.token for filling in gap] for gap in separate] == [
            [filling.token for filling in gap] for gap in batched
        ]


def test_probabilities_of_fillings_sum_to_one(filler):
    [gap] = filler.fill(TEXTS[0], k=filler.model.vocabulary)
    assert sum(filling.probability for filling in gap) == pytest.approx(1.0, abs=1e-5)
    assert [filling.probability for filling in gap] == sorted(
        (filling.probability for filling in gap), reverse=True
    )


def test_each_filling_replaces_its_mask(filler):
    first, second = filler.fill("[MASK] sees the [MASK] of", k=filler.model.vocabulary)
    word = next(filling for filling in first if not filling.token.startswith("##"))
    assert word.text == f"{word.token} sees the [MASK] of"
    subword = next(filling for filling in second if filling.token.startswith("##"))
    assert subword.text == f"[MASK] sees the{subword.token[2:]} of"  # ##s continues the preceding word


@pytest.mark.numerical
def test_M17_hidden_states_match_transformers(peer, filler):
    _, model, tokeniser = peer
    for text, encoding in zip(TEXTS, filler.encode(TEXTS), strict=True):
        batch = tokeniser(text, return_tensors="pt")
        with torch.no_grad():
            expected = model.bert(**batch).last_hidden_state[0].numpy()
        assert list(encoding.tokens) == tokeniser.convert_ids_to_tokens(batch.input_ids[0].tolist())
        np.testing.assert_allclose(encoding.states, expected, **tolerance(expected))
        np.testing.assert_allclose(filler.encode(text).states, expected, **tolerance(expected))


def check_matrices(filler, model, tokeniser, texts):
    """Compare every attention matrix of a batch with transformers."""
    model.set_attn_implementation("eager")
    for text, attended in zip(texts, filler.attend(texts), strict=True):
        with torch.no_grad():
            matrices = model.bert(**tokeniser(text, return_tensors="pt"), output_attentions=True).attentions
        expected = torch.cat(matrices).numpy()  # (layers, heads, query, key)
        assert attended.text == text and attended.tokens == filler.encode(text).tokens
        np.testing.assert_allclose(attended.attentions.encoder, expected, atol=1e-4)
        np.testing.assert_allclose(attended.attentions.encoder.sum(-1), 1.0, **tolerance(1.0))
        assert attended.attentions.decoder is attended.attentions.cross is None


@pytest.mark.numerical
def test_M10_M17_attention_matrices_match_transformers(peer, filler):
    check_matrices(filler, *peer[1:], TEXTS)
    assert filler.attend(TEXTS[0]).attentions.encoder.shape[:2] == (2, 3)
    assert json.loads(filler.attend(TEXTS[0]).to_json())["tokens"][0] == "[CLS]"


@pytest.mark.release
@pytest.mark.numerical
def test_M17_all_144_attention_matrices_of_a_bert_base_sized_model_match_transformers(tmp_path):
    sizes = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
    model, tokeniser = make(
        tmp_path / "m", transformers.BertForMaskedLM, **sizes | {"intermediate_size": 3072}
    )
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "LayerNorm" not in name:
                weight.mul_(0.1)
    model.save_pretrained(tmp_path / "m")
    filler = uwaga.MaskFiller.load(tmp_path / "m", device="cpu")
    check_matrices(filler, model, tokeniser, TEXTS[:2])
    assert filler.attend(TEXTS[0]).attentions.encoder.shape[:2] == (12, 12)


def test_invalid_calls_are_rejected(filler, peer):
    with pytest.raises(DataError, match=r"text 2 has no \[MASK\]: replace a word"):
        filler.fill([TEXTS[0], "none"])
    for k in (0, True, filler.model.vocabulary + 1):
        with pytest.raises(SettingsError, match="k must be a whole number from 1"):
            filler.fill(TEXTS[0], k=k)
    with pytest.raises(TextTooLongError, match=r"text 2 has \d+ tokens, special tokens .* at most 50"):
        filler.fill(["[MASK]", "[MASK] " * 60])
    with pytest.raises(DataError, match="the text is not a string but NoneType"):
        filler.fill_all([None], 1, ["the text"])
    with pytest.raises(ModelError, match=r"'bert' is an encoder-only model, which uwaga\.MaskFiller"):
        uwaga.Translator.load(peer[0], device="cpu")


def test_model_without_a_language_modelling_head_can_only_encode(tmp_path):
    make(tmp_path / "m", transformers.BertModel)
    filler = uwaga.MaskFiller.load(tmp_path / "m", device="cpu")
    assert filler.encode("a dog").states.shape[1] == 24
    with pytest.raises(ModelError, match="returns states but cannot predict tokens"):
        filler.fill("a [MASK]")


def test_attend_command_shows_encoder_attention(peer, filler):
    result = run_uwaga("attend", "-m", peer[0], "--json", "--words", "a dog sees")
    row = json.loads(result.stdout)
    assert (row["kind"], row["layer"], row["head"]) == ("encoder", 2, "mean")
    assert row["source"] == row["target"] and row["source"][0] == "[CLS]"
    refused = run_uwaga("attend", "-m", peer[0], "a dog", "--kind", "cross", code=None)
    assert "2 encoder layers" in refused.stderr
    refused = run_uwaga("attend", "-m", peer[0], "a dog", "--target", "ein Hund", code=None)
    assert "does not translate" in refused.stderr


def run(*arguments, lines=None):
    result = run_uwaga("fill", *arguments, code=None, stdin=lines)
    return result.exit_code, result.stdout, result.stderr


def test_fill_command_reads_an_argument_or_standard_input(peer, filler):
    gaps = filler.fill(TEXTS[1], k=2)
    expected = "".join(
        "\t".join(f"{filling.token} {filling.probability:.4f}" for filling in gap) + "\n" for gap in gaps
    )
    assert run(peer[0], TEXTS[1], "-k", 2, "--device", "cpu") == (0, expected, "")
    code, out, _ = run(peer[0], "--json", "--top", 1, lines="\n".join(TEXTS) + "\n")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [row["text"] for row in rows] == TEXTS
    assert [[gap[0]["text"] for gap in row["gaps"]] for row in rows] == [
        [gap[0].text for gap in gaps] for gaps in filler.fill(TEXTS, k=1)
    ]


def test_fill_command_reports_invalid_input(peer):
    assert run(peer[0], lines=f"{TEXTS[0]}\nnothing\n")[::2] == (
        1,
        "error: line 2 has no [MASK]: replace a word with it\n",
    )
    assert "`uwaga fill`" in run_uwaga("generate", peer[0], "A dog", code=None).stderr
