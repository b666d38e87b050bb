"""Translation quality by source length (Bahdanau 2014 figure 2)."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter, ValidationError

from uwaga.errors import DataError, SettingsError, reason
from uwaga.evaluation.metrics import build_metrics, reference_streams
from uwaga.files.regular import read_regular

MAX_FILE_BYTES = 1 << 24
"""Maximum size of a table file in bytes."""


@dataclass(frozen=True)
class Cell:
    """The result of a system on a bucket.

    ``bleu`` is from 0 to 100; ``interval`` is the half-width of its 95% bootstrap interval, or None;
    ``ratio`` is the length of the output divided by the length of the reference.
    """

    bleu: float
    ratio: float
    interval: float | None = None


@dataclass(frozen=True)
class Bucket:
    """The number of lines with ``shortest`` to ``longest`` source tokens, and the result of each system."""

    shortest: int
    longest: int
    lines: int
    systems: Mapping[str, Cell]

    @property
    def label(self) -> str:
        """The range of lengths, such as ``9-12``."""
        return str(self.longest) if self.shortest == self.longest else f"{self.shortest}-{self.longest}"


@dataclass(frozen=True)
class LengthTable:
    """Results by bucket, shortest sources first, with the names of the systems and sacreBLEU's signature."""

    buckets: tuple[Bucket, ...]
    systems: tuple[str, ...]
    signature: str

    def to_dict(self) -> dict[str, object]:
        """Return the table as JSON values."""
        return asdict(self)

    def json(self) -> str:
        """Return the table as a JSON object."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)

    def tsv(self) -> str:
        """Return the table as TSV, with a header and a line per bucket and system."""
        lines = ["shortest\tlongest\tlines\tsystem\tbleu\tinterval\tratio"]
        for bucket in self.buckets:
            for name, cell in bucket.systems.items():
                interval = "" if cell.interval is None else f"{cell.interval:.2f}"
                lines.append(
                    f"{bucket.shortest}\t{bucket.longest}\t{bucket.lines}\t{name}\t{cell.bleu:.2f}"
                    f"\t{interval}\t{cell.ratio:.3f}"
                )
        return "\n".join(lines) + "\n"

    def add_systems(self, earlier_table: LengthTable, table_name: str) -> LengthTable:
        """Return a table with the systems of an earlier table before those of this table.

        Args:
            earlier_table: table measured on the same lines in the same way; its results are dropped for
                systems that are in both tables.
            table_name: name of the earlier table, for messages.
        """
        groups = [
            [(bucket.label, bucket.lines) for bucket in table.buckets] for table in (self, earlier_table)
        ]
        for field, current_value, other in (
            ("grouping", *groups),
            ("signature", self.signature, earlier_table.signature),
        ):
            if current_value != other:
                raise DataError(
                    f"{table_name}: its {field} differs from that of these lines ({other}, not "
                    f"{current_value}): "
                    "only systems measured on the same lines in the same way can be compared"
                )
        added_names = [name for name in earlier_table.systems if name not in self.systems]
        buckets = tuple(
            replace(bucket, systems={**{name: other.systems[name] for name in added_names}, **bucket.systems})
            for bucket, other in zip(self.buckets, earlier_table.buckets, strict=True)
        )
        return replace(self, buckets=buckets, systems=(*added_names, *self.systems))


def read_length_table(path: Path) -> LengthTable:
    """Return the table in a file that was written as JSON."""
    try:
        table = TypeAdapter(LengthTable).validate_json(read_regular(path, MAX_FILE_BYTES))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {reason(error)}") from None
    except ValidationError as error:
        [detail, *_] = error.errors(include_url=False)
        key = ".".join(map(str, detail["loc"]))
        raise DataError(
            f"{path}: not a table written by `uwaga lengths`: {f'{key}: ' if key else ''}{detail['msg']}"
        ) from None
    for bucket in table.buckets:
        if missing_systems := set(table.systems) - bucket.systems.keys():
            raise DataError(
                f"{path}: not a table written by `uwaga lengths`: {min(missing_systems)!r} is not in every "
                "bucket"
            )
    return table


def by_length(
    sources: Sequence[str],
    references: Sequence[Sequence[str]],
    systems: Mapping[str, Sequence[str]],
    *,
    buckets: int | Sequence[int] = 6,
    tokenize: str = "13a",
    lowercase: bool = False,
    samples: int = 0,
) -> LengthTable:
    """Return corpus BLEU and length ratio of each system by source length.

    Args:
        sources: one sentence per line; its length is counted in tokens of BLEU's tokeniser.
        references: (lines,) one or more references per line.
        systems: translations of all lines by system name.
        buckets: number of buckets of about equal size, fewer if many lines have the same length; or the
            maximum length of each bucket, increasing: longer lines form another bucket.
        tokenize: BLEU's tokeniser; ``none`` for tokenised text.
        lowercase: whether to compute case-insensitive BLEU.
        samples: number of bootstrap samples for the intervals; 0 for no intervals.
    """
    if not systems:
        raise DataError("there is no system to evaluate")
    if samples < 0:
        raise SettingsError(f"samples must be 0 or more, not {samples}")
    for name, lines in {"references": references, **systems}.items():
        if len(lines) != len(sources):
            raise DataError(
                f"{name}: {len(lines)} lines for {len(sources)} sources; give one line for each source"
            )
    if not sources:
        raise DataError("nothing to evaluate: there are no lines")
    metric = build_metrics(["bleu"], tokenize=tokenize, lowercase=lowercase)["bleu"]
    lengths = [len(metric.tokenizer(line.strip()).split()) for line in sources]  # type: ignore[attr-defined]
    results = []
    bounds = equal_edges(lengths, buckets) if isinstance(buckets, int) else list(buckets)
    for indices in split_lines(lengths, bounds):
        bucket_references = [references[line] for line in indices]
        cells = {}
        for name, lines in systems.items():
            output = [lines[line] for line in indices]
            # for sacreBLEU, 1 means no bootstrap
            result = metric.corpus_score(
                output, reference_streams(output, bucket_references), n_bootstrap=samples or 1
            )
            ratio = result.sys_len / result.ref_len if result.ref_len else 0.0
            interval = float(result._ci) if samples > 1 else None
            cells[name] = Cell(float(result.score), ratio, interval)
        bucket_lengths = [lengths[line] for line in indices]
        results.append(Bucket(min(bucket_lengths), max(bucket_lengths), len(indices), cells))
    signature = metric.get_signature().format()
    return LengthTable(tuple(results), tuple(systems), signature)


def equal_edges(lengths: Sequence[int], buckets: int) -> list[int]:
    """Return the maximum length of each bucket except the last, for buckets with similar numbers of lines."""
    if buckets < 1:
        raise SettingsError(f"buckets must be 1 or more, not {buckets}")
    shares = np.arange(1, buckets) / buckets
    bounds = np.quantile(np.asarray(lengths), shares, method="inverted_cdf")
    return sorted({int(bound) for bound in bounds} - {max(lengths)})


def split_lines(lengths: Sequence[int], edges: Sequence[int]) -> list[list[int]]:
    """Return the indices of the lines of each bucket; empty buckets are omitted."""
    if any(low >= high for low, high in pairwise(edges)):
        raise SettingsError(
            f"edges {', '.join(map(str, edges))}: each must be greater than the previous edge"
        )
    members: list[list[int]] = [[] for _ in range(len(edges) + 1)]
    for line, length in enumerate(lengths):
        members[bisect_left(edges, length)].append(line)
    return [group for group in members if group]
