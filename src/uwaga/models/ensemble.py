"""Ensembles: a Decoder that averages the probabilities of other Decoders (Sutskever 2014 §3.6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from uwaga.decoder import (
    Choice,
    CrossAttention,
    Decoder,
    Ids,
    Memory,
    State,
    Step,
    Symbols,
    Verify,
    shared_positions,
)
from uwaga.errors import SettingsError
from uwaga.results.attention import Floats
from uwaga.search.choose import choose


@dataclass(frozen=True)
class EnsembleMemory:
    """The encoded sources of each member."""

    members: tuple[Memory, ...]

    @property
    def sentences(self) -> int:
        return self.members[0].sentences

    @property
    def lengths(self) -> Ids:
        return self.members[0].lengths


@dataclass(frozen=True)
class EnsembleState:
    """The decoder state of each member; a row is the same hypothesis in all states."""

    members: tuple[State, ...]

    def reorder(self, rows: Ids) -> EnsembleState:
        """See :meth:`uwaga.decoder.State.reorder`."""
        return EnsembleState(tuple(member.reorder(rows) for member in self.members))

    def select(self, sentences: Ids) -> EnsembleState:
        """See :meth:`uwaga.decoder.State.select`."""
        return EnsembleState(tuple(member.select(sentences) for member in self.members))


class Ensemble:
    """An ensemble of models of any kind: ``p(y | ...) = (1/n) Σ_m p_m(y | ...)`` at every step.

    The attention of a step is the mean over the members that return attention. Each length limit is the
    smallest of the members' limits.

    Args:
        members: at least two models with the same vocabulary.
        names: names of the models, for messages.

    Raises:
        SettingsError: there are fewer than two members, or their vocabularies or special tokens differ.
    """

    join: None = None
    beam_search: None = None
    attentions: None = None
    """Not available in an ensemble; call the method of a member instead."""
    recording: None = None

    @property
    def cross_attention(self) -> CrossAttention | None:
        """The function of the first member; see :attr:`uwaga.decoder.Decoder.cross_attention`."""
        return self.members[0].cross_attention

    @property
    def cross_attentions(
        self,
    ) -> Callable[[Sequence[Sequence[int]], Sequence[Sequence[int]]], list[Floats]] | None:
        """The function of the first member; see :attr:`uwaga.decoder.Decoder.cross_attentions`."""
        return self.members[0].cross_attentions

    def __init__(self, members: Sequence[Decoder], names: Sequence[str] | None = None) -> None:
        labels = list(names or (f"member {number}" for number in range(1, len(members) + 1)))
        if len(members) < 2:
            raise SettingsError(f"an ensemble needs two models or more, not {len(members)}")
        first_member = members[0]
        for name, member in zip(labels[1:], members[1:], strict=True):
            if member.vocabulary != first_member.vocabulary or member.symbols != first_member.symbols:
                raise SettingsError(
                    f"{name} has a vocabulary of {member.vocabulary} tokens with {member.symbols}, "
                    f"but {labels[0]} has one of {first_member.vocabulary} with {first_member.symbols}; "
                    "the models of an ensemble must share their vocabularies"
                )
        self.members = tuple(members)

    @property
    def description(self) -> str:
        """The number of members and their descriptions, as text for display."""
        descriptions = [getattr(member, "description", type(member).__name__) for member in self.members]
        return f"ensemble of {len(descriptions)}: {'; '.join(dict.fromkeys(descriptions))}"

    @property
    def symbols(self) -> Symbols:
        return self.members[0].symbols

    @property
    def vocabulary(self) -> int:
        return self.members[0].vocabulary

    @property
    def max_source(self) -> int | None:
        return _minimum([member.max_source for member in self.members])

    @property
    def shared_positions(self) -> int | None:
        """The smallest number of positions that a member has for a prompt and its continuation together."""
        return _minimum(list(map(shared_positions, self.members)))

    @property
    def max_target(self) -> int | None:
        return _minimum([member.max_target for member in self.members])

    def encode(self, sources: Sequence[Sequence[int]]) -> EnsembleMemory:
        """Return the sources encoded by every member."""
        return EnsembleMemory(tuple(member.encode(sources) for member in self.members))

    def start(self, memory: Memory, beams: int) -> EnsembleState:
        """Return the state before the first token."""
        assert isinstance(memory, EnsembleMemory)
        pairs = zip(self.members, memory.members, strict=True)
        return EnsembleState(tuple(member.start(member_memory, beams) for member, member_memory in pairs))

    def step(self, tokens: Ids, state: State, choice: Choice) -> Step:
        """Return candidates chosen from the mean of the distributions of all members."""
        assert isinstance(state, EnsembleState)
        full_choice = self._all_tokens(choice)
        pairs = zip(self.members, state.members, strict=True)
        return _average_steps(
            [member.step(tokens, member_state, full_choice) for member, member_state in pairs], choice
        )

    @property
    def verify(self) -> Verify | None:
        """See :attr:`uwaga.decoder.Decoder.verify`; None if a member does not support it."""
        return None if any(member.verify is None for member in self.members) else self._verify

    def _verify(self, tokens: Sequence[Sequence[int]], state: State, choice: Choice) -> Step:
        assert isinstance(state, EnsembleState)
        steps, full_choice = [], self._all_tokens(choice)
        for member, member_state in zip(self.members, state.members, strict=True):
            assert member.verify is not None
            steps.append(member.verify(tokens, member_state, full_choice))
        return _average_steps(steps, choice)

    def _all_tokens(self, choice: Choice) -> Choice:
        """Return a copy of ``choice`` that requests all tokens from the members."""
        return Choice(
            self.vocabulary,
            attention=choice.attention,
            all_tokens=True,
            features=choice.features,
            extra_tokens=choice.extra_tokens,
        )


def _average_steps(steps: Sequence[Step], choice: Choice) -> Step:
    """Return a step with candidates from the mean of the distributions in the members' steps."""
    mixed = steps[0].log_probs.astype(np.float64)  # (rows, vocabulary)
    for step in steps[1:]:
        mixed = np.logaddexp(mixed, step.log_probs)
    candidates, log_probs = choose(mixed - np.log(len(steps)), choice)
    next_state = EnsembleState(tuple(step.state for step in steps))
    features = [step.features for step in steps if step.features is not None]
    return Step(
        candidates,
        log_probs,
        next_state,
        _mean([step.attention for step in steps]),
        np.concatenate(features, axis=1) if features else None,
    )


def _minimum(limits: Sequence[int | None]) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _mean(attentions: Sequence[Floats | None]) -> Floats | None:
    """Return the mean attention (rows, source) of the members that return it; None if none does."""
    non_empty = [attention for attention in attentions if attention is not None]
    return np.mean(non_empty, axis=0, dtype=np.float32) if non_empty else None
