"""Random options, prefixes and phrases for searches of models with a tiny vocabulary."""

import numpy as np
from hypothesis import strategies as st

from uwaga.engine import Shortlist
from uwaga.errors import UwagaError
from uwaga.search import SearchOptions, search
from uwaga.search.phrases import Phrase, Phrases

VOCABULARY = 23


@st.composite
def options(draw, longest=24):
    beam = draw(st.integers(1, 6))
    least = draw(st.integers(0, 6))
    ordinary = st.integers(4, VOCABULARY - 1)
    banned = draw(st.sets(ordinary, max_size=19))
    free = ordinary.filter(lambda token: token not in banned)
    return SearchOptions(
        beam=beam,
        nbest=draw(st.integers(1, beam)),
        length_penalty=draw(st.sampled_from([0.0, 0.6, 1.0, 2.0, -0.7]) | st.floats(-10, 10)),
        length_formula=draw(st.sampled_from(["average", "gnmt", "none"])),
        score_forced=draw(st.sampled_from([True, False, "length"])),
        early_stopping=draw(st.sampled_from([True, False, "estimate"])),
        min_length=least,
        max_length=draw(st.integers(max(least, 8), longest)),
        max_ratio=draw(st.sampled_from([0.5, 2.0, float("inf")])),
        max_extra=draw(st.integers(0, 9)),
        force_end=draw(st.booleans()),
        start=draw(st.none() | ordinary),
        first=draw(st.none() | free) if len(banned) < 19 else None,
        banned=tuple(banned),
        unknown=draw(st.booleans()),
        renormalise=draw(st.booleans()),
        batch_tokens=draw(st.sampled_from([1, 40, 150, 4096])),
    )


def found(decoder, sources, wanted, prefixes, phrases=None):
    """What a search gives, or what it says."""
    try:
        return search(decoder, sources, wanted, prefixes=prefixes, phrases=phrases)
    except UwagaError as error:
        return f"{type(error).__name__}: {error}"


@st.composite
def prefixes_for(draw, count):
    one = st.lists(st.integers(4, VOCABULARY - 1), max_size=4)
    return draw(st.none() | st.lists(one, min_size=count, max_size=count))


@st.composite
def phrases_for(draw, count):
    """What the targets of some sentences must contain, forced or for a bonus."""
    way = st.lists(st.integers(4, VOCABULARY - 1), min_size=1, max_size=3).map(tuple)
    ways = st.lists(way, min_size=1, max_size=3).map(tuple)
    phrase = st.builds(Phrase, ways, st.integers(1, 2), st.booleans())
    inside = np.isin(np.arange(VOCABULARY), draw(st.lists(st.integers(4, VOCABULARY - 1), max_size=8)))
    bonus = st.none() | st.sampled_from([0.0, 0.7, 30.0])
    one = st.none() | st.builds(Phrases, st.lists(phrase, max_size=4), st.just(inside), bonus)
    return draw(st.none() | st.lists(one, min_size=count, max_size=count))


def random_list(seed):
    rng = np.random.default_rng(seed)
    of_each = [np.unique(rng.integers(4, VOCABULARY, rng.integers(0, 5))) for _ in range(VOCABULARY)]
    first = np.cumsum([0, *(len(one) for one in of_each)])
    common = np.array([2, 5], dtype=np.int32)
    return Shortlist(common, first.astype(np.int32), np.concatenate(of_each).astype(np.int32), VOCABULARY)
