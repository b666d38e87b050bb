"""Candidate tokens from logits: numpy agrees with the definition, and torch agrees with numpy."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwaga.decoder import Choice, Sampling
from uwaga.search import choose

torch = pytest.importorskip("torch")
from uwaga.models.layers import choose as torch_choice

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def naive_choice(logits: np.ndarray, choice: Choice) -> tuple[list[list[int]], list[list[float]]]:
    """Return the candidates of a step without sampling, row by row, by the definition in the contract."""
    tokens, log_probs = [], []
    for row, values in enumerate(logits.astype(np.float64)):
        total = np.log(np.exp(values - values.max()).sum()) + values.max()
        banned = set() if choice.banned is None else {t for r, t in choice.banned.tolist() if r == row}
        if choice.renormalise:
            allowed = [v for t, v in enumerate(values) if t not in banned]
            normaliser = np.log(np.exp(allowed).sum()) if allowed else 0.0
        else:
            normaliser = total
        forced = -1 if choice.forced is None else int(choice.forced[row])
        if forced >= 0:
            tokens.append([forced])
            log_probs.append([values[forced] - total])
            continue
        allowed = [t for t in range(len(values)) if t not in banned]
        order = sorted(allowed, key=lambda t: (-values[t], t))[: choice.count]
        tokens.append(order)
        log_probs.append([values[t] - normaliser for t in order])
    return tokens, log_probs


@st.composite
def steps(draw, sampling=st.just(None)):
    rows, vocabulary = draw(st.integers(1, 6)), draw(st.integers(1, 40))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    logits = random.normal(size=(rows, vocabulary)).astype(np.float32) * 3
    if draw(st.booleans()):
        logits = np.round(logits)  # many ties
    pairs = st.tuples(st.integers(0, rows - 1), st.integers(0, vocabulary - 1))
    banned = draw(st.none() | st.lists(pairs, min_size=1, max_size=30))
    forced = draw(st.none() | st.lists(st.integers(-1, vocabulary - 1), min_size=rows, max_size=rows))
    options = draw(sampling)
    if options is not None:
        options = dataclasses.replace(options, uniform=random.random(rows))
    return logits, Choice(
        count=1 if options else draw(st.integers(1, vocabulary + 3)),
        banned=None if banned is None else np.array(banned, dtype=np.int64),
        forced=None if forced is None else np.array(forced, dtype=np.int64),
        sampling=options,
        renormalise=draw(st.booleans()),
        extra_tokens=draw(extra_token_lists(rows, vocabulary)),
    )


def extra_token_lists(rows, vocabulary):
    tokens = st.lists(st.integers(-1, vocabulary - 1), min_size=2, max_size=2)
    return st.none() | st.lists(tokens, min_size=rows, max_size=rows).map(np.array)


sampling_options = st.builds(
    Sampling, uniform=st.just(np.zeros(0)), temperature=st.sampled_from([0.3, 1.0, 2.5]),
    top_k=st.sampled_from([0, 1, 3, 100]), top_p=st.sampled_from([1.0, 0.9, 0.3]),
)  # fmt: skip


@given(steps())
def test_M24_candidate_tokens_match_the_definition(case):
    logits, choice = case
    before = logits.copy()
    tokens, log_probs = choose(logits, choice)
    assert (logits == before).all()
    assert tokens.dtype == np.int64
    assert log_probs.dtype == np.float32
    extra = 0 if choice.extra_tokens is None else choice.extra_tokens.shape[1]
    assert tokens.shape == log_probs.shape == (len(logits), min(choice.count, logits.shape[1]) + extra)
    if choice.extra_tokens is not None:
        all_candidates = naive_choice(logits, dataclasses.replace(choice, count=logits.shape[1]))
        for row, extra_tokens in enumerate(choice.extra_tokens):
            row_log_probs = dict(zip(all_candidates[0][row], all_candidates[1][row], strict=True))
            forced = choice.forced is not None and choice.forced[row] >= 0
            expected = [
                -np.inf if forced else row_log_probs.get(token, -np.inf) for token in extra_tokens.tolist()
            ]
            assert log_probs[row, -extra:] == pytest.approx(expected, abs=1e-5)
        tokens, log_probs = tokens[:, :-extra], log_probs[:, :-extra]
    for row, (expected, scores) in enumerate(zip(*naive_choice(logits, choice), strict=True)):
        count = len(expected)
        assert tokens[row, :count].tolist() == expected
        assert log_probs[row, :count] == pytest.approx(scores, abs=1e-5)
        assert (log_probs[row, count:] == -np.inf).all()


def assert_torch_equals_numpy(logits, choice, device):
    tokens, log_probs = choose(logits, choice)
    torch_tokens, torch_log_probs = torch_choice.choose(torch.tensor(logits, device=device), choice)
    assert torch_tokens.dtype == np.int64
    assert torch_log_probs.dtype == np.float32
    finite = log_probs > -np.inf
    assert ((torch_log_probs > -np.inf) == finite).all()
    assert (torch_tokens[finite] == tokens[finite]).all()
    assert torch_log_probs[finite] == pytest.approx(log_probs[finite], abs=2e-5)


@pytest.mark.parametrize("device", DEVICES)
@given(case=steps(st.none() | sampling_options))
def test_torch_token_choice_matches_the_reference(case, device):
    assert_torch_equals_numpy(*case, device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("chunk", [1, 70, 1000])
@given(case=steps(st.none() | sampling_options))
def test_torch_token_choice_is_independent_of_the_chunk_size(case, chunk, device):
    before = torch_choice.CHUNK
    torch_choice.CHUNK = chunk
    try:
        assert_torch_equals_numpy(*case, device)
    finally:
        torch_choice.CHUNK = before


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("scale", [0.0, 0.01, 1.0, 8.0])
@pytest.mark.parametrize(("top_k", "top_p"), [(0, 1.0), (0, 0.95), (700, 0.9), (500, 1.0)])
def test_torch_token_choice_samples_from_the_tail_of_a_large_vocabulary(scale, top_k, top_p, device):
    """Flat distributions need more than the candidates that are tried first; at scale 0 all logits tie."""
    random = np.random.default_rng(7)
    logits = (random.normal(size=(50, 3000)) * scale).astype(np.float32)
    assert_torch_equals_numpy(
        logits, Choice(1, sampling=Sampling(random.random(50), 1.0, top_k, top_p)), device
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_torch_token_choice_accepts_16_and_64_bit_logits(dtype):
    """Half-precision logits tie often; the lower id wins, as in the reference."""
    logits = torch.randn(20, 3000, generator=torch.Generator().manual_seed(1)).to(dtype)
    for count in (1, 8):
        choice = Choice(count, banned=np.array([[3, 5], [0, 2]]))
        tokens, log_probs = torch_choice.choose(logits.clone(), choice)
        expected, scores = choose(logits.float().numpy(), choice)
        assert (tokens == expected).all()
        assert log_probs == pytest.approx(scores, abs=1e-4)


def test_torch_token_choice_accepts_tensors_that_require_gradients():
    logits = torch.randn(2, 9, requires_grad=True)
    tokens, _ = torch_choice.choose(logits * 1.0, Choice(2, banned=np.array([[0, 1]])))
    assert tokens.shape == (2, 2)


def test_nan_logits_give_nan_log_probs():
    logits = np.array([[0.0, np.nan, 1.0]], dtype=np.float32)
    for count in (1, 2):
        assert np.isnan(choose(logits, Choice(count))[1]).all()
        assert np.isnan(torch_choice.choose(torch.tensor(logits), Choice(count))[1]).all()
