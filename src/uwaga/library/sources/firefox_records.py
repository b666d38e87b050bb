"""Firefox Translations' models as Firefox finds them: Remote Settings and zstd attachments.

Every file is stated with size and SHA-256, packed and unpacked. The service is Firefox's own and not meant
for the production of others: take :mod:`uwaga.library.sources.firefox`, or a mirror.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from uwaga.errors import CatalogueError, shown
from uwaga.files.http import HttpClient, NotThereError, join_url, public_url, read_document
from uwaga.library.entry import (
    FIREFOX_LICENCE,
    MODEL_BYTES,
    CatalogueEntry,
    RemoteFile,
    check_names,
    entry_name,
)
from uwaga.library.fields import Fields, check_file_name, parse_json
from uwaga.library.sources.source import Listing, Query, Source
from uwaga.library.unpack import packing_of

NAME = "firefox-records"
ADDRESS = "https://firefox.settings.services.mozilla.com/v1"
ATTACHMENTS = "https://firefox-settings-attachments.cdn.mozilla.net"
RECORDS = "buckets/main/collections/translations-models-v2/records"
MIRRORED = "records.json"
LARGEST = 1 << 26
NEEDED = ({"model", "vocab"}, {"model", "srcvocab", "trgvocab"})
WANTED = ("model", "lex", "vocab", "srcvocab", "trgvocab")
RELEASED = {
    "": "Release",
    "env.appinfo.OS == 'Android'": "Release Android",
    "env.appinfo.OS != 'Android'": "Release Desktop",
}
VERSION = re.compile(r"(\d{1,6})(?:\.(\d{1,6}))?(?:\.(\d{1,6}))?(?:([ab])(\d{1,6}))?", re.ASCII)
FINAL = "c"
"""Sorts behind the letters of alphas and betas."""

Key = tuple[str, str, str, str]
"""Languages, architecture and version, which the records of a model share."""


def read_records(query: Query) -> Listing:
    """The newest whole model of each pair and architecture.

    Raises:
        CatalogueError: the records cannot be had, or are none.
    """
    base = query.place.rstrip("/")
    where = join_url(base, MIRRORED) if base else join_url(ADDRESS, RECORDS)
    with HttpClient(query.limits) as client:
        try:
            content = read_document(client, where, LARGEST)
        except NotThereError:
            if not base:
                raise
            where = join_url(base, RECORDS)
            content = read_document(client, where, LARGEST)
    where = public_url(where)
    models: dict[Key, dict[str, Fields]] = defaultdict(dict)
    problems: list[str] = []
    records = Fields(parse_json(content, where), where).entries("data")
    for number, values in enumerate(records):
        try:
            record = Fields(values, f"{where}: record {number + 1}")
            kind = record.text("fileType", "")
            if kind in WANTED:
                _put(models, record, kind)
        except CatalogueError as error:
            problems.append(str(error))
    newest: dict[str, CatalogueEntry] = {}
    for key, files in models.items():
        try:
            entry = _entry(key, files, base or ATTACHMENTS)
        except CatalogueError as error:
            problems.append(str(error))
            continue
        if entry.name not in newest or _order(entry.version) > _order(newest[entry.name].version):
            newest[entry.name] = entry
    return Listing(tuple(newest.values()), tuple(problems))


def _put(models: Mapping[Key, dict[str, Fields]], record: Fields, kind: str) -> None:
    source, target = record.language("sourceLanguage"), record.language("targetLanguage")
    version = record.word("version")
    _order(version, record.where)
    files = models[source, target, record.word("architecture", ""), version]
    if kind in files:
        raise CatalogueError(f"{record.where}: a second {kind} of {source}-{target} {version}; refused")
    files[kind] = record


def _entry(key: Key, records: Mapping[str, Fields], base: str) -> CatalogueEntry:
    source, target, architecture, version = key
    if not any(kinds <= records.keys() for kinds in NEEDED):
        raise CatalogueError(
            f"{source}-{target} {architecture} {version}: not whole: there is only "
            f"{', '.join(sorted(records))}"
        )
    files = tuple(_file(record, base) for record in records.values())
    check_names(files, f"{source}-{target} {version}")
    channel = records["model"].text("filter_expression", "")
    return CatalogueEntry(
        source=NAME,
        name=entry_name(NAME, source, target, architecture),
        source_language=source,
        target_language=target,
        architecture=architecture,
        version=version,
        status=RELEASED.get(channel, "not released"),
        released=channel in RELEASED,
        licence=FIREFOX_LICENCE,
        files=files,
    )


def _file(record: Fields, base: str) -> RemoteFile:
    attachment = record.fields("attachment")
    location = attachment.path("location")
    name = check_file_name(record.text("name"), record.where)
    packed = attachment.text("filename", location)
    return RemoteFile(
        name=name,
        locations=(join_url(base, location),),
        packing=packing_of(location)[1] or packing_of(packed)[1],
        size=record.size("decompressedSize", MODEL_BYTES),
        sha256=record.sha256("decompressedHash"),
        packed_size=attachment.size("size", MODEL_BYTES),
        packed_sha256=attachment.sha256("hash"),
    )


def _order(version: str, where: str = "") -> tuple[int, int, int, str, int]:
    """What sorts versions such as 1.0, 2.1a3 and 3.0 by age."""
    found = VERSION.fullmatch(version)
    if found is None:
        raise CatalogueError(f"{where}: version is {shown(version)}, not one such as 2.1; refused")
    numbers = [int(part or 0) for part in found.group(1, 2, 3)]
    return numbers[0], numbers[1], numbers[2], found[4] or FINAL, int(found[5] or 0)


FIREFOX_RECORDS = Source(
    NAME, "Firefox's Remote Settings", f"{ADDRESS}/{RECORDS}", "UWAGA_FIREFOX_RECORDS_URL", read_records
)
