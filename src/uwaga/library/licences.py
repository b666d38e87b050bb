"""Restrictions in the licences of models on the Hugging Face hub, shown before a first download."""

from __future__ import annotations

import re

from uwaga.checkpoints.card import Card
from uwaga.errors import quoted

LICENCE_TERMS: tuple[tuple[str, str], ...] = (
    (r"cc-by-nc-nd-", "commercial use and the sharing of changed versions are forbidden"),
    (r"cc-by-nc-|.*non-?commercial|.*research", "commercial use is forbidden"),
    (r"cc-by-nd-", "the sharing of changed versions is forbidden"),
    (r".*gemma", "the uses of its prohibited use policy are forbidden, and its terms go with every copy"),
    (
        r".*llama",
        "the uses of its acceptable use policy are forbidden, and services of more than 700 million users "
        "need a separate licence",
    ),
    (
        r".*hunyuan|tencent-hy",
        "use in the European Union, by most versions also in the United Kingdom and South Korea, is not "
        "licensed; its translations must not train other models; the uses of its acceptable use policy are "
        "forbidden",
    ),
    (r".*openrail|.*\brail\b", "the uses that it lists are forbidden"),
)
"""Patterns of licence names in model cards, and descriptions of what these licences forbid."""


def restriction(card: Card) -> str | None:
    """Return a line of text that says what a model's licence forbids, or None if no restriction is known.

    If the hub does not know the licence (``other``), the text says so and contains a link to the licence.
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
