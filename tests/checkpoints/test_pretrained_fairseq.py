"""BART, mBART, Pegasus, M2M100 and NLLB folders: the same numbers and tokens as ``transformers``."""

import pytest

transformers = pytest.importorskip("transformers")

import torch
from fairseq_models import LANGUAGES, PUBLISHED, SIZE, make, read_as_numbers
from loaded import load_torch
from precision import EXACT, doubled

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
def test_states_and_logits_equal_transformers(tmp_path, name):
    theirs, ours = make(tmp_path / "m", name), load_torch(tmp_path / "m").model
    ids, mask = padded(framed(ours.symbols.end), ours.symbols.pad)
    target = torch.randint(4, SIZE, (len(ids), 9), generator=torch.manual_seed(1))
    target[:, 0] = ours.symbols.start
    with torch.no_grad(), doubled(theirs, ours):
        wanted = theirs(input_ids=ids, attention_mask=mask, decoder_input_ids=target)
        encodings, ours_mask = ours.encode_ids(ids)
        logits = ours.logits(ours.features(ids, target))
    real = ours_mask[:, 0, 0]
    assert torch.equal(real, mask.bool())
    assert wanted.logits.std() > 0.5
    torch.testing.assert_close(encodings[real], wanted.encoder_last_hidden_state[real], **EXACT)
    torch.testing.assert_close(logits, wanted.logits, **EXACT)


@pytest.mark.numerical
@pytest.mark.parametrize("name", PUBLISHED)
def test_generated_tokens_equal_transformers(tmp_path, name):
    theirs, ours = make(tmp_path / "m", name), load_torch(tmp_path / "m")
    symbols, own = ours.model.symbols, PUBLISHED[name].generation.get("num_beams", 1)
    assert ours.options.beam == own
    sources = framed(symbols.end)
    ids, mask = padded(sources, symbols.pad)
    # Search never makes the symbols that start and pad; published models do not either.
    never = sorted({symbols.start, symbols.pad} - {symbols.end})
    found_lengths, outputs = set(), set()
    double = doubled(theirs, ours.model)
    for changes in (
        *({"num_beams": beam} for beam in sorted({1, 4, own})),
        {"num_beams": 4, "early_stopping": False, "length_penalty": 0.7},
        {"num_beams": 6, "early_stopping": True, "min_length": 9, "no_repeat_ngram_size": 2},
        {"num_beams": 1, "forced_bos_token_id": LANGUAGES[0], "no_repeat_ngram_size": 2},
    ):
        generation = PUBLISHED[name].generation | changes
        with double:
            rows = theirs.generate(ids, attention_mask=mask, suppress_tokens=never, **changes)
        options = from_generation_config(generation)
        for (one,), row in zip(search(ours.model, sources, options), rows[:, 1:].tolist(), strict=True):
            made = [*one.tokens] if one.truncated and not options.force_end else [*one.tokens, symbols.end]
            assert row[: len(made)] == made
            assert {*row[len(made) :]} <= {symbols.pad, symbols.end}  # the peer's beams fill up with either
            found_lengths.add(len(made))
            outputs.add(one.tokens)
    assert len(found_lengths) > 3
    assert len(outputs) > 8
