"""Alignments and quality by length: their laws, and the pictures drawn of them."""

from __future__ import annotations

import io
import json
from itertools import pairwise

import numpy as np
import pytest
import sacrebleu
import tiny_models as tiny
from hypothesis import given
from hypothesis import strategies as st
from precision import close_for
from recurrent_variants import VARIANTS
from rich.console import Console

from uwaga.checkpoints.formats.uwaga.folder import save_model
from uwaga.errors import DataError, MissingExtraError, SettingsError
from uwaga.inspection import (
    Alignment,
    align,
    align_systems,
    by_length,
    draw_alignments,
    draw_lengths,
    figures,
    heat_map,
    heat_maps,
    save_figure,
    translate_systems,
)
from uwaga.inspection.lengths import equal_edges, split_lines
from uwaga.models.build import build_model
from uwaga.results.translation import Translation
from uwaga.search import SearchOptions, search
from uwaga.translator import Model, Translator
from uwaga.translator.score import force

JOINT = tiny.tokeniser()
TEXT = "The dog sees the cat."
PNG, PDF = b"\x89PNG", b"%PDF"


def translator(name: str) -> Translator:
    model = build_model(VARIANTS[name], JOINT.symbols, JOINT.size, JOINT.size).eval()
    return Translator(Model(model, JOINT, JOINT, tiny.SEARCH))


def hand_made(source: str, target: str, weights: list[list[float]]) -> Translation:
    tokens, rows = tuple(target.split()), np.array(weights, dtype=np.float32)
    return Translation(
        "", 0.0, tokens, (0.0,) * len(rows), source_tokens=tuple(source.split()), attention=rows
    )


WITH = ["bahdanau", "bahdanau-conditional", "luong", "luong-concat-bidirectional", "gnmt", "transformer"]


@pytest.fixture(scope="module")
def attending():
    made = {name: translator(name) for name in WITH if name != "transformer"}
    made["transformer"] = Translator(
        Model(tiny.transformer(tiny.TINY, JOINT, JOINT), JOINT, JOINT, tiny.SEARCH)
    )
    return made


@pytest.mark.parametrize("name", WITH)
@pytest.mark.parametrize("target", [None, "Der Hund sieht die Katze."])
@pytest.mark.parametrize("words", [False, True])
def test_rows_of_an_alignment_sum_to_1(attending, name, target, words):
    found = align(attending[name].attend(TEXT, target), words=words, title=name)
    np.testing.assert_allclose(found.weights.sum(axis=1), 1.0, **close_for(1.0))
    assert found.source[-1] == "</s>"
    if words:
        assert found.source == (*TEXT.split(), "</s>")
    if target is not None:
        assert found.target[-1] == "</s>"
        assert not words or found.target == (*target.split(), "</s>")


@pytest.mark.numerical
@pytest.mark.parametrize("name", WITH)
def test_led_along_its_own_translation_a_model_looks_where_it_looked(attending, name):
    decoder = attending[name].decoder
    source = tuple(JOINT.add_special_tokens(JOINT.encode(TEXT)))
    [[own]] = search(decoder, [source], SearchOptions(beam=1, max_length=9, attention=True))
    led = force(decoder, source, [*own.tokens, JOINT.symbols.end])
    shared = len(own.token_scores)
    np.testing.assert_allclose(led.attention[:shared], own.attention, **close_for(own.attention))
    np.testing.assert_allclose(led.token_scores[:shared], own.token_scores, **close_for(own.token_scores))


def test_leading_a_model_scores_as_score_does(attending):
    pair = (TEXT, "Der Hund sieht die Katze.")
    led, [scored] = attending["bahdanau"].attend(*pair), attending["bahdanau"].score([pair])
    assert (led.tokens, led.source_tokens) == (scored.tokens, scored.source_tokens)
    np.testing.assert_allclose(led.token_scores, scored.token_scores, **close_for(scored.token_scores))
    assert led.text == pair[1]


@pytest.mark.parametrize("name", ["cho", "sutskever"])
@pytest.mark.parametrize("target", [None, "Der Hund"])
def test_models_without_attention_say_so(name, target):
    with pytest.raises(SettingsError, match="no attention to look at"):
        translator(name).attend(TEXT, target)
    with pytest.raises(SettingsError, match="no attention"):
        align(translator(name).translate(TEXT, attention=True))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("systems")
    for name in ("bahdanau", "luong", "cho"):
        model = build_model(VARIANTS[name], JOINT.symbols, JOINT.size, JOINT.size).eval()
        save_model(place / name, model, VARIANTS[name], tiny.DECODING, JOINT, JOINT, ("en", "de"), "card")
    return {name: place / name for name in ("bahdanau", "luong", "cho")}


def test_systems_are_what_each_model_does_alone(folders):
    attentive = {f"the {name}": folders[name] for name in ("bahdanau", "luong")}
    lines, done = [TEXT, "", "The cat."], []
    made = translate_systems(attentive, lines, beam=2, device="cpu", on_lines=done.append)
    found = align_systems(attentive, TEXT, words=True, device="cpu")
    for (name, folder), one in zip(attentive.items(), found, strict=True):
        alone = Translator.load(folder, device="cpu")
        assert made[name] == [translation.text for translation in alone.translate(lines, beam=2)]
        expected = align(alone.attend(TEXT), words=True, title=name)
        assert (one.title, one.source, one.target) == (name, expected.source, expected.target)
        assert np.array_equal(one.weights, expected.weights)
    assert list(made) == list(attentive)
    assert done == [1, 2, 3, 4, 5, 6]
    with pytest.raises(SettingsError, match=r"^c: the model has no attention"):
        align_systems({"c": folders["cho"]}, TEXT, device="cpu")
    assert translate_systems({}, lines) == {}


def test_nothing_to_attend_to_is_refused(attending):
    with pytest.raises(DataError, match="nothing to read"):
        attending["luong"].attend(" \n")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("▁un likely ▁x", ["unlikely", "x", "</s>"]),
        ("ĠI Ġsee n", ["I", "seen", "</s>"]),
        ("un ##like ##ly so", ["unlikely", "so", "</s>"]),
        ("a b c", ["a", "b", "c", "</s>"]),
        ("▁a </s> ▁b c", ["a", "</s>", "bc", "</s>"]),
    ],
)
def test_pieces_are_joined_to_words(source, words):
    width = len(source.split()) + 1
    found = align(hand_made(source, "▁y", [[1 / width] * width] * 2), words=True)
    assert list(found.source) == words


def test_joining_sums_over_source_pieces_and_averages_over_target_pieces():
    weights = [[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.2, 0.2], [0.0, 0.0, 1.0, 0.0]]
    found = align(hand_made("▁un likely ▁x", "▁nie mals", weights), words=True)
    assert found.target == ("niemals", "</s>")
    np.testing.assert_allclose(found.weights, [[0.45, 0.25, 0.3], [0.0, 1.0, 0.0]], atol=1e-6)


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(SettingsError, match=r"\(2, 3\) do not fit 1 target and 3 source"):
        Alignment(("a", "b", "c"), ("x",), np.zeros((2, 3), dtype=np.float32))


def test_a_heat_map_is_readable_without_colours():
    found = align(
        hand_made("▁ab ▁c", "▁x ▁yz", [[0.9, 0.1, 0.0], [0.3, 0.5, 0.2], [0.0, 0.0, 1.0]]), title="T"
    )
    console = Console(width=80, color_system=None, file=io.StringIO(), record=True)
    console.print(heat_map(found, 80))
    assert console.export_text().splitlines() == [
        "T",
        "           <",
        "           /",
        "     a     s",
        "     b  c  >",
        "   x ██ ░░",
        "  yz ▒▒ ▓▓ ▒▒",
        "</s>       ██",
    ]
    assert heat_maps([found, found], 80).plain == "\n\n".join([heat_map(found, 80).plain] * 2)


@pytest.mark.parametrize("width", [5, 12, 20, 200])
def test_a_heat_map_keeps_within_its_width_and_shows_every_column(width):
    weights = np.eye(9, dtype=np.float32)
    shown = heat_map(Alignment(tuple("abcdefghi"), tuple("123456789"), weights), width).plain
    assert max(map(len, shown.split("\n"))) <= max(width, 4)
    assert shown.count("██") == 9


LENGTHS = st.lists(st.integers(0, 40), min_size=1, max_size=80)


@given(LENGTHS, st.integers(1, 8))
def test_buckets_partition_the_lines(lengths, buckets):
    edges = equal_edges(lengths, buckets)
    members = split_lines(lengths, edges)
    assert sorted(line for group in members for line in group) == list(range(len(lengths)))
    assert 1 <= len(members) <= buckets
    for shorter, longer in pairwise(members):
        assert max(lengths[line] for line in shorter) < min(lengths[line] for line in longer)


def test_given_edges_are_the_longest_of_each_bucket():
    assert split_lines([1, 2, 3, 4, 5, 9], [2, 4, 7]) == [[0, 1], [2, 3], [4], [5]]
    assert split_lines([1, 9], [2, 4, 7]) == [[0], [1]]  # nothing in the middle: no empty bucket


def corpus(lines: int) -> tuple[list[str], list[tuple[str, ...]], dict[str, list[str]]]:
    generator = np.random.default_rng(0)
    words = [f"w{number}" for number in range(30)]
    sources = [" ".join(generator.choice(words, generator.integers(1, 25))) for _ in range(lines)]
    references = [(line, line.replace("w1", "v1")) if at % 3 else (line,) for at, line in enumerate(sources)]
    noisy = [" ".join(w for w in line.split() if generator.random() < 0.8) or "x" for line in sources]
    return sources, references, {"good": sources, "noisy": noisy}


def test_the_bleu_of_a_bucket_is_sacrebleus_of_its_lines():
    sources, references, systems = corpus(120)
    table = by_length(sources, references, systems, buckets=5, tokenize="none")
    assert len(table.buckets) == 5
    assert sum(bucket.lines for bucket in table.buckets) == 120
    for bucket in table.buckets:
        chosen = [at for at, s in enumerate(sources) if bucket.shortest <= len(s.split()) <= bucket.longest]
        assert len(chosen) == bucket.lines
        for name, lines in systems.items():
            streams = [[references[at][0] for at in chosen], [(*references[at], None)[1] for at in chosen]]
            peer = sacrebleu.corpus_bleu([lines[at] for at in chosen], streams, tokenize="none", force=True)
            assert bucket.systems[name].bleu == pytest.approx(peer.score)
            assert bucket.systems[name].ratio == pytest.approx(peer.sys_len / peer.ref_len)
        assert bucket.systems["good"].bleu == pytest.approx(100.0)


def test_the_bootstrap_is_sacrebleus():
    sources, references, systems = corpus(40)
    table = by_length(sources, references, systems, buckets=1, samples=50)
    peer = sacrebleu.metrics.BLEU().corpus_score(
        systems["noisy"], [[r[0] for r in references], [(*r, None)[1] for r in references]], n_bootstrap=50
    )
    assert table.buckets[0].systems["noisy"].interval == pytest.approx(peer._ci)
    assert table.buckets[0].systems["good"].interval == pytest.approx(0.0)
    assert by_length(sources, references, systems, buckets=1).buckets[0].systems["noisy"].interval is None


def test_lengths_are_counted_as_bleu_cuts():
    table = by_length(["Hi, you!"], [("x",)], {"s": ["x"]})
    assert (table.buckets[0].shortest, table.buckets[0].label) == (4, "4")
    assert by_length(["Hi, you!"], [("x",)], {"s": ["x"]}, tokenize="none").buckets[0].shortest == 2


def test_a_table_is_json_and_tsv():
    sources, references, systems = corpus(30)
    table = by_length(sources, references, systems, buckets=2, samples=10)
    read = json.loads(table.json())
    assert [bucket["lines"] for bucket in read["buckets"]] == [bucket.lines for bucket in table.buckets]
    assert read["buckets"][0]["systems"]["noisy"]["bleu"] == table.buckets[0].systems["noisy"].bleu
    head, *rows = [line.split("\t") for line in table.tsv().splitlines()]
    assert len(rows) == 4
    first = dict(zip(head, rows[1], strict=True))
    assert (first["system"], float(first["bleu"])) == (
        "noisy",
        round(table.buckets[0].systems["noisy"].bleu, 2),
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"systems": {}}, "no system"),
        ({"systems": {"one": ["x"]}}, "one: 1 lines for 2 sources"),
        ({"references": [("x",)]}, "references: 1 lines for 2"),
        ({"buckets": 0}, "buckets must be 1 or more"),
        ({"edges": [5, 5]}, "edges 5, 5: each must be greater"),
        ({"samples": -1}, "samples must be 0 or more"),
        ({"tokenize": "13b"}, "unknown tokeniser '13b'"),
    ],
)
def test_impossible_tables_are_refused(changes, words):
    given_ = {"sources": ["a", "b"], "references": [("a",), ("b",)], "systems": {"s": ["a", "b"]}, **changes}
    with pytest.raises((DataError, SettingsError), match=words):
        by_length(**given_)


def test_no_lines_are_refused():
    with pytest.raises(DataError, match="no lines"):
        by_length([], [], {"s": []})


@pytest.fixture
def figure():
    return drawn()


def drawn():
    weights = [[0.9, 0.1, 0.0], [0.3, 0.5, 0.2], [0.0, 0.0, 1.0]]
    one = align(hand_made("▁ab ▁c$", "▁x ▁yz", weights), title="A_$1$")
    return draw_alignments([one, one])


def test_a_figure_shows_every_alignment_with_its_labels(figure):
    assert [axes.get_title() for axes in figure.axes] == [r"A_\$1\$"] * 2
    for axes in figure.axes:
        assert [label.get_text() for label in axes.get_yticklabels()] == ["x", "yz", "</s>"]
        assert [label.get_text() for label in axes.get_xticklabels()] == ["ab", r"c\$", "</s>"]
        [mesh] = axes.collections
        np.testing.assert_allclose(mesh.get_array().reshape(3, 3)[0], [0.9, 0.1, 0.0])


@pytest.mark.parametrize(("name", "begins"), [("a.png", PNG), ("a.PDF", PDF), ("a.svg", b"<?xml")])
def test_a_figure_is_written_in_its_format_and_is_the_same_again(tmp_path, name, begins):
    save_figure(drawn(), tmp_path / name)
    first = (tmp_path / name).read_bytes()
    assert first.startswith(begins)
    save_figure(drawn(), tmp_path / name)
    assert (tmp_path / name).read_bytes() == first


def test_a_figure_is_written_whole_or_not_at_all(figure, tmp_path):
    path = tmp_path / "a.svg"
    path.write_text("old")

    class Full(type(figure)):
        def savefig(self, file, **_):
            file.write(b"half")
            raise OSError(28, "No space left on device")

    with pytest.raises(DataError, match=r"a\.svg: cannot be written: No space left"):
        save_figure(Full(), path)
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("a.svg", "old")]
    with pytest.raises(DataError, match="cannot be written"):
        save_figure(figure, tmp_path / "missing" / "a.svg")


def test_an_unknown_format_and_a_missing_library_are_named(figure, tmp_path, monkeypatch):
    with pytest.raises(SettingsError, match=r"a\.gif: .* must end in one of \.png, \.svg, \.pdf"):
        save_figure(figure, tmp_path / "a.gif")
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    for needing in (lambda: figures.new_figure(1, 1), lambda: figures.check_drawing(tmp_path / "a.svg")):
        with pytest.raises(MissingExtraError, match=r"uwaga\[inspect\]"):
            needing()


def test_no_alignment_is_no_figure():
    with pytest.raises(SettingsError, match="no alignment"):
        draw_alignments([])


def test_the_length_figure_shows_bleu_and_ratio_of_every_system():
    sources, references, systems = corpus(60)
    table = by_length(sources, references, systems, buckets=5, samples=20)
    upper, lower = draw_lengths(table, title="t").axes
    assert [text.get_text() for text in upper.get_legend().get_texts()] == ["good", "noisy"]
    drawn = {container.get_label(): container.lines[0].get_ydata() for container in upper.containers}
    assert list(drawn["noisy"]) == [bucket.systems["noisy"].bleu for bucket in table.buckets]
    assert list(lower.lines[1].get_ydata()) == [bucket.systems["noisy"].ratio for bucket in table.buckets]
    assert lower.get_xticklabels()[0].get_text().startswith(table.buckets[0].label)
