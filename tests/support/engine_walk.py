"""Run all code paths of the engine with random weights, without torch, to test sanitised builds.

python tests/support/engine_walk.py SEED COUNT
"""

import sys
import threading

import numpy as np
from overflowing_models import check_overflow
from search_inputs import inputs

from uwaga.decoder import BeamRules, Choice, NewSentence, Sampling, Symbols
from uwaga.engine import NativeModel, Shortlist
from uwaga.engine.cpu import available_isas
from uwaga.engine.layout import stored_shapes
from uwaga.engine.packing import pack
from uwaga.errors import CancelledRequestError, DataError
from uwaga.scheduling.batching_decoder import BatchingDecoder
from uwaga.scheduling.call_context import CallContext
from uwaga.scheduling.model_batch import ModelBatch
from uwaga.search import SearchOptions, search
from uwaga.search.phrases import Phrase, Phrases
from uwaga.settings import BlockSettings, DecoderOnlySettings, TransformerSettings
from uwaga.settings.recurrent import (
    BahdanauSettings,
    ChoSettings,
    GnmtSettings,
    LuongSettings,
    SutskeverSettings,
)

SYMBOLS = Symbols(start=2, end=3, pad=0, unknown=1)


def settings(rng):
    heads = int(rng.integers(1, 4))
    return TransformerSettings(
        encoder_layers=int(rng.integers(1, 3)),
        decoder_layers=int(rng.integers(1, 3)),
        width=2 * heads * int(rng.integers(1, 30)),
        heads=heads,
        feed_forward=int(rng.integers(1, 200)),
        activation=str(rng.choice(["relu", "gelu", "gelu_tanh", "silu"])),
        gated=bool(rng.integers(2)),
        norm=str(rng.choice(["pre", "post"])),
        positions=str(rng.choice(["sinusoidal", "learned", "relative"])),
        max_length=40,
        relative_buckets=8,
        relative_distance=9,
        embedding_norm=bool(rng.integers(2)),
        norm_kind=str(rng.choice(["layer", "rms"])),
        attention_bias=bool(rng.integers(2)),
        feed_forward_bias=bool(rng.integers(2)),
        head_width=int(rng.integers(1, 70)) if rng.integers(2) else None,
        output_bias=bool(rng.integers(2)),
        tie=str(rng.choice(["none", "decoder", "all"])),
    )


def recurrent(rng):
    """Return random settings of a recurrent model of any family."""
    hidden, joint = 2 * int(rng.integers(1, 40)), bool(rng.integers(2))
    common = {"hidden": hidden, "max_length": 40, "tie": "all" if joint else "none"}
    pooled = common | {"read_out": int(rng.integers(1, 60)), "gru": str(rng.choice(["paper", "fused"]))}
    words = int(rng.integers(1, 60))
    common["embedding"], pooled["embedding"] = (hidden, pooled["read_out"]) if joint else (words, words)
    scores = ["general", "additive", "additive_joint", "concat", "location"]
    local = str(rng.choice(["global", "local-m", "local-p"]))
    backward = bool(rng.integers(2))
    layers = int(rng.integers(1, 4))
    return rng.choice(
        [
            ChoSettings(**pooled, reverse=backward),
            SutskeverSettings(**common, layers=layers, reverse=backward),
            BahdanauSettings(
                **pooled, score=str(rng.choice(scores)), decoder=str(rng.choice(["paper", "conditional"]))
            ),
            LuongSettings(
                **common,
                layers=layers,
                score=str(rng.choice([*scores, "dot"])),
                attention=local,
                window=None if local == "global" else int(rng.integers(1, 6)),
                input_feeding=bool(rng.integers(2)),
                bidirectional=backward,
                reverse=not backward,
            ),
            GnmtSettings(**common, encoder_layers=layers + 1, decoder_layers=layers + 1),
        ]
    )


def decoder_only(shape):
    """Return the settings of a decoder-only model with the common fields of ``shape``."""
    common = {name: getattr(shape, name) for name in BlockSettings.model_fields if name != "family"}
    tied = shape.tie != "none"
    return DecoderOnlySettings(
        **common, layers=shape.decoder_layers, output_bias=shape.output_bias, tie_output=tied
    )


def walk(rng, isa):
    unrolled = rng.integers(4) == 0
    shape = recurrent(rng) if unrolled else settings(rng)
    joint = shape.tie == "all"
    prompted = not unrolled and rng.integers(3) == 0
    if prompted:
        shape, joint = decoder_only(shape), True
    target = int(rng.choice([rng.integers(5, 150), rng.integers(8200, 9000)]))
    source = target if joint else int(rng.integers(5, 150))
    shapes = stored_shapes(shape, source, target)

    def read(name):
        return rng.normal(0, 0.3, shapes[name]).astype(np.float32)

    precision = str(rng.choice(["float32", "bfloat16", "int8"]))
    packed = pack(shape, (source, target), read, precision, levels=int(rng.choice([63, 127])))
    # With width 1 threads also share the columns of few rows; with 384, small models share rows only.
    width = int(rng.choice([1, 384]))
    model = NativeModel(shape, SYMBOLS, (source, target), packed, int(rng.integers(1, 5)), isa, width)
    if not prompted and rng.integers(2):
        model = model.with_shortlist(shortlist(rng, source, target))
    lengths = rng.integers(1, 22 if prompted else 41, int(rng.integers(1, 12)))
    sources = [rng.integers(0, source, length).tolist() for length in lengths]
    beams = int(rng.integers(1, 5))
    memory = model.encode(sources)
    assert memory.lengths.tolist() == lengths.tolist()
    state = model.start(memory, beams)
    sentences = len(sources)
    for position in range(int(rng.integers(1, 20))):
        rows = sentences * beams
        tokens = rng.integers(0, target, rows)
        step = model.step(tokens, state, choice(rng, rows, target))
        assert step.log_probs.shape[0] == rows
        assert not np.isnan(step.log_probs).any()
        assert ((step.tokens >= 0) & (step.tokens < target)).all()
        state = step.state
        if rng.integers(2):
            block = np.arange(sentences)[:, None] * beams
            state = state.reorder((block + rng.integers(0, beams, (sentences, beams))).ravel())
        if rng.integers(3) == 0 and sentences > 1:
            selected = rng.permutation(sentences)[: int(rng.integers(1, sentences))]
            state, sentences = state.select(selected), len(selected)
        if rng.integers(4) == 0 and position < 10:
            state = model.join(state, model.start(model.encode(sources[:1]), beams))
            sentences += 1
    for tokens in ([target], [-1]):
        try:
            model.step(np.array(tokens), model.start(model.encode(sources[:1]), 1), Choice(1))
        except DataError:
            continue
        raise AssertionError(tokens)
    shared = model.start(memory, 1)
    threads = [
        threading.Thread(target=model.step, args=(np.full(len(sources), 4), shared, Choice(3)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check_attentions(rng, model, sources, target)
    check_search(rng, model, sources, target)


def check_attentions(rng, model, sources, target):
    """Check that attention rows sum to 1, and that recording all attentions gives the same matrices."""
    targets = [rng.integers(0, target, int(rng.integers(1, 19))).tolist() for _ in sources]
    attentions = model.attentions(sources, targets)
    recorder = model.recording(True)
    recorder.encode(sources)
    assert recorder.attentions(sources, targets) == attentions
    for sentence in attentions:
        for weights in (sentence.encoder, sentence.decoder, sentence.cross):
            sums = None if weights is None else weights.sum(-1)
            local = getattr(model.settings, "attention", "") == "local-p"  # its weights sum to less
            assert weights is None or ((sums < 1.00001).all() and (local or (sums > 0.99999).all()))


def check_search(rng, model, sources, target):
    """Check the native beam search with sentences that enter late and with concurrent threads."""
    beam = int(rng.integers(1, 5))
    options = SearchOptions(
        beam=beam,
        nbest=int(rng.integers(1, beam + 1)),
        max_length=int(rng.integers(1, 19)),
        early_stopping=[True, False, "estimate"][rng.integers(3)],
        force_end=bool(rng.integers(2)),
        first=int(rng.integers(4, target)) if target > 4 and rng.integers(2) else None,
        renormalise=bool(rng.integers(2)),
        batch_tokens=int(rng.choice([1, 60, 4096])),
    )
    results = search(model, inputs(sources * 2), options)
    assert results[: len(sources)] == results[len(sources) :]
    check_shared_batch(model, sources, options, results[: len(sources)])
    forms = [tuple(rng.integers(4, max(target, 5), rng.integers(1, 4)).tolist()) for _ in range(4)]
    phrase_sets = [
        Phrases([Phrase((forms[0], forms[1])), Phrase((forms[2],), 2)], None, bonus) for bonus in (None, 1.5)
    ]
    phrases = [(None, *phrase_sets)[index % 3] for index in range(len(sources))]
    if target > 4:
        results = search(model, inputs(sources * 2, phrases=phrases * 2), options)
        assert results[: len(sources)] == results[len(sources) :]
    rules = BeamRules(
        beams=beam, pool_size=beam, nbest=1, start=SYMBOLS.start, banned=np.array([0]), min_length=0,
        early_stopping=True, force_end=False, score_forced=True, renormalise=False,
        divisors=np.arange(1.0, 13.0),
    )  # fmt: skip
    beam_search = model.beam_search(rules)
    beam_search.enter(model.encode(sources), [NewSentence(source, 10) for source in sources])
    threads = [threading.Thread(target=beam_search.run, args=(10**6,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        beam_search.finished()
        thread.join()
    beam_search.run(0)
    assert all(beam_search.finished())


def check_shared_batch(model, sources, options, expected):
    """Check searches of several threads that share a running batch; one thread cancels its search."""
    batch, results = ModelBatch(model), [None] * 4
    cancelled = CallContext()

    def work(index):
        results[index] = search(BatchingDecoder(batch, CallContext(str(index))), inputs(sources), options)

    def leave():
        try:
            search(BatchingDecoder(batch, cancelled), inputs(sources * 3), options)
        except CancelledRequestError:
            return

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(results))]
    threads.append(threading.Thread(target=leave))
    for thread in threads:
        thread.start()
    cancelled.cancel()
    for thread in threads:
        thread.join()
    batch.close()
    assert results == [expected] * len(results)


def shortlist(rng, source, target):
    """Return a random shortlist; its lists are empty up to nearly as long as the vocabulary."""
    max_length = int(rng.choice([2, 40, target]))
    lists = [np.unique(rng.integers(0, target, rng.integers(0, max_length))) for _ in range(source)]
    first = np.cumsum([0, *map(len, lists)])
    common = np.unique(rng.integers(0, target, rng.integers(1, max_length + 1)))
    parts = (part.astype(np.int32) for part in (common, first, np.concatenate(lists)))
    return Shortlist(*parts, target)


def choice(rng, rows, vocabulary):
    sampling = None
    if rng.integers(3) == 0:
        sampling = Sampling(rng.random(rows), 1.5, int(rng.integers(0, 9)), float(rng.choice([1.0, 0.7])))
    pairs = rng.integers(0, [rows, vocabulary], (int(rng.integers(0, min(4 * vocabulary, 600))), 2))
    return Choice(
        count=1 if sampling else int(rng.integers(1, 12)),
        banned=pairs if rng.integers(2) else None,
        forced=rng.integers(-1, vocabulary, rows) if rng.integers(4) == 0 else None,
        sampling=sampling,
        attention=bool(rng.integers(2)),
        renormalise=bool(rng.integers(2)),
        all_tokens=bool(rng.integers(6) == 0),
    )


def main(seed, count):
    rng = np.random.default_rng(seed)
    for number in range(count):
        isa = available_isas()[number % len(available_isas())]
        walk(rng, isa)
        check_overflow(rng, isa)
    print(f"{count} walks")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
