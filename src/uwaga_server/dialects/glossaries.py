"""Routes for stored glossaries, shared by the dialects whose glossaries can have several language pairs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from uwaga_server.api_errors import ApiError, run_in_thread
from uwaga_server.context import KeyLocation, ServerContext
from uwaga_server.http import json_response
from uwaga_server.routing import Body, BodyKind, Routes
from uwaga_server.store.glossary import Dictionary, GlossarySummary, StoredGlossary

NO_CONTENT = 204


@dataclass(frozen=True)
class GlossaryApi:
    """The glossary API of a dialect.

    Attributes:
        key_location: the places where requests may contain the API key.
        kind: the formats of a request body.
        read: returns the body of a request as a model.
        create: the model of a new glossary, with ``name`` and ``dictionaries``.
        change: the model of a change, with the same fields, all optional.
        dictionary: converts a dictionary in a request body to a stored dictionary.
        response: returns a glossary as JSON, without its entries.
        full_response: returns a glossary as JSON, with its entries; None if the API returns no entries.
        merge: whether a change adds entries to an existing dictionary rather than replacing it.
    """

    key_location: KeyLocation
    kind: BodyKind
    read: Callable[[Request, type[Any]], Awaitable[Any]]
    create: type[BaseModel]
    change: type[BaseModel]
    dictionary: Callable[[ServerContext, Any], Dictionary]
    response: Callable[[GlossarySummary], dict[str, object]]
    full_response: Callable[[StoredGlossary], dict[str, object]] | None
    merge: bool


def add_glossary_routes(routes: Routes, context: ServerContext, prefix: str, api: GlossaryApi) -> None:
    """Add the routes that create, list, read, change and delete glossaries under the path ``prefix``."""
    path = f"{prefix}/{{glossary_id}}"

    @routes.add("POST", prefix, "Create a glossary", body=Body(api.create, api.kind, large=True), status=201)
    async def create(request: Request) -> Response:
        """Create a glossary; translation requests refer to it by its id."""
        owner = api.key_location.admit_owner(context, request)
        body = await api.read(request, api.create)
        glossary = await add_glossary(
            context,
            owner,
            body.name,
            lambda: [api.dictionary(context, values) for values in body.dictionaries],
        )
        return json_response(api.response(glossary), 201)

    @routes.add("GET", prefix, "List the glossaries")
    async def list_glossaries(request: Request) -> Response:
        """List the glossaries of the client, without their entries."""
        owner = api.key_location.admit_owner(context, request)
        store = context.stores.glossaries
        return await run_in_thread(
            lambda: json_response({"glossaries": [api.response(summary) for summary in store.all(owner)]})
        )

    @routes.add("GET", path, "Get a glossary")
    async def read(request: Request, glossary_id: str) -> Response:
        """Return a glossary."""
        owner, full_response = api.key_location.admit_owner(context, request), api.full_response
        if full_response is None:
            summary = await run_in_thread(context.stores.glossaries.summary, owner, glossary_id)
            return json_response(api.response(summary))
        return await read_glossary(
            context, owner, glossary_id, lambda glossary: json_response(full_response(glossary))
        )

    @routes.add("PATCH", path, "Change a glossary", body=Body(api.change, api.kind, large=True))
    async def change(request: Request, glossary_id: str) -> Response:
        """Change the name or the dictionaries of a glossary."""
        owner = api.key_location.admit_owner(context, request)
        body: Any = await api.read(request, api.change)
        if body.name is None and not body.dictionaries:
            raise ApiError(400, "invalid_request", "Parameter 'name' or 'dictionaries' is required.", "name")

        def apply_changes(glossary: StoredGlossary) -> StoredGlossary:
            dictionaries = [api.dictionary(context, dictionary) for dictionary in body.dictionaries]
            return glossary.with_changes(body.name, dictionaries, merge=api.merge)

        glossary = await run_in_thread(context.stores.glossaries.change, owner, glossary_id, apply_changes)
        return json_response(api.response(glossary))

    add_deletion(routes, context, prefix, api.key_location)


def add_deletion(routes: Routes, context: ServerContext, prefix: str, key_location: KeyLocation) -> None:
    """Add the route that deletes a glossary."""

    @routes.add("DELETE", f"{prefix}/{{glossary_id}}", "Delete a glossary", status=NO_CONTENT)
    async def delete(request: Request, glossary_id: str) -> Response:
        """Delete a glossary."""
        await run_in_thread(
            context.stores.glossaries.remove, key_location.admit_owner(context, request), glossary_id
        )
        return Response(status_code=NO_CONTENT)


async def add_glossary(
    context: ServerContext, owner: str, name: str, dictionaries: Callable[[], list[Dictionary]]
) -> GlossarySummary:
    """Store a new glossary and return it without its entries.

    Args:
        context: the context of the server.
        owner: the owner of the glossary.
        name: the name of the glossary.
        dictionaries: returns the dictionaries of the glossary; called in another thread.
    """
    store = context.stores.glossaries

    def create() -> GlossarySummary:
        glossary = StoredGlossary.create(name, dictionaries())
        store.add(owner, glossary)
        return glossary.summary

    return await run_in_thread(store.load, create)


async def read_glossary(
    context: ServerContext, owner: str, glossary_id: str, response: Callable[[StoredGlossary], Response]
) -> Response:
    """Read a glossary and return the response that ``response`` creates for it, in another thread."""
    store = context.stores.glossaries
    return await run_in_thread(store.load, lambda: response(store.get(owner, glossary_id)))
