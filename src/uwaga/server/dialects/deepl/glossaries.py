"""Glossaries with one language pair (``/v2``) and with several (``/v3``), in one store."""

from __future__ import annotations

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from uwaga.errors import DataError
from uwaga.languages.codes import base_language
from uwaga.server.api_errors import ApiError, in_thread
from uwaga.server.context import DEEPL, ServerContext
from uwaga.server.dialects.deepl.account import glossary_pairs
from uwaga.server.http import Parameters, json_response, read_fields
from uwaga.server.routing import Answer, BodyKind, Routes
from uwaga.server.store.glossary import (
    Dictionary,
    EntriesFormat,
    StoredGlossary,
    read_entries,
    written_entries,
)

TSV = "text/tab-separated-values"
INVALID_ENTRIES = "Invalid glossary entries provided"
NO_CONTENT = 204
BODY: BodyKind = "json or form"


class PairParameters(Parameters):
    """A dictionary of a glossary."""

    source_lang: str = Field(min_length=2, max_length=16, examples=["en"])
    target_lang: str = Field(min_length=2, max_length=16, examples=["de"])


class DictionaryParameters(PairParameters):
    """The entries of one pair of languages."""

    entries: str = Field(examples=["dog\tHund"])
    entries_format: EntriesFormat = "tsv"


class GlossaryParameters(DictionaryParameters):
    """A glossary of one pair of languages."""

    name: str = Field(min_length=1, max_length=1024, examples=["Words"])


class MultilingualParameters(Parameters):
    """A glossary of several pairs."""

    name: str = Field(min_length=1, max_length=1024, examples=["Words"])
    dictionaries: list[DictionaryParameters] = Field(min_length=1, max_length=200)


class ChangeParameters(Parameters):
    """Changes of a glossary: a new name, further entries."""

    name: str | None = Field(None, min_length=1, max_length=1024)
    dictionaries: list[DictionaryParameters] = Field([], max_length=200)


def add_glossaries(routes: Routes, context: ServerContext) -> None:
    """Add the routes of both versions."""
    _add_version_2(routes, context)
    _add_version_3(routes, context)
    _add_dictionaries(routes, context)

    async def delete(request: Request, glossary_id: str) -> Response:
        """Delete a glossary."""
        owner = DEEPL.owner(context, request)
        await in_thread(context.stores.glossaries.remove, owner, glossary_id)
        return Response(status_code=NO_CONTENT)

    for version in ("v2", "v3"):
        path = f"/{version}/glossaries/{{glossary_id}}"
        routes.add("DELETE", path, "Delete a glossary", status=NO_CONTENT)(delete)


def _add_version_2(routes: Routes, context: ServerContext) -> None:
    @routes.add("GET", "/v2/glossary-language-pairs", "Language pairs of glossaries")
    async def pairs(request: Request) -> Response:
        """List the language pairs that a glossary can have."""
        DEEPL.client(context, request)
        every = [{"source_lang": one, "target_lang": other} for one, other in glossary_pairs(context.service)]
        return json_response({"supported_languages": every})

    @routes.add("POST", "/v2/glossaries", "Create a glossary", body=GlossaryParameters, kind=BODY, status=201)
    async def create(request: Request) -> Response:
        """Create a glossary with one language pair."""
        owner = DEEPL.owner(context, request)
        fields = await read_fields(request, GlossaryParameters)
        glossary = await _create(context, owner, fields.name, [fields])
        return json_response(_pair_response(glossary), 201)

    @routes.add("GET", "/v2/glossaries", "List the glossaries of one pair")
    async def every(request: Request) -> Response:
        """List the glossaries with one language pair."""
        owner = DEEPL.owner(context, request)
        glossary: list[StoredGlossary] = await in_thread(context.stores.glossaries.all, owner)
        return json_response(
            {"glossaries": [_pair_response(one) for one in glossary if len(one.dictionaries) == 1]}
        )

    @routes.add("GET", "/v2/glossaries/{glossary_id}", "A glossary")
    async def one(request: Request, glossary_id: str) -> Response:
        """Return a glossary's name and dictionaries."""
        return json_response(_pair_response(await _of_one_pair(context, request, glossary_id)))

    @routes.add(
        "GET",
        "/v2/glossaries/{glossary_id}/entries",
        "The entries of a glossary, as TSV",
        answers={200: Answer("An entry per line", content={TSV: {"schema": {"type": "string"}}})},
    )
    async def entries(request: Request, glossary_id: str) -> Response:
        """Return the entries, one per line."""
        accepted = [
            part.partition(";")[0].strip() for part in request.headers.get("accept", "*/*").split(",")
        ]
        if not {TSV, "text/*", "*/*"} & set(accepted):
            raise ApiError(
                415, "unsupported_media_type", "No supported media type specified in Accept header"
            )
        glossary = await _of_one_pair(context, request, glossary_id)
        return Response(written_entries(glossary.dictionaries[0].entries), media_type=TSV)


def _add_version_3(routes: Routes, context: ServerContext) -> None:
    @routes.add(
        "POST", "/v3/glossaries", "Create a glossary", body=MultilingualParameters, kind=BODY, status=201
    )
    async def create(request: Request) -> Response:
        """Create a glossary."""
        owner = DEEPL.owner(context, request)
        fields = await read_fields(request, MultilingualParameters)
        return json_response(
            _glossary_response(await _create(context, owner, fields.name, fields.dictionaries)), 201
        )

    @routes.add("GET", "/v3/glossaries", "List the glossaries")
    async def every(request: Request) -> Response:
        """List the glossaries."""
        owner = DEEPL.owner(context, request)
        glossary: list[StoredGlossary] = await in_thread(context.stores.glossaries.all, owner)
        return json_response({"glossaries": [_glossary_response(one) for one in glossary]})

    @routes.add("GET", "/v3/glossaries/{glossary_id}", "A glossary")
    async def one(request: Request, glossary_id: str) -> Response:
        """Return a glossary's name and dictionaries."""
        owner = DEEPL.owner(context, request)
        glossary: StoredGlossary = await in_thread(context.stores.glossaries.get, owner, glossary_id)
        return json_response(_glossary_response(glossary))

    @routes.add(
        "PATCH", "/v3/glossaries/{glossary_id}", "Change a glossary", body=ChangeParameters, kind=BODY
    )
    async def change(request: Request, glossary_id: str) -> Response:
        """Rename a glossary, and add entries to its dictionaries."""
        owner = DEEPL.owner(context, request)
        fields = await read_fields(request, ChangeParameters)
        new = [_dictionary(context, one) for one in fields.dictionaries]
        if fields.name is None and not new:
            raise ApiError(400, "invalid_request", "Parameter 'name' or 'dictionaries' is needed.", "name")

        def changed(old: StoredGlossary) -> StoredGlossary:
            glossary = old if fields.name is None else old.renamed(fields.name)
            for one in new:
                glossary = glossary.with_entries(one)
            return glossary

        return json_response(
            _glossary_response(await in_thread(context.stores.glossaries.change, owner, glossary_id, changed))
        )


def _add_dictionaries(routes: Routes, context: ServerContext) -> None:
    entries_of, dictionaries = (
        "/v3/glossaries/{glossary_id}/entries",
        "/v3/glossaries/{glossary_id}/dictionaries",
    )

    @routes.add("GET", entries_of, "The entries of a pair", body=PairParameters, kind="query")
    async def entries(request: Request, glossary_id: str) -> Response:
        """Return the entries of one dictionary, as TSV in JSON."""
        owner = DEEPL.owner(context, request)
        fields = await read_fields(request, PairParameters)
        glossary: StoredGlossary = await in_thread(context.stores.glossaries.get, owner, glossary_id)
        one: Dictionary = await in_thread(glossary.dictionary, fields.source_lang, fields.target_lang)
        content = {
            "source_lang": one.source,
            "target_lang": one.target,
            "entries": written_entries(one.entries),
        }
        return json_response({"dictionaries": [{**content, "entries_format": "tsv"}]})

    @routes.add("PUT", dictionaries, "Replace a dictionary", body=DictionaryParameters, kind=BODY)
    async def put(request: Request, glossary_id: str) -> Response:
        """Add a dictionary, or replace the one with its languages."""
        owner = DEEPL.owner(context, request)
        new = _dictionary(context, await read_fields(request, DictionaryParameters))
        glossary: StoredGlossary = await in_thread(
            context.stores.glossaries.change, owner, glossary_id, lambda old: old.with_dictionary(new)
        )
        return json_response(_dictionary_response(glossary.dictionary(new.source, new.target)))

    @routes.add(
        "DELETE", dictionaries, "Delete a dictionary", body=PairParameters, kind="query", status=NO_CONTENT
    )
    async def delete(request: Request, glossary_id: str) -> Response:
        """Delete a dictionary of a glossary."""
        owner = DEEPL.owner(context, request)
        fields = await read_fields(request, PairParameters)
        await in_thread(
            context.stores.glossaries.change,
            owner,
            glossary_id,
            lambda old: old.without_dictionary(fields.source_lang, fields.target_lang),
        )
        return Response(status_code=NO_CONTENT)


async def _create(
    context: ServerContext, owner: str, name: str, fields: list[DictionaryParameters]
) -> StoredGlossary:
    glossary: StoredGlossary = await in_thread(
        StoredGlossary.new, name, [_dictionary(context, one) for one in fields]
    )
    await in_thread(context.stores.glossaries.add, owner, glossary)
    return glossary


def _dictionary(context: ServerContext, fields: DictionaryParameters) -> Dictionary:
    """Return a dictionary from the parameters of a request.

    Raises:
        ApiError: no model translates the languages, or an entry is invalid.
    """
    pair = base_language(fields.source_lang), base_language(fields.target_lang)
    if pair not in {
        (base_language(one), base_language(other)) for one, other in glossary_pairs(context.service)
    }:
        message = "Unsupported glossary source and target language pair"
        raise ApiError(400, "unsupported_languages", message, "target_lang")
    try:
        return Dictionary(*pair, read_entries(fields.entries, fields.entries_format, pair))
    except DataError as error:
        raise ApiError(400, "invalid_entries", f"{INVALID_ENTRIES}: {error}", "entries") from None


async def _of_one_pair(context: ServerContext, request: Request, glossary_id: str) -> StoredGlossary:
    owner = DEEPL.owner(context, request)
    glossary: StoredGlossary = await in_thread(context.stores.glossaries.get, owner, glossary_id)
    if len(glossary.dictionaries) != 1:
        raise ApiError(404, "not_found", "the glossary has several language pairs: use /v3/glossaries")
    return glossary


def _created(one: StoredGlossary) -> str:
    return one.created.strftime("%Y-%m-%dT%H:%M:%S.") + f"{one.created.microsecond // 1000:03}Z"


def _dictionary_response(one: Dictionary) -> dict[str, object]:
    return {"source_lang": one.source, "target_lang": one.target, "entry_count": len(one.entries)}


def _pair_response(one: StoredGlossary) -> dict[str, object]:
    content = {"glossary_id": one.id, "name": one.name, "ready": True}
    return {**content, **_dictionary_response(one.dictionaries[0]), "creation_time": _created(one)}


def _glossary_response(one: StoredGlossary) -> dict[str, object]:
    dictionaries = [_dictionary_response(dictionary) for dictionary in one.dictionaries]
    return {
        "glossary_id": one.id,
        "name": one.name,
        "dictionaries": dictionaries,
        "creation_time": _created(one),
    }
