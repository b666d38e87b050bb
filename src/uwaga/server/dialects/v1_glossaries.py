"""``/v1/glossaries``: those that the server keeps for a client."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from uwaga.errors import DataError
from uwaga.server.admission import BEARER
from uwaga.server.api_errors import ApiError, in_thread
from uwaga.server.context import ServerContext
from uwaga.server.dialects.v1 import ERRORS, NOT_FOUND
from uwaga.server.http import json_response, read_json
from uwaga.server.routing import Routes
from uwaga.server.store.glossary import Dictionary, GlossaryEntry, StoredGlossary, check_entries
from uwaga.terms.files import SEPARATOR, forms

MOST_ENTRIES = 100_000
LanguageCode = Annotated[str, Field(min_length=2, max_length=16, examples=["en"])]


class DictionaryBody(BaseModel):
    """The terms from one language to another; a target may have several forms, the usual one first."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"source": "en", "target": "de", "entries": {"dog": "Hund"}}]},
    )

    source: LanguageCode
    target: LanguageCode
    entries: dict[str, str | list[str]] = Field(min_length=1, max_length=MOST_ENTRIES)


class GlossaryBody(BaseModel):
    """A glossary to make."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=1024, examples=["Words"])
    dictionaries: list[DictionaryBody] = Field(min_length=1, max_length=200)


class ChangeBody(BaseModel):
    """What is to become of a glossary: another name, dictionaries in the place of others."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = Field(None, min_length=1, max_length=1024)
    dictionaries: list[DictionaryBody] = Field([], max_length=200)


def routes(context: ServerContext) -> Routes:
    """The routes."""
    routes = Routes("v1", {**ERRORS, 404: NOT_FOUND}, "/v1/glossaries")

    @routes.add("POST", "", "Create a glossary", body=GlossaryBody, status=201)
    async def create(request: Request) -> Response:
        """Keep a glossary; its id is for `glossary_id`."""
        owner = BEARER.owner(context, request)
        body = await read_json(request, GlossaryBody)
        made: StoredGlossary = await in_thread(
            StoredGlossary.new, body.name, [_dictionary(one) for one in body.dictionaries]
        )
        await in_thread(context.stores.glossaries.add, owner, made)
        return json_response(glossary_response(made), 201)

    @routes.add("GET", "", "List the glossaries")
    async def every(request: Request) -> Response:
        """All glossaries of the key, without their entries."""
        owner = BEARER.owner(context, request)
        found: list[StoredGlossary] = await in_thread(context.stores.glossaries.all, owner)
        return json_response({"glossaries": [glossary_response(one) for one in found]})

    @routes.add("GET", "/{glossary_id}", "A glossary with its entries")
    async def one(request: Request, glossary_id: str) -> Response:
        """A glossary with its entries."""
        owner = BEARER.owner(context, request)
        found: StoredGlossary = await in_thread(context.stores.glossaries.get, owner, glossary_id)
        return json_response(glossary_response(found, entries=True))

    @routes.add("PATCH", "/{glossary_id}", "Change a glossary", body=ChangeBody)
    async def change(request: Request, glossary_id: str) -> Response:
        """Give it another name, or other dictionaries."""
        owner = BEARER.owner(context, request)
        body = await read_json(request, ChangeBody)
        new = [_dictionary(one) for one in body.dictionaries]

        def changed(old: StoredGlossary) -> StoredGlossary:
            made = old if body.name is None else old.renamed(body.name)
            for one in new:
                made = made.with_dictionary(one)
            return made

        made = await in_thread(context.stores.glossaries.change, owner, glossary_id, changed)
        return json_response(glossary_response(made))

    @routes.add("DELETE", "/{glossary_id}", "Delete a glossary", status=204)
    async def delete(request: Request, glossary_id: str) -> Response:
        """Delete a glossary."""
        owner = BEARER.owner(context, request)
        await in_thread(context.stores.glossaries.remove, owner, glossary_id)
        return Response(status_code=204)

    return routes


def glossary_response(one: StoredGlossary, entries: bool = False) -> dict[str, object]:
    """A glossary as JSON has it; a target of one form is that, one of several a list."""
    dictionaries: list[dict[str, object]] = []
    for dictionary in one.dictionaries:
        told: dict[str, object] = {"source": dictionary.source, "target": dictionary.target}
        told["count"] = len(dictionary.entries)
        if entries:
            told["entries"] = {
                source: targets[0] if len(targets) == 1 else targets for source, targets in dictionary.entries
            }
        dictionaries.append(told)
    created = one.created.isoformat(timespec="milliseconds")
    return {"id": one.id, "name": one.name, "created": created, "dictionaries": dictionaries}


def _dictionary(body: DictionaryBody) -> Dictionary:
    """A dictionary from a body.

    Raises:
        ApiError: an entry is impossible.
    """
    listed = [
        (f"entry {number}", GlossaryEntry(source.strip(), _forms(target)))
        for number, (source, target) in enumerate(body.entries.items(), start=1)
    ]
    try:
        return Dictionary(body.source.lower(), body.target.lower(), check_entries(listed))
    except DataError as error:
        raise ApiError(400, "invalid_entries", str(error), "entries") from None


def _forms(target: str | list[str]) -> tuple[str, ...]:
    return forms(target if isinstance(target, str) else SEPARATOR.join(target))
