"""BART, mBART, Pegasus, M2M100 and NLLB folders: logits and tokens equal those of ``transformers``."""

import pytest

transformers = pytest.importorskip("transformers")

import torch
from fairseq_models import LANGUAGES, PUBLISHED, SIZE, make, read_as_numbers
from precision import EXACT, to_double
from search_inputs import inputs
from torch_models import load_torch

from uwaga.search import from_generation_config, search

SOURCES = [[9, 30, 7, 41, 22, 5, 13, 8, 50, 33, 4], [17, 6], [44, 12, 25, 9, 31], [8, 8, 8, 19, 27, 36, 40]]


@pytest.fixture(autouse=True)
def numbers(monkeypatch):
    read_as_numbers(monkeypatch)


def padded(sources, pad):
    longest = max(map(len, sources))
    ids = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in sources])
    lengths = torch.tensor([len(row) for row in sources])
    return ids, (torch.arange(longest) < lengths[:, None]).long()


def framed(end):
    return [[LANGUAGES[0], *source, end] for source in SOURCES]


@pytest.mark.numerical
@pytest.mark.parametrize("name", PUBLISHED)
def test_states_and_logits_match_transformers(tmp_path, name):
    peer, model = make(tmp_path / "m", name), load_torch(tmp_path / "m").model
    ids, mask = padded(framed(model.symbols.end), model.symbols.pad)
    target = torch.randint(4, SIZE, (len(ids), 9), generator=torch.manual_seed(1))
    target[:, 0] = model.symbols.start
    with torch.no_grad(), to_double(peer, model):
        expected = peer(input_ids=ids, attention_mask=mask, decoder_input_ids=target)
        encodings, ours_mask = model.encode_ids(ids)
        logits = model.logits(model.features(ids, target))
    real_tokens = ours_mask[:, 0, 0]
    assert torch.equal(real_tokens, mask.bool())
    assert expected.logits.std() > 0.5
    torch.testing.assert_close(
        encodings[real_tokens], expected.encoder_last_hidden_state[real_tokens], **EXACT
    )
    torch.testing.assert_close(logits, expected.logits, **EXACT)


@pytest.mark.sampled(3)
@pytest.mark.numerical
@pytest.mark.parametrize("name", PUBLISHED)
def test_generated_tokens_match_transformers(tmp_path, name):
    peer, loaded = make(tmp_path / "m", name), load_torch(tmp_path / "m")
    symbols, default_beam = loaded.model.symbols, PUBLISHED[name].generation.get("num_beams", 1)
    assert loaded.options.beam == default_beam
    sources = framed(symbols.end)
    ids, mask = padded(sources, symbols.pad)
    # Neither search nor published models produce the start and padding symbols.
    suppressed = sorted({symbols.start, symbols.pad} - {symbols.end})
    lengths, outputs = set(), set()
    double = to_double(peer, loaded.model)
    for changes in (
        *({"num_beams": beam} for beam in sorted({1, 4, default_beam})),
        {"num_beams": 4, "early_stopping": False, "length_penalty": 0.7},
        {"num_beams": 6, "early_stopping": True, "min_length": 9, "no_repeat_ngram_size": 2},
        {"num_beams": 1, "forced_bos_token_id": LANGUAGES[0], "no_repeat_ngram_size": 2},
    ):
        generation = PUBLISHED[name].generation | changes
        with double:
            rows = peer.generate(ids, attention_mask=mask, suppress_tokens=suppressed, **changes)
        options = from_generation_config(generation)
        for (hypothesis,), row in zip(
            search(loaded.model, inputs(sources), options), rows[:, 1:].tolist(), strict=True
        ):
            tokens = (
                [*hypothesis.tokens]
                if hypothesis.truncated and not options.force_end
                else [*hypothesis.tokens, symbols.end]
            )
            assert row[: len(tokens)] == tokens
            assert {*row[len(tokens) :]} <= {symbols.pad, symbols.end}  # the peer's beams fill up with either
            lengths.add(len(tokens))
            outputs.add(hypothesis.tokens)
    assert len(lengths) > 3
    assert len(outputs) > 8
