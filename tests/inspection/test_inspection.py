"""Attention matrices and translation quality by sentence length: values, tables, figures and errors."""

import io
import json
from itertools import pairwise

import numpy as np
import pytest
import sacrebleu
import tiny_models as tiny
from hypothesis import given
from hypothesis import strategies as st
from precision import tolerance
from recurrent_variants import VARIANTS
from rich.console import Console
from search_inputs import inputs

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
from uwaga.translator.text import TokenPair

JOINT = tiny.tokeniser()
TEXT = "The dog sees the cat."
PNG, PDF = b"\x89PNG", b"%PDF"


def make_translator(name: str) -> Translator:
    model = build_model(VARIANTS[name], JOINT.symbols, JOINT.size, JOINT.size).eval()
    return Translator(Model(model, JOINT, JOINT, tiny.SEARCH))


def make_translation(source: str, target: str, weights: list[list[float]]) -> Translation:
    tokens, rows = tuple(target.split()), np.array(weights, dtype=np.float32)
    return Translation(
        "", 0.0, tokens, (0.0,) * len(rows), source_tokens=tuple(source.split()), attention=rows
    )


ATTENTION_MODELS = [
    "bahdanau", "bahdanau-conditional", "luong", "luong-concat-bidirectional", "gnmt", "transformer",
]  # fmt: skip


@pytest.fixture(scope="module")
def translators():
    loaded = {name: make_translator(name) for name in ATTENTION_MODELS if name != "transformer"}
    loaded["transformer"] = Translator(
        Model(tiny.transformer(tiny.TINY, JOINT, JOINT), JOINT, JOINT, tiny.SEARCH)
    )
    return loaded


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", ATTENTION_MODELS)
@pytest.mark.parametrize("target", [None, "Der Hund sieht die Katze."])
@pytest.mark.parametrize("words", [False, True])
def test_rows_of_an_attention_matrix_sum_to_1(translators, name, target, words):
    alignment = align(translators[name].attend(TEXT, target), words=words, title=name)
    np.testing.assert_allclose(alignment.weights.sum(axis=1), 1.0, **tolerance(1.0))
    assert alignment.source[-1] == "</s>"
    if words:
        assert alignment.source == (*TEXT.split(), "</s>")
    if target is not None:
        assert alignment.target[-1] == "</s>"
        assert not words or alignment.target == (*target.split(), "</s>")


@pytest.mark.numerical
@pytest.mark.parametrize("name", ATTENTION_MODELS)
def test_attention_of_forced_decoding_matches_attention_of_search(translators, name):
    decoder = translators[name].decoder
    source = tuple(JOINT.add_special_tokens(JOINT.encode(TEXT)))
    [[hypothesis]] = search(decoder, inputs([source]), SearchOptions(beam=1, max_length=9, attention=True))
    forced = force(decoder, TokenPair(source, [*hypothesis.tokens, JOINT.symbols.end]))
    shared = len(hypothesis.token_scores)
    np.testing.assert_allclose(
        forced.attention[:shared], hypothesis.attention, **tolerance(hypothesis.attention)
    )
    np.testing.assert_allclose(
        forced.token_scores[:shared], hypothesis.token_scores, **tolerance(hypothesis.token_scores)
    )


def test_attend_and_score_give_equal_scores(translators):
    pair = (TEXT, "Der Hund sieht die Katze.")
    attended, [scored] = translators["bahdanau"].attend(*pair), translators["bahdanau"].score([pair])
    assert (attended.tokens, attended.source_tokens) == (scored.tokens, scored.source_tokens)
    np.testing.assert_allclose(attended.token_scores, scored.token_scores, **tolerance(scored.token_scores))
    assert attended.text == pair[1]


@pytest.mark.parametrize("name", ["cho", "sutskever"])
@pytest.mark.parametrize("target", [None, "Der Hund"])
def test_models_without_attention_are_rejected(name, target):
    with pytest.raises(SettingsError, match="no attention to show"):
        make_translator(name).attend(TEXT, target)
    with pytest.raises(SettingsError, match="no attention"):
        align(make_translator(name).translate(TEXT, attention=True))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("systems")
    for name in ("bahdanau", "luong", "cho"):
        model = build_model(VARIANTS[name], JOINT.symbols, JOINT.size, JOINT.size).eval()
        tiny.save(root / name, model, JOINT)
    return {name: root / name for name in ("bahdanau", "luong", "cho")}


def test_results_of_several_systems_equal_results_of_single_models(folders):
    models = {f"the {name}": folders[name] for name in ("bahdanau", "luong")}
    lines, progress = [TEXT, "", "The cat."], []
    translations = translate_systems(models, lines, beam=2, device="cpu", on_lines=progress.append)
    alignments = align_systems(models, TEXT, words=True, device="cpu")
    for (name, folder), alignment in zip(models.items(), alignments, strict=True):
        translator = Translator.load(folder, device="cpu")
        assert translations[name] == [translation.text for translation in translator.translate(lines, beam=2)]
        expected = align(translator.attend(TEXT), words=True, title=name)
        assert (alignment.title, alignment.source, alignment.target) == (
            name,
            expected.source,
            expected.target,
        )
        assert np.array_equal(alignment.weights, expected.weights)
    assert list(translations) == list(models)
    assert progress == [1, 2, 3, 4, 5, 6]
    with pytest.raises(SettingsError, match=r"^c: the model has no attention"):
        align_systems({"c": folders["cho"]}, TEXT, device="cpu")
    assert translate_systems({}, lines) == {}


def test_empty_text_is_rejected(translators):
    with pytest.raises(DataError, match="no tokens to attend to"):
        translators["luong"].attend(" \n")


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
def test_pieces_are_joined_into_words(source, words):
    width = len(source.split()) + 1
    alignment = align(make_translation(source, "▁y", [[1 / width] * width] * 2), words=True)
    assert list(alignment.source) == words


def test_word_weights_sum_over_source_pieces_and_average_over_target_pieces():
    weights = [[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.2, 0.2], [0.0, 0.0, 1.0, 0.0]]
    alignment = align(make_translation("▁un likely ▁x", "▁nie mals", weights), words=True)
    assert alignment.target == ("niemals", "</s>")
    np.testing.assert_allclose(alignment.weights, [[0.45, 0.25, 0.3], [0.0, 1.0, 0.0]], atol=1e-6)


def test_mismatched_labels_are_rejected():
    with pytest.raises(SettingsError, match=r"\(2, 3\) do not fit 1 target and 3 source"):
        Alignment(("a", "b", "c"), ("x",), np.zeros((2, 3), dtype=np.float32))


def test_attention_heat_map_is_readable_without_colours():
    alignment = align(
        make_translation("▁ab ▁c", "▁x ▁yz", [[0.9, 0.1, 0.0], [0.3, 0.5, 0.2], [0.0, 0.0, 1.0]]), title="T"
    )
    console = Console(width=80, color_system=None, file=io.StringIO(), record=True)
    console.print(heat_map(alignment, 80))
    assert console.export_text().splitlines() == [
        "T", "           <", "           /", "     a     s", "     b  c  >", "   x ██ ░░", "  yz ▒▒ ▓▓ ▒▒",
        "</s>       ██",
    ]  # fmt: skip
    assert heat_maps([alignment, alignment], 80).plain == "\n\n".join([heat_map(alignment, 80).plain] * 2)


@pytest.mark.parametrize("width", [5, 12, 20, 200])
def test_heat_map_fits_the_width_and_shows_all_columns(width):
    weights = np.eye(9, dtype=np.float32)
    text = heat_map(Alignment(tuple("abcdefghi"), tuple("123456789"), weights), width).plain
    assert max(map(len, text.split("\n"))) <= max(width, 4)
    assert text.count("██") == 9


LENGTHS = st.lists(st.integers(0, 40), min_size=1, max_size=80)


@given(LENGTHS, st.integers(1, 8))
def test_length_buckets_partition_the_lines(lengths, buckets):
    edges = equal_edges(lengths, buckets)
    members = split_lines(lengths, edges)
    assert sorted(line for group in members for line in group) == list(range(len(lengths)))
    assert 1 <= len(members) <= buckets
    for shorter, longer in pairwise(members):
        assert max(lengths[line] for line in shorter) < min(lengths[line] for line in longer)


def test_bucket_edges_are_the_maximum_lengths():
    assert split_lines([1, 2, 3, 4, 5, 9], [2, 4, 7]) == [[0, 1], [2, 3], [4], [5]]
    assert split_lines([1, 9], [2, 4, 7]) == [[0], [1]]  # no empty buckets


def corpus(lines: int) -> tuple[list[str], list[tuple[str, ...]], dict[str, list[str]]]:
    generator = np.random.default_rng(0)
    words = [f"w{number}" for number in range(30)]
    sources = [" ".join(generator.choice(words, generator.integers(1, 25))) for _ in range(lines)]
    references = [
        (line, line.replace("w1", "v1")) if index % 3 else (line,) for index, line in enumerate(sources)
    ]
    noisy = [" ".join(w for w in line.split() if generator.random() < 0.8) or "x" for line in sources]
    return sources, references, {"good": sources, "noisy": noisy}


def test_bleu_of_buckets_matches_sacrebleu():
    sources, references, systems = corpus(120)
    table = by_length(sources, references, systems, buckets=5, tokenize="none")
    assert len(table.buckets) == 5
    assert sum(bucket.lines for bucket in table.buckets) == 120
    for bucket in table.buckets:
        indices = [
            index for index, s in enumerate(sources) if bucket.shortest <= len(s.split()) <= bucket.longest
        ]
        assert len(indices) == bucket.lines
        for name, lines in systems.items():
            streams = [
                [references[index][0] for index in indices],
                [(*references[index], None)[1] for index in indices],
            ]
            peer = sacrebleu.corpus_bleu(
                [lines[index] for index in indices], streams, tokenize="none", force=True
            )
            assert bucket.systems[name].bleu == pytest.approx(peer.score)
            assert bucket.systems[name].ratio == pytest.approx(peer.sys_len / peer.ref_len)
        assert bucket.systems["good"].bleu == pytest.approx(100.0)


def test_bootstrap_matches_sacrebleu():
    sources, references, systems = corpus(40)
    table = by_length(sources, references, systems, buckets=1, samples=50)
    peer = sacrebleu.metrics.BLEU().corpus_score(
        systems["noisy"], [[r[0] for r in references], [(*r, None)[1] for r in references]], n_bootstrap=50
    )
    assert table.buckets[0].systems["noisy"].interval == pytest.approx(peer._ci)
    assert table.buckets[0].systems["good"].interval == pytest.approx(0.0)
    assert by_length(sources, references, systems, buckets=1).buckets[0].systems["noisy"].interval is None


def test_lengths_are_counted_in_bleu_tokens():
    table = by_length(["Hi, you!"], [("x",)], {"s": ["x"]})
    assert (table.buckets[0].shortest, table.buckets[0].label) == (4, "4")
    assert by_length(["Hi, you!"], [("x",)], {"s": ["x"]}, tokenize="none").buckets[0].shortest == 2


def test_length_table_is_written_as_json_and_tsv():
    sources, references, systems = corpus(30)
    table = by_length(sources, references, systems, buckets=2, samples=10)
    parsed = json.loads(table.json())
    assert [bucket["lines"] for bucket in parsed["buckets"]] == [bucket.lines for bucket in table.buckets]
    assert parsed["buckets"][0]["systems"]["noisy"]["bleu"] == table.buckets[0].systems["noisy"].bleu
    header, *rows = [line.split("\t") for line in table.tsv().splitlines()]
    assert len(rows) == 4
    first = dict(zip(header, rows[1], strict=True))
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
        ({"buckets": [5, 5]}, "edges 5, 5: each must be greater"),
        ({"samples": -1}, "samples must be 0 or more"),
        ({"tokenize": "13b"}, "unknown tokeniser '13b'"),
    ],
)
def test_invalid_arguments_are_rejected(changes, words):
    arguments = {
        "sources": ["a", "b"], "references": [("a",), ("b",)], "systems": {"s": ["a", "b"]}, **changes,
    }  # fmt: skip
    with pytest.raises((DataError, SettingsError), match=words):
        by_length(**arguments)


def test_empty_list_of_lines_is_rejected():
    with pytest.raises(DataError, match="no lines"):
        by_length([], [], {"s": []})


@pytest.fixture
def figure():
    return make_figure()


def make_figure():
    weights = [[0.9, 0.1, 0.0], [0.3, 0.5, 0.2], [0.0, 0.0, 1.0]]
    alignment = align(make_translation("▁ab ▁c$", "▁x ▁yz", weights), title="A_$1$")
    return draw_alignments([alignment, alignment])


def test_figure_shows_all_alignments_with_labels(figure):
    assert [axes.get_title() for axes in figure.axes] == [r"A_\$1\$"] * 2
    for axes in figure.axes:
        assert [label.get_text() for label in axes.get_yticklabels()] == ["x", "yz", "</s>"]
        assert [label.get_text() for label in axes.get_xticklabels()] == ["ab", r"c\$", "</s>"]
        [mesh] = axes.collections
        np.testing.assert_allclose(mesh.get_array().reshape(3, 3)[0], [0.9, 0.1, 0.0])


@pytest.mark.parametrize(("name", "signature"), [("a.png", PNG), ("a.PDF", PDF), ("a.svg", b"<?xml")])
def test_figure_has_the_format_of_its_suffix_and_is_reproducible(tmp_path, name, signature):
    save_figure(make_figure(), tmp_path / name)
    first = (tmp_path / name).read_bytes()
    assert first.startswith(signature)
    save_figure(make_figure(), tmp_path / name)
    assert (tmp_path / name).read_bytes() == first


def test_figure_is_written_atomically(figure, tmp_path):
    path = tmp_path / "a.svg"
    path.write_text("old")

    class FullDiskFigure(type(figure)):
        def savefig(self, file, **_):
            file.write(b"half")
            raise OSError(28, "No space left on device")

    with pytest.raises(DataError, match=r"a\.svg: cannot be written: No space left"):
        save_figure(FullDiskFigure(), path)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.svg", "old")]
    with pytest.raises(DataError, match="cannot be written"):
        save_figure(figure, tmp_path / "missing" / "a.svg")


def test_unknown_figure_format_and_missing_matplotlib_are_reported(figure, tmp_path, monkeypatch):
    with pytest.raises(SettingsError, match=r"a\.gif: .* must end in one of \.png, \.svg, \.pdf"):
        save_figure(figure, tmp_path / "a.gif")
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    for draw in (lambda: figures.new_figure(1, 1), lambda: figures.check_drawing(tmp_path / "a.svg")):
        with pytest.raises(MissingExtraError, match=r"uwaga\[inspect\]"):
            draw()


def test_drawing_without_alignments_is_rejected():
    with pytest.raises(SettingsError, match="no alignment"):
        draw_alignments([])


def test_length_figure_shows_bleu_and_ratio_of_all_systems():
    sources, references, systems = corpus(60)
    table = by_length(sources, references, systems, buckets=5, samples=20)
    upper, lower = draw_lengths(table, title="t").axes
    assert [text.get_text() for text in upper.get_legend().get_texts()] == ["good", "noisy"]
    plotted = {container.get_label(): container.lines[0].get_ydata() for container in upper.containers}
    assert list(plotted["noisy"]) == [bucket.systems["noisy"].bleu for bucket in table.buckets]
    assert list(lower.lines[1].get_ydata()) == [bucket.systems["noisy"].ratio for bucket in table.buckets]
    assert lower.get_xticklabels()[0].get_text().startswith(table.buckets[0].label)
