"""Search options, ranking of hypotheses, and constraints on tokens."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import settings as unhurried
from hypothesis import strategies as st

from uwaga.errors import SettingsError
from uwaga.search import SearchOptions, from_generation_config
from uwaga.search.constraints import repeated_ngrams, step_limit
from uwaga.search.length_batching import length_batches
from uwaga.search.rank import FinishedHypotheses, Ranking
from uwaga.settings.options import option, option_fields


def test_overrides_other_than_none_replace_options():
    defaults = SearchOptions(beam=4, no_repeat_ngram=3)
    options = defaults.changed({"beam": None, "nbest": 2, "max_length": 9})
    assert options == SearchOptions(beam=4, no_repeat_ngram=3, nbest=2, max_length=9)
    with pytest.raises(SettingsError, match="unknown decoding option 'n_best'; did you mean 'nbest'"):
        defaults.changed({"n_best": 2})


@dataclasses.dataclass(frozen=True)
class MoreOptions(SearchOptions):
    """Search options with an additional field."""

    patience: float = dataclasses.field(default=1.0, metadata=option("Beam patience", minimum=0.5))


def test_new_search_option_needs_only_one_field():
    field = option_fields(MoreOptions)["patience"]
    assert (field.option.help, field.kinds, field.default) == ("Beam patience", (float,), 1.0)
    assert MoreOptions(patience=2.0).patience == 2.0
    with pytest.raises(SettingsError, match="patience"):
        MoreOptions(patience=0.1)


def test_option_choices_and_kinds_are_derived_from_types():
    fields = option_fields(SearchOptions)
    assert fields["length_formula"].choices == ("average", "gnmt", "none")
    assert fields["early_stopping"].choices == (True, False, "estimate")
    assert (fields["max_length"].kinds, fields["max_length"].optional) == ((int,), True)
    assert (fields["sample"].kinds, fields["banned"].kinds) == ((bool,), (tuple,))


SAMPLING = SearchOptions(beam=1, sample=True, top_k=50, temperature=0.7, top_p=0.9)
DEFAULT_SAMPLING = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}


def test_model_with_sampling_settings_samples_unless_overridden():
    for overrides in (
        {},
        {"nbest": 3},
        {"top_k": 9},
        {"sample": True, "beam": 4},
        {"beam": None, "sample": None},
    ):
        options = SAMPLING.changed({"seed": 5, **overrides})
        values = {name: value for name, value in overrides.items() if value is not None}
        assert options == dataclasses.replace(SAMPLING, seed=5, **values)
    for overrides in ({"beam": 1}, {"beam": 5, "nbest": 2}, {"sample": False}):
        assert SAMPLING.changed(overrides) == dataclasses.replace(
            SAMPLING, **{"sample": False, **DEFAULT_SAMPLING, **overrides}
        )
    with pytest.raises(
        SettingsError, match="temperature, top_k and top_p apply to sampling only: set sample"
    ):
        SAMPLING.changed({"beam": 5, "top_k": 9})


def test_each_call_without_a_seed_draws_a_new_seed():
    seeds = {SAMPLING.changed({}).seed for _ in range(9)} | {SearchOptions().changed({"sample": True}).seed}
    assert len(seeds) > 5
    assert SearchOptions().changed({"beam": 2}).seed is None


@unhurried(deadline=None)
@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 9999))
def test_further_option_changes_keep_the_drawn_seed(seed, budget):
    """Changing options again does not draw another seed."""
    for options in (SAMPLING.changed({"seed": seed}), SAMPLING.changed({}), SAMPLING.for_stream({})):
        assert options.changed({"batch_tokens": budget}) == dataclasses.replace(options, batch_tokens=budget)
    assert dataclasses.replace(SAMPLING, seed=seed).changed({"nbest": 2}).seed == seed


def test_stream_defaults_to_one_hypothesis():
    assert SearchOptions(beam=4, nbest=2).for_stream({}) == SearchOptions(beam=1)
    assert SAMPLING.for_stream({"seed": 3}) == dataclasses.replace(SAMPLING, seed=3)
    assert dataclasses.replace(SAMPLING, nbest=3).for_stream({}).nbest == 1
    assert not SAMPLING.for_stream({"beam": 1}).sample
    for overrides in ({"beam": 4}, {"sample": True, "nbest": 2}):
        with pytest.raises(SettingsError, match="streaming needs beam 1 or a single sample"):
            SearchOptions().for_stream(overrides)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"beam": 0}, "beam must be a whole number, 1 or more, not 0"),
        ({"beam": 2.0}, "beam must be a whole number"),
        ({"beam": True}, "beam must be a whole number"),
        ({"beam": 2, "nbest": 3}, "nbest 3 is more than beam 2"),
        ({"length_penalty": math.nan}, "length_penalty must be a number"),
        ({"length_penalty": 11.0}, "from -10 to 10"),
        ({"length_formula": "mean"}, "length_formula must be one of average, gnmt, none, not 'mean'"),
        ({"early_stopping": "never"}, "early_stopping must be one of True, False, estimate"),
        ({"early_stopping": 1}, "early_stopping must be one of"),
        ({"min_length": 9, "max_length": 8}, "min_length 9 is more than max_length 8"),
        ({"max_length": 0}, "max_length must be a whole number, 1 or more"),
        ({"max_ratio": -1.0}, "max_ratio"),
        ({"temperature": 0.5}, "set sample"),
        ({"sample": True, "temperature": 0.0}, "temperature must be"),
        ({"sample": True, "top_p": 0.0}, "top_p must be"),
        ({"sample": True, "top_k": -1}, "top_k must be"),
        ({"first": 4, "banned": (4,)}, "token 4 is both the forced first token"),
        ({"banned": (-1,)}, "banned must be"),
        ({"batch_tokens": 0}, "batch_tokens must be"),
    ],
)
def test_invalid_options_are_rejected_by_name(values, message):
    with pytest.raises(SettingsError, match=message.replace("(", r"\(")):
        SearchOptions(**values)


def test_nbest_may_exceed_beam_size_when_sampling():
    assert SearchOptions(beam=2, nbest=7, sample=True).rows == 7


def test_M24_length_formulas_match_hand_calculation():
    lengths = np.array([1, 4, 7])
    assert Ranking("average", 2.0).divisor(lengths) == pytest.approx([1.0, 16.0, 49.0])
    assert Ranking("gnmt", 0.5).divisor(lengths) == pytest.approx([1.0, math.sqrt(1.5), math.sqrt(2.0)])
    assert Ranking("none", 2.0).divisor(lengths) == pytest.approx([1.0, 1.0, 1.0])


@pytest.mark.parametrize("alpha", [0.3, 1.4, -2.5])
def test_length_divisors_are_bit_identical_to_those_of_c_pow(alpha):
    """NumPy's ``**`` differs from C's ``pow`` on processors with AVX-512."""
    lengths = np.arange(1, 2000)
    assert Ranking("average", alpha).divisor(lengths).tolist() == [math.pow(n, alpha) for n in lengths]
    assert Ranking("gnmt", alpha).divisor(lengths).tolist() == [math.pow((5 + n) / 6, alpha) for n in lengths]


@given(
    formula=st.sampled_from(["average", "gnmt", "none"]), alpha=st.floats(-3, 3), log_prob=st.floats(-50, 0),
    fall=st.floats(0, 20), shortest=st.integers(1, 30), longer=st.integers(0, 30), extra=st.integers(0, 30),
)  # fmt: skip
def test_M24_score_bound_is_not_exceeded_by_any_continuation(
    formula, alpha, log_prob, fall, shortest, longer, extra
):
    ranking = Ranking(formula, alpha)
    ends = np.array([shortest + longer])
    bound = ranking.bound(np.array([log_prob]), np.array([shortest]), ends + extra)
    assert (log_prob - fall) / ranking.divisor(ends) <= bound + 1e-12 * abs(bound)


def test_pool_of_finished_hypotheses_keeps_the_best_and_the_first_of_ties():
    pool = FinishedHypotheses(2, 2)
    nodes = np.array([[10, 11, 12]])
    cut = np.zeros((1, 3), dtype=bool)
    pool.add(np.array([1]), np.array([[-3.0, -np.inf, -1.0]]), nodes, np.array([4]), cut)
    pool.add(np.array([1]), np.array([[-3.0, -2.0, -9.0]]), nodes + 10, np.array([5]), ~cut)
    pool.add(np.array([1]), np.array([[-2.0, -9.0, -9.0]]), nodes + 20, np.array([6]), cut)
    assert pool.scores.tolist() == [[-np.inf, -np.inf], [-1.0, -2.0]]
    assert pool.nodes[1].tolist() == [12, 21]
    assert pool.depths[1].tolist() == [4, 5]
    assert pool.truncated[1].tolist() == [False, True]


@given(
    history=st.lists(st.lists(st.integers(0, 3), min_size=7, max_size=7), min_size=1, max_size=4),
    length=st.integers(0, 7),
    size=st.integers(1, 5),
)
def test_M24_tokens_that_would_repeat_an_ngram_are_banned(history, length, size):
    rows = np.array(history)[:, :length]
    banned = {tuple(pair) for pair in repeated_ngrams(rows, size).tolist()}
    for row_index, row in enumerate(rows.tolist()):
        for token in range(4):
            extended = [*row, token]
            ngrams = [tuple(extended[i : i + size]) for i in range(len(extended) - size + 1)]
            assert ((row_index, token) in banned) == (bool(ngrams) and ngrams[-1] in ngrams[:-1])


@given(lengths=st.lists(st.integers(1, 50), max_size=30), rows=st.integers(1, 5), budget=st.integers(1, 400))
def test_length_batches_contain_each_sentence_once_within_the_token_budget(lengths, rows, budget):
    batches = list(length_batches(lengths, rows, budget))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        cost = len(batch) * rows * max(lengths[index] for index in batch)
        assert cost <= budget or len(batch) == 1
    order = [lengths[index] for batch in batches for index in batch]
    assert order == sorted(order, reverse=True)


def test_generation_config_of_an_opus_model_is_read():
    options = from_generation_config(
        {
            "bad_words_ids": [[58100]], "bos_token_id": 0, "decoder_start_token_id": 58100, "eos_token_id": 0,
            "forced_eos_token_id": 0, "max_length": 512, "num_beams": 6, "pad_token_id": 58100,
            "renormalize_logits": True, "transformers_version": "4.32.0",
        }
    )  # fmt: skip
    assert options == dataclasses.replace(
        SearchOptions(), beam=6, max_length=511, max_ratio=math.inf, early_stopping="estimate",
        score_forced=False, force_end=True, banned=(58100,), renormalise=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"repetition_penalty": 1.2}, "'repetition_penalty' = 1.2 is not supported"),
        ({"num_beams": 4, "num_beam_groups": 2}, "num_beam_groups"),
        ({"bad_words_ids": [[4, 5]]}, "bad_words_ids"),
        ({"num_beams": 2, "do_sample": True}, "do_sample with beam search"),
    ],
)
def test_generation_config_rejects_unsupported_settings(values, message):
    with pytest.raises(SettingsError, match=message):
        from_generation_config(values)


def test_generation_config_ignores_neutral_values():
    options = from_generation_config({"repetition_penalty": 1.0, "num_beam_groups": 1, "top_k": 50})
    assert (options.beam, options.top_k, options.max_length) == (1, 0, 19)


@unhurried(deadline=None)
@given(st.floats(0.0, allow_nan=False), st.integers(1, 500))
@example(1.7e308, 5)
def test_step_limit_is_derived_from_ratio_and_maximum_length(ratio, source):
    options = SearchOptions(max_length=40, max_ratio=ratio, max_extra=2)
    assert step_limit(options, None, source, 0) == min(40, max(1, math.floor(min(ratio * source, 40)) + 2))
