"""Routes for glossaries with one language pair (``/v2``) or several pairs (``/v3``), which share a store."""

from __future__ import annotations

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from uwaga.errors import DataError
from uwaga.languages.codes import base_language
from uwaga_server.api_errors import ApiError, run_in_thread
from uwaga_server.context import DEEPL_KEY, ServerContext
from uwaga_server.dialects.deepl.account import glossary_pairs
from uwaga_server.dialects.glossaries import (
    NO_CONTENT,
    GlossaryApi,
    add_deletion,
    add_glossary,
    add_glossary_routes,
    read_glossary,
)
from uwaga_server.http import Parameters, json_response, read_fields
from uwaga_server.routing import Body, BodyKind, ResponseDescription, Routes
from uwaga_server.store.glossary import (
    Dictionary,
    DictionarySummary,
    EntriesFormat,
    GlossarySummary,
    StoredGlossary,
    format_entries,
    read_entries,
)

TSV = "text/tab-separated-values"
INVALID_ENTRIES = "Invalid glossary entries provided"
BODY_KIND: BodyKind = "json or form"


class PairParameters(Parameters):
    """The language pair of a dictionary."""

    source_lang: str = Field(min_length=2, max_length=16, examples=["en"])
    target_lang: str = Field(min_length=2, max_length=16, examples=["de"])


class DictionaryParameters(PairParameters):
    """A dictionary: the entries for one language pair."""

    entries: str = Field(examples=["dog\tHund"])
    entries_format: EntriesFormat = "tsv"


class GlossaryParameters(DictionaryParameters):
    """A new glossary with one language pair."""

    name: str = Field(min_length=1, max_length=1024, examples=["Words"])


class MultilingualParameters(Parameters):
    """A new glossary with several language pairs."""

    name: str = Field(min_length=1, max_length=1024, examples=["Words"])
    dictionaries: list[DictionaryParameters] = Field(
        [], max_length=200, description="May be empty; dictionaries can be added later."
    )


class ChangeParameters(Parameters):
    """Changes to a glossary: a new name, and entries to add."""

    name: str | None = Field(None, min_length=1, max_length=1024)
    dictionaries: list[DictionaryParameters] = Field([], max_length=200)


def add_deepl_glossary_routes(routes: Routes, context: ServerContext) -> None:
    """Add the glossary routes of API versions 2 and 3."""
    _add_version_2_routes(routes, context)
    api = GlossaryApi(
        DEEPL_KEY,
        BODY_KIND,
        read_fields,
        MultilingualParameters,
        ChangeParameters,
        _dictionary,
        _glossary_response,
        None,
        merge=True,
    )
    add_glossary_routes(routes, context, "/v3/glossaries", api)
    _add_dictionary_routes(routes, context)
    add_deletion(routes, context, "/v2/glossaries", DEEPL_KEY)


def _add_version_2_routes(routes: Routes, context: ServerContext) -> None:
    @routes.add("GET", "/v2/glossary-language-pairs", "List the language pairs for glossaries")
    async def pairs(request: Request) -> Response:
        """List the language pairs that a glossary can have."""
        DEEPL_KEY.admit(context, request)
        language_pairs = glossary_pairs(context.service)
        return json_response(
            {
                "supported_languages": [
                    {"source_lang": pair[0], "target_lang": pair[1]} for pair in language_pairs
                ]
            }
        )

    @routes.add(
        "POST",
        "/v2/glossaries",
        "Create a glossary",
        body=Body(GlossaryParameters, BODY_KIND, large=True),
        status=201,
    )
    async def create(request: Request) -> Response:
        """Create a glossary with one language pair."""
        owner = DEEPL_KEY.admit_owner(context, request)
        fields = await read_fields(request, GlossaryParameters)
        glossary = await add_glossary(context, owner, fields.name, lambda: [_dictionary(context, fields)])
        return json_response(_pair_response(glossary), 201)

    @routes.add("GET", "/v2/glossaries", "List the glossaries with one language pair")
    async def list_glossaries(request: Request) -> Response:
        """List the glossaries that have exactly one language pair."""
        owner = DEEPL_KEY.admit_owner(context, request)
        store = context.stores.glossaries

        def response() -> Response:
            listed_glossaries = [
                _pair_response(glossary) for glossary in store.all(owner) if len(glossary.dictionaries) == 1
            ]
            return json_response({"glossaries": listed_glossaries})

        return await run_in_thread(response)

    @routes.add("GET", "/v2/glossaries/{glossary_id}", "Get a glossary")
    async def read(request: Request, glossary_id: str) -> Response:
        """Return the name, languages and number of entries of a glossary."""
        owner = DEEPL_KEY.admit_owner(context, request)
        glossary = await run_in_thread(context.stores.glossaries.summary, owner, glossary_id)
        return json_response(_pair_response(_check_one_pair(glossary)))

    @routes.add(
        "GET",
        "/v2/glossaries/{glossary_id}/entries",
        "Get the entries of a glossary as TSV",
        responses={
            200: ResponseDescription(
                "The entries, one per line", content={TSV: {"schema": {"type": "string"}}}
            )
        },
    )
    async def entries(request: Request, glossary_id: str) -> Response:
        """Return the entries of a glossary as tab-separated values, one per line."""
        owner = DEEPL_KEY.admit_owner(context, request)
        accepted_types = [
            part.partition(";")[0].strip() for part in request.headers.get("accept", "*/*").split(",")
        ]
        if not {TSV, "text/*", "*/*"} & set(accepted_types):
            raise ApiError(
                415, "unsupported_media_type", "No supported media type specified in Accept header"
            )

        def response(glossary: StoredGlossary) -> Response:
            _check_one_pair(glossary.summary)
            return Response(format_entries(glossary.dictionaries[0].entries), media_type=TSV)

        return await read_glossary(context, owner, glossary_id, response)


def _add_dictionary_routes(routes: Routes, context: ServerContext) -> None:
    entries_path = "/v3/glossaries/{glossary_id}/entries"
    dictionaries_path = "/v3/glossaries/{glossary_id}/dictionaries"

    @routes.add("GET", entries_path, "Get the entries of a dictionary", body=Body(PairParameters, "query"))
    async def entries(request: Request, glossary_id: str) -> Response:
        """Return the entries of one dictionary, as a TSV string in a JSON object."""
        owner = DEEPL_KEY.admit_owner(context, request)
        fields = await read_fields(request, PairParameters)

        def response(glossary: StoredGlossary) -> Response:
            dictionary = glossary.dictionary(fields.source_lang, fields.target_lang)
            content = {
                "source_lang": dictionary.source,
                "target_lang": dictionary.target,
                "entries": format_entries(dictionary.entries),
            }
            return json_response({"dictionaries": [{**content, "entries_format": "tsv"}]})

        return await read_glossary(context, owner, glossary_id, response)

    @routes.add(
        "PUT",
        dictionaries_path,
        "Replace a dictionary",
        body=Body(DictionaryParameters, BODY_KIND, large=True),
    )
    async def put(request: Request, glossary_id: str) -> Response:
        """Add a dictionary to a glossary, or replace the dictionary with the same languages."""
        owner = DEEPL_KEY.admit_owner(context, request)
        fields = await read_fields(request, DictionaryParameters)
        glossary: GlossarySummary = await run_in_thread(
            context.stores.glossaries.change,
            owner,
            glossary_id,
            lambda glossary: glossary.with_dictionary(_dictionary(context, fields)),
        )
        return json_response(_dictionary_response(glossary.dictionaries[-1]))

    @routes.add(
        "DELETE",
        dictionaries_path,
        "Delete a dictionary",
        body=Body(PairParameters, "query"),
        status=NO_CONTENT,
    )
    async def delete(request: Request, glossary_id: str) -> Response:
        """Delete a dictionary of a glossary."""
        owner = DEEPL_KEY.admit_owner(context, request)
        fields = await read_fields(request, PairParameters)
        await run_in_thread(
            context.stores.glossaries.change,
            owner,
            glossary_id,
            lambda glossary: glossary.without_dictionary(fields.source_lang, fields.target_lang),
        )
        return Response(status_code=NO_CONTENT)


def _dictionary(context: ServerContext, fields: DictionaryParameters) -> Dictionary:
    """Return the dictionary that the parameters of a request describe."""
    pair = base_language(fields.source_lang), base_language(fields.target_lang)
    if pair not in {
        tuple(map(base_language, served_pair)) for served_pair in glossary_pairs(context.service)
    }:
        message = "Unsupported glossary source and target language pair"
        raise ApiError(400, "unsupported_languages", message, "target_lang")
    try:
        return Dictionary(*pair, read_entries(fields.entries, fields.entries_format, pair))
    except DataError as error:
        raise ApiError(400, "invalid_entries", f"{INVALID_ENTRIES}: {error}", "entries") from None


def _check_one_pair(glossary: GlossarySummary) -> GlossarySummary:
    if len(glossary.dictionaries) != 1:
        raise ApiError(
            404, "not_found", "the glossary does not have exactly one language pair: use /v3/glossaries"
        )
    return glossary


def _creation_time(glossary: GlossarySummary) -> str:
    creation_time = glossary.created
    return creation_time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{creation_time.microsecond // 1000:03}Z"


def _dictionary_response(dictionary: DictionarySummary) -> dict[str, object]:
    return {
        "source_lang": dictionary.source,
        "target_lang": dictionary.target,
        "entry_count": dictionary.count,
    }


def _pair_response(glossary: GlossarySummary) -> dict[str, object]:
    content = {"glossary_id": glossary.id, "name": glossary.name, "ready": True}
    [dictionary] = glossary.dictionaries
    return {**content, **_dictionary_response(dictionary), "creation_time": _creation_time(glossary)}


def _glossary_response(glossary: GlossarySummary) -> dict[str, object]:
    return {
        "glossary_id": glossary.id,
        "name": glossary.name,
        "dictionaries": [_dictionary_response(dictionary) for dictionary in glossary.dictionaries],
        "creation_time": _creation_time(glossary),
    }
