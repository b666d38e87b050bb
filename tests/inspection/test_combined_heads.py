"""Combinations of attention heads trained on word links: model families, lexicon, and storage."""

from dataclasses import replace

import numpy as np
import pytest
import tiny_models as tiny
import torch
from recurrent_variants import VARIANTS

import uwaga
from uwaga.checkpoints.alignment_head import read_head, write_head
from uwaga.inspection import head_selection
from uwaga.inspection.head_selection import MIN_PAIRS, combine_heads, head_errors, training_links
from uwaga.models.build import build_model
from uwaga.settings import AlignmentHead
from uwaga.translator import Model, Translator

pytestmark = pytest.mark.numerical
JOINT = tiny.tokeniser()
TEXT = "I want to buy a car, but it is too expensive."


def make_pairs(count: int) -> list[tuple[str, str]]:
    rng = np.random.default_rng(5)
    words = TEXT.rstrip(".").replace(",", "").split()
    texts = [" ".join(rng.permutation(words)[:5]) for _ in range(count)]
    return list(zip(texts, texts, strict=True))


def train_combination(translator, count=MIN_PAIRS):
    pairs = make_pairs(count)
    links = frozenset((index, index) for index in range(5))
    gold = [(links, links)] * count
    errors = head_errors(translator, pairs, gold)
    return combine_heads(translator, errors, pairs, gold), pairs


def make_translator(name="transformer"):
    torch.manual_seed(1)
    if name == "transformer":
        model = tiny.transformer(tiny.TINY, JOINT, JOINT)
    else:
        model = build_model(VARIANTS[name], JOINT.symbols, JOINT.size, JOINT.size).eval()
    return Translator(Model(model, JOINT, JOINT, tiny.SEARCH))


@pytest.mark.parametrize("name", ["transformer", "bahdanau", "gnmt"])
def test_combined_attention_heads_give_word_links(name, tmp_path):
    translator = make_translator(name)
    head, pairs = train_combination(translator)
    assert head.links is not None and str(head).endswith(f"links by {len(head.links.heads)} heads")
    translator = Translator(replace(translator.model, alignment_head=head))
    alignments = translator.align(pairs)
    assert all(
        alignment.links == tuple((index, index) for index in range(5)) for alignment in alignments[:5]
    )  # the words are equal
    assert all(
        0 < probability <= 1
        for alignment in alignments
        for probability in alignment.link_probabilities.values()
    )
    (tmp_path / "model").mkdir()
    write_head(tmp_path / "model", head)
    assert read_head(tmp_path / "model") == head
    translation = translator.translate(TEXT, alignment=True, max_length=5)
    assert translation.text == translator.translate(TEXT, max_length=5).text


def test_head_combination_needs_a_minimum_number_of_pairs():
    assert train_combination(make_translator(), MIN_PAIRS - 1)[0].links is None


def test_lexicon_is_learned_from_separate_pairs_and_stored(tmp_path, monkeypatch):
    monkeypatch.setattr(head_selection, "MIN_LEXICON_PAIRS", 4 * MIN_PAIRS)
    lexicon_pairs = [("one two three", "eins zwei drei"), *[("me", "mich")] * 3] * (MIN_PAIRS // 2)
    corpus = [pair for group in zip(lexicon_pairs, make_pairs(2 * MIN_PAIRS), strict=True) for pair in group]
    pairs, gold, lexicon = training_links(corpus, MIN_PAIRS)
    assert len(pairs) == len(gold) == MIN_PAIRS and set(pairs) <= set(make_pairs(2 * MIN_PAIRS))
    assert lexicon is not None and {"one", "two", "thre", "me"} >= set(lexicon.translations)
    assert training_links(corpus[1 : 4 * MIN_PAIRS], MIN_PAIRS)[2] is None  # one pair too few
    translator = make_translator()
    errors = head_errors(translator, pairs, gold)
    head = combine_heads(translator, errors, pairs, gold, lexicon=lexicon, retrain=True)
    assert head.links is not None and head.links.lexicon == lexicon
    (tmp_path / "model").mkdir()
    write_head(tmp_path / "model", head)
    assert read_head(tmp_path / "model") == head
    translator = Translator(replace(translator.model, alignment_head=head))
    assert all(alignment.links for alignment in translator.align(pairs[:3]))


def test_bundled_model_gives_the_same_links_in_torch_and_the_native_engine():
    translators = [uwaga.load(engine=engine, dtype="float32", device="cpu") for engine in ("native", "torch")]
    translations = [
        translator.translate([TEXT, "He left. We go."], alignment=True) for translator in translators
    ]
    for native, reference in zip(*translations, strict=True):
        assert native.alignment.links == reference.alignment.links
        probabilities = [translation.alignment.link_probabilities for translation in (native, reference)]
        assert probabilities[0].keys() == probabilities[1].keys()
        assert [*probabilities[0].values()] == pytest.approx([*probabilities[1].values()], abs=1e-3)
    head = translators[0].model.alignment_head
    single_head = AlignmentHead(layer=head.layer, head=head.head, step=head.step)
    assert (
        Translator(replace(translators[0].model, alignment_head=single_head))
        .translate(TEXT, alignment=True)
        .alignment.likely
        == ()
    )
