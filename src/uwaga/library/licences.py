"""Restrictions in the licences of models on the Hugging Face hub, shown before a first download."""

from __future__ import annotations

import re

from uwaga.checkpoints.card import Card
from uwaga.errors import quoted

LICENCE_TERMS: tuple[tuple[str, str], ...] = (
    (r"cc-by-nc-nd-", "commercial use and the sharing of changed versions are forbidden"),
    (r"cc-by-nc-|.*non-?commercial|.*research", "commercial use is forbidden"),
    (r"cc-by-nd-", "the sharing of changed versions is forbidden"),
    (
        r".*gemma",
        "the uses listed in its prohibited use policy are forbidden, and its terms must accompany every copy",
    ),
    (
        r".*llama",
        "the uses that its acceptable use policy prohibits are forbidden, and services of more than 700 "
        "million users need a separate licence",
    ),
    (
        r".*hunyuan|tencent-hy",
        "use in the European Union and, under most versions, in the United Kingdom and South Korea is not "
        "licensed; its translations must not be used to train other models; the uses that its acceptable use "
        "policy prohibits are forbidden",
    ),
    (r".*openrail|.*\brail\b", "the uses that it lists are forbidden"),
)
"""Patterns of licence names in model cards, and descriptions of what these licences forbid."""


def restriction(card: Card) -> str | None:
    """Return a line of text that says what a model's licence forbids, or None if no restriction is known.

    The text contains the link to the licence if the card states one. If the hub does not recognise the
    licence (``other``) and its terms are not known, the text says that it is not a common licence.
    """
    licence = card.licence
    if licence is None:
        return None
    name = re.sub(r"[\s_]+", "-", licence.lower())
    restricted_terms = next((terms for pattern, terms in LICENCE_TERMS if re.match(pattern, name)), None)
    if restricted_terms is None and card.front_matter.get("license") != "other":
        return None
    link = card.front_matter.get("license_link")
    text = f" ({quoted(link)})" if isinstance(link, str) else ""
    return (
        f"licence {quoted(licence)}{text}: {restricted_terms or 'not a common licence; read what it forbids'}"
    )
