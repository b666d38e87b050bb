"""The source of Argos Translate's packages.

Their index states neither sizes nor hashes, but the zip files contain checksums.
"""

from __future__ import annotations

import re

from uwaga.errors import CatalogueError
from uwaga.files.http import HttpClient, check_url, is_http_url, join_url, public_url, read_document
from uwaga.library.entry import MODEL_BYTES, CatalogueEntry, Listing, Query, RemoteFile, Source, entry_name
from uwaga.library.fields import Fields, as_list, check_file_name, parse_json

NAME = "argos"
ADDRESS = "https://raw.githubusercontent.com/argosopentech/argospm-index/main"
INDEX = "index.json"
MAX_INDEX_BYTES = 1 << 24
SUFFIX = ".argosmodel"
UNSTATED = "not stated"


def read_argos(query: Query) -> Listing:
    """Return the newest package of each language pair; on a mirror, packages are next to the index."""
    base = query.mirror.rstrip("/")
    context = join_url(base or ADDRESS, INDEX)
    with HttpClient(query.limits) as client:
        content = read_document(client, context, MAX_INDEX_BYTES)
    context = public_url(context)
    newest_entries: dict[str, CatalogueEntry] = {}
    problems = []
    for index, values in enumerate(as_list(parse_json(content, context), context)):
        try:
            entry = _entry(Fields(values, f"{context}: package {index + 1}"), base)
        except CatalogueError as error:
            problems.append(str(error))
            continue
        if entry is None:
            continue
        if entry.name not in newest_entries or _version_key(entry.version) > _version_key(
            newest_entries[entry.name].version
        ):
            newest_entries[entry.name] = entry
    return Listing(tuple(newest_entries.values()), tuple(problems))


def _entry(values: Fields, base: str) -> CatalogueEntry | None:
    """Return the entry of a package, or None if it is not a translation model."""
    if values.text("type", "translate") != "translate":
        return None
    source, target = values.language("from_code"), values.language("to_code")
    links = [link for link in values.entries("links") if isinstance(link, str) and is_http_url(link)]
    if not links:
        raise CatalogueError(f"{values.context}: the package has no HTTP link")
    name = check_file_name(check_url(links[0]).partition("?")[0].rpartition("/")[2], values.context)
    if not name.endswith(SUFFIX):
        raise CatalogueError(f"{values.context}: {name} is not a {SUFFIX} file; the entry is refused")
    locations = (join_url(base, name),) if base else tuple(check_url(link) for link in links)
    return CatalogueEntry(
        source=NAME,
        name=entry_name(NAME, source, target),
        source_language=source,
        target_language=target,
        version=values.text("package_version", ""),
        status="Release",
        licence=UNSTATED,
        files=(RemoteFile(name, locations, default_limit=MODEL_BYTES),),
        model=name,
    )


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,9}", version))


ARGOS = Source(NAME, "Argos Translate's index", f"{ADDRESS}/{INDEX}", "UWAGA_ARGOS_URL", read_argos)
