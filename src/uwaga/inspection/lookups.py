"""The decoder states of memory pairs that a translation looked up (M44)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from uwaga.decoder import Choice, Datastore, Decoder, with_datastores
from uwaga.results.attention import Floats
from uwaga.results.translation import Translation
from uwaga.search.constraints import start_token
from uwaga.search.retrieval import RetrievalDecoder, mix, nearest, squared_distances
from uwaga.translator import Request, Translator
from uwaga.translator.layers.failures import check_string
from uwaga.translator.layers.memory import FromMemory
from uwaga.translator.layers.retrieval import pairs_to_retrieve
from uwaga.translator.layers.sentences import translate_passages
from uwaga.translator.memories import DEFAULT_THRESHOLD, MemoryArgument, open_memory
from uwaga.translator.plan import Stage, make_plan
from uwaga.translator.text import Passage, Sentence, Text


class RememberedPair(NamedTuple):
    """A pair of a memory whose states were looked up.

    ``score`` is the similarity of the pair to the text, in percent; ``tokens`` are the pieces of ``target``
    and the end symbol, each of which has a state.
    """

    source: str
    target: str
    score: float
    tokens: tuple[str, ...]


class Lookup(NamedTuple):
    """The look-up for one token of a translation.

    Attributes:
        token: the token: a piece or the end symbol.
        pair: index in :attr:`Lookups.pairs` of the pair with the nearest state.
        position: index in that pair's ``tokens`` of the token that followed the state.
        distance: squared distance between that state and the state of the translation.
        weight: λ, the weight of the memory; 0 unless ``distance`` is less than the radius.
        model_probability: probability of the token under the model alone.
        probability: probability of the token under the mixture of model and memory.
    """

    token: str
    pair: int
    position: int
    distance: float
    weight: float
    model_probability: float
    probability: float


@dataclass(frozen=True)
class Lookups:
    """A translation with the look-ups of its tokens.

    Attributes:
        translation: the translation.
        radius: squared distance at which the weight of a state becomes 0; 0 if no state was looked up.
        pairs: the pairs whose states were looked up.
        tokens: a look-up for each token, end symbols included, of the sentences whose states were looked up.
            Sentences that the memory translates, or for which it has no similar pair, have no look-ups; of
            equal sentences, only the first has look-ups.
    """

    translation: Translation
    radius: float
    pairs: tuple[RememberedPair, ...]
    tokens: tuple[Lookup, ...]

    def piece_after(self, lookup: Lookup) -> str:
        """Return the piece that followed the nearest state."""
        return self.pairs[lookup.pair].tokens[lookup.position]


def look_up(
    translator: Translator, text: str, memory: MemoryArgument, threshold: float = DEFAULT_THRESHOLD
) -> Lookups:
    """Return the translation of a text with a memory, and the nearest state of the memory at each token.

    Args:
        translator: a translator with a single model.
        text: text to translate, without a format; placeholders are treated as words.
        memory: the memory, or the path of its file.
        threshold: minimum similarity, in percent, of the pairs that are used.

    Returns:
        the translation, whose tokens are those of ``translator.translate(text, memory=memory,
        placeholders=False)``, with its look-ups. Probabilities are those before tokens are banned.

    Raises:
        SettingsError: the translator is a chain of several models, or an argument is invalid.
        DataError: the file is not a memory, or the text is not valid Unicode.
        TextTooLongError: the text is longer than the model accepts.
    """
    request = Request(text, placeholders=False, search={"sample": False}, memory=memory, threshold=threshold)
    plan = make_plan([translator.model], translator.languages, request, [text])
    [stage] = plan.stages
    last_layer, text_record = _PassageRecorder(stage), Text((text,), request.name)
    check_string(text_record)
    FromMemory(last_layer, plan, open_memory(plan.memory)).translate([text_record])
    pairs, lookups, radius = list[RememberedPair](), list[Lookup](), 0.0
    for passage in last_layer.passages:
        passage_pairs = _pairs(stage, passage)
        origins = [
            (number, position)
            for number, pair in enumerate(passage_pairs, start=len(pairs))
            for position in range(len(pair.tokens))
        ]
        pairs += passage_pairs
        for sentence in passage.sentences:
            if sentence.datastore is not None and sentence.hypotheses:
                radius = sentence.datastore.radius
                lookups += _sentence_lookups(stage, sentence, sentence.datastore, origins)
    return Lookups(text_record.result, radius, tuple(pairs) if lookups else (), tuple(lookups))


class _PassageRecorder:
    """A layer that translates texts with one model and records their passages."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.passages: list[Passage] = []

    def translate(self, texts: Sequence[Text]) -> None:
        for text in texts:
            passage = self._stage.split_text(text.words, text.name)
            passage.examples = text.examples
            translate_passages(self._stage, [passage])
            text.translation = passage.result
            self.passages.append(passage)


def _pairs(stage: Stage, passage: Passage) -> list[RememberedPair]:
    """Return the pairs whose states are in the datastore of a passage's sentences, in order."""
    pieces = stage.model.target.pieces
    return [
        RememberedPair(*example.plain_texts, example.score, tuple(pieces(pair.target)))
        for example, pair in pairs_to_retrieve(stage.model, passage.examples)
    ]


def _sentence_lookups(
    stage: Stage, sentence: Sentence, datastore: Datastore, origins: Sequence[tuple[int, int]]
) -> list[Lookup]:
    """Return the look-ups of a sentence's translation and, unless it is truncated, of its end symbol.

    ``origins`` (entries,) gives, for each entry of the datastore, the index of its pair and its position.
    """
    decoder, hypothesis = stage.model.decoder, sentence.hypotheses[0]
    target = [*hypothesis.tokens, decoder.symbols.end][: len(hypothesis.token_scores)]
    start, lookups = start_token(stage.options, decoder.symbols), list[Lookup]()
    steps = _forced_steps(decoder, sentence, datastore, [start, *target[:-1]])
    for token, (features, log_probs) in zip(target, steps, strict=True):
        distances, neighbours = squared_distances(datastore, features), nearest(datastore, features)
        entry = int(distances.argmin())
        mixture = log_probs.astype(np.float64)
        mix(mixture, neighbours, datastore.tokens)
        lookups.append(
            Lookup(
                stage.model.target.pieces([token])[0],
                *origins[entry],
                float(distances[entry]),
                float(neighbours.weight),
                float(np.exp(log_probs[token])),
                float(np.exp(mixture[token])),
            )
        )
    return lookups


def _forced_steps(
    decoder: Decoder, sentence: Sentence, datastore: Datastore, inputs: Sequence[int]
) -> list[tuple[Floats, Floats]]:
    """Return the features (width,) and log-probabilities (vocabulary,) of the model at each decoder input."""
    attach = with_datastores(decoder)
    if attach is None:
        decoder = RetrievalDecoder(decoder)
        attach = decoder.with_datastores
    # As in the search, a shortlist contains the tokens of the datastore, but no key is near enough for use.
    unreachable = Datastore(np.full_like(datastore.keys, np.inf), datastore.tokens, 1.0, 1.0)
    state = decoder.start(attach(decoder.encode([sentence.ids]), [unreachable]), 1)
    steps = list[tuple[Floats, Floats]]()
    for token in inputs:
        step = decoder.step(np.array([token]), state, Choice(1, all_tokens=True, features=True))
        assert step.features is not None
        steps.append((step.features[0], step.log_probs[0]))
        state = step.state
    return steps
