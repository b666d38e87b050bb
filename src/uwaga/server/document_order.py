"""What is to be done with a document, and how far it is."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Literal

from uwaga.server.glossary_entries import CONTROLS

LONGEST_NAME = 200

State = Literal["queued", "running", "done", "failed"]


@dataclass(frozen=True)
class DocumentOrder:
    """What is to be done with a document.

    ``owner`` is whose it is; ``name`` what the owner calls it, for people alone; ``format`` its name in the
    registry of formats; ``source`` None where its language is to be found out; ``glossaries`` are ids;
    ``key`` is the sum of a key of its own, empty where it has none; ``characters`` are the most that the
    owner may use in all, 0 for any number.
    """

    owner: str
    name: str
    format: str
    target: str
    source: str | None = None
    glossaries: tuple[str, ...] = ()
    key: str = ""
    characters: int = 0


@dataclass(frozen=True)
class DocumentStatus:
    """How far a job is.

    ``done`` and ``of`` count texts, ``characters`` those of the document once they are counted; ``error`` and
    ``code`` say why it failed; ``since`` is when it was taken up.
    """

    id: str
    order: DocumentOrder
    state: State
    done: int = 0
    of: int = 0
    characters: int | None = None
    error: str = ""
    code: str = ""
    since: float = 0.0
    created: float = 0.0


def key_sum(key: str) -> str:
    """What is stored of a document's own key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def shown_name(name: str) -> str:
    """A file name as a stranger gives it, for people to see: without folders and control characters."""
    name = "".join(one for one in re.split(r"[/\\]", name)[-1] if one not in CONTROLS)
    name = name.encode("utf-8", "replace").decode().strip(" .")
    stem, dot, suffix = name.rpartition(".")
    return (
        f"{stem[: LONGEST_NAME - 40]}{dot}{suffix[:40]}" if len(name) > LONGEST_NAME else name or "document"
    )
