"""Report of the decoder states that a translation retrieves from a memory (M44)."""

from dataclasses import dataclass, field
from unittest import mock

import numpy as np
import pytest

import uwaga
from uwaga.decoder import MAX_WEIGHT
from uwaga.engine.shortlist import Shortlist
from uwaga.errors import DataError, SettingsError
from uwaga.inspection import RememberedPair, look_up

SLEEPING_PAIR = "A man in a red shirt is sleeping.", "Ein Herr im roten Hemd schlummert."
BOY_PAIR = "A boy in a red shirt is sleeping.", "Ein Knabe im roten Hemd schlummert."
SINGING_TEXT = "A man in a red shirt is singing."


@dataclass
class Match:
    source: str
    target: str
    score: float
    origin: str = ""
    created: str = ""


@dataclass(eq=False)
class States:
    """Stores decoder states in a dictionary."""

    pairs: list[tuple[str, str]]
    values: dict[tuple[str, bytes], bytes] = field(default_factory=dict)

    def load(self, model, keys):
        return {key: self.values[model, key] for key in keys if (model, key) in self.values}

    def save(self, model, values):
        self.values |= {(model, key): value for key, value in values.items()}

    def sample(self, count):
        return self.pairs[:count]


class ListedMemory:
    """A memory that returns all of its pairs as matches of any text."""

    def __init__(self, *pairs, keeps_states=True):
        self.pairs = list(pairs)
        self.states = States(self.pairs) if keeps_states else None

    def matches(self, text, context=None, *, threshold, limit):
        return [Match(*pair, 100.0 if pair[0] == text else 80.0) for pair in self.pairs]


@pytest.fixture(scope="module", params=["native", "torch", "shortlist"])
def translator(request) -> uwaga.Translator:
    if request.param != "shortlist":
        return uwaga.load(threads=1, engine=request.param)
    translator = uwaga.load(threads=1)
    [pair] = translator.pair_ids([(SINGING_TEXT, translator.translate(SINGING_TEXT).text)])
    common, size = np.unique(pair.target).astype(np.int32), translator.decoder.vocabulary
    shortlist = Shortlist(common, np.zeros(size + 1, np.int32), np.zeros(0, np.int32), size)
    return translator.with_decoder(translator.decoder.with_shortlist(shortlist))


@pytest.mark.parametrize("text", [SINGING_TEXT, "A man in a blue shirt is sleeping.\nThe weather is nice."])
def test_M44_reported_mixture_weights_match_the_search(translator, text):
    memory = ListedMemory(SLEEPING_PAIR, BOY_PAIR)
    lookups = look_up(translator, text, memory)
    translation = translator.translate(text, memory=memory, placeholders=False)
    assert lookups.translation.tokens == translation.tokens
    assert lookups.translation.token_scores == translation.token_scores
    mixtures = [lookup.probability for lookup in lookups.tokens]
    np.testing.assert_allclose(np.log(mixtures), translation.token_scores, atol=1e-4)
    for lookup in lookups.tokens:
        assert lookup.weight == pytest.approx(np.clip(1 - lookup.distance / lookups.radius, 0, MAX_WEIGHT))
        remaining = (1 - lookup.weight) * lookup.model_probability
        assert remaining - 1e-6 <= lookup.probability <= remaining + lookup.weight + 1e-6
    without_end = [lookup.token for lookup in lookups.tokens[:-1]]
    assert without_end == list(translation.tokens)


def test_M44_pairs_that_exceed_the_datastore_limit_are_omitted(translator):
    with mock.patch("uwaga.translator.layers.retrieval.MAX_STATES", 1):
        lookups = look_up(translator, SINGING_TEXT, ListedMemory(BOY_PAIR, SLEEPING_PAIR))
    assert [(pair.source, pair.target) for pair in lookups.pairs] == [BOY_PAIR]


def test_M44_lookups_contain_the_nearest_remembered_token(translator):
    lookups = look_up(translator, SINGING_TEXT, ListedMemory(BOY_PAIR, SLEEPING_PAIR))
    pieces = [
        tuple(translator.target.pieces(translator.pair_ids([pair])[0].target))
        for pair in (BOY_PAIR, SLEEPING_PAIR)
    ]
    assert lookups.pairs == (
        RememberedPair(*BOY_PAIR, 80.0, pieces[0]),
        RememberedPair(*SLEEPING_PAIR, 80.0, pieces[1]),
    )
    herr = next(lookup for lookup in lookups.tokens if lookup.token == "▁Herr")
    assert (herr.pair, herr.position, lookups.piece_after(herr)) == (1, 1, "▁Herr")
    assert herr.model_probability < 0.1 < 0.9 < herr.probability
    sings = next(lookup for lookup in lookups.tokens if lookup.token == "▁singt")
    assert sings.weight == 0
    assert sings.probability == pytest.approx(sings.model_probability, abs=1e-6)


def test_sentences_translated_verbatim_from_memory_have_no_lookups(translator):
    memory = ListedMemory(SLEEPING_PAIR)
    lookups = look_up(translator, f"{SLEEPING_PAIR[0]}\n{SINGING_TEXT}", memory)
    assert lookups.translation.text.startswith(SLEEPING_PAIR[1] + "\n")
    assert lookups.tokens == look_up(translator, SINGING_TEXT, memory).tokens
    assert [pair.target for pair in lookups.pairs] == [SLEEPING_PAIR[1]]


@pytest.mark.parametrize(
    "memory",
    [
        ListedMemory(),
        ListedMemory((SINGING_TEXT, "Er singt.")),
        ListedMemory(SLEEPING_PAIR, keeps_states=False),
    ],
    ids=["empty", "same text", "no states"],
)
def test_text_without_similar_memory_pairs_has_no_lookups(translator, memory):
    lookups = look_up(translator, SINGING_TEXT, memory)
    assert (lookups.pairs, lookups.tokens, lookups.radius) == ((), (), 0)
    assert lookups.translation.text == translator.translate(SINGING_TEXT, memory=memory).text


def test_invalid_arguments_are_rejected(translator):
    with pytest.raises(SettingsError, match="memory must be"):
        look_up(translator, SINGING_TEXT, None)
    with pytest.raises(DataError, match="not a string"):
        look_up(translator, 7, ListedMemory())
