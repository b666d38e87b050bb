"""Random options, prefixes and phrases for searches of models with a tiny vocabulary."""

import numpy as np
from hypothesis import strategies as st
from search_inputs import inputs

from uwaga.engine import Shortlist
from uwaga.errors import UwagaError
from uwaga.search import SearchOptions, search
from uwaga.search.phrases import Phrase, Phrases

VOCABULARY_SIZE = 23


@st.composite
def options(draw, longest_target=24):
    beam = draw(st.integers(1, 6))
    min_length = draw(st.integers(0, 6))
    ordinary = st.integers(4, VOCABULARY_SIZE - 1)
    banned = draw(st.sets(ordinary, max_size=19))
    allowed = ordinary.filter(lambda token: token not in banned)
    return SearchOptions(
        beam=beam,
        nbest=draw(st.integers(1, beam)),
        length_penalty=draw(st.sampled_from([0.0, 0.6, 1.0, 2.0, -0.7]) | st.floats(-10, 10)),
        length_formula=draw(st.sampled_from(["average", "gnmt", "none"])),
        score_forced=draw(st.sampled_from([True, False, "length"])),
        early_stopping=draw(st.sampled_from([True, False, "estimate"])),
        min_length=min_length,
        max_length=draw(st.integers(max(min_length, 8), longest_target)),
        max_ratio=draw(st.sampled_from([0.5, 2.0, float("inf")])),
        max_extra=draw(st.integers(0, 9)),
        force_end=draw(st.booleans()),
        start=draw(st.none() | ordinary),
        first=draw(st.none() | allowed) if len(banned) < 19 else None,
        banned=tuple(banned),
        unknown=draw(st.booleans()),
        renormalise=draw(st.booleans()),
        batch_tokens=draw(st.sampled_from([1, 40, 150, 4096])),
    )


def search_or_error(decoder, sources, options, prefixes, phrases=None, datastores=None):
    """Return the results of a search, or its error message."""
    try:
        return search(decoder, inputs(sources, prefixes, phrases, datastores=datastores), options)
    except UwagaError as error:
        return f"{type(error).__name__}: {error}"


@st.composite
def prefixes_for(draw, count):
    prefix = st.lists(st.integers(4, VOCABULARY_SIZE - 1), max_size=4)
    return draw(st.none() | st.lists(prefix, min_size=count, max_size=count))


@st.composite
def phrases_for(draw, count):
    """Return random phrases that targets must contain or that add a bonus to their score."""
    form = st.lists(st.integers(4, VOCABULARY_SIZE - 1), min_size=1, max_size=3).map(tuple)
    forms = st.lists(form, min_size=1, max_size=3).map(tuple)
    phrase = st.builds(Phrase, forms, st.integers(1, 2), st.booleans())
    inside_words = np.isin(
        np.arange(VOCABULARY_SIZE), draw(st.lists(st.integers(4, VOCABULARY_SIZE - 1), max_size=8))
    )
    bonus = st.none() | st.sampled_from([0.0, 0.7, 30.0])
    sentence_phrases = st.none() | st.builds(
        Phrases, st.lists(phrase, max_size=4), st.just(inside_words), bonus
    )
    return draw(st.none() | st.lists(sentence_phrases, min_size=count, max_size=count))


def random_shortlist(seed):
    rng = np.random.default_rng(seed)
    candidates = [
        np.unique(rng.integers(4, VOCABULARY_SIZE, rng.integers(0, 5))) for _ in range(VOCABULARY_SIZE)
    ]
    first = np.cumsum([0, *(len(token_ids) for token_ids in candidates)])
    common = np.array([2, 5], dtype=np.int32)
    return Shortlist(
        common, first.astype(np.int32), np.concatenate(candidates).astype(np.int32), VOCABULARY_SIZE
    )
