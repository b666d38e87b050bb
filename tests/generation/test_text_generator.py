"""TextGenerator on GPT-2, in Python and with `uwaga generate`."""

import json
import shutil
from pathlib import Path

import numpy as np
import pretrained_tokenisers
import pytest
import torch
from precision import tolerance
from typer.testing import CliRunner

import uwaga
from uwaga.cli.main import app
from uwaga.errors import DataError, ModelError, SettingsError, TextTooLongError
from uwaga.library import hub

transformers = pytest.importorskip("transformers")
PROMPTS = ["Where is the", "", "A dog\nsees", " two  blanks ", "Ünï 你好 🚗 of"]


@pytest.fixture(scope="module")
def peer(tmp_path_factory):
    """Save a random GPT-2 and a tokeniser with transformers; return the folder and both."""
    folder = tmp_path_factory.mktemp("gpt2") / "model"
    case = pretrained_tokenisers.newer_format("gpt2")
    case.peer.save_pretrained(folder)
    end = case.peer.eos_token_id
    sizes = {"n_positions": 64, "n_embd": 24, "n_layer": 2, "n_head": 3}
    torch.manual_seed(2)
    config = transformers.GPT2Config(
        vocab_size=case.ids.vocabulary, bos_token_id=end, eos_token_id=end, pad_token_id=end, **sizes
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "ln_" not in name:
                weight.normal_(0.0, 0.35)
    model.generation_config.update(max_new_tokens=9)
    model.save_pretrained(folder)
    return folder, model, case.peer


@pytest.fixture(scope="module")
def generator(peer):
    return uwaga.load(peer[0], device="cpu")


@pytest.mark.numerical
def test_M18_texts_match_transformers(peer, generator):
    _, model, tokeniser = peer
    assert isinstance(generator, uwaga.TextGenerator)
    tokeniser.padding_side, tokeniser.pad_token = "left", tokeniser.eos_token
    inputs = [text or tokeniser.bos_token for text in PROMPTS]
    batch = tokeniser(inputs, return_tensors="pt", padding=True)
    for beam in (1, 4):
        rows = model.generate(**batch, num_beams=beam)[:, batch.input_ids.shape[1] :]
        expected = tokeniser.batch_decode(rows, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        continuations = generator.generate(PROMPTS, beam=beam)
        assert [continuation.text for continuation in continuations] == expected
        assert [continuation.prompt for continuation in continuations] == PROMPTS
    assert len(set(expected)) == len(PROMPTS)
    separate = [generator.generate(text, beam=4) for text in PROMPTS]
    assert [continuation.text for continuation in separate] == expected
    scores = [continuation.score for continuation in continuations]
    np.testing.assert_allclose([continuation.score for continuation in separate], scores, **tolerance(scores))


REPEATING = ["A dog sees a dog sees a", "Where is the dog? Where is", "of of of", "A"]


@pytest.mark.sampled(5)
@pytest.mark.numerical
@pytest.mark.parametrize(
    "settings",
    [
        {"no_repeat_ngram_size": 1},
        {"no_repeat_ngram_size": 2},
        {"no_repeat_ngram_size": 3, "min_length": 10},
        {"max_length": 24, "max_new_tokens": None},
        {"max_length": 30, "min_length": 26, "max_new_tokens": None},
        {"max_length": 12, "max_new_tokens": 5},
    ],
)
def test_M24_lengths_and_ngrams_count_the_prompt_as_in_transformers(peer, tmp_path, settings):
    """``max_length``, ``min_length`` and ``no_repeat_ngram_size`` of a folder include the prompt."""
    folder, _, tokeniser = peer
    copied = shutil.copytree(folder, tmp_path / "model")
    path = copied / "generation_config.json"
    stated = json.loads(path.read_text()) | settings
    path.write_text(json.dumps({name: value for name, value in stated.items() if value is not None}))
    model = transformers.GPT2LMHeadModel.from_pretrained(copied).eval()
    generators = [uwaga.load(copied, device="cpu", engine=engine) for engine in ("native", "torch")]
    for beam in (1, 3):
        expected = []
        for prompt in REPEATING:
            batch = tokeniser(prompt, return_tensors="pt")
            [row] = model.generate(**batch, num_beams=beam)
            new = row[batch.input_ids.shape[1] :]
            expected.append(
                tokeniser.decode(new, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            )
        for generator in generators:
            assert [result.text for result in generator.generate(REPEATING, beam=beam)] == expected
            if beam == 1:
                assert ["".join(generator.stream(prompt)) for prompt in REPEATING] == expected


def test_length_options_of_a_call_count_only_the_continuation(peer, tmp_path):
    copied = shutil.copytree(peer[0], tmp_path / "model")
    (copied / "generation_config.json").write_text(json.dumps({"max_length": 6, "min_length": 6}))
    generator = uwaga.load(copied, device="cpu")
    for prompt in ("A", REPEATING[0]):
        continuation = generator.generate(prompt, max_length=4, min_length=3)
        assert 3 <= len(continuation.tokens) <= 4
    with pytest.raises(TextTooLongError, match="set max_length"):
        generator.generate(REPEATING[0])


@pytest.mark.numerical
@pytest.mark.parametrize("engine", ["native", "torch"])
def test_M10_M18_attention_matrices_match_transformers(peer, engine):
    folder, model, tokeniser = peer
    model.set_attn_implementation("eager")
    generator = uwaga.TextGenerator.load(folder, device="cpu", engine=engine)
    for text, attended in zip(PROMPTS, generator.attend(PROMPTS), strict=True):
        batch = tokeniser(text or tokeniser.bos_token, return_tensors="pt")
        with torch.no_grad():
            expected = torch.cat(model(**batch, output_attentions=True).attentions).numpy()
        assert attended.tokens == tuple(tokeniser.convert_ids_to_tokens(batch.input_ids[0].tolist()))
        np.testing.assert_allclose(attended.attentions.decoder, expected, atol=1e-4)
        assert not np.triu(attended.attentions.decoder, 1).any()
        assert attended.attentions.encoder is attended.attentions.cross is None
        assert generator.attend(text).tokens == attended.tokens
    with pytest.raises(TextTooLongError, match="64"):
        generator.attend(" of" * 65)
    with pytest.raises(DataError, match="text 1 is not a string"):
        generator.attend([None])


def test_padding_token_defaults_to_that_of_the_tokeniser(peer, generator, tmp_path):
    folder = shutil.copytree(peer[0], tmp_path / "model")
    for name, pad in (("config.json", None), ("tokenizer_config.json", peer[2].convert_ids_to_tokens(5))):
        values = json.loads((folder / name).read_text())
        values["pad_token_id" if pad is None else "pad_token"] = pad
        (folder / name).write_text(json.dumps(values))
    loaded = uwaga.load(folder, device="cpu")
    assert loaded.generate("Where is", beam=1).text == generator.generate("Where is", beam=1).text


def test_attend_command_shows_decoder_attention(peer):
    result = CliRunner().invoke(app, ["attend", "-m", str(peer[0]), "--json", "--layer", "1", "A dog sees"])
    row = json.loads(result.stdout)
    assert (row["kind"], row["layer"], row["head"]) == ("decoder", 1, "mean")
    assert row["source"] == row["target"]
    assert all(weight == 0 for index, line in enumerate(row["weights"]) for weight in line[index + 1 :])


def test_generate_respects_search_options(generator):
    continuation = generator.generate("Where is", beam=4, nbest=3, max_length=5, min_length=2)
    hypotheses = (continuation, *continuation.alternatives)
    assert len(hypotheses) == 3 and len({hypothesis.tokens for hypothesis in hypotheses}) == 3
    assert [hypothesis.score for hypothesis in hypotheses] == sorted(
        (hypothesis.score for hypothesis in hypotheses), reverse=True
    )
    for hypothesis in hypotheses:
        assert 2 <= len(hypothesis.tokens) <= 5
        assert len(hypothesis.token_scores) == len(hypothesis.tokens) + (not hypothesis.truncated)
        assert hypothesis.log_prob == pytest.approx(sum(hypothesis.token_scores))
        assert hypothesis.full_text == "Where is" + hypothesis.text
    assert continuation.truncated == (len(continuation.tokens) == 5)


def test_M25_samples_depend_only_on_seed_and_prompt(generator):
    samples = generator.generate(PROMPTS, sample=True, nbest=3, seed=7, top_k=20, temperature=1.5)
    reversed_samples = generator.generate(
        PROMPTS[::-1], sample=True, nbest=3, seed=7, top_k=20, temperature=1.5
    )
    assert [a.text for a in samples] == [b.text for b in reversed_samples[::-1]]
    assert len({sample.text for sample in (samples[0], *samples[0].alternatives)}) == 3
    assert (
        generator.generate(PROMPTS[0], sample=True).text != generator.generate(PROMPTS[0], sample=True).text
    )


@pytest.mark.parametrize("options", [{}, {"sample": True, "seed": 3}])
def test_joined_stream_equals_generated_text(generator, options):
    for prompt in PROMPTS:
        pieces = generator.stream(prompt, **options)
        text = ""
        while True:
            try:
                text += next(pieces)
            except StopIteration as end:
                truncated = end.value
                break
        continuation = generator.generate(prompt, **({"beam": 1} | options))
        assert (text, truncated) == (continuation.text, continuation.truncated)


def test_generation_stops_at_the_last_position(generator):
    prompt = "A" * 60
    ids = generator.tokeniser.encode(prompt)
    room = 64 - len(ids) + 1
    assert 1 <= room < 20
    short, long = generator.generate(["A", prompt], max_length=20, min_length=20)
    assert (len(short.tokens), len(long.tokens), long.truncated) == (20, room, True)
    with pytest.raises(TextTooLongError, match=r"prompt 2 has \d+ tokens, and the model has 64 positions"):
        generator.generate(["A", "AB" * 300])


def test_invalid_calls_are_rejected(generator, peer):
    with pytest.raises(SettingsError, match="nbest 3 is more than beam 2"):
        generator.generate("A", beam=2, nbest=3)
    with pytest.raises(SettingsError, match="streaming needs beam 1"):
        generator.stream_prompt("A", generator.options(beam=2), "the prompt")
    with pytest.raises(DataError, match="prompt 2 is not a string but int"):
        generator.generate(["A", 5])
    with pytest.raises(ModelError, match=r"'gpt2' is a decoder-only model"):
        uwaga.MaskFiller.load(peer[0], device="cpu")
    with pytest.raises(SettingsError, match=r"both languages: name the source \(--from\)"):
        uwaga.load(peer[0], device="cpu", target="de").translate("A")


def run(*arguments, lines=None):
    result = CliRunner().invoke(app, ["generate", *map(str, arguments)], input=lines)
    return result.exit_code, result.stdout, result.stderr


def test_generate_command_reads_texts_lines_and_files(peer, generator, tmp_path):
    folder = peer[0]
    full_text = generator.generate("A dog").full_text
    assert run(folder, "A dog", "--device", "cpu") == (0, full_text + "\n", "")
    code, out, _ = run(folder, "--json", "--beam", 2, "--nbest", 2, lines="A dog\nWhere\n")
    rows = [json.loads(line) for line in out.splitlines()]
    expected = generator.generate(["A dog", "Where"], beam=2, nbest=2)
    assert code == 0 and [row["prompt"] + row["text"] for row in rows] == [
        continuation.full_text for continuation in expected
    ]
    assert [row["alternatives"][0]["text"] for row in rows] == [
        continuation.alternatives[0].text for continuation in expected
    ]
    (tmp_path / "in.txt").write_text("A dog\nWhere\n")
    options = ("--sample", "--seed", 5, "--max-length", 6, "-o", tmp_path / "out.txt")
    assert run(folder, "-i", tmp_path / "in.txt", *options)[0] == 0
    samples = generator.generate(["A dog", "Where"], sample=True, seed=5, max_length=6)
    assert (tmp_path / "out.txt").read_text().splitlines() == [
        " ".join(sample.full_text.splitlines()) for sample in samples
    ]
    code, out, _ = run(folder, "--stream", "--sample", "--seed", 5, "--max-length", 6, "A dog")
    assert (code, out) == (0, samples[0].full_text + "\n")


def test_generate_command_reports_invalid_input(peer, tmp_path):
    code, _, message = run(peer[0], "A", "--stream", "--json")
    assert code == 1 and message.startswith("error: --stream shows a single")
    assert "line 2 has" in run(peer[0], lines="A\n" + "AB" * 400 + "\n")[2]
    result = CliRunner().invoke(app, ["translate", "--model", str(peer[0]), "A dog"])
    assert result.exit_code == 1 and "`uwaga generate`" in result.stderr
    assert "Traceback" not in result.stderr


def test_hub_names_without_an_owner_are_resolved(monkeypatch, tmp_path):
    requested = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hub, "_from_hub", lambda name: requested.append(name) or tmp_path)
    for name in ("gpt2", "bert-base-uncased", "t5-small"):
        assert hub.find_model(name) == tmp_path
    assert requested == ["openai-community/gpt2", "google-bert/bert-base-uncased", "google-t5/t5-small"]
    (tmp_path / "gpt2").mkdir()
    assert hub.find_model("gpt2") == Path("gpt2") and len(requested) == 3
    with pytest.raises(ModelError, match="no such folder, and not a Hugging Face name"):
        hub.find_model("gpt3")


@pytest.mark.numerical
def test_entropies_match_transformers(peer, generator):
    _, model, tokeniser = peer
    continuation = generator.generate(PROMPTS[0], beam=1, entropy=True)
    assert generator.generate(PROMPTS[0], beam=1).entropies == ()
    prompt = tokeniser(PROMPTS[0]).input_ids
    ids = [*prompt, *tokeniser.convert_tokens_to_ids(list(continuation.tokens))]
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, len(prompt) - 1 :]
    log_probs = torch.log_softmax(logits.double(), dim=1)
    expected = -(log_probs.exp() * log_probs).sum(dim=1)[: len(continuation.token_scores)].numpy()
    np.testing.assert_allclose(continuation.entropies, expected, **tolerance(expected, np.float32))
    assert continuation.to_dict()["entropies"] == pytest.approx(list(continuation.entropies), abs=1e-6)
