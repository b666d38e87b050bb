"""Restrictions of the licences of models on the Hugging Face hub, shown before a first download."""

from __future__ import annotations

import re

from uwaga.checkpoints.card import Card
from uwaga.errors import shown

TERMS: tuple[tuple[str, str], ...] = (
    (r"cc-by-nc-nd-", "commercial use and the sharing of changed versions are forbidden"),
    (r"cc-by-nc-|.*non-?commercial|.*research", "commercial use is forbidden"),
    (r"cc-by-nd-", "the sharing of changed versions is forbidden"),
    (r".*gemma", "the uses of its prohibited use policy are forbidden, and its terms go with every copy"),
    (
        r".*llama",
        "the uses of its acceptable use policy are forbidden, and services of more than 700 million users "
        "need a licence of their own",
    ),
    (
        r".*hunyuan|tencent-hy",
        "use in the European Union, by most versions also in the United Kingdom and South Korea, is not "
        "licensed; its translations must not train other models; the uses of its acceptable use policy are "
        "forbidden",
    ),
    (r".*openrail|.*\brail\b", "the uses that it lists are forbidden"),
)
"""Beginnings of licence names as cards state them, and what these licences forbid."""


def restriction(card: Card) -> str | None:
    """Return what a model's licence forbids as a line of text, None if it is not known to forbid anything.

    A licence that the hub does not know (``other``) may forbid anything, and its text is named.
    """
    licence = card.licence
    if licence is None:
        return None
    name = re.sub(r"[\s_]+", "-", licence.lower())
    found = next((terms for pattern, terms in TERMS if re.match(pattern, name)), None)
    if found is None and card.front.get("license") != "other":
        return None
    link = card.front.get("license_link")
    text = f" ({shown(link)})" if isinstance(link, str) else ""
    return f"licence {shown(licence)}{text}: {found or 'not a common one; read what it forbids'}"
