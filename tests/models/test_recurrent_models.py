"""Properties of the recurrent models (M11 to M15, M20, M21, M24; E3 to E6) of all families and variants."""

import itertools
import math
import random

import numpy as np
import pytest
import torch
from precision import EXACT, tolerance
from recurrent_variants import SMALL_SIZES, SYMBOLS, VARIANTS, make
from search_inputs import inputs

from uwaga.decoder import Choice
from uwaga.errors import SettingsError
from uwaga.models.build import build_model
from uwaga.search import SearchOptions, search
from uwaga.settings.recurrent import PRESETS, BahdanauSettings, RecurrentSettings
from uwaga.training.loss import cross_entropy

each_variant = pytest.mark.parametrize("name", list(VARIANTS))
SOURCES = [[5, 6, 7, 8, 2], [9, 10, 2]]
PADDED = torch.tensor([[5, 6, 7, 8, 2], [9, 10, 2, 0, 0]])
TARGET = torch.tensor([[1, 11, 12, 13], [1, 14, 15, 16]])


@pytest.mark.numerical
@each_variant
def test_M20_steps_match_teacher_forcing(name: str) -> None:
    model = make(VARIANTS[name]).double()
    with torch.no_grad():
        log_probs = model(PADDED, TARGET)  # (2, 4, vocabulary)
    beams = 3
    state = model.start(model.encode(SOURCES), beams)
    for position in range(4):
        tokens = np.repeat(TARGET[:, position].numpy(), beams)
        step = model.step(tokens, state, Choice(model.vocabulary))
        step_log_probs = np.empty_like(step.log_probs)
        np.put_along_axis(step_log_probs, step.tokens, step.log_probs, axis=1)  # by token id
        expected = log_probs[:, position].repeat_interleave(beams, 0).numpy()
        np.testing.assert_allclose(step_log_probs, expected, **EXACT)
        state = step.state


@pytest.mark.numerical
@each_variant
def test_results_do_not_depend_on_the_batch(name: str) -> None:
    model = make(VARIANTS[name]).double()
    with torch.no_grad():
        expected = model(torch.tensor([[9, 10, 2]]), TARGET[1:, :3])
        padded = model(PADDED, TARGET)
    torch.testing.assert_close(padded[1:, :3], expected, **EXACT)
    options = SearchOptions(beam=3, max_length=6)
    batch_results = search(model, inputs(SOURCES), options)
    for source, hypotheses in zip(SOURCES, batch_results, strict=True):
        (single,) = search(model, inputs([source]), options)
        assert single[0].tokens == hypotheses[0].tokens
        assert single[0].score == pytest.approx(hypotheses[0].score, abs=1e-9)


@pytest.mark.numerical
@each_variant
def test_M24_wide_beam_matches_brute_force(name: str) -> None:
    model = make(VARIANTS[name], target=6 if VARIANTS[name].tie != "all" else 23)
    content, limit = (3, 4, 5), 3
    if model.vocabulary > 6:  # a shared table: mask the tokens outside the small vocabulary
        with torch.no_grad():
            model.output_bias[6:] = -1e9
    source = [7, 8, 9, 2]
    best = []
    for length in range(limit + 1):
        targets = list(itertools.product(content, repeat=length))
        has_end = length < limit
        target_in = torch.tensor([[1, *target] for target in targets])  # one more input than content tokens
        with torch.no_grad():
            log_probs = model(
                torch.tensor([source] * len(targets)), target_in
            )  # (targets, length + 1, vocabulary)
        for row, target in enumerate(targets):
            tokens = [*target, 2] if has_end else list(target)
            total = sum(float(log_probs[row, position, token]) for position, token in enumerate(tokens))
            best.append((total / len(tokens), target))
    best.sort(key=lambda entry: -entry[0])
    options = SearchOptions(
        beam=40, nbest=40, early_stopping=False, length_penalty=1.0, max_length=limit, max_ratio=math.inf
    )
    (hypotheses,) = search(model, inputs([source]), options)
    assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx([s for s, _ in best], abs=1e-4)
    assert hypotheses[0].tokens == best[0][1]


@pytest.mark.numerical
@each_variant
def test_M21_reordered_and_selected_rows_continue_unchanged(name: str) -> None:
    model = make(VARIANTS[name])
    sources = [[5, 6, 7, 2], [9, 2], [12, 13, 2]]
    state = model.start(model.encode(sources), 2)
    state = model.step(np.array([1, 1, 1, 1, 1, 1]), state, Choice(1)).state
    state = model.step(np.array([4, 5, 6, 7, 8, 9]), state, Choice(1)).state
    expected = model.step(np.array([10, 11, 12, 13, 14, 15]), state, Choice(5))
    selected = state.reorder(np.array([1, 0, 3, 2, 5, 4])).select(np.array([2, 0]))
    actual = model.step(np.array([15, 14, 11, 10]), selected, Choice(5))
    rows = [5, 4, 1, 0]
    np.testing.assert_array_equal(actual.tokens, expected.tokens[rows])
    np.testing.assert_allclose(actual.log_probs, expected.log_probs[rows], **tolerance(expected.log_probs))


@each_variant
def test_attention_weights_are_zero_on_padding(name: str) -> None:
    model = make(VARIANTS[name])
    state = model.start(model.encode(SOURCES), 1)
    attention = model.step(np.array([1, 1]), state, Choice(1, attention=True)).attention
    if name.split("-")[0] in ("cho", "sutskever"):
        assert attention is None
        return
    assert attention is not None and attention.shape == (2, 5)
    assert (attention[1, 3:] == 0).all()
    if "local-p" not in name:  # its Gaussian is applied after the softmax
        np.testing.assert_allclose(attention.sum(1), 1.0, **tolerance(1.0))


def test_E3_models_without_attention_encode_the_sentence_as_one_vector() -> None:
    for name in ("cho", "sutskever"):
        memory = make(VARIANTS[name]).encode([[5, 6, 7, 8, 2]])
        assert memory.values is None
        assert all(part.shape == (1, 8) for part in memory.initial_state)
    for name, width in (("bahdanau", 16), ("luong", 8), ("gnmt", 8)):
        memory = make(VARIANTS[name]).encode([[5, 6, 7, 8, 2]])
        assert memory.values.shape == (1, 5, width)


@pytest.mark.parametrize("name", ["bahdanau", "gnmt", "luong-concat-bidirectional"])
def test_E4_first_encoding_depends_on_the_last_source_word(name: str) -> None:
    model = make(VARIANTS[name])
    encodings, changed = (model.encode([[5, 6, last, 2]]).values for last in (7, 8))
    assert float((encodings[0, 0] - changed[0, 0]).abs().max()) > 1e-4


@each_variant
def test_E5_earlier_logits_do_not_depend_on_later_target_words(name: str) -> None:
    model = make(VARIANTS[name])
    with torch.no_grad():
        log_probs, changed = (model(PADDED[:1], torch.tensor([[1, 4, 5, last]])) for last in (6, 9))
    torch.testing.assert_close(log_probs[0, :3], changed[0, :3], **tolerance(changed[0, :3]))
    assert float((log_probs[0, 3] - changed[0, 3]).abs().max()) > 1e-4


def test_M14_window_of_full_width_equals_global_attention() -> None:
    settings = VARIANTS["luong"]
    wide = settings.model_copy(update={"attention": "local-m", "window": 30})
    torch.testing.assert_close(make(wide)(PADDED, TARGET), make(settings)(PADDED, TARGET))


def test_tied_embeddings_require_a_joint_vocabulary() -> None:
    settings = BahdanauSettings(**SMALL_SIZES, read_out=8, tie="all")
    with pytest.raises(SettingsError, match=r"vocabularies differ \(20 and 21 tokens\)"):
        build_model(settings, SYMBOLS, 20, 21)


LEARNERS: dict[str, RecurrentSettings] = {
    name.removesuffix("-small"): type(preset := PRESETS[name]()).model_validate(
        preset.model_dump()
        | {"embedding": 48, "hidden": 48, "dropout": 0.0}
        | ({"read_out": 48} if "read_out" in type(preset).model_fields else {})
    )
    for name in PRESETS
    if name.endswith("-small")
}


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", list(LEARNERS))
def test_recurrent_models_learn_to_reverse_words(name: str) -> None:
    torch.manual_seed(0)
    rng = random.Random(0)
    words = [list(word) for size in (1, 2, 3) for word in itertools.product(range(4, 9), repeat=size)]
    model = build_model(LEARNERS[name], SYMBOLS, 9, 9).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    steps = 280 if name in ("gnmt", "luong-stacked") else 140  # several layers
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = 0.01 * (1 - step / steps)
        size = 1 + step % 3
        batch = rng.choices([word for word in words if len(word) == size], k=64)
        source = torch.tensor([[*word, 2] for word in batch])
        target = torch.tensor([[1, *reversed(word), 2] for word in batch])
        features = model.features(source, target[:, :-1])
        loss = cross_entropy(features.flatten(0, 1), model.output, target[:, 1:].reshape(-1)).smoothed
        optimiser.zero_grad()
        (loss / target[:, 1:].numel()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    test_words = words[::3]
    results = search(
        model.eval(), inputs([[*word, 2] for word in test_words]), SearchOptions(beam=1, max_length=8)
    )
    correct = sum(
        list(hypotheses[0].tokens) == word[::-1] for hypotheses, word in zip(results, test_words, strict=True)
    )
    assert correct / len(test_words) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", list(LEARNERS))
def test_seed_determines_initial_weights(name: str) -> None:
    """The order of initialisation does not depend on memory addresses (once it followed a set of tensors)."""
    untied = LEARNERS[name].model_copy(update={"tie": "none"})
    models = []  # keep all, so that their addresses differ
    for _ in range(12):
        torch.manual_seed(3)
        models.append(build_model(untied, SYMBOLS, 9, 11).state_dict())
    for weights in models[1:]:
        assert all(torch.equal(tensor, weights[key]) for key, tensor in models[0].items())
