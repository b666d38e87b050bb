"""Searches generate the same tokens as ``transformers`` with random Marian models (M23, M24)."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from search_inputs import inputs

from uwaga.decoder import Choice, Step, Symbols
from uwaga.search import SearchOptions, from_generation_config, search

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from precision import DoublePrecision

from uwaga.models.layers.choose import choose

END, PAD, VOCABULARY = 0, 39, 40
SOURCES = [
    [5, 9, 13, 0], [7, 0], [30, 31, 32, 33, 34, 35, 36, 0], [8, 4, 21, 2, 0], [6, 6, 0], [11, 12, 3, 0],
]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class TransformersMemory:
    """Encoded sources: ``hidden`` (sentences, source, width) and ``mask`` (sentences, source)."""

    hidden: torch.Tensor
    mask: torch.Tensor

    @property
    def sentences(self) -> int:
        return len(self.mask)

    @property
    def lengths(self) -> np.ndarray:
        return self.mask.sum(dim=1).numpy()


@dataclasses.dataclass(frozen=True)
class TransformersState:
    """``memory`` has one row per sentence; ``tokens`` (rows, target) are the tokens generated so far."""

    memory: TransformersMemory
    beams: int
    tokens: np.ndarray

    def reorder(self, rows: np.ndarray) -> "TransformersState":
        assert (rows // self.beams == np.arange(len(rows)) // self.beams).all()
        return dataclasses.replace(self, tokens=self.tokens[rows])

    def select(self, sentences: np.ndarray) -> "TransformersState":
        rows = (sentences[:, None] * self.beams + np.arange(self.beams)).ravel()
        memory = TransformersMemory(self.memory.hidden[sentences], self.memory.mask[sentences])
        return TransformersState(memory, self.beams, self.tokens[rows])


@dataclasses.dataclass
class TransformersDecoder:
    """A Marian model of ``transformers`` with uwaga's decoder interface; each step processes all tokens."""

    model: transformers.MarianMTModel
    symbols: Symbols = Symbols(start=PAD, end=END, pad=PAD, unknown=1)
    vocabulary: int = VOCABULARY
    max_source: int | None = 64
    max_target: int | None = 64
    join: None = None
    beam_search: None = None

    def encode(self, sources: Sequence[Sequence[int]]) -> TransformersMemory:
        ids, mask = padded(sources)
        with torch.no_grad():
            hidden = self.model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
        return TransformersMemory(hidden, mask)

    def start(self, memory: TransformersMemory, beams: int) -> TransformersState:
        return TransformersState(memory, beams, np.zeros((memory.sentences * beams, 0), dtype=np.int64))

    def step(self, tokens: np.ndarray, state: TransformersState, choice: Choice) -> Step:
        state = dataclasses.replace(state, tokens=np.concatenate([state.tokens, tokens[:, None]], axis=1))
        hidden = state.memory.hidden.repeat_interleave(state.beams, dim=0)
        with torch.no_grad():
            logits = self.model(
                decoder_input_ids=torch.from_numpy(state.tokens),
                encoder_outputs=transformers.modeling_outputs.BaseModelOutput(hidden),
                attention_mask=state.memory.mask.repeat_interleave(state.beams, dim=0),
            ).logits[:, -1]
        candidates, log_probs = choose(logits.clone(), choice)
        return Step(candidates, log_probs, state)


def padded(sources: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids with padding, and their mask, both (sentences, source)."""
    longest = max(len(source) for source in sources)
    ids = torch.tensor([[*source, *[PAD] * (longest - len(source))] for source in sources])
    lengths = torch.tensor([len(source) for source in sources])
    return ids, (torch.arange(longest) < lengths[:, None]).long()


def marian(seed: int) -> transformers.MarianMTModel:
    """Return a random model with targets of many lengths.

    With purely random weights, a token is repeated forever. So the output layer is not tied, and one channel
    of the decoder's positions increases linearly and raises the logit of the end symbol.
    """
    torch.manual_seed(seed)
    config = transformers.MarianConfig(
        vocab_size=VOCABULARY, d_model=16, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=64,
        pad_token_id=PAD, eos_token_id=END, bos_token_id=END, decoder_start_token_id=PAD,
        forced_eos_token_id=None, init_std=0.3, scale_embedding=True,
    )  # fmt: skip
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        model.final_logits_bias.normal_(0.0, 0.3)
        model.lm_head.weight = torch.nn.Parameter(torch.randn(VOCABULARY, 16) * 0.5)
        model.lm_head.weight[END] = 0.0
        model.lm_head.weight[END, 0] = 12.0
        model.model.decoder.embed_positions.weight[:, 0] = (torch.arange(64) - 6.0) * 0.5
    return model.double()  # the order of summation never decides between tokens


MODELS = {seed: marian(seed) for seed in range(4)}


def compare(seed: int, generation: dict[str, object], prefix: tuple[int, ...] = ()) -> list:
    """Run both searches, check that their tokens are equal and return uwaga's hypotheses."""
    settings = {"max_length": 18, "bad_words_ids": [[PAD]], "forced_eos_token_id": None} | generation
    model = MODELS[seed]
    ids, mask = padded(SOURCES)
    decoder_ids = torch.tensor([[PAD, *prefix]] * len(SOURCES))
    with torch.no_grad(), DoublePrecision():
        expected = model.generate(
            input_ids=ids, attention_mask=mask, decoder_input_ids=decoder_ids, return_dict_in_generate=True,
            output_scores=True, do_sample=False, **settings,
        )  # fmt: skip
    options = from_generation_config(settings)
    results = search(TransformersDecoder(model), inputs(SOURCES, prefixes=[prefix] * len(SOURCES)), options)
    flat = [hypothesis for hypotheses in results for hypothesis in hypotheses]
    rows = expected.sequences[:, 1:].tolist()
    assert len(flat) == len(rows)
    for hypothesis, row in zip(flat, rows, strict=True):
        tokens = (
            [*hypothesis.tokens]
            if hypothesis.truncated and not options.force_end
            else [*hypothesis.tokens, END]
        )
        assert row == tokens + [PAD] * (len(row) - len(tokens))
    scores = getattr(expected, "sequences_scores", None)
    if scores is not None:
        assert [hypothesis.score for hypothesis in flat] == pytest.approx(scores.tolist(), abs=1e-9)
    return flat


SEEDS = pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.release) for seed in (1, 2, 3))]
)


def test_compared_models_generate_varied_targets():
    """Most targets end with the end symbol, at many lengths; some are truncated; beams differ from greedy."""
    greedy, beam = (
        [hypothesis for seed in MODELS for hypothesis in compare(seed, {"num_beams": width})]
        for width in (1, 4)
    )
    for hypotheses in (greedy, beam):
        assert 0 < sum(hypothesis.truncated for hypothesis in hypotheses) < len(hypotheses) / 2
        assert len({len(hypothesis.tokens) for hypothesis in hypotheses}) >= 8
    assert (
        sum(
            hypothesis.tokens != beam_hypothesis.tokens
            for hypothesis, beam_hypothesis in zip(greedy, beam, strict=True)
        )
        >= 5
    )


@pytest.mark.numerical
@SEEDS
def test_M23_greedy_search_matches_transformers(seed):
    compare(seed, {"num_beams": 1})


@pytest.mark.sampled(5)
@SEEDS
@pytest.mark.parametrize("beam", [4, 6])
@pytest.mark.parametrize("early_stopping", [True, False, "never"])
def test_M24_beam_search_matches_transformers(seed, beam, early_stopping):
    for alpha in (1.0, 0.0, 1.8, -0.8):
        compare(
            seed,
            {
                "num_beams": beam,
                "num_return_sequences": beam,
                "early_stopping": early_stopping,
                "length_penalty": alpha,
            },
        )


@SEEDS
@pytest.mark.parametrize("beam", [1, 4])
def test_M24_constrained_search_matches_transformers(seed, beam):
    for generation in (
        {"no_repeat_ngram_size": 1},
        {"no_repeat_ngram_size": 2},
        {"no_repeat_ngram_size": 3, "min_length": 8},
        {"min_length": 12},
        {"max_length": 5},
        {"forced_eos_token_id": END, "max_length": 6},
        {"forced_bos_token_id": 17},
        {"suppress_tokens": [3, 4, 5, 6, 7]},
        {"renormalize_logits": True, "min_length": 9, "no_repeat_ngram_size": 2},
        {"forced_bos_token_id": 17, "forced_eos_token_id": END, "max_length": 7, "early_stopping": True},
    ):
        compare(seed, {"num_beams": beam} | generation)


@SEEDS
@pytest.mark.parametrize("beam", [1, 4])
def test_M24_search_with_a_forced_prefix_matches_transformers(seed, beam):
    for prefix, generation in (
        ((9,), {}),
        ((9, 30, 14), {"no_repeat_ngram_size": 2, "min_length": 7}),
        ((5, 5, 5, 5), {"length_penalty": 2.0}),
    ):
        results = compare(seed, {"num_beams": beam} | generation, prefix)
        assert all(hypothesis.tokens[: len(prefix)] == prefix for hypothesis in results)


@pytest.mark.numerical
@pytest.mark.parametrize("beam", [1, 4])
def test_M24_forced_first_token_precedes_a_prefix(beam):
    """In ``transformers`` a prefix disables ``forced_bos_token_id``, so it must contain that token."""
    for prefix in ((9,), (9, 30, 14)):
        generation = {"num_beams": beam, "forced_bos_token_id": 17, "num_return_sequences": beam}
        expected = compare(1, generation, (17, *prefix))
        settings = {"max_length": 18, "bad_words_ids": [[PAD]]} | generation
        options = from_generation_config(settings)
        results = search(
            TransformersDecoder(MODELS[1]), inputs(SOURCES, prefixes=[prefix] * len(SOURCES)), options
        )
        assert [hypothesis for hypotheses in results for hypothesis in hypotheses] == expected
        assert all(hypothesis.tokens[: len(prefix) + 1] == (17, *prefix) for hypothesis in expected)


def test_M24_results_do_not_depend_on_the_batch():
    """Padding and other sentences do not change results."""
    decoder, options = TransformersDecoder(MODELS[0]), SearchOptions(beam=4, nbest=4)
    joint = search(decoder, inputs(SOURCES), options)
    for source, hypotheses in zip(SOURCES, joint, strict=True):
        (separate,) = search(decoder, inputs([source]), options)
        assert [hypothesis.tokens for hypothesis in separate] == [
            hypothesis.tokens for hypothesis in hypotheses
        ]
        assert [hypothesis.score for hypothesis in separate] == pytest.approx(
            [hypothesis.score for hypothesis in hypotheses], abs=1e-9
        )
