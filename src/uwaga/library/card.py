"""The card that is kept beside an installed model: what it is, whose, under which licence."""

from __future__ import annotations

import json

from uwaga.library.entry import FIREFOX_LICENCE
from uwaga.library.installed import Origin

NOTICES = {
    FIREFOX_LICENCE: (
        "These files are subject to the terms of the Mozilla Public License, v. 2.0. You can obtain a copy "
        "of it at https://mozilla.org/MPL/2.0/. The models are Mozilla's, from Firefox Translations: "
        "https://github.com/mozilla/translations."
    )
}
"""What a licence asks to be told to whoever gets the files, by its name."""


def licence_notice(licence: str) -> str:
    """What is shown of a licence before a download, and kept beside the model."""
    return NOTICES.get(licence, f"Licence: {licence or 'not stated'}.")


def write_card(origin: Origin) -> str:
    """The text of ``card.md``, with the front matter that programs read."""
    front = {"license": origin.licence.lower() or "not stated", "language": languages(origin)}
    rows = [
        ("licence", origin.licence or "not stated"),
        ("from", " ".join(origin.source_languages)),
        ("to", " ".join(origin.target_languages)),
        ("architecture", origin.architecture),
        ("version", origin.version),
        ("status", origin.status),
        ("parameters", "" if origin.parameters is None else str(origin.parameters)),
        ("catalogue", origin.source),
        *((name, f"{value:g}") for name, value in origin.metrics.items()),
    ]
    files = [
        (name, f"{file.size} bytes, SHA-256 {file.sha256}, {file.location}")
        for name, file in origin.files.items()
    ]
    return "\n".join(
        [
            "---",
            *(f"{key}: {json.dumps(value)}" for key, value in front.items()),
            "---",
            f"# {origin.name}",
            "",
            licence_notice(origin.licence),
            "",
            "| | |",
            "|---|---|",
            *(f"| {_cell(key)} | {_cell(value)} |" for key, value in rows if value),
            "",
            "| file | |",
            "|---|---|",
            *(f"| {_cell(key)} | {_cell(value)} |" for key, value in files),
            "",
        ]
    )


def languages(origin: Origin) -> list[str]:
    """The codes of both sides."""
    return [*origin.source_languages, *origin.target_languages]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
