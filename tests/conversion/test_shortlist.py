"""Shortlists from a model's attention: what is counted, the file, the commands, and every kind of damage."""

import json
import re
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from typer.testing import CliRunner

import uwaga
from uwaga.checkpoints.formats.uwaga.shortlist import read_shortlist, write_shortlist
from uwaga.cli.main import app
from uwaga.conversion.shortlist import count_shortlist, read_corpus, try_shortlist, with_shortlist
from uwaga.decoder import Choice
from uwaga.engine import Shortlist
from uwaga.errors import DataError, ModelError, SettingsError
from uwaga.evaluation import evaluate

MODELS = Path(__file__).parents[1] / "support/models"
sys.path.insert(0, str(MODELS))
from make import english, german, held_out

MODEL = MODELS / "numbers-en-de"
UNSEEN = held_out()
PAIRS = [(english(number), german(number)) for number in range(0, 1000, 3) if number not in UNSEEN]
TRIED = [(english(number), german(number)) for number in UNSEEN]


@pytest.fixture(scope="module")
def translator():
    return uwaga.load(MODEL, engine="native", threads=1)


@pytest.fixture(scope="module")
def counted(translator):
    return count_shortlist(translator, PAIRS, frequent=12, per_word=8)


@pytest.fixture(scope="module")
def path(translator, counted, tmp_path_factory):
    path = tmp_path_factory.mktemp("shortlist") / "numbers.shortlist"
    write_shortlist(path, counted.shortlist, translator.source, translator.target, counted.pairs)
    return path


def test_what_is_counted_is_attention_led_along_the_targets(translator):
    """Against a plain loop over steps, tokens and source places; frequencies counted by hand."""
    pairs, model = PAIRS[5:25], translator.decoder
    found = count_shortlist(translator, [*pairs, ("", "x"), ("x", " ")], frequent=4, per_word=3)
    assert (found.pairs, found.skipped) == (len(pairs), 2)
    weights, seen = {}, np.zeros(model.vocabulary, dtype=np.int64)
    for source, target in pairs:
        ids = translator.source.add_special_tokens(translator.source.encode(source))
        state, last = model.start(model.encode([ids]), 1), model.symbols.start
        for token in translator.target.add_special_tokens(translator.target.encode(target)):
            step = model.step(np.array([last]), state, Choice(1, forced=np.array([token]), attention=True))
            for place in range(len(ids) - 1):
                if step.attention[0, place] >= 1 / len(ids):
                    key = (ids[place], token)
                    weights[key] = weights.get(key, 0.0) + float(step.attention[0, place])
            seen[token] += 1
            state, last = step.state, token
    frequent = sorted(range(model.vocabulary), key=lambda token: (-seen[token], token))[:4]
    common = sorted({*frequent, model.symbols.end, model.symbols.unknown})
    assert found.shortlist.common.tolist() == common
    for token in range(model.vocabulary):
        heaviest = sorted((-weight, to) for (of, to), weight in weights.items() if of == token)
        best = [to for _, to in heaviest if to not in common][:3]
        first, last = found.shortlist.first[token : token + 2]
        # The vocabulary is joint: every token may be copied.
        assert found.shortlist.targets[first:last].tolist() == sorted({*best, token})


def test_unseen_numbers_are_translated_with_it(translator, counted):
    trial = try_shortlist(translator, counted.shortlist, TRIED, translator.options(beam=1))
    sizes = [len(counted.shortlist.of(translator.pair_ids([pair], 1)[0][0])) for pair in TRIED]
    assert trial.size == np.mean(sizes) < 100 < translator.decoder.vocabulary
    assert trial.coverage > 0.99
    assert trial.equal >= len(TRIED) - 3
    assert trial.vocabulary == translator.decoder.vocabulary
    expected = [
        evaluate([one.text for one in way.translations], [(target,) for _, target in TRIED], ["bleu"])["bleu"]
        for way in (trial.whole, trial.short)
    ]
    assert trial.bleu() == tuple(expected)
    short = with_shortlist(translator, counted.shortlist)
    for translation, (source, _) in zip(trial.short.translations, TRIED, strict=True):
        allowed = set(
            short.target.pieces(short.decoder.shortlist.of(short.pair_ids([(source, "")], 1)[0][0]))
        )
        assert set(translation.tokens) <= allowed
    assert trial.short.translations == short.translate([source for source, _ in TRIED], beam=1)


def test_a_prefix_outside_the_list_is_kept(translator, counted):
    short = with_shortlist(translator, counted.shortlist)
    source = english(7)
    allowed = set(short.decoder.shortlist.of(short.pair_ids([(source, "")], 1)[0][0]).tolist())
    target = next(german(one) for one in range(999) if not set(short.target.encode(german(one))) <= allowed)
    found = short.translate(source, prefix=target)
    assert found.text.startswith(target)
    [score] = short.score([(source, target)])
    assert np.isfinite(score.log_prob)


def test_a_file_says_whose_it_is_and_gives_the_same_back(translator, counted, path):
    loaded = uwaga.load(MODEL, shortlist=path)
    again = loaded.decoder.shortlist
    for name in ("common", "first", "targets"):
        assert np.array_equal(getattr(again, name), getattr(counted.shortlist, name))
    texts = [source for source, _ in TRIED[:9]]
    assert loaded.translate(texts) == with_shortlist(translator, counted.shortlist).translate(texts)
    with safe_open(path, framework="np") as file:
        metadata = file.metadata()
    assert metadata["format"] == "uwaga shortlist"
    assert int(metadata["pairs"]) == len(PAIRS)
    assert {len(metadata[name]) for name in ("source_tokeniser", "target_tokeniser")} == {64}


def rewritten(path, to, tensors=None, **changed):
    """The file with other tensors or metadata."""
    with safe_open(path, framework="np") as file:
        metadata = file.metadata()
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    metadata = {name: value for name, value in {**metadata, **changed}.items() if value is not None}
    found = {name: value for name, value in {**found, **(tensors or {})}.items() if value is not None}
    save_file(found, to, metadata)
    return to


BAD = {
    "another format": ({"format": "uwaga model"}, "not a shortlist"),
    "no format": ({"format": None}, "not a shortlist"),
    "newer": ({"version": "2"}, "install a newer uwaga"),
    "no version": ({"version": None}, "version"),
    "unknown key": ({"sentences": "7"}, "sentences"),
    "huge version": ({"version": "9" * 5000}, "version"),
    "another source": ({"source_tokeniser": "0" * 64}, "another source tokeniser"),
    "another target": ({"target_tokeniser": "f" * 64}, "another target tokeniser"),
    "other sizes": ({"target_vocabulary": "331"}, "another model's"),
    "impossible size": ({"target_vocabulary": "-1"}, "target_vocabulary"),
    "no number": ({"pairs": "many"}, "pairs"),
}


@pytest.mark.parametrize("name", BAD)
def test_metadata_is_closed_and_held_against_the_model(name, path, tmp_path):
    changed, message = BAD[name]
    bad = rewritten(path, tmp_path / "bad", **changed)
    with pytest.raises(ModelError, match=re.escape(str(bad)) + f".*{message}"):
        uwaga.load(MODEL, shortlist=bad)


def test_tensors_are_checked(path, counted, tmp_path):
    short = counted.shortlist
    falling = short.first.copy()
    falling[7] += 40
    beyond = short.targets.copy()
    beyond[-1] = short.vocabulary
    bad = {
        "beyond": {"targets": beyond},
        "below": {"common": short.common - short.common[0] - 1},
        "not rising": {"common": short.common[::-1].copy()},
        "twice": {"common": np.repeat(short.common, 2)},
        "falling places": {"first": falling},
        "too few places": {"first": short.first[:-1]},
        "not the end": {"targets": short.targets[:-1]},
        "no common": {"common": short.common[:0]},
        "missing": {"common": None},
        "unknown": {"more": short.common},
        "other format": {"targets": short.targets.astype(np.int64)},
        "floats": {"targets": short.targets.astype(np.float32)},
        "shape": {"targets": short.targets[None]},
    }
    for name, tensors in bad.items():
        file = rewritten(path, tmp_path / "bad", tensors)
        with pytest.raises(ModelError, match=re.escape(str(file))):
            pytest.fail(f"{name}: {uwaga.load(MODEL, shortlist=file)}")


def test_cut_flipped_and_lying_files_are_refused(path, tmp_path):
    content, bad = path.read_bytes(), tmp_path / "bad"
    for size in (0, 1, 7, 8, 100, len(content) // 2, len(content) - 1):
        bad.write_bytes(content[:size])
        with pytest.raises(ModelError, match=re.escape(str(bad))):
            uwaga.load(MODEL, shortlist=bad)
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["targets"]["shape"] = [1 << 50]
    text = json.dumps(header).encode()
    for lie in (text, b"x" * size):
        bad.write_bytes(struct.pack("<Q", len(lie)) + lie + content[8 + size :])
        with pytest.raises(ModelError, match="damaged"):
            uwaga.load(MODEL, shortlist=bad)
    bad.write_bytes(struct.pack("<Q", 1 << 60) + content[8:])
    with pytest.raises(ModelError, match="damaged"):
        uwaga.load(MODEL, shortlist=bad)
    rng = np.random.default_rng(0)
    for _ in range(60):  # any one bit: refused, or a list that is sound
        place = int(rng.integers(len(content)))
        bad.write_bytes(
            content[:place] + bytes([content[place] ^ (1 << int(rng.integers(8)))]) + content[place + 1 :]
        )
        try:
            loaded = uwaga.load(MODEL, shortlist=bad)
        except ModelError:
            continue
        loaded.translate(english(345), max_length=4)
    with pytest.raises(ModelError, match="no such file"):
        uwaga.load(MODEL, shortlist=tmp_path / "nowhere")


def test_another_models_shortlist_is_refused(translator, counted, path, tmp_path):
    with pytest.raises(ModelError, match="another model's shortlist"):
        uwaga.load(shortlist=path)  # the bundled model
    with pytest.raises(ModelError, match="another model's shortlist"):
        read_shortlist(path, translator.source, translator.target, 330, 329)
    nowhere = tmp_path / "no" / "folder"
    with pytest.raises(ModelError, match="cannot be written"):
        write_shortlist(nowhere, counted.shortlist, translator.source, translator.target)


def test_torch_is_refused_by_name(translator, path):
    pytest.importorskip("torch")
    with pytest.raises(SettingsError, match="torch takes no shortlist"):
        uwaga.load(MODEL, engine="torch", shortlist=path)
    with pytest.raises(SettingsError, match="native engine"):
        uwaga.load(MODEL, dtype="float16", shortlist=path)
    torch = uwaga.load(MODEL, engine="torch", device="cpu")
    with pytest.raises(SettingsError, match="native engine's alone"):
        count_shortlist(torch, PAIRS)
    with pytest.raises(SettingsError, match="1 or more"):
        count_shortlist(translator, PAIRS, frequent=0)
    with pytest.raises(DataError, match="no usable pair"):
        count_shortlist(translator, [("", "")])


def run(*arguments, code=0, **options):
    result = CliRunner().invoke(app, [*map(str, arguments)], **options)
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def corpus(tmp_path):
    for side, lines in zip(("en", "de"), zip(*PAIRS, strict=True), strict=True):
        (tmp_path / f"train.{side}").write_text("\n".join(lines) + "\n")
    for side, lines in zip(("en", "de"), zip(*TRIED, strict=True), strict=True):
        (tmp_path / f"dev.{side}").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_the_command_makes_tries_and_uses_a_shortlist(corpus):
    made = corpus / "numbers.shortlist"
    files = (corpus / "train.en", corpus / "train.de")
    options = ("--output", made, "--frequent", 12, "--per-word", 8, "--threads", 1)
    dev = ("--dev-source", corpus / "dev.en", "--dev-target", corpus / "dev.de", "--beam", 1)
    shown = run("shortlist", MODEL, *files, *options, *dev).stdout
    assert f"from {len(PAIRS)} pairs" in shown
    scores = dict(re.findall(r"^(whole vocabulary|shortlist) +([\d.]+) +\d+$", shown, re.MULTILINE))
    loss = re.search(r"^loss (-?[\d.]+) BLEU, [\d.]+ times the speed; (\d+) of 98", shown, re.MULTILINE)
    assert float(loss[1]) == pytest.approx(
        float(scores["whole vocabulary"]) - float(scores["shortlist"]), abs=0.011
    )
    assert re.search(r"mean list: \d+ of 330 tokens, with (100|99)\.\d% of the tokens", shown)
    assert [path.name for path in corpus.iterdir() if path.name.startswith(".")] == []
    text = english(456)
    translated = run("translate", "--model", MODEL, "--shortlist", made, text).stdout
    assert translated == uwaga.load(MODEL, shortlist=made).translate(text).text + "\n"
    held = run("shortlist", MODEL, *files, *options, "--held-out", 20, "--sentences", 200).stdout
    assert re.search(r"from (\d+) pairs", held)[1] == "200"
    assert re.search(r"of 20 translations equal", held)


def test_no_pair_is_both_learnt_from_and_tried(corpus):
    train, dev = (corpus / "train.en", corpus / "train.de"), (corpus / "dev.en", corpus / "dev.de")
    for most, sentences in ((20, 100), (1, 1000), (1000, 1000)):
        found = read_corpus(*train, sentences, most)
        whole = PAIRS[: sentences + most]
        assert len(found.heldout) == min(most, len(whole) // 10)
        assert sorted(found.training + found.heldout) == sorted(whole)
    found = read_corpus(*train, 50, dev=dev)
    assert (found.training, found.heldout) == (PAIRS[:50], TRIED)


def test_mistakes_are_named_and_leave_nothing_behind(corpus):
    made = corpus / "made"
    (corpus / "short.de").write_text("eins\n")
    (corpus / "empty").write_text("")
    train = (corpus / "train.en", corpus / "train.de")
    for arguments, message in (
        ((train[0], corpus / "short.de"), r"short\.de has 1 lines and .*train\.en more"),
        ((corpus / "short.de", train[1]), r"short\.de has 1 lines and .*train\.de more"),
        ((corpus / "empty", corpus / "empty"), "too few to hold any out"),
        ((corpus / "none", train[1]), "no such file"),
        ((*train, "--dev-source", train[0]), "give both"),
        ((*train, "--dev-source", train[0], "--dev-target", train[1]), "no pairs are left"),
    ):
        result = run("shortlist", MODEL, *arguments, "--output", made, code=1)
        assert re.search(message, " ".join(result.stderr.split())), result.stderr
        assert "Traceback" not in result.output
        assert not made.exists()
    result = run("translate", "--model", MODEL, "--shortlist", train[0], "one", code=1)
    assert "damaged" in result.stderr
    result = run("translate", "--model", MODEL, "--engine", "torch", "--shortlist", made, "one", code=1)
    assert "torch takes no shortlist" in " ".join(result.stderr.split())


def test_lists_of_a_sentence(counted):
    short = Shortlist(
        np.array([1, 5], dtype=np.int32),
        np.array([0, 2, 2, 3], dtype=np.int32),
        np.array([0, 4, 5], dtype=np.int32),
        6,
    )
    assert short.of([]).tolist() == [1, 5]
    assert short.of([0, 0, 1]).tolist() == [0, 1, 4, 5]
    assert short.of([2, 0]).tolist() == [0, 1, 4, 5]
    assert short.including([3, 1]).of([2]).tolist() == [1, 3, 5]
    assert short.source_vocabulary == 3
