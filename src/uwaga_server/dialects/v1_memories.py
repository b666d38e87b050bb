"""The server's own dialect: translation memories."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from uwaga.library.fields import LANGUAGE
from uwaga_memory.store import Pair
from uwaga_server.api_errors import in_thread
from uwaga_server.context import BEARER_KEY, ServerContext
from uwaga_server.dialects.v1_schema import ERRORS, NOT_FOUND, ContextBody
from uwaga_server.http import json_response, read_json
from uwaga_server.routing import Routes
from uwaga_server.store.memories import MemoryStore, StoredMemory

MAX_PAIRS = 1_000
"""Maximum pairs of a request; a TMX file may hold more."""
LanguageCode = Annotated[
    str, Field(min_length=2, max_length=16, pattern=f"^(?:{LANGUAGE.pattern})$", examples=["en"])
]


class MemoryBody(BaseModel):
    """A new memory."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=1024, examples=["Letters"])
    source: LanguageCode
    target: LanguageCode


class PairBody(ContextBody):
    """A text with its translation, and where it stands in its document."""

    source: str = Field(min_length=1, max_length=100_000, examples=["The weather is nice today."])
    target: str = Field(min_length=1, max_length=100_000, examples=["Das Wetter ist heute schön."])
    origin: str = Field("", max_length=1024, description="Where the pair comes from, such as a file.")


class PairsBody(BaseModel):
    """Pairs to add."""

    model_config = ConfigDict(extra="forbid")

    pairs: list[PairBody] = Field(min_length=1, max_length=MAX_PAIRS)


class MemoryAnswer(BaseModel):
    """A memory; ``shared`` ones are for all clients, who cannot change them."""

    id: str
    name: str
    source: str
    target: str
    pairs: int
    shared: bool


class MemoriesAnswer(BaseModel):
    """The memories that the client may use."""

    memories: list[MemoryAnswer]


class AddedAnswer(BaseModel):
    """The numbers of new pairs, of pairs that the memory had, and of skipped ones by reason."""

    new: int
    known: int
    skipped: dict[str, int]


def memory_routes(context: ServerContext) -> Routes:
    """Return the routes of translation memories."""
    routes, store = Routes("v1", {**ERRORS, 404: NOT_FOUND}, "/v1/memories"), context.stores.memories

    @routes.add("GET", "", "List the translation memories", response_model=MemoriesAnswer)
    async def list_(request: Request) -> Response:
        """List the memories of the client, and those for all clients."""
        owner = BEARER_KEY.owner(context, request)
        memories = await in_thread(lambda: [memory_response(store, each) for each in store.list(owner)])
        return json_response({"memories": memories})

    @routes.add(
        "POST", "", "Create a translation memory", body=MemoryBody, response_model=MemoryAnswer, status=201
    )
    async def create(request: Request) -> Response:
        """Create an empty memory."""
        owner = BEARER_KEY.owner(context, request)
        body = await read_json(request, MemoryBody)

        def work() -> dict[str, object]:
            return memory_response(store, store.create(owner, body.name, body.source, body.target))

        return json_response(await in_thread(work), 201)

    @routes.add("GET", "/{memory_id}", "Get a translation memory", response_model=MemoryAnswer)
    async def get(request: Request, memory_id: str) -> Response:
        """Return a memory's languages and number of pairs."""
        owner = BEARER_KEY.owner(context, request)
        return json_response(await in_thread(lambda: memory_response(store, store.find(owner, memory_id))))

    @routes.add("DELETE", "/{memory_id}", "Delete a translation memory", status=204)
    async def delete(request: Request, memory_id: str) -> Response:
        """Delete a memory of the client."""
        owner = BEARER_KEY.owner(context, request)
        await in_thread(store.delete, owner, memory_id)
        return Response(status_code=204)

    @routes.add(
        "POST", "/{memory_id}/pairs", "Add pairs to a translation memory",
        body=PairsBody, response_model=AddedAnswer,
    )  # fmt: skip
    async def add(request: Request, memory_id: str) -> Response:
        """Add confirmed translations; the next translation with the memory uses them.

        A pair that the memory has becomes its newest, and is preferred to other translations of its source.
        """
        owner = BEARER_KEY.owner(context, request)
        body = await read_json(request, PairsBody)
        pairs = [Pair(**pair.model_dump()) for pair in body.pairs]
        added = await in_thread(lambda: store.confirm(store.find(owner, memory_id), pairs))
        return json_response({"new": added.new, "known": added.known, "skipped": dict(added.skipped)})

    return routes


def memory_response(store: MemoryStore, stored: StoredMemory) -> dict[str, object]:
    """Return a memory as JSON."""
    memory = store.open(stored)
    source, target = memory.languages
    return {
        "id": stored.id,
        "name": memory.name,
        "source": source,
        "target": target,
        "pairs": len(memory),
        "shared": stored.shared,
    }
