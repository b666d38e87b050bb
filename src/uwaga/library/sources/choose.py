"""Which model of a catalogue a user means."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

from uwaga.errors import CatalogueError, shown
from uwaga.library.entry import CatalogueEntry, quality
from uwaga.library.fields import LANGUAGE, same_language
from uwaga.library.sources.source import Listing

MOST_SHOWN = 12
LONGEST = 60
"""Characters of a pair of languages."""


def language_pairs(model: str) -> list[tuple[str, str]]:
    """The pairs of languages that a text such as ``en-pt`` may mean; codes may hold hyphens themselves."""
    if len(model) > LONGEST:
        return []
    parts = re.split(r"[-_]", model)
    found = [("-".join(parts[:cut]), "-".join(parts[cut:])) for cut in range(1, len(parts))]
    return [pair for pair in found if all(LANGUAGE.fullmatch(code) for code in pair)]


def choose(
    listing: Listing, model: str, architecture: str | None, source: str
) -> tuple[CatalogueEntry, Sequence[CatalogueEntry]]:
    """The model of a name or a pair, and the others of that pair.

    Of several the best one is chosen, by :func:`~uwaga.library.entry.quality`: released before others, then
    by its scores, then by its size.

    Raises:
        CatalogueError: there is none; says what there is.
    """
    named = [one for one in listing.entries if one.name == model]
    found = named or [one for one in listing.entries if _is_pair(one, model)]
    fitting = [one for one in found if architecture is None or one.architecture == architecture]
    if fitting:
        best = max(fitting, key=quality)
        return best, [one for one in found if one is not best]
    if found:
        known = ", ".join(sorted(one.architecture or "one without a name" for one in found))
        raise CatalogueError(f"{source}: {model} has no architecture {shown(architecture)}; there is {known}")
    raise CatalogueError(f"{source}: " + "; ".join(_instead(listing, model)))


def _is_pair(entry: CatalogueEntry, model: str) -> bool:
    return same_language(entry.pair, model)


def _instead(listing: Listing, model: str) -> Iterator[str]:
    """Why there is no such model, and what there is instead."""
    yield f"there is no model {shown(model)}"
    about = [one for one in listing.problems if _names(one, model)]
    if about:
        yield f"entries of that pair were refused: {about[0]}"
    elif listing.problems:
        yield f"{len(listing.problems)} entries were refused, the first: {listing.problems[0]}"
    names = [one.name for one in listing.entries]
    near = difflib.get_close_matches(
        model[:LONGEST], [*names, *(one.pair for one in listing.entries)], n=3, cutoff=0.7
    )
    if near:
        yield f"did you mean {' or '.join(dict.fromkeys(near))}?"
    for source, target in language_pairs(model):
        first = {one.target_language for one in listing.entries if same_language(one.source_language, source)}
        second = {
            one.source_language for one in listing.entries if same_language(one.target_language, target)
        }
        if both := sorted(first & second, key=lambda code: (code != "en", code)):
            yield f"{source}-{both[0]} and {both[0]}-{target} are there, and translate one after the other"
        elif first or second:
            yield _known(first, f"from {source}", "to") if first else _known(second, f"to {target}", "from")
    if not language_pairs(model):
        yield "a model is named by its languages, such as `en-pt`, or as `uwaga models list` shows it"
    elif not near:
        yield "`uwaga models list` shows what there is"


def _known(codes: set[str], side: str, other: str) -> str:
    listed = sorted(codes)
    more = f" and {len(listed) - MOST_SHOWN} more" if len(listed) > MOST_SHOWN else ""
    return f"{side} there are models {other} {', '.join(listed[:MOST_SHOWN])}{more}"


def _names(problem: str, model: str) -> bool:
    return model.replace("_", "-").lower() in problem.lower()
