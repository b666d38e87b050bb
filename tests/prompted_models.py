"""Random decoders without a source, in torch and on the engine."""

import numpy as np
import torch
from hypothesis import strategies as st
from native_models import LONGEST, SYMBOLS, shapes

from uwaga.config import TransformerSettings
from uwaga.engine import NativeModel
from uwaga.engine.packing import pack
from uwaga.models.decoder_only import DecoderOnly


@st.composite
def alone(draw):
    """Settings of a tiny decoder without a source: those of any Transformer that such a one has."""
    lacking = {"positions": "learned", "decoder_heads": None, "decoder_feed_forward": None}
    shape = draw(shapes())
    wide = {"width": 4 * shape.width}  # norms of two numbers make much of little
    return shape.model_copy(update={**lacking, **wide, "output_scale": False})


def random_decoder(settings: TransformerSettings, seed=0, vocabulary=23, spread=1.0):
    """A torch model whose every weight is random, norms and biases too."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = DecoderOnly(settings, SYMBOLS, vocabulary)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() == 2:
                    parameter.normal_(std=spread * parameter.shape[1] ** -0.5)
                else:
                    parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model.eval()


def native_decoder(model, precision="float32", threads=1, isa=None, keep=(), shared_width=384):
    """The engine over the weights of a torch model."""
    state = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    packed = pack(model.settings, 0, model.vocabulary, state.__getitem__, precision, keep)
    return NativeModel(model.settings, model.symbols, 0, model.vocabulary, packed, threads, isa, shared_width)


def prompts(count, seed=0, longest=LONGEST // 2, vocabulary=23):
    """Random prompts of one token at least."""
    rng = np.random.default_rng(seed)
    return [tuple(rng.integers(0, vocabulary, rng.integers(1, longest + 1)).tolist()) for _ in range(count)]
