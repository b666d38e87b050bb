"""``/v2/languages``, ``/v3/languages`` and ``/v2/usage``, with DeepL's language codes (``EN-US``)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from uwaga.languages.codes import base_language
from uwaga.languages.names import language_name
from uwaga_server.api_errors import ApiError, run_in_thread
from uwaga_server.context import DEEPL_KEY, ServerContext
from uwaga_server.http import Names, Parameters, json_response, read_fields
from uwaga_server.routing import Body, Routes
from uwaga_server.service import Service

TARGET_VARIANTS = {
    "en": (("EN-GB", "English (British)"), ("EN-US", "English (American)")),
    "pt": (("PT-BR", "Portuguese (Brazilian)"), ("PT-PT", "Portuguese (European)")),
}
"""Variants of target languages that DeepL's clients request; the variants of a language share its models."""
SPECIAL_CODES = {"no": "NB"}


@dataclass(frozen=True)
class ListedLanguage:
    """A language in a list, with DeepL's code and the server's code."""

    code: str
    name: str
    server_code: str


def deepl_code(code: str) -> str:
    """Return DeepL's code for a language, such as ``EN`` or ``ZH-HANT``."""
    return SPECIAL_CODES.get(code, code.upper())


def source_languages(service: Service) -> list[ListedLanguage]:
    """Return the source languages that the server supports."""
    sources = service.languages.sources
    return [ListedLanguage(deepl_code(source.code), source.name, source.code) for source in sources]


def target_languages(service: Service) -> list[ListedLanguage]:
    """Return the target languages that the server supports, with the variants of English and Portuguese."""
    return [
        ListedLanguage(code, name, server_code)
        for server_code in sorted(
            {target for source in service.languages.sources for target in source.targets}
        )
        for code, name in TARGET_VARIANTS.get(
            base_language(server_code), ((deepl_code(server_code), language_name(server_code)),)
        )
    ]


def glossary_pairs(service: Service) -> list[tuple[str, str]]:
    """Return the language pairs that can have a glossary: those that a single model translates."""
    return [
        (source.code, target)
        for source in service.languages.sources
        for target in source.targets
        if len(service.languages.route(source.code, target) or ()) == 1
    ]


UNLIMITED_COUNT = 1_000_000_000_000
"""Limit that DeepL's API reports for an unlimited account."""
FEATURES: dict[str, tuple[str, ...]] = {
    "translate_text": ("tag_handling", "glossary", "auto_detection"),
    "translate_document": ("glossary", "auto_detection"),
    "glossary": (),
}
"""The supported features of each resource."""
ONE_SIDED_FEATURES = {"tag_handling": ("target",), "auto_detection": ("source",)}
"""The side that must support a feature, ``source`` or ``target``; both sides must support other features."""


class LanguagesParameters(Parameters):
    """Parameters of ``/v2/languages``."""

    type: Literal["source", "target"] = "source"


class ResourceParameters(Parameters):
    """Parameters of ``/v3/languages``."""

    resource: (
        Literal[
            "translate_text",
            "translate_document",
            "glossary",
            "voice",
            "write",
            "style_rules",
            "translation_memory",
        ]
        | None
    ) = Field(None, description="Required.")
    include: Names = Field([])
    product: str | None = Field(None, description="Former name of `resource`; refused.")


def add_account_routes(routes: Routes, context: ServerContext) -> None:
    """Add the routes that list languages and report usage."""

    @routes.add(
        "GET", "/v2/languages", "List source or target languages", body=Body(LanguagesParameters, "query")
    )
    async def languages(request: Request) -> Response:
        """List the source or the target languages."""
        DEEPL_KEY.admit(context, request)
        fields = await read_fields(request, LanguagesParameters)
        is_source = fields.type == "source"
        listed_languages = (
            source_languages(context.service) if is_source else target_languages(context.service)
        )
        extra_fields = {} if is_source else {"supports_formality": False}
        return json_response(
            [
                {"language": language.code, "name": language.name, **extra_fields}
                for language in listed_languages
            ]
        )

    @routes.add(
        "GET", "/v3/languages", "List the languages of a resource", body=Body(ResourceParameters, "query")
    )
    async def resource_language_list(request: Request) -> Response:
        """List the languages of a resource, with their features."""
        DEEPL_KEY.admit(context, request)
        fields = await read_fields(request, ResourceParameters)
        if fields.product is not None:
            raise ApiError(400, "renamed", "Parameter 'product' was renamed to 'resource'.", "product")
        if fields.resource is None:
            raise ApiError(400, "missing", "Parameter 'resource' is missing.", "resource")
        return json_response(resource_languages(context.service, fields.resource))

    @routes.add("GET", "/v3/languages/resources", "List resources")
    async def resources(request: Request) -> Response:
        """List the resources and their features."""
        DEEPL_KEY.admit(context, request)
        return json_response([{"name": name, "features": _feature_list(name)} for name in FEATURES])

    @routes.add("GET", "/v2/usage", "Get the usage of a key")
    async def usage(request: Request) -> Response:
        """Return the number of characters and documents used so far, and the character limit."""
        client = DEEPL_KEY.admit(context, request)
        usage = await run_in_thread(context.stores.usage.read, context.owner(client))
        limit = client.characters or UNLIMITED_COUNT
        start_time = datetime.fromtimestamp(usage.since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        product = {"product_type": "translate", "billing_unit": "characters"}
        counts = dict.fromkeys(
            ("api_key_unit_count", "account_unit_count", "api_key_character_count", "character_count"),
            usage.characters,
        )
        content: dict[str, object] = {
            "character_count": usage.characters,
            "character_limit": limit,
            "api_key_character_count": usage.characters,
            "api_key_character_limit": limit,
            "document_count": usage.documents,
            "document_limit": UNLIMITED_COUNT,
            "products": [{**product, **counts}],
        }
        return json_response(content | ({"start_time": start_time} if usage.since else {}))


def resource_languages(service: Service, resource: str) -> list[dict[str, object]]:
    """Return the languages of a resource, with their features; an empty list if it is not supported."""
    if resource not in FEATURES:
        return []
    if resource == "glossary":
        pairs = glossary_pairs(service)
        sources, targets = {code for code, _ in pairs}, {code for _, code in pairs}
        languages = {code: (code, language_name(code)) for code in sorted(sources | targets)}
    else:
        source_list, variants = source_languages(service), target_languages(service)
        base_codes = dict.fromkeys(
            language.server_code for language in variants
        )  # such as English, without its variants
        bases = [ListedLanguage(deepl_code(code), language_name(code), code) for code in base_codes]
        target_list = [*bases, *variants]
        sources = {language.code for language in source_list}
        targets = {language.code for language in target_list}
        languages = {
            language.code: (language.code, language.name) for language in (*source_list, *target_list)
        }
    stable = {"status": "stable"}
    return [
        {
            "lang": _format_bcp47(code),
            "name": name,
            "usable_as_source": key in sources,
            "usable_as_target": key in targets,
            "status": "stable",
            "features": dict.fromkeys(_supported_features(resource, key in sources, key in targets), stable),
        }
        for key, (code, name) in languages.items()
    ]


def _supported_features(resource: str, is_source: bool, is_target: bool) -> list[str]:
    sides = {"source": is_source, "target": is_target}
    required_sides = {name: ONE_SIDED_FEATURES.get(name, tuple(sides)) for name in FEATURES[resource]}
    return [name for name in required_sides if any(sides[side] for side in required_sides[name])]


def _feature_list(resource: str) -> list[dict[str, object]]:
    sides = {name: ONE_SIDED_FEATURES.get(name, ("source", "target")) for name in FEATURES[resource]}
    return [
        {"name": name, **{f"needs_{side}_support": True for side in required}}
        for name, required in sides.items()
    ]


def _format_bcp47(code: str) -> str:
    """Return a language code in BCP 47 case: ``en-US`` for ``EN-US``, ``zh-Hant`` for ``ZH-HANT``."""
    base, hyphen, suffix = deepl_code(code).partition("-")
    return f"{base.lower()}{hyphen}{suffix.title() if len(suffix) > 2 else suffix.upper()}"
