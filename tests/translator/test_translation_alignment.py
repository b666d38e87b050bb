"""Word alignment with every kind of decoder, which does not change translations."""

import json

import numpy as np
import pytest
import tiny_models as tiny
import torch
from pivot_models import with_changes, with_languages
from recurrent_variants import VARIANTS

import uwaga
from uwaga.alignment.words import split_words, word_spans
from uwaga.engine import model as engine_model
from uwaga.errors import DataError, SettingsError
from uwaga.inspection.head_selection import aligner_links, head_errors
from uwaga.models.build import build_model
from uwaga.models.ensemble import Ensemble
from uwaga.results.translation import Translation
from uwaga.settings import AlignmentHead
from uwaga.translator import Model, Request, Translator
from uwaga.translator.layers.sentences import translate_passages
from uwaga.translator.plan import make_plan

pytestmark = pytest.mark.numerical

JOINT = tiny.tokeniser()
TEXTS = [
    "I want to buy a car, but it is too expensive.",
    "He left.  We are going home now!\n\n12.5 %\r\n  THE ﬁne WOMAN SAYS ½ of it … 😀 e\u0301  ",
    "",
    "3 + 4 = 7",
    "\n",
]
SEARCH_OPTIONS = [
    {"beam": 1},
    {"beam": 4, "nbest": 3},
    {"sample": True, "nbest": 2, "seed": 3},
    {"beam": 2, "max_length": 3},
]


@pytest.fixture(scope="module")
def bundled():
    translators = {
        precision: uwaga.load(dtype=precision, engine="native", threads=2, device="cpu")
        for precision in ("float32", "int8")
    }
    return translators | {"torch": uwaga.load(engine="torch", device="cpu")}


def check_alignment(translation: Translation) -> None:
    alignment = translation.alignment
    assert list(alignment.source) == word_spans(translation.source)
    assert list(alignment.target) == word_spans(translation.text)
    assert list(alignment.links) == sorted(set(alignment.links))
    for source_index, target_index in alignment.links:
        assert 0 <= source_index < len(alignment.source) and 0 <= target_index < len(alignment.target)
    assert translation.to_dict()["alignment"] == json.loads(json.dumps(alignment.to_dict()))


def result_fields(translation: Translation):
    return (
        translation.text, translation.score, translation.log_prob, translation.tokens,
        translation.token_scores, translation.warnings,
    )  # fmt: skip


@pytest.mark.sampled(5)
@pytest.mark.parametrize("options", SEARCH_OPTIONS, ids=str)
@pytest.mark.parametrize("engine", ["float32", "int8", "torch"])
def test_requesting_alignment_does_not_change_translations(bundled, engine, options):
    model = bundled[engine]
    plain, aligned = model.translate(TEXTS, **options), model.translate(TEXTS, alignment=True, **options)
    for expected, actual in zip(plain, aligned, strict=True):
        assert result_fields(expected) == result_fields(actual)
        assert expected.alignment is None and "alignment" not in expected.to_dict()
        for translation in (actual, *actual.alternatives):
            check_alignment(translation)
    assert any(translation.alignment.links for translation in aligned)
    if engine != "torch":
        separate = [model.translate(text, alignment=True, **options) for text in TEXTS]
        assert [result.alignment for result in separate] == [result.alignment for result in aligned]


def test_engine_alignment_matches_torch(bundled):
    alignments = [
        [translation.alignment for translation in bundled[engine].translate(TEXTS, alignment=True)]
        for engine in ("float32", "torch")
    ]
    assert alignments[0] == alignments[1]


def test_copied_text_is_aligned_word_by_word(bundled):
    text = "He left.\n12.5 %\n3 + 4 = 7"
    translation = bundled["float32"].translate(text, alignment=True)
    target_words, source_words = split_words(translation.text), split_words(text)
    first, last = source_words.index("12"), target_words.index("12")
    links = {
        (source_index, target_index)
        for source_index, target_index in translation.alignment.links
        if source_index >= first
    }
    assert links == {(first + i, last + i) for i in range(len(source_words) - first)}


def test_piece_spans_lie_within_their_sentences(bundled):
    translator = bundled["float32"]
    text = "He left. We are going home now!\n12.5 %"
    plan = make_plan(translator.models, translator.languages, Request(text, search={"alignment": True}), ())
    [stage] = plan.stages
    passage = stage.split_text(text, "the text")
    translate_passages(stage, [passage])
    assert len(passage.pieces) == len(passage.sentences) == 3
    assert [piece.copied for piece in passage.pieces] == [False, False, True]
    for piece in passage.pieces:
        assert piece.weights.shape == (len(piece.target), len(piece.source))
        np.testing.assert_allclose(piece.weights.sum(axis=1), 1.0, atol=1e-5)
        assert piece.copied or piece.source[-1] is None
        assert None not in piece.target
    spans = [span for piece in passage.pieces for span in piece.target]
    assert "".join(passage.result.text[a:b] for a, b in spans) == "".join(passage.result.text.split())
    assert passage.pieces[2].source == ((32, 34), (34, 35), (35, 36), (37, 38))


@pytest.mark.parametrize("name", ["bahdanau", "luong", "gnmt"])
def test_recurrent_models_return_alignments(name):
    torch.manual_seed(1)
    model = build_model(VARIANTS[name], JOINT.symbols, JOINT.size, JOINT.size).eval()
    translator = Translator(
        Model(model, JOINT, JOINT, tiny.SEARCH, alignment_head=AlignmentHead(layer=1, step="reading"))
    )
    for translation in translator.translate(tiny.ENGLISH, alignment=True):
        check_alignment(translation)


def test_alignment_head_setting_selects_the_head():
    model = tiny.transformer(tiny.TINY, JOINT, JOINT)
    pair = (tiny.ENGLISH[1], tiny.GERMAN[1])
    default = Translator(Model(model, JOINT, JOINT, tiny.SEARCH))
    mean = Translator(Model(model, JOINT, JOINT, tiny.SEARCH, alignment_head=AlignmentHead(layer=1)))
    assert default.align([pair]) == mean.align([pair])
    alignments = {}
    for head in (1, 2):
        for step in ("predicting", "reading"):
            alignment_head = AlignmentHead(layer=2, head=head, step=step)
            translator = Translator(Model(model, JOINT, JOINT, tiny.SEARCH, alignment_head=alignment_head))
            assert translator.between().model.alignment_head == alignment_head
            [alignments[head, step]] = translator.align([pair])
    assert len({alignment.links for alignment in alignments.values()}) == 4
    for invalid_head, message in (
        (AlignmentHead(layer=3), "layer 3"),
        (AlignmentHead(layer=2, head=3), "head 3"),
    ):
        with pytest.raises(SettingsError, match=message):
            Translator(Model(model, JOINT, JOINT, tiny.SEARCH, alignment_head=invalid_head)).align([pair])


def test_translation_of_maximum_length_is_aligned(bundled):
    limit = bundled["float32"].decoder.max_target
    ids = bundled["float32"].target.encode("Haus " * 400)[: limit - 1]
    long = bundled["float32"].target.decode(ids)
    for engine in ("float32", "torch"):
        [alignment] = bundled[engine].align([("A house.", long)])
        assert len(alignment.target) == len(split_words(long))


def test_pairs_of_texts_and_translations_are_aligned(bundled):
    pairs = [("The man  eats.", " Der MANN isst ﬁsch . "), ("", "Haus"), ("House", ""), ("12", "12")]
    for words in ("words", "spaces"):
        for (source, target), alignment in zip(pairs, bundled["int8"].align(pairs, words=words), strict=True):
            assert list(alignment.source) == word_spans(source, words)
            assert list(alignment.target) == word_spans(target, words)
    with pytest.raises(SettingsError, match="words must be"):
        bundled["int8"].align(pairs, words="letters")


def test_ensemble_alignment_uses_the_first_member():
    models = [tiny.transformer(tiny.TINY, JOINT, JOINT, seed) for seed in (0, 1)]
    pairs = list(zip(tiny.ENGLISH, tiny.GERMAN, strict=True))
    ensemble = Translator(Model(Ensemble(models), JOINT, JOINT, tiny.SEARCH))
    assert ensemble.align(pairs) == Translator(Model(models[0], JOINT, JOINT, tiny.SEARCH)).align(pairs)
    check_alignment(ensemble.translate(tiny.ENGLISH[0], alignment=True))


def test_chain_aligns_the_first_text_with_the_last(bundled):
    forward = bundled["float32"]
    reverse = with_languages(forward, "de", "en")
    for nbest in (1, 2):
        translation = forward.then(reverse).translate("He left. 12.5 %", alignment=True, beam=2, nbest=nbest)
        for hypothesis in (translation, *translation.alternatives):
            check_alignment(hypothesis)
        assert [step.alignment is not None for step in translation.steps] == [True, True]
    assert forward.then(reverse).translate("He left.").alignment is None


def test_unsupported_alignment_requests_are_rejected(bundled):
    with pytest.raises(SettingsError, match="cannot return alignment"):
        list(bundled["float32"].stream("He left.", alignment=True))
    with pytest.raises(SettingsError, match="alignment must be"):
        bundled["float32"].translate("He left.", alignment="yes")
    torch.manual_seed(1)
    without_attention = build_model(VARIANTS["sutskever"], JOINT.symbols, JOINT.size, JOINT.size).eval()
    with pytest.raises(SettingsError, match="no source attention"):
        Translator(Model(without_attention, JOINT, JOINT, tiny.SEARCH)).translate("a cat", alignment=True)


def test_encoding_sentences_again_does_not_change_the_alignment(bundled, monkeypatch):
    expected = [result.alignment for result in bundled["float32"].translate(TEXTS * 3, alignment=True)]
    monkeypatch.setattr(engine_model, "MAX_CACHE_BYTES", 1)
    monkeypatch.setattr(engine_model, "REENCODED_SENTENCES", 2)
    assert [
        translation.alignment for translation in bundled["float32"].translate(TEXTS * 3, alignment=True)
    ] == expected


@pytest.mark.parametrize("options", [{"alignment": True}, {"coverage": "unaligned"}, {"attention": "all"}])
def test_alignment_coverage_and_attention_encode_each_source_only_once(bundled, monkeypatch, options):
    encoded, encode = [], engine_model.RecordingModel._call_encoder

    def recording_encoder(model, sources, core):
        encoded.extend(map(tuple, sources))
        return encode(model, sources, core)

    monkeypatch.setattr(engine_model.RecordingModel, "_call_encoder", recording_encoder)
    bundled["float32"].translate(["A dog sleeps.", "The cat is asleep."], **options)
    assert len(encoded) == len(set(encoded)) > 0


def test_head_errors_are_lowest_for_the_head_that_produced_the_links(bundled):
    pairs = [
        (text, translation.text)
        for text, translation in zip(tiny.ENGLISH, bundled["int8"].translate(tiny.ENGLISH), strict=True)
    ]
    progress = []
    errors = head_errors(bundled["int8"], pairs, advance=progress.append)
    assert len(errors) == 2 * 5 * 2 and sum(progress) == len(pairs)
    assert list(errors.values()) == sorted(errors.values())
    expected_head = AlignmentHead(layer=2, head=3, step="predicting")
    aligner = with_changes(bundled["int8"], alignment_head=expected_head)
    gold = [(set(alignment.links), set(alignment.links)) for alignment in aligner.align(pairs)]
    gold_errors = head_errors(bundled["int8"], pairs, gold)
    # heads are compared by their largest weights only, without links for the remaining words
    assert next(iter(gold_errors)) == expected_head and gold_errors[expected_head] < 0.1
    assert len(aligner_links(pairs)) == len(pairs)
    for invalid_pairs, links, message in (
        ([], None, "no sentence pairs"),
        (pairs, gold[:1], "8 pairs but links for 1"),
    ):
        with pytest.raises(DataError, match=message):
            head_errors(bundled["int8"], invalid_pairs, links)
