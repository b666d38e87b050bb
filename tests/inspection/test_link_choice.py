"""What several heads are worth together is learned from known links, of every kind of model, and kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tiny_models as tiny
import torch
from recurrent_variants import VARIANTS

import uwaga
from uwaga.checkpoints.alignment_head import read_head, write_head
from uwaga.inspection import head_selection
from uwaga.inspection.head_selection import FEWEST, choose_links, head_errors, known_links
from uwaga.models.build import build_model
from uwaga.settings import AlignmentHead
from uwaga.translator import Model, Translator

pytestmark = pytest.mark.numerical
JOINT = tiny.tokeniser()
TEXT = "I want to buy a car, but it is too expensive."


def pairs_of(count: int) -> list[tuple[str, str]]:
    draw = np.random.default_rng(5)
    words = TEXT.rstrip(".").replace(",", "").split()
    texts = [" ".join(draw.permutation(words)[:5]) for _ in range(count)]
    return list(zip(texts, texts, strict=True))


def learned(translator, count=FEWEST):
    pairs = pairs_of(count)
    links = frozenset((at, at) for at in range(5))
    gold = [(links, links)] * count
    errors = head_errors(translator, pairs, gold)
    return choose_links(translator, errors, pairs, gold), pairs


def a_model(name="transformer"):
    torch.manual_seed(1)
    if name == "transformer":
        made = tiny.transformer(tiny.TINY, JOINT, JOINT)
    else:
        made = build_model(VARIANTS[name], JOINT.symbols, JOINT.size, JOINT.size).eval()
    return Translator(Model(made, JOINT, JOINT, tiny.SEARCH))


@pytest.mark.parametrize("name", ["transformer", "bahdanau", "gnmt"])
def test_words_are_linked_by_several_heads_of_every_model(name, tmp_path):
    translator = a_model(name)
    head, pairs = learned(translator)
    assert head.links is not None and str(head).endswith(f"links by {len(head.links.heads)} heads")
    translator = Translator(replace(translator.model, alignment_head=head))
    found = translator.align(pairs)
    assert all(one.links == tuple((at, at) for at in range(5)) for one in found[:5])  # spelling says it
    assert all(0 < chance <= 1 for one in found for chance in one.chances.values())
    (tmp_path / "model").mkdir()
    write_head(tmp_path / "model", head)
    assert read_head(tmp_path / "model") == head
    one = translator.translate(TEXT, alignment=True, max_length=5)
    assert one.text == translator.translate(TEXT, max_length=5).text


def test_few_pairs_teach_nothing():
    assert learned(a_model(), FEWEST - 1)[0].links is None


def test_a_lexicon_comes_from_other_pairs_than_the_links_and_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(head_selection, "LEXICON_FROM", 4 * FEWEST)
    theirs = [("one two three", "eins zwei drei"), *[("me", "mich")] * 3] * (FEWEST // 2)
    corpus = [pair for both in zip(theirs, pairs_of(2 * FEWEST), strict=True) for pair in both]
    pairs, gold, lexicon = known_links(corpus, FEWEST)
    assert len(pairs) == len(gold) == FEWEST and set(pairs) <= set(pairs_of(2 * FEWEST))
    assert lexicon is not None and {"one", "two", "thre", "me"} >= set(lexicon.partners)
    assert known_links(corpus[1 : 4 * FEWEST], FEWEST)[2] is None  # one too few
    translator = a_model()
    errors = head_errors(translator, pairs, gold)
    head = choose_links(translator, errors, pairs, gold, lexicon=lexicon, again=True)
    assert head.links is not None and head.links.lexicon == lexicon
    (tmp_path / "model").mkdir()
    write_head(tmp_path / "model", head)
    assert read_head(tmp_path / "model") == head
    translator = Translator(replace(translator.model, alignment_head=head))
    assert all(one.links for one in translator.align(pairs[:3]))


def test_the_bundled_model_links_by_all_heads_on_both_engines():
    made = [uwaga.load(engine=engine, dtype="float32", device="cpu") for engine in ("native", "torch")]
    found = [one.translate([TEXT, "He left. We go."], alignment=True) for one in made]
    for one, other in zip(*found, strict=True):
        assert one.alignment.links == other.alignment.links
        chances = [each.alignment.chances for each in (one, other)]
        assert chances[0].keys() == chances[1].keys()
        assert [*chances[0].values()] == pytest.approx([*chances[1].values()], abs=1e-3)
    head = made[0].model.alignment_head
    alone = AlignmentHead(layer=head.layer, head=head.head, step=head.step)
    assert (
        Translator(replace(made[0].model, alignment_head=alone))
        .translate(TEXT, alignment=True)
        .alignment.likely
        == ()
    )
