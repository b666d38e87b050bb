"""``/v1/memories``: routes for translation memories in the native dialect."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from uwaga.inspection import look_up
from uwaga.library.fields import LANGUAGE
from uwaga.translator import Translator
from uwaga.translator.memories import DEFAULT_THRESHOLD
from uwaga.translator.request import Request as TextRequest
from uwaga_memory.store import Memory, Pair
from uwaga_server.api_errors import run_in_thread
from uwaga_server.context import BEARER_KEY, ServerContext
from uwaga_server.dialects.v1_schema import ERRORS, NOT_FOUND, ContextBody
from uwaga_server.http import json_response, read_json, while_connected
from uwaga_server.routing import Routes
from uwaga_server.store.memories import MemoryStore, StoredMemory

MAX_PAIRS = 1_000
"""Maximum number of pairs in a request; a TMX file may contain more."""
MAX_LOOK_UP_CHARACTERS = 5_000
"""Maximum number of characters of a text to look up; the decoder takes a step for each token."""
LanguageCode = Annotated[
    str, Field(min_length=2, max_length=16, pattern=f"^(?:{LANGUAGE.pattern})$", examples=["en"])
]


class MemoryBody(BaseModel):
    """The name and languages of a new memory."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=1024, examples=["Letters"])
    source: LanguageCode
    target: LanguageCode


class PairBody(ContextBody):
    """A text with its translation and its context in the document."""

    source: str = Field(min_length=1, max_length=100_000, examples=["The weather is nice today."])
    target: str = Field(min_length=1, max_length=100_000, examples=["Das Wetter ist heute schön."])
    origin: str = Field("", max_length=1024, description="Where the pair comes from, such as a file.")


class PairsBody(BaseModel):
    """Pairs to add to a memory."""

    model_config = ConfigDict(extra="forbid")

    pairs: list[PairBody] = Field(min_length=1, max_length=MAX_PAIRS)


class LookUpBody(BaseModel):
    """A text to translate with a memory, and the similarity threshold."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(max_length=MAX_LOOK_UP_CHARACTERS, examples=["A man in a blue shirt is sleeping."])
    threshold: float = Field(
        DEFAULT_THRESHOLD, ge=1, le=100, description="Minimum similarity of the memory's pairs, in percent."
    )


class MemoryAnswer(BaseModel):
    """A memory; if it is `shared`, all clients can use it, but they cannot change it."""

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
    """The numbers of new pairs, of pairs already in the memory and, for each reason, of skipped pairs."""

    new: int
    known: int
    skipped: dict[str, int]


class LookedUpPair(BaseModel):
    """A similar pair whose decoder states were searched, with the `pieces` of its target and end symbol."""

    source: str
    target: str
    score: float
    pieces: list[str]


class PieceLookUp(BaseModel):
    """The result of the look-up for one piece of the translation, or for its end symbol.

    The look-up finds the nearest stored decoder state. `remembered` is the piece that follows this state: the
    piece at `position` in the `pieces` of the pair with index `pair`. `distance` is the squared distance
    divided by the radius. `weight` is the interpolation weight λ, which is 0 if `distance` is 1 or more.
    """

    piece: str
    pair: int
    position: int
    remembered: str
    distance: float
    weight: float
    model_probability: float
    probability: float


class LookUpAnswer(BaseModel):
    """A translation with the results of the look-ups.

    `pairs` and `pieces` are empty if the memory contains no similar pair, or contains the text itself.
    """

    text: str
    model: str
    pairs: list[LookedUpPair]
    pieces: list[PieceLookUp]


def memory_routes(context: ServerContext) -> Routes:
    """Return the routes for translation memories."""
    routes, store = Routes("v1", {**ERRORS, 404: NOT_FOUND}, "/v1/memories"), context.stores.memories

    @routes.add("GET", "", "List the translation memories", response_model=MemoriesAnswer)
    async def list_(request: Request) -> Response:
        """List the memories of the client and the shared memories."""
        owner = BEARER_KEY.admit_owner(context, request)
        memories = await run_in_thread(
            lambda: [memory_response(store, memory) for memory in store.list(owner)]
        )
        return json_response({"memories": memories})

    @routes.add(
        "POST", "", "Create a translation memory", body=MemoryBody, response_model=MemoryAnswer, status=201
    )
    async def create(request: Request) -> Response:
        """Create an empty memory."""
        owner = BEARER_KEY.admit_owner(context, request)
        body = await read_json(request, MemoryBody)

        def create_memory() -> dict[str, object]:
            return memory_response(store, store.create(owner, body.name, body.source, body.target))

        return json_response(await run_in_thread(create_memory), 201)

    @routes.add("GET", "/{memory_id}", "Get a translation memory", response_model=MemoryAnswer)
    async def get(request: Request, memory_id: str) -> Response:
        """Return the name, languages and number of pairs of a memory."""
        owner = BEARER_KEY.admit_owner(context, request)
        return json_response(
            await run_in_thread(lambda: memory_response(store, store.find(owner, memory_id)))
        )

    @routes.add("DELETE", "/{memory_id}", "Delete a translation memory", status=204)
    async def delete(request: Request, memory_id: str) -> Response:
        """Delete a memory that belongs to the client."""
        owner = BEARER_KEY.admit_owner(context, request)
        await run_in_thread(store.delete, owner, memory_id)
        return Response(status_code=204)

    @routes.add(
        "POST", "/{memory_id}/pairs", "Add pairs to a translation memory",
        body=PairsBody, response_model=AddedAnswer,
    )  # fmt: skip
    async def add(request: Request, memory_id: str) -> Response:
        """Add confirmed translations to a memory, for use from the next translation on.

        A pair already in the memory becomes the newest, so that it is preferred to other translations of the
        same source.
        """
        owner = BEARER_KEY.admit_owner(context, request)
        body = await read_json(request, PairsBody)
        pairs = [Pair(**pair.model_dump()) for pair in body.pairs]
        counts = await run_in_thread(lambda: store.confirm(store.find(owner, memory_id), pairs))
        return json_response({"new": counts.new, "known": counts.known, "skipped": dict(counts.skipped)})

    @routes.add(
        "POST", "/{memory_id}/look-up", "Look up the pieces of a translation",
        body=LookUpBody, response_model=LookUpAnswer,
    )  # fmt: skip
    async def look_up_pieces(request: Request, memory_id: str) -> Response:
        """Translate a text with a memory, and return the nearest stored decoder state for each piece.

        The text is translated as by `/v1/translate` with the memory, but without a glossary or placeholders.
        Chains of models are refused with the code `not_inspectable`.
        """
        client = BEARER_KEY.admit(context, request)
        body = await read_json(request, LookUpBody)
        characters = context.admit_texts(client, [body.text])
        memory = await run_in_thread(lambda: store.open(store.find(context.owner(client), memory_id)))
        source, target = memory.languages
        text_request = TextRequest(body.text, source=source, target=target)
        deadline = context.settings.limits.deadline

        def look_up_text(name: str, source: str, target: str, translator: Translator) -> dict[str, object]:
            return {"model": name, **look_up_response(translator, memory, body)}

        async with context.charge_or_refund(client, characters), while_connected(request):
            answer = await context.service.inspect(
                text_request, look_up_text, client=client.name, deadline=deadline
            )
        return json_response(answer)

    return routes


def look_up_response(translator: Translator, memory: Memory, body: LookUpBody) -> dict[str, object]:
    """Translate a text with a memory, and return the translation and the results of the look-ups as JSON."""
    lookups = look_up(translator, body.text, memory, body.threshold)
    return {
        "text": lookups.translation.text,
        "pairs": [
            {
                "source": pair.source,
                "target": pair.target,
                "score": pair.score,
                "pieces": list(pair.tokens),
            }
            for pair in lookups.pairs
        ],
        "pieces": [
            {
                "piece": lookup.token,
                "pair": lookup.pair,
                "position": lookup.position,
                "remembered": lookups.piece_after(lookup),
                "distance": lookup.distance / lookups.radius,
                "weight": lookup.weight,
                "model_probability": lookup.model_probability,
                "probability": lookup.probability,
            }
            for lookup in lookups.tokens
        ],
    }


def memory_response(store: MemoryStore, stored_memory: StoredMemory) -> dict[str, object]:
    """Return the description of a memory as JSON."""
    memory = store.open(stored_memory)
    source, target = memory.languages
    return {
        "id": stored_memory.id,
        "name": memory.name,
        "source": source,
        "target": target,
        "pairs": len(memory),
        "shared": stored_memory.shared,
    }
