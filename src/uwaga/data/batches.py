"""Batches of sentence pairs of similar length within a token budget, in an order set by seed and epoch."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Generic, TypeVar

import numpy as np

from uwaga.data.guide import LinkConverter
from uwaga.data.mixture import Mixture
from uwaga.data.plans import MixedSides, Plan, SampledPlan, SegmentationSampler, StoredPlan
from uwaga.data.rows import Block
from uwaga.decoder import Ids, Symbols
from uwaga.errors import SettingsError
from uwaga.settings import DataSettings
from uwaga.tokenizers.subwords import TrainingSubwords

Item = TypeVar("Item")
POLL_SECONDS = 0.1  # seconds between checks of whether the consumer has stopped


def prefetch(items: Iterable[Item], depth: int = 2) -> Generator[Item, None, None]:
    """Yield the items of an iterable, from which a background thread reads up to ``depth`` items ahead.

    An exception in the thread is raised by this generator. Closing the generator stops the thread.
    """
    producer = _Producer(items, depth)
    try:
        while True:
            item = producer.queue.get()
            if isinstance(item, _EndOfItems):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        producer.close()


class _EndOfItems:
    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class _Producer(Generic[Item]):
    def __init__(self, items: Iterable[Item], depth: int) -> None:
        self.queue: Queue[Item | _EndOfItems] = Queue(maxsize=max(1, depth))
        self._closed = Event()
        self._thread = Thread(target=self._produce, args=(items,), name="uwaga-prefetch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        try:
            while True:  # unblock a producer that waits for space
                self.queue.get_nowait()
        except Empty:
            self._thread.join()

    def _produce(self, items: Iterable[Item]) -> None:
        end_of_items = _EndOfItems(None)
        try:
            for item in items:
                if not self._put(item):
                    break
        except BaseException as error:
            end_of_items = _EndOfItems(error)
        finally:
            if isinstance(items, Generator):
                items.close()
        self._put(end_of_items)

    def _put(self, item: Item | _EndOfItems) -> bool:
        while not self._closed.is_set():
            try:
                self.queue.put(item, timeout=POLL_SECONDS)
            except Full:
                continue
            return True
        return False


__all__ = ["Batch", "Batches", "Plan", "prefetch"]


@dataclass(frozen=True)
class Batch:
    """A batch of training pairs as int64 arrays, padded at the end.

    Attributes:
        source: (sentences, source) with end symbols.
        source_lengths: (sentences,) number of source tokens, including the end symbol.
        target_in: (sentences, target) with start symbols.
        target_out: (sentences, target) with end symbols.
        target_lengths: (sentences,) number of tokens of each row, equal in ``target_in`` and ``target_out``.
        pairs: (sentences,) row numbers in the mixture.
        links: (links, 3) for guided alignment: sentence, position in ``target_out``, position of the aligned
            source token.
    """

    source: Ids
    source_lengths: Ids
    target_in: Ids
    target_out: Ids
    target_lengths: Ids
    pairs: Ids
    links: Ids | None = None

    @property
    def sentences(self) -> int:
        """Number of pairs."""
        return len(self.pairs)

    @property
    def tokens(self) -> int:
        """Number of tokens to predict, including end symbols, without padding."""
        return int(self.target_lengths.sum())


class Batches:
    """The training batches of a mixture of stores.

    :meth:`batch` is a pure function of epoch and index, so training can resume at any batch.
    """

    def __init__(
        self,
        mixture: Mixture,
        tokenisers: tuple[TrainingSubwords, TrainingSubwords],
        data: DataSettings,
        seed: int,
        batch_tokens: int,
        with_links: bool = False,
    ) -> None:
        """Plan the batches.

        ``batch_tokens`` is the maximum number of tokens on either side of a batch, including padding;
        ``with_links`` adds the word alignments in the stores to the batches.
        """
        self._source, self._target = (tokeniser.symbols for tokeniser in tokenisers)
        self._seed = seed % (1 << 64)
        self._budget = batch_tokens
        shares: dict[str, float] = {form: share for form, share in sorted(data.augment.items()) if share > 0}
        mixture.check_contents(list(shares), data.subword_sampling > 0 or with_links)
        self._sides = MixedSides(mixture, shares)
        if (longest := 1 + mixture.longest(list(shares))) > batch_tokens:
            raise SettingsError(
                f"training.batch_tokens: {batch_tokens} is too small for the longest sentence, which has "
                f"{longest} tokens with its end symbol; raise it or lower data.max_tokens"
            )
        self._sampler: SegmentationSampler | None = None
        if data.subword_sampling:
            limits = (data.max_tokens, batch_tokens)
            self._sampler = SegmentationSampler(
                mixture, tokenisers, list(shares), data.subword_sampling, limits
            )
        self._link_converter = LinkConverter(mixture, tokenisers, list(shares)) if with_links else None
        self._latest_plan: tuple[int, Plan] | None = None

    def epoch(self, number: int) -> Plan:
        """Return the plan of an epoch, which depends only on the seed and the epoch's number."""
        latest_plan = self._latest_plan  # read once: another thread may replace it
        if latest_plan is None or latest_plan[0] != number:
            latest_plan = self._latest_plan = (number, self._plan(number))
        return latest_plan[1]

    def count(self, epoch: int) -> int:
        """Return the number of batches in an epoch; this arranges all pools of the epoch."""
        return len(self.epoch(epoch))

    def has_batch(self, epoch: int, index: int) -> bool:
        """Return whether an epoch has a batch with this index, without arranging the pools after it."""
        return self.epoch(epoch).find(index) is not None

    def batch(self, epoch: int, index: int) -> Batch:
        """Return a batch, which depends only on seed, epoch and index."""
        rows = self.epoch(epoch).rows(index)
        pairs, source, target = rows.pairs, rows.source, rows.target
        starts = np.full((len(pairs), 1), self._target.start, dtype=np.int64)  # (sentences, 1)
        target_in = np.where(target.token_mask(), target.tokens, self._target.pad)  # (sentences, target - 1)
        return Batch(
            source=_append_end(source, self._source),
            source_lengths=source.lengths + 1,
            target_in=np.concatenate([starts, target_in], axis=1),
            target_out=_append_end(target, self._target),
            target_lengths=target.lengths + 1,
            pairs=pairs,
            links=None if self._link_converter is None else self._link_converter.links(rows),
        )

    def _plan(self, epoch: int) -> Plan:
        key = (self._seed, epoch)
        if self._sampler:
            return SampledPlan(self._sampler, self._sides, key, self._budget)
        return StoredPlan(self._sides, key, self._budget)


def _append_end(block: Block, symbols: Symbols) -> Ids:
    """Return the rows of a block, (sentences, tokens + 1), with an end symbol after each, then padding."""
    padded = np.full((block.tokens.shape[0], block.tokens.shape[1] + 1), symbols.pad, dtype=np.int64)
    np.copyto(padded[:, :-1], block.tokens, where=block.token_mask())
    padded[np.arange(len(padded)), block.lengths] = symbols.end
    return padded
