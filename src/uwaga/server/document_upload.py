"""What a client may ask to be done with a document, whichever dialect it speaks."""

from __future__ import annotations

from pathlib import Path

from uwaga.documents import find_format, formats
from uwaga.errors import SettingsError
from uwaga.server.api_errors import ApiError
from uwaga.server.auth import Client
from uwaga.server.context import ServerContext
from uwaga.server.document_order import DocumentOrder, shown_name
from uwaga.server.kept import in_thread


async def document_order(
    context: ServerContext,
    client: Client,
    name: str,
    source: str | None,
    target: str,
    glossaries: tuple[str, ...] = (),
    key: str = "",
) -> DocumentOrder:
    """What is to be done with a document, looked at before it is taken in.

    Args:
        context: of the server.
        client: whose it is.
        name: what the client calls it; says what format it is of.
        source: the code of its language, None where that is to be found out.
        target: the code of the language to translate to.
        glossaries: ids.
        key: the sum of a key of its own.

    Raises:
        ApiError: its format or its languages are not on offer, or a glossary is not there.
    """
    shown = shown_name(name)
    try:
        format_ = find_format(Path(shown)).name
    except SettingsError:
        message = "the file's name ends in no format that is known here"
        raise ApiError(400, "unsupported_format", message, "file") from None
    service, owner = context.service, context.owner(client)
    to = service.language(target, "target")
    known = None if source is None else service.language(source, "source")
    if known is not None:
        if service.graph.route(known, to) is None:
            raise ApiError(
                400, "unsupported_languages", f"no model here translates {known} to {to}", "target"
            )
        if glossaries:
            await in_thread(context.kept.shelf().terms, owner, glossaries, known, to)
    elif glossaries:
        raise ApiError(400, "source_missing", "a glossary needs the language of the document", "source")
    return DocumentOrder(owner, shown, format_, to, known, glossaries, key, client.characters)


def document_suffixes() -> tuple[str, ...]:
    """What the names of documents may end in, with the dot."""
    every = {suffix for one in formats().values() for suffix in one.suffixes}
    return tuple(sorted(suffix for suffix in every if suffix.startswith(".")))
