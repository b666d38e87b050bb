"""Translations with their words linked: on every decoder, and the same translations as without."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import tiny_models as tiny
import torch
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
WAYS = [
    {"beam": 1},
    {"beam": 4, "nbest": 3},
    {"sample": True, "nbest": 2, "seed": 3},
    {"beam": 2, "max_length": 3},
]


@pytest.fixture(scope="module")
def bundled():
    made = {
        precision: uwaga.load(dtype=precision, engine="native", threads=2, device="cpu")
        for precision in ("float32", "int8")
    }
    return made | {"torch": uwaga.load(engine="torch", device="cpu")}


def check_laws(one: Translation) -> None:
    linked = one.alignment
    assert list(linked.source) == word_spans(one.source)
    assert list(linked.target) == word_spans(one.text)
    assert list(linked.links) == sorted(set(linked.links))
    for here, there in linked.links:
        assert 0 <= here < len(linked.source) and 0 <= there < len(linked.target)
    assert one.to_dict()["alignment"] == json.loads(json.dumps(linked.to_dict()))


def plain(one: Translation):
    return one.text, one.score, one.log_prob, one.tokens, one.token_scores, one.warnings


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("engine", ["float32", "int8", "torch"])
def test_aligning_changes_no_bit_of_a_translation(bundled, engine, way):
    model = bundled[engine]
    before, found = model.translate(TEXTS, **way), model.translate(TEXTS, alignment=True, **way)
    for one, other in zip(before, found, strict=True):
        assert plain(one) == plain(other)
        assert one.alignment is None and "alignment" not in one.to_dict()
        for each in (other, *other.alternatives):
            check_laws(each)
    assert any(one.alignment.links for one in found)
    if engine != "torch":
        alone = [model.translate(text, alignment=True, **way) for text in TEXTS]
        assert [one.alignment for one in alone] == [one.alignment for one in found]


def test_the_engine_links_as_torch_does(bundled):
    found = [
        [one.alignment for one in bundled[engine].translate(TEXTS, alignment=True)]
        for engine in ("float32", "torch")
    ]
    assert found[0] == found[1]


def test_what_is_copied_is_linked_word_by_word(bundled):
    text = "He left.\n12.5 %\n3 + 4 = 7"
    one = bundled["float32"].translate(text, alignment=True)
    made, words = split_words(one.text), split_words(text)
    first, last = words.index("12"), made.index("12")
    links = {(here, there) for here, there in one.alignment.links if here >= first}
    assert links == {(first + at, last + at) for at in range(len(words) - first)}


def test_pieces_say_where_each_sentence_comes_from(bundled):
    translator = bundled["float32"]
    text = "He left. We are going home now!\n12.5 %"
    plan = make_plan(translator.models, translator.languages, Request(text, search={"alignment": True}), ())
    [stage] = plan.stages
    found = stage.split_text(text, "the text")
    translate_passages(stage, [found])
    assert len(found.pieces) == len(found.sentences) == 3
    assert [one.copied for one in found.pieces] == [False, False, True]
    for one in found.pieces:
        assert one.weights.shape == (len(one.target), len(one.source))
        np.testing.assert_allclose(one.weights.sum(axis=1), 1.0, atol=1e-5)
        assert one.copied or one.source[-1] is None
        assert None not in one.target
    places = [span for one in found.pieces for span in one.target]
    assert "".join(found.result.text[a:b] for a, b in places) == "".join(found.result.text.split())
    assert found.pieces[2].source == ((32, 34), (34, 35), (35, 36), (37, 38))


@pytest.mark.parametrize("name", ["bahdanau", "luong", "gnmt"])
def test_recurrent_models_align_too(name):
    torch.manual_seed(1)
    model = build_model(VARIANTS[name], JOINT.symbols, JOINT.size, JOINT.size).eval()
    translator = Translator(
        Model(model, JOINT, JOINT, tiny.SEARCH, alignment_head=AlignmentHead(layer=1, step="reading"))
    )
    for one in translator.translate(tiny.ENGLISH, alignment=True):
        check_laws(one)


def test_the_head_is_that_which_was_chosen():
    model = tiny.transformer(tiny.TINY, JOINT, JOINT)
    pair = (tiny.ENGLISH[1], tiny.GERMAN[1])
    default = Translator(Model(model, JOINT, JOINT, tiny.SEARCH))
    mean = Translator(Model(model, JOINT, JOINT, tiny.SEARCH, alignment_head=AlignmentHead(layer=1)))
    assert default.align([pair]) == mean.align([pair])
    found = {}
    for head in (1, 2):
        for step in ("predicting", "reading"):
            chosen = AlignmentHead(layer=2, head=head, step=step)
            translator = Translator(Model(model, JOINT, JOINT, tiny.SEARCH, alignment_head=chosen))
            assert translator.between().model.alignment_head == chosen
            [found[head, step]] = translator.align([pair])
    assert len({one.links for one in found.values()}) == 4
    for wrong, message in (
        (AlignmentHead(layer=3), "layer 3"),
        (AlignmentHead(layer=2, head=3), "head 3"),
    ):
        with pytest.raises(SettingsError, match=message):
            Translator(Model(model, JOINT, JOINT, tiny.SEARCH, alignment_head=wrong)).align([pair])


def test_a_target_as_long_as_can_be_is_aligned(bundled):
    limit = bundled["float32"].decoder.max_target
    ids = bundled["float32"].target.encode("Haus " * 400)[: limit - 1]
    long = bundled["float32"].target.decode(ids)
    for engine in ("float32", "torch"):
        [one] = bundled[engine].align([("A house.", long)])
        assert len(one.target) == len(split_words(long))


def test_given_translations_are_aligned_however_they_are_written(bundled):
    pairs = [("The man  eats.", " Der MANN isst ﬁsch . "), ("", "Haus"), ("House", ""), ("12", "12")]
    for words in ("words", "spaces"):
        for (source, target), one in zip(pairs, bundled["int8"].align(pairs, words=words), strict=True):
            assert list(one.source) == word_spans(source, words)
            assert list(one.target) == word_spans(target, words)
    with pytest.raises(SettingsError, match="words must be"):
        bundled["int8"].align(pairs, words="letters")


def test_an_ensemble_aligns_by_its_first_member():
    models = [tiny.transformer(tiny.TINY, JOINT, JOINT, seed) for seed in (0, 1)]
    pairs = list(zip(tiny.ENGLISH, tiny.GERMAN, strict=True))
    whole = Translator(Model(Ensemble(models), JOINT, JOINT, tiny.SEARCH))
    assert whole.align(pairs) == Translator(Model(models[0], JOINT, JOINT, tiny.SEARCH)).align(pairs)
    check_laws(whole.translate(tiny.ENGLISH[0], alignment=True))


def test_several_models_link_the_first_text_with_the_last(bundled):
    there = bundled["float32"]
    back = Translator(
        Model(there.decoder, there.source, there.target, there.decoding, ("de", "en"), text=there.model.text)
    )
    for nbest in (1, 2):
        one = there.then(back).translate("He left. 12.5 %", alignment=True, beam=2, nbest=nbest)
        for each in (one, *one.alternatives):
            check_laws(each)
        assert [step.alignment is not None for step in one.steps] == [True, True]
    assert there.then(back).translate("He left.").alignment is None


def test_what_cannot_be_aligned_is_refused(bundled):
    with pytest.raises(SettingsError, match="cannot return alignment"):
        list(bundled["float32"].stream("He left.", alignment=True))
    with pytest.raises(SettingsError, match="alignment must be"):
        bundled["float32"].translate("He left.", alignment="yes")
    torch.manual_seed(1)
    deaf = build_model(VARIANTS["sutskever"], JOINT.symbols, JOINT.size, JOINT.size).eval()
    with pytest.raises(SettingsError, match="no attention to a source"):
        Translator(Model(deaf, JOINT, JOINT, tiny.SEARCH)).translate("a cat", alignment=True)


def test_what_was_not_kept_is_encoded_again(bundled, monkeypatch):
    wanted = [one.alignment for one in bundled["float32"].translate(TEXTS * 3, alignment=True)]
    monkeypatch.setattr(engine_model, "MAX_CACHE_BYTES", 1)
    monkeypatch.setattr(engine_model, "REENCODED_SENTENCES", 2)
    assert [one.alignment for one in bundled["float32"].translate(TEXTS * 3, alignment=True)] == wanted


def test_the_head_that_agrees_with_the_links_is_found(bundled):
    pairs = [
        (text, one.text)
        for text, one in zip(tiny.ENGLISH, bundled["int8"].translate(tiny.ENGLISH), strict=True)
    ]
    told = []
    errors = head_errors(bundled["int8"], pairs, advance=told.append)
    assert len(errors) == 2 * 5 * 2 and sum(told) == len(pairs)
    assert list(errors.values()) == sorted(errors.values())
    wanted = AlignmentHead(layer=2, head=3, step="predicting")
    parts = bundled["int8"]
    chosen = Translator(
        Model(
            parts.decoder,
            parts.source,
            parts.target,
            parts.decoding,
            text=parts.model.text,
            alignment_head=wanted,
        )
    )
    gold = [(set(one.links), set(one.links)) for one in chosen.align(pairs)]
    found = head_errors(bundled["int8"], pairs, gold)
    # heads are compared by the largest weights alone, without the links of words that these leave out
    assert next(iter(found)) == wanted and found[wanted] < 0.1
    assert len(aligner_links(pairs)) == len(pairs)
    for wrong, links, message in (([], None, "no pair"), (pairs, gold[:1], "8 pairs but links for 1")):
        with pytest.raises(DataError, match=message):
            head_errors(bundled["int8"], wrong, links)


def test_aligning_natively_needs_no_torch():
    code = (
        "import sys, uwaga; one = uwaga.load(threads=1).translate('He left.', alignment=True); "
        "assert one.alignment.links; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
