"""Models with large finite weights, whose logits overflow.

A search gives translations, or an error that names the weights, if it may choose from a token that overflows.
"""

import numpy as np
from search_inputs import inputs

from uwaga.decoder import Choice, Sampling, Symbols
from uwaga.engine import NativeModel, Shortlist
from uwaga.engine.layout import stored_shapes
from uwaga.engine.packing import pack
from uwaga.errors import ModelError
from uwaga.search import SearchOptions, search
from uwaga.search.choose import choose
from uwaga.search.phrases import Phrase, Phrases
from uwaga.settings import DecoderOnlySettings, TransformerSettings

SYMBOLS = Symbols(start=2, end=3, pad=0, unknown=1)
PRECISIONS = ["float32", "bfloat16", "int8"]
FEATURE, LARGE = 10.0, 3e38
WIDTH, SOURCE = 16, 40
OVERFLOWING_WEIGHTS = {"inf": (LARGE, 0.0), "-inf": (-LARGE, 0.0), "nan": (LARGE, -LARGE)}
"""The first two weights of a token, by its logit; the others are 0."""
SEARCHES = {
    "greedy": SearchOptions(beam=1, max_length=6),
    "beam": SearchOptions(beam=3, nbest=3, max_length=6),
    "wide": SearchOptions(beam=70, nbest=2, max_length=3),
    "end": SearchOptions(beam=2, min_length=4, max_length=6, force_end=True),
    "shared": SearchOptions(beam=2, max_length=6, renormalise=True, first=5, start=7),
    "sample": SearchOptions(sample=True, nbest=2, max_length=6, seed=1),
    "top": SearchOptions(sample=True, top_k=3, top_p=0.5, temperature=0.3, max_length=6, seed=2),
}


def overflowing_model(
    overflows, precision="float32", isa=None, vocabulary=131, decoder_only=False, seed=0, share=0.1
):
    """Return a model and its logits (vocabulary,), which are the same at each step of each sentence.

    The last norm makes every feature the same, so that logits are sums of weights.

    Args:
        overflows: kinds of logits that overflow, of ``OVERFLOWING_WEIGHTS``.
        share: part of the tokens whose logits overflow.
    """
    rng = np.random.default_rng(seed)
    common = {"width": WIDTH, "heads": 2, "feed_forward": 24, "max_length": 40, "norm": "pre"}
    if decoder_only:
        shape = DecoderOnlySettings(layers=1, tie_output=False, output_bias=True, **common)
    else:
        shape = TransformerSettings(
            encoder_layers=1, decoder_layers=1, tie="none", output_bias=True, **common
        )
    source = vocabulary if decoder_only else SOURCE
    weights = {
        name: rng.normal(0, 0.2, size).astype(np.float32)
        for name, size in stored_shapes(shape, source, vocabulary).items()
    }
    weights["decoder_norm.weight"][:] = 0
    weights["decoder_norm.bias"][:] = FEATURE
    output = weights["output_weight"]
    output /= 10
    kinds = np.where(rng.random(vocabulary) < share, rng.choice(overflows or [""], vocabulary), "")
    logits = output.astype(np.float64).sum(1) * FEATURE + weights["output_bias"]
    for kind, first_weights in OVERFLOWING_WEIGHTS.items():
        output[kinds == kind] = 0
        output[kinds == kind, :2] = first_weights
        logits[kinds == kind] = float(kind)
    if precision == "int8":  # the sum of its integers is exact
        logits[kinds == "nan"] = weights["output_bias"][kinds == "nan"]
    packed = pack(shape, (source, vocabulary), weights.__getitem__, precision)
    return NativeModel(shape, SYMBOLS, (source, vocabulary), packed, 2, isa, 1), logits


def random_shortlist(rng, vocabulary):
    """Return a random shortlist with lists so short that some contain no overflowing token."""
    lists = [np.unique(rng.integers(0, vocabulary, rng.integers(0, 4))) for _ in range(SOURCE)]
    first = np.cumsum([0, *map(len, lists)])
    common = np.union1d(rng.integers(0, vocabulary, int(rng.integers(1, 4))), [SYMBOLS.end])
    parts = (part.astype(np.int32) for part in (common, first, np.concatenate(lists)))
    return Shortlist(*parts, vocabulary)


def check_overflow(rng, isa=None, precision=None):
    """Check that the steps of a random model agree with the reference, and that searches terminate."""
    vocabulary = int(rng.choice([9, 131, 8300]))
    overflows = [kind for kind in OVERFLOWING_WEIGHTS if rng.integers(2)]
    decoder_only = rng.integers(4) == 0
    model, logits = overflowing_model(
        overflows, precision or str(rng.choice(PRECISIONS)), isa, vocabulary, decoder_only,
        int(rng.integers(10**6)), float(rng.choice([0.02, 0.2, 1.0])),
    )  # fmt: skip
    if not decoder_only and rng.integers(4):
        model = model.with_shortlist(random_shortlist(rng, vocabulary))
    size = vocabulary if decoder_only else SOURCE
    sources = [tuple(rng.integers(4, size, int(rng.integers(1, 5))).tolist()) for _ in range(6)]
    lists = [
        np.arange(vocabulary) if model.shortlist is None else model.shortlist.allowed_tokens(source)
        for source in sources
    ]
    for _ in range(4):
        check_step(rng, model, logits, sources, lists)
    for name in rng.permutation(sorted(SEARCHES))[:3]:
        check_search(model, logits, sources, lists, SEARCHES[name])
    check_search(model, logits, sources, lists, SEARCHES["beam"], [phrases(rng, vocabulary) for _ in sources])


def phrases(rng, vocabulary):
    """Return phrases that a target must contain, or that add a bonus to its score."""
    token_ids = [tuple(rng.integers(4, vocabulary, 2).tolist()) for _ in range(2)]
    return Phrases([Phrase((token_ids[0],)), Phrase((token_ids[1],))], None, 1.5 if rng.integers(2) else None)


def check_step(rng, model, logits, sources, lists):
    """Check that log-probabilities equal those of the reference, including NaN."""
    rows, vocabulary = len(sources), len(logits)
    choice = random_choice(rng, logits, rows, model.shortlist is None)
    state = model.start(model.encode(sources), 1)
    step = model.step(np.full(rows, SYMBOLS.start), state, choice)
    table = np.full((rows, vocabulary), -np.inf)
    for row, allowed in enumerate(lists):
        table[row, allowed] = logits[allowed]
        if choice.forced is not None and choice.forced[row] >= 0 and not choice.all_tokens:
            table[row, choice.forced[row]] = logits[choice.forced[row]]
    with np.errstate(invalid="ignore"):
        _, expected = choose(table, choice)
    nan_rows = np.isnan(expected).any(axis=1)
    assert np.array_equal(np.isnan(step.log_probs).any(axis=1), nan_rows), (choice, nan_rows)
    if choice.sampling is None:
        np.testing.assert_allclose(step.log_probs[~nan_rows], expected[~nan_rows], rtol=0.02, atol=0.05)


def random_choice(rng, logits, rows, extra):
    """Return a random :class:`Choice`, with extra tokens if they are allowed."""
    vocabulary = len(logits)
    # A single logit is summed in float64, where weights of opposite signs do not overflow.
    forced = rng.integers(-1, vocabulary, rows)
    forced[np.isnan(logits[forced])] = -1
    sampling = None
    if rng.integers(3) == 0:
        sampling = Sampling(rng.random(rows), 0.5, int(rng.integers(0, 9)), float(rng.choice([1.0, 0.7])))
    pairs = rng.integers(0, [rows, vocabulary], (int(rng.choice([3, 80 * rows])), 2))
    return Choice(
        count=1 if sampling else int(rng.choice([1, 6, 100])),
        banned=pairs if rng.integers(2) else None,
        forced=forced if rng.integers(4) == 0 else None,
        sampling=sampling,
        renormalise=bool(rng.integers(2)),
        all_tokens=bool(rng.integers(6) == 0),
        extra_tokens=rng.integers(-1, vocabulary, (rows, 2)) if extra and rng.integers(3) == 0 else None,
    )


def check_search(model, logits, sources, lists, options, phrases=None):
    """Check that only the sentences fail whose shortlists contain an overflowing token."""
    overflow = np.isnan(logits) | (logits == np.inf)
    single_results = []
    for index, source in enumerate(sources):
        result = search_or_none(model, [source], options, None if phrases is None else [phrases[index]])
        single_results.append(result)
        if overflow[lists[index]].any():
            assert result is None
        elif phrases is None and np.isfinite(logits).all():
            assert result is not None
    valid = [index for index, result in enumerate(single_results) if result is not None]
    valid_phrases = None if phrases is None else [phrases[index] for index in valid]
    batch_result = search_or_none(model, [sources[index] for index in valid], options, valid_phrases)
    assert batch_result == [single_results[index][0] for index in valid]
    if len(valid) < len(sources):
        assert search_or_none(model, sources, options, phrases) is None


def search_or_none(model, sources, options, phrases):
    """Return the results of a search, or None if it rejects the weights of the model."""
    try:
        return search(model, inputs(sources, phrases=phrases), options)
    except ModelError as error:
        if "its weights are damaged, or overflow" in str(error):
            return None
        raise
