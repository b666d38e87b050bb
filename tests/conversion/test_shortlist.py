"""Shortlists learned from attention: learning, storage, commands, and rejection of damaged files."""

import json
import re
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import run_uwaga
from safetensors import safe_open
from safetensors.numpy import save_file

import uwaga
from uwaga.checkpoints.formats.uwaga.shortlist import read_shortlist, write_shortlist
from uwaga.conversion.shortlist import evaluate_shortlist, learn_shortlist, read_corpus, with_shortlist
from uwaga.decoder import Choice
from uwaga.engine import Shortlist
from uwaga.errors import DataError, ModelError, SettingsError
from uwaga.evaluation import evaluate

MODELS = Path(__file__).parents[1] / "support/models"
sys.path.insert(0, str(MODELS))
from make import english, german, held_out

MODEL = MODELS / "numbers-en-de"
UNSEEN_NUMBERS = held_out()
PAIRS = [(english(number), german(number)) for number in range(0, 1000, 3) if number not in UNSEEN_NUMBERS]
HELD_OUT = [(english(number), german(number)) for number in UNSEEN_NUMBERS]


@pytest.fixture(scope="module")
def translator():
    return uwaga.load(MODEL, engine="native", threads=1)


@pytest.fixture(scope="module")
def learned(translator):
    return learn_shortlist(translator, PAIRS, frequent=12, per_word=8)


@pytest.fixture(scope="module")
def path(translator, learned, tmp_path_factory):
    path = tmp_path_factory.mktemp("shortlist") / "numbers.shortlist"
    write_shortlist(path, learned.shortlist, translator.source, translator.target, learned.pairs)
    return path


def test_learned_shortlist_matches_direct_attention_counts(translator):
    """The counts equal those of a direct loop over steps, tokens and source positions."""
    pairs, model = PAIRS[5:25], translator.decoder
    learned = learn_shortlist(translator, [*pairs, ("", "x"), ("x", " ")], frequent=4, per_word=3)
    assert (learned.pairs, learned.skipped) == (len(pairs), 2)
    weights, frequencies = {}, np.zeros(model.vocabulary, dtype=np.int64)
    for source, target in pairs:
        ids = translator.source.add_special_tokens(translator.source.encode(source))
        state, last = model.start(model.encode([ids]), 1), model.symbols.start
        for token in translator.target.add_special_tokens(translator.target.encode(target)):
            step = model.step(np.array([last]), state, Choice(1, forced=np.array([token]), attention=True))
            for position in range(len(ids) - 1):
                if step.attention[0, position] >= 1 / len(ids):
                    key = (ids[position], token)
                    weights[key] = weights.get(key, 0.0) + float(step.attention[0, position])
            frequencies[token] += 1
            state, last = step.state, token
    frequent = sorted(range(model.vocabulary), key=lambda token: (-frequencies[token], token))[:4]
    common = sorted({*frequent, model.symbols.end, model.symbols.unknown})
    assert learned.shortlist.common.tolist() == common
    for token in range(model.vocabulary):
        heaviest = sorted(
            (-weight, target_token)
            for (source_token, target_token), weight in weights.items()
            if source_token == token
        )
        best = [target_token for _, target_token in heaviest if target_token not in common][:3]
        first, last = learned.shortlist.first[token : token + 2]
        # The vocabulary is joint: every token may be copied.
        assert learned.shortlist.targets[first:last].tolist() == sorted({*best, token})


def test_shortlist_preserves_nearly_all_translations_of_held_out_numbers(translator, learned):
    trial = evaluate_shortlist(translator, learned.shortlist, HELD_OUT, translator.options(beam=1))
    sizes = [
        len(learned.shortlist.allowed_tokens(translator.pair_ids([pair])[0].source)) for pair in HELD_OUT
    ]
    assert trial.size == np.mean(sizes) < 100 < translator.decoder.vocabulary
    assert trial.coverage > 0.99
    assert trial.equal_count >= len(HELD_OUT) - 3
    assert trial.vocabulary == translator.decoder.vocabulary
    expected = [
        evaluate(
            [translation.text for translation in timed.translations],
            [(target,) for _, target in HELD_OUT],
            ["bleu"],
        )["bleu"]
        for timed in (trial.full, trial.shortlisted)
    ]
    assert trial.bleu() == tuple(expected)
    short = with_shortlist(translator, learned.shortlist)
    for translation, (source, _) in zip(trial.shortlisted.translations, HELD_OUT, strict=True):
        allowed = set(
            short.target.pieces(
                short.decoder.shortlist.allowed_tokens(short.pair_ids([(source, "")])[0].source)
            )
        )
        assert set(translation.tokens) <= allowed
    assert trial.shortlisted.translations == short.translate([source for source, _ in HELD_OUT], beam=1)


def test_prefix_outside_the_shortlist_is_kept(translator, learned):
    short = with_shortlist(translator, learned.shortlist)
    source = english(7)
    allowed = set(short.decoder.shortlist.allowed_tokens(short.pair_ids([(source, "")])[0].source).tolist())
    target = next(
        german(number) for number in range(999) if not set(short.target.encode(german(number))) <= allowed
    )
    translation = short.translate(source, prefix=target)
    assert translation.text.startswith(target)
    [score] = short.score([(source, target)])
    assert np.isfinite(score.log_prob)


def test_shortlist_survives_a_file_round_trip(translator, learned, path):
    loaded = uwaga.load(MODEL, shortlist=path)
    loaded_shortlist = loaded.decoder.shortlist
    for name in ("common", "first", "targets"):
        assert np.array_equal(getattr(loaded_shortlist, name), getattr(learned.shortlist, name))
    texts = [source for source, _ in HELD_OUT[:9]]
    assert loaded.translate(texts) == with_shortlist(translator, learned.shortlist).translate(texts)
    with safe_open(path, framework="np") as file:
        metadata = file.metadata()
    assert metadata["format"] == "uwaga shortlist"
    assert int(metadata["pairs"]) == len(PAIRS)
    assert {len(metadata[name]) for name in ("source_tokeniser", "target_tokeniser")} == {64}


def rewrite(path, output, tensors=None, **changed):
    """Write a copy of a file with its tensors or metadata changed."""
    with safe_open(path, framework="np") as file:
        metadata = file.metadata()
        values = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    metadata = {name: value for name, value in {**metadata, **changed}.items() if value is not None}
    values = {name: value for name, value in {**values, **(tensors or {})}.items() if value is not None}
    save_file(values, output, metadata)
    return output


INVALID_METADATA = {
    "another format": ({"format": "uwaga model"}, "not a shortlist"),
    "no format": ({"format": None}, "not a shortlist"),
    "newer": ({"version": "2"}, "install a newer version of uwaga"),
    "no version": ({"version": None}, "version"),
    "unknown key": ({"sentences": "7"}, "sentences"),
    "huge version": ({"version": "9" * 5000}, "version"),
    "another source": ({"source_tokeniser": "0" * 64}, "another source tokeniser"),
    "another target": ({"target_tokeniser": "f" * 64}, "another target tokeniser"),
    "other sizes": ({"target_vocabulary": "331"}, "the shortlist of another model"),
    "impossible size": ({"target_vocabulary": "-1"}, "target_vocabulary"),
    "no number": ({"pairs": "many"}, "pairs"),
}


@pytest.mark.parametrize("name", INVALID_METADATA)
def test_invalid_metadata_is_rejected(name, path, tmp_path):
    changed, message = INVALID_METADATA[name]
    invalid = rewrite(path, tmp_path / "bad", **changed)
    with pytest.raises(ModelError, match=re.escape(str(invalid)) + f".*{message}"):
        uwaga.load(MODEL, shortlist=invalid)


def test_invalid_tensors_are_rejected(path, learned, tmp_path):
    short = learned.shortlist
    falling = short.first.copy()
    falling[7] += 40
    beyond = short.targets.copy()
    beyond[-1] = short.vocabulary
    invalid = {
        "beyond": {"targets": beyond}, "below": {"common": short.common - short.common[0] - 1},
        "not rising": {"common": short.common[::-1].copy()}, "twice": {"common": np.repeat(short.common, 2)},
        "falling places": {"first": falling}, "too few places": {"first": short.first[:-1]},
        "not the end": {"targets": short.targets[:-1]}, "no common": {"common": short.common[:0]},
        "missing": {"common": None}, "unknown": {"more": short.common},
        "other format": {"targets": short.targets.astype(np.int64)},
        "floats": {"targets": short.targets.astype(np.float32)}, "shape": {"targets": short.targets[None]},
    }  # fmt: skip
    for name, tensors in invalid.items():
        file = rewrite(path, tmp_path / "bad", tensors)
        with pytest.raises(ModelError, match=re.escape(str(file))):
            pytest.fail(f"{name}: {uwaga.load(MODEL, shortlist=file)}")


def test_damaged_files_are_rejected(path, tmp_path):
    content, damaged = path.read_bytes(), tmp_path / "bad"
    for size in (0, 1, 7, 8, 100, len(content) // 2, len(content) - 1):
        damaged.write_bytes(content[:size])
        with pytest.raises(ModelError, match=re.escape(str(damaged))):
            uwaga.load(MODEL, shortlist=damaged)
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["targets"]["shape"] = [1 << 50]
    text = json.dumps(header).encode()
    for false_header in (text, b"x" * size):
        damaged.write_bytes(struct.pack("<Q", len(false_header)) + false_header + content[8 + size :])
        with pytest.raises(ModelError, match="damaged"):
            uwaga.load(MODEL, shortlist=damaged)
    damaged.write_bytes(struct.pack("<Q", 1 << 60) + content[8:])
    with pytest.raises(ModelError, match="damaged"):
        uwaga.load(MODEL, shortlist=damaged)
    rng = np.random.default_rng(0)
    for _ in range(60):  # any one bit: refused, or a list that is sound
        position = int(rng.integers(len(content)))
        damaged.write_bytes(
            content[:position]
            + bytes([content[position] ^ (1 << int(rng.integers(8)))])
            + content[position + 1 :]
        )
        try:
            loaded = uwaga.load(MODEL, shortlist=damaged)
        except ModelError:
            continue
        loaded.translate(english(345), max_length=4)
    with pytest.raises(ModelError, match="no such file"):
        uwaga.load(MODEL, shortlist=tmp_path / "nowhere")


def test_shortlist_of_another_model_is_rejected(translator, learned, path, tmp_path):
    with pytest.raises(ModelError, match="the shortlist of another model"):
        uwaga.load(shortlist=path)  # the bundled model
    with pytest.raises(ModelError, match="the shortlist of another model"):
        read_shortlist(path, translator.source, translator.target, 330, 329)
    nowhere = tmp_path / "no" / "folder"
    with pytest.raises(ModelError, match="cannot be written"):
        write_shortlist(nowhere, learned.shortlist, translator.source, translator.target)


def test_shortlist_requires_the_native_engine_and_valid_arguments(translator, path):
    pytest.importorskip("torch")
    with pytest.raises(SettingsError, match="torch takes no shortlist"):
        uwaga.load(MODEL, engine="torch", shortlist=path)
    with pytest.raises(SettingsError, match="native engine"):
        uwaga.load(MODEL, dtype="float16", shortlist=path)
    torch = uwaga.load(MODEL, engine="torch", device="cpu")
    with pytest.raises(SettingsError, match="a shortlist needs the native engine"):
        learn_shortlist(torch, PAIRS)
    with pytest.raises(SettingsError, match="at least 1"):
        learn_shortlist(translator, PAIRS, frequent=0)
    with pytest.raises(DataError, match="no usable pair"):
        learn_shortlist(translator, [("", "")])


def run(*arguments, code=0, **options):
    return run_uwaga(*arguments, code=code, **options)


@pytest.fixture
def corpus(tmp_path):
    for side, lines in zip(("en", "de"), zip(*PAIRS, strict=True), strict=True):
        (tmp_path / f"train.{side}").write_text("\n".join(lines) + "\n")
    for side, lines in zip(("en", "de"), zip(*HELD_OUT, strict=True), strict=True):
        (tmp_path / f"dev.{side}").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_shortlist_command_creates_and_evaluates_a_usable_shortlist(corpus):
    output = corpus / "numbers.shortlist"
    files = (corpus / "train.en", corpus / "train.de")
    options = ("--output", output, "--frequent", 12, "--per-word", 8, "--threads", 1)
    dev = ("--dev-source", corpus / "dev.en", "--dev-target", corpus / "dev.de", "--beam", 1)
    printed_text = run("shortlist", MODEL, *files, *options, *dev).stdout
    assert f"from {len(PAIRS)} pairs" in printed_text
    scores = dict(re.findall(r"^(whole vocabulary|shortlist) +([\d.]+) +\d+$", printed_text, re.MULTILINE))
    loss = re.search(
        r"^loss (-?[\d.]+) BLEU, [\d.]+ times the speed; (\d+) of 98", printed_text, re.MULTILINE
    )
    assert float(loss[1]) == pytest.approx(
        float(scores["whole vocabulary"]) - float(scores["shortlist"]), abs=0.011
    )
    assert re.search(r"mean list: \d+ of 330 tokens, with (100|99)\.\d% of the tokens", printed_text)
    assert [path.name for path in corpus.iterdir() if path.name.startswith(".")] == []
    text = english(456)
    translated = run("translate", "--model", MODEL, "--shortlist", output, text).stdout
    assert translated == uwaga.load(MODEL, shortlist=output).translate(text).text + "\n"
    held_out_text = run("shortlist", MODEL, *files, *options, "--held-out", 20, "--sentences", 200).stdout
    assert re.search(r"from (\d+) pairs", held_out_text)[1] == "200"
    assert re.search(r"of 20 translations identical", held_out_text)


def test_held_out_pairs_are_not_used_for_learning(corpus):
    train, dev = (corpus / "train.en", corpus / "train.de"), (corpus / "dev.en", corpus / "dev.de")
    for limit, sentences in ((20, 100), (1, 1000), (1000, 1000)):
        corpus_read = read_corpus(*train, sentences, limit)
        expected = PAIRS[: sentences + limit]
        assert len(corpus_read.held_out_pairs) == min(limit, len(expected) // 10)
        assert sorted(corpus_read.training + corpus_read.held_out_pairs) == sorted(expected)
    corpus_read = read_corpus(*train, 50, dev=dev)
    assert (corpus_read.training, corpus_read.held_out_pairs) == (PAIRS[:50], HELD_OUT)


def test_failed_shortlist_commands_leave_no_files(corpus):
    output = corpus / "made"
    (corpus / "short.de").write_text("eins\n")
    (corpus / "empty").write_text("")
    train = (corpus / "train.en", corpus / "train.de")
    for arguments, message in (
        ((train[0], corpus / "short.de"), r"short\.de has 1 lines, but .*train\.en has more"),
        ((corpus / "short.de", train[1]), r"short\.de has 1 lines, but .*train\.de has more"),
        ((corpus / "empty", corpus / "empty"), "too few to hold out any"),
        ((corpus / "none", train[1]), "no such file"),
        ((*train, "--dev-source", train[0]), "give both"),
        ((*train, "--dev-source", train[0], "--dev-target", train[1]), "there are no pairs"),
    ):
        result = run("shortlist", MODEL, *arguments, "--output", output, code=1)
        assert re.search(message, " ".join(result.stderr.split())), result.stderr
        assert "Traceback" not in result.output
        assert not output.exists()
    result = run("translate", "--model", MODEL, "--shortlist", train[0], "one", code=1)
    assert "damaged" in result.stderr
    result = run("translate", "--model", MODEL, "--engine", "torch", "--shortlist", output, "one", code=1)
    assert "torch takes no shortlist" in " ".join(result.stderr.split())


def test_allowed_tokens_are_the_union_over_source_tokens(learned):
    short = Shortlist(
        np.array([1, 5], dtype=np.int32),
        np.array([0, 2, 2, 3], dtype=np.int32),
        np.array([0, 4, 5], dtype=np.int32),
        6,
    )
    assert short.allowed_tokens([]).tolist() == [1, 5]
    assert short.allowed_tokens([0, 0, 1]).tolist() == [0, 1, 4, 5]
    assert short.allowed_tokens([2, 0]).tolist() == [0, 1, 4, 5]
    assert short.with_tokens([3, 1]).allowed_tokens([2]).tolist() == [1, 3, 5]
    assert short.source_vocabulary == 3
