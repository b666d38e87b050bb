"""The log-softmax of the logits that a decoder returns equals its log-probabilities."""

import numpy as np
import pytest

import uwaga
from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.decoder import Choice

pytestmark = pytest.mark.skipif(not BUNDLED.exists(), reason="this source tree holds no bundled model")


@pytest.mark.parametrize("options", [{}, {"engine": "torch"}, {"dtype": "float32"}], ids=str)
def test_log_softmax_of_logits_gives_log_probs(options):
    translator = uwaga.load(**options)
    decoder, source = translator.decoder, translator.source
    sources = [source.add_special_tokens(source.encode(text)) for text in ("Hello.", "I want to buy a car.")]
    state = decoder.start(decoder.encode(sources), beams=2)
    tokens = np.full(4, decoder.symbols.start)
    logits, log_probs = (
        decoder.step(tokens, state, Choice(1, all_tokens=True, logits=logits)).log_probs.astype(np.float64)
        for logits in (True, False)
    )
    assert logits.max() > 1  # not normalised
    total = np.logaddexp.reduce(logits, axis=1, keepdims=True)
    assert np.allclose(logits - total, log_probs, atol=1e-4)
