"""Random models of all kinds, in torch and on the engine."""

import numpy as np
import torch
from hypothesis import strategies as st

from uwaga.decoder import Choice, Symbols
from uwaga.engine import NativeModel, Shortlist
from uwaga.engine.packing import pack
from uwaga.models.build import build_model
from uwaga.settings import TransformerSettings
from uwaga.settings.recurrent import (
    BahdanauSettings,
    ChoSettings,
    GnmtSettings,
    LuongSettings,
    SutskeverSettings,
)

SYMBOLS = Symbols(start=2, end=3, pad=0, unknown=1)
MAX_LENGTH = 24
ALL_TOKENS = Choice(count=1, all_tokens=True, attention=True)


@st.composite
def transformer_settings(draw):
    """Draw the settings of a tiny Transformer: any combination of published variants."""
    heads = draw(st.integers(1, 3))
    head_width = draw(st.none() | st.integers(1, 9))
    decoder_heads = draw(st.none() | st.integers(1, 3))
    multiple = 2 * heads * (decoder_heads or 1)
    positions = draw(st.sampled_from(["sinusoidal", "learned", "relative"]))
    self_attention = (
        st.just("attention") if positions == "relative" else st.sampled_from(["attention", "ssru"])
    )
    return TransformerSettings(
        encoder_layers=draw(st.integers(1, 2)), decoder_layers=draw(st.integers(1, 2)),
        width=multiple * draw(st.integers(1, 4)), heads=heads, feed_forward=draw(st.integers(1, 70)),
        activation=draw(st.sampled_from(["relu", "gelu", "gelu_tanh", "silu"])), gated=draw(st.booleans()),
        norm=draw(st.sampled_from(["pre", "post"])), positions=positions, self_attention=draw(self_attention),
        max_length=MAX_LENGTH, sinusoids=draw(st.sampled_from(["interleaved", "halves", "tensor2tensor"])),
        position_offset=draw(st.integers(0, 2)), relative_buckets=draw(st.sampled_from([4, 8, 9])),
        relative_distance=draw(st.sampled_from([6, 16])), embedding_scale=draw(st.booleans()),
        embedding_norm=draw(st.booleans()), norm_kind=draw(st.sampled_from(["layer", "rms"])),
        norm_epsilon=draw(st.sampled_from([1e-6, 1e-5])), attention_bias=draw(st.booleans()),
        feed_forward_bias=draw(st.booleans()), attention_scale=draw(st.booleans()), head_width=head_width,
        decoder_heads=decoder_heads, decoder_feed_forward=draw(st.none() | st.integers(1, 40)),
        output_bias=draw(st.booleans()), output_scale=draw(st.booleans()),
        tie=draw(st.sampled_from(["none", "decoder", "all"])),
    )  # fmt: skip


@st.composite
def recurrent_settings(draw):
    """Draw the settings of a tiny recurrent model of any family and variant."""
    family = draw(
        st.sampled_from([ChoSettings, SutskeverSettings, BahdanauSettings, LuongSettings, GnmtSettings])
    )
    tie = draw(st.sampled_from(["none", "decoder", "all"]))
    hidden = 2 * draw(st.integers(1, 12))
    features = draw(st.integers(1, 20)) if family in (ChoSettings, BahdanauSettings) else hidden
    values = {
        "hidden": hidden,
        "embedding": draw(st.integers(1, 20)) if tie == "none" else features,
        "tie": tie,
        "max_length": MAX_LENGTH,
        "dropout": 0.0,
    }
    scores = ["general", "additive", "additive_joint", "concat", "location"]
    if family in (ChoSettings, BahdanauSettings):
        values |= {"read_out": features, "gru": draw(st.sampled_from(["paper", "fused"]))}
    if family is BahdanauSettings:
        values |= {"decoder": draw(st.sampled_from(["paper", "conditional"]))}
        values |= {"score": draw(st.sampled_from(scores))}
    elif family is GnmtSettings:
        values |= {"encoder_layers": draw(st.integers(2, 4)), "decoder_layers": draw(st.integers(2, 4))}
        values |= {"score": draw(st.sampled_from([*scores, "dot", "scaled_dot"]))}
    else:
        values |= {"reverse": draw(st.booleans())}
    if family in (SutskeverSettings, LuongSettings):
        values |= {"layers": draw(st.integers(1, 3))}
    if family is LuongSettings:
        attention = draw(st.sampled_from(["global", "local-m", "local-p"]))
        values |= {
            "score": draw(st.sampled_from([*scores, "dot", "scaled_dot"])),
            "attention": attention,
            "window": None if attention == "global" else draw(st.integers(1, 5)),
            "input_feeding": draw(st.booleans()),
            "bidirectional": not values["reverse"] and draw(st.booleans()),
        }
    return family(**values)


def randomise(make, seed, spread):
    """Create a torch model with ``make``, and randomise all weights, including norms and biases."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = make()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() == 2:
                    parameter.normal_(std=spread * parameter.shape[1] ** -0.5)
                else:
                    parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model.eval()


def random_model(settings, seed=0, source=23, target=23, spread=1.0):
    return randomise(lambda: build_model(settings, SYMBOLS, source, target), seed, spread)


def native_model(model, precision="float32", threads=1, isa=None, keep=(), shared_width=384):
    """Return a native model with the weights of a torch model."""
    state = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    source = getattr(model, "source_embedding", None)
    sizes = (model.vocabulary if source is None else source.num_embeddings, model.vocabulary)
    packed = pack(model.settings, sizes, state.__getitem__, precision, keep)
    return NativeModel(model.settings, model.symbols, sizes, packed, threads, isa, shared_width)


def random_shortlist(source, target, seed=0, common=7, longest=5):
    """Return a shortlist of random common tokens and of a random list for each source token."""
    rng = np.random.default_rng(seed)
    lists = [np.unique(rng.integers(0, target, rng.integers(0, longest + 1))) for _ in range(source)]
    first = np.cumsum([0, *map(len, lists)])
    parts = np.unique(rng.integers(0, target, common)), first, np.concatenate(lists)
    return Shortlist(*(part.astype(np.int32) for part in parts), target)


def sentences(count, seed=0, max_length=12, vocabulary=23):
    """Return random source sentences that end with the end symbol."""
    rng = np.random.default_rng(seed)
    return [
        (*rng.integers(4, vocabulary, rng.integers(0, max_length)).tolist(), SYMBOLS.end)
        for _ in range(count)
    ]


def step_both(model, peer, sources, steps, beams=2, seed=0, start=SYMBOLS.start):
    """Run two models on the same random tokens, with reordered rows and dropped sentences; yield steps.

    ``start`` is the first token, None for random ones.
    """
    rng = np.random.default_rng(seed)
    states = [decoder.start(decoder.encode(sources), beams) for decoder in (model, peer)]
    sentence_count = len(sources)
    tokens = (
        rng.integers(0, model.vocabulary, sentence_count * beams)
        if start is None
        else np.full(sentence_count * beams, start)
    )
    for _ in range(steps):
        outputs = [
            decoder.step(tokens, state, ALL_TOKENS)
            for decoder, state in zip((model, peer), states, strict=True)
        ]
        yield outputs
        states = [step.state for step in outputs]
        rows = np.concatenate(
            [rng.integers(0, beams, beams) + number * beams for number in range(sentence_count)]
        )
        states = [state.reorder(rows) for state in states]
        if sentence_count > 1 and rng.random() < 0.3:
            selected = rng.permutation(sentence_count)[: sentence_count - 1]
            states, sentence_count = [state.select(selected) for state in states], sentence_count - 1
        tokens = rng.integers(0, model.vocabulary, sentence_count * beams)


def mean_difference(model, peer, sources, steps=6, start=SYMBOLS.start):
    """Return the mean difference of the log-probabilities of two models in :func:`step_both`."""
    pairs = step_both(model, peer, sources, steps, start=start)
    return np.mean([np.abs(step.log_probs - other.log_probs).mean() for step, other in pairs])
