"""Random decoder-only models, in torch and on the engine."""

import numpy as np
from hypothesis import strategies as st
from native_models import LONGEST, SYMBOLS, randomised, shapes

from uwaga.engine import NativeModel
from uwaga.engine.packing import pack
from uwaga.models.decoder_only import DecoderOnly
from uwaga.settings import BlockSettings, DecoderOnlySettings


@st.composite
def decoder_only(draw):
    """Settings of a tiny decoder-only model, from those of any Transformer."""
    shape = draw(shapes())
    common = {name: getattr(shape, name) for name in BlockSettings.model_fields if name != "family"}
    common["width"] = 4 * shape.width  # norms of two numbers make much of little
    tied = shape.tie in ("all", "decoder")
    return DecoderOnlySettings(
        **common, layers=shape.decoder_layers, tie_output=tied, output_bias=shape.output_bias
    )


def random_decoder(settings: DecoderOnlySettings, seed=0, vocabulary=23, spread=1.0):
    return randomised(lambda: DecoderOnly(settings, SYMBOLS, vocabulary), seed, spread)


def native_decoder(model, precision="float32", threads=1, isa=None, keep=(), shared_width=384):
    """The engine over the weights of a torch model."""
    state = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    packed = pack(model.settings, model.vocabulary, model.vocabulary, state.__getitem__, precision, keep)
    return NativeModel(
        model.settings, model.symbols, model.vocabulary, model.vocabulary, packed, threads, isa, shared_width
    )


def prompts(count, seed=0, longest=LONGEST // 2, vocabulary=23):
    """Random prompts of one token at least."""
    rng = np.random.default_rng(seed)
    return [tuple(rng.integers(0, vocabulary, rng.integers(1, longest + 1)).tolist()) for _ in range(count)]
