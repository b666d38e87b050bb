"""Firefox Translations' models, from the storage of their publisher or from Firefox's Remote Settings.

The storage holds gzip files and ``db/models.json``, which states the size and the SHA-256 of the unpacked
weights; of the vocabulary and the shortlist it states nothing, so gzip's own checksum is the only check
(github.com/mozilla/translations, db/updater.py).

Remote Settings holds zstd attachments, each with size and SHA-256, packed and unpacked. It is Firefox's own
service and not meant for other products: prefer the storage, or a mirror.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from uwaga.errors import CatalogueError, shown
from uwaga.files.http import HttpClient, NotThereError, is_url, join_url, public_url, read_document
from uwaga.library.entry import (
    FIREFOX_LICENCE,
    MODEL_BYTES,
    OTHER_BYTES,
    CatalogueEntry,
    Listing,
    Query,
    RemoteFile,
    Source,
    check_names,
    entry_name,
)
from uwaga.library.fetch import packing_of
from uwaga.library.fields import Fields, as_list, check_file_name, check_language, parse_json

NAME = "firefox"
ADDRESS = "https://storage.googleapis.com/moz-fx-translations-data--303e-prod-translations-data"
CATALOGUE = "models.json"
STORED = "db/models.json"
LARGEST_CATALOGUE = 1 << 26
"""Bytes."""
WEIGHTS = "model"
KINDS = ("lexicalShortlist", "vocab", "srcVocab", "trgVocab")
VOCABULARIES = (("vocab",), ("srcVocab", "trgVocab"))


def read_firefox(query: Query) -> Listing:
    """Return the models of the storage or of a mirror; a mirror's files are below it, whatever it states."""
    with HttpClient(query.limits) as client:
        if query.place:
            base = query.place.rstrip("/") or "/"
            content, where = _read_mirrored(client, base)
        else:
            base, where = ADDRESS, join_url(ADDRESS, STORED)
            content = read_document(client, where, LARGEST_CATALOGUE)
    where = public_url(where)
    catalogue = Fields(parse_json(content, where), where)
    if not query.place and catalogue.has("baseUrl"):
        base = catalogue.text("baseUrl")
        if not base.lower().startswith("https://"):
            raise CatalogueError(f"{where}: baseUrl is {shown(base)}, which is not an https:// URL; refused")
    entries: dict[str, CatalogueEntry] = {}
    problems = []
    for pair, models in catalogue.fields("models").items():
        for number, values in enumerate(as_list(models, f"{where}: {shown(pair)}")):
            place = f"{where}: {shown(pair)}, model {number + 1}"
            try:
                entry = _entry(Fields(values, place), pair, base)
                if entry.name in entries:
                    raise CatalogueError(f"{place}: {entry.name} is listed twice; refused")
                entries[entry.name] = entry
            except CatalogueError as error:
                problems.append(str(error))
    return Listing(tuple(entries.values()), tuple(problems))


def _read_mirrored(client: HttpClient, base: str) -> tuple[bytes, str]:
    """A mirror's catalogue and its address: next to the files, or where the storage has it."""
    try:
        return read_document(client, join_url(base, CATALOGUE), LARGEST_CATALOGUE), join_url(base, CATALOGUE)
    except NotThereError:
        pass
    try:
        return read_document(client, join_url(base, STORED), LARGEST_CATALOGUE), join_url(base, STORED)
    except NotThereError:
        kind = "mirror" if is_url(base) else "folder"
        raise CatalogueError(
            f"{public_url(base)}: a {kind} without {CATALOGUE} or {STORED}, no mirror of Firefox's models; "
            "for a folder of model folders use --from-source folder"
        ) from None


def _entry(values: Fields, pair: str, base: str) -> CatalogueEntry:
    source, target = _languages(values, pair)
    architecture = values.word("architecture", "")
    status = values.text("releaseStatus", "")
    files = values.fields("files")
    weights = files.fields(WEIGHTS)
    found = [
        _file(
            weights, base, weights.size("uncompressedSize", MODEL_BYTES), weights.sha256("uncompressedHash")
        )
    ]
    found += [_file(files.fields(kind), base) for kind in KINDS if files.has(kind)]
    if not any(all(files.has(kind) for kind in kinds) for kinds in VOCABULARIES):
        raise CatalogueError(f"{files.where}: no vocab, and no srcVocab with trgVocab")
    check_names(found, files.where)
    statistics = values.fields("modelStatistics") if values.has("modelStatistics") else None
    return CatalogueEntry(
        source=NAME,
        name=entry_name(NAME, source, target, architecture),
        source_language=source,
        target_language=target,
        architecture=architecture,
        status=status,
        released=status.startswith("Release"),
        licence=FIREFOX_LICENCE,
        files=tuple(found),
        metrics=_metrics(values),
        parameters=statistics.count("parameters") if statistics else None,
    )


def _languages(values: Fields, pair: str) -> tuple[str, str]:
    """The languages of a model: as it states them, or by the pair under which it is listed."""
    if values.has("sourceLanguage") or values.has("targetLanguage"):
        found = values.language("sourceLanguage"), values.language("targetLanguage")
        if "-".join(found) != pair:
            raise CatalogueError(
                f"{values.where}: translates {'-'.join(found)} and is listed as {shown(pair)}; refused"
            )
        return found
    source, hyphen, target = pair.partition("-")
    if not hyphen or "-" in target:
        raise CatalogueError(f"{values.where}: {shown(pair)} is not a pair of languages; refused")
    return check_language(source, values.where), check_language(target, values.where)


def _file(values: Fields, base: str, size: int | None = None, sha256: str | None = None) -> RemoteFile:
    path = values.path("path")
    name, packing = packing_of(path)
    return RemoteFile(
        name=check_file_name(name, values.where),
        locations=(join_url(base, path),),
        packing=packing,
        size=size,
        sha256=sha256,
        largest=MODEL_BYTES if size is not None else OTHER_BYTES,
    )


def _metrics(values: Fields) -> dict[str, float]:
    found: dict[str, float] = {}
    if not values.has("metrics"):
        return found
    metrics = values.fields("metrics")
    for test, _ in metrics.items():
        scores = metrics.fields(test)
        for name, score in scores.items():
            if score is not None:
                found[f"{test} {name}"[:200]] = scores.number(name)
    return {name: score for name, score in found.items() if name.isprintable()}


FIREFOX = Source(NAME, "Firefox Translations", ADDRESS, "UWAGA_FIREFOX_URL", read_firefox)


# Remote Settings

RECORDS_NAME = "firefox-records"
RECORDS_ADDRESS = "https://firefox.settings.services.mozilla.com/v1"
ATTACHMENTS = "https://firefox-settings-attachments.cdn.mozilla.net"
RECORDS = "buckets/main/collections/translations-models-v2/records"
MIRRORED = "records.json"
COMPLETE_RECORDS = ({"model", "vocab"}, {"model", "srcvocab", "trgvocab"})
RECORD_KINDS = ("model", "lex", "vocab", "srcvocab", "trgvocab")
RELEASED = {
    "": "Release",
    "env.appinfo.OS == 'Android'": "Release Android",
    "env.appinfo.OS != 'Android'": "Release Desktop",
}
VERSION = re.compile(r"(\d{1,6})(?:\.(\d{1,6}))?(?:\.(\d{1,6}))?(?:([ab])(\d{1,6}))?", re.ASCII)
FINAL = "c"
"""Sorts after the letters of alphas and betas."""

Key = tuple[str, str, str, str]
"""Languages, architecture and version, common to the records of a model."""


def read_records(query: Query) -> Listing:
    """Return the newest complete model of each pair and architecture."""
    base = query.place.rstrip("/")
    where = join_url(base, MIRRORED) if base else join_url(RECORDS_ADDRESS, RECORDS)
    with HttpClient(query.limits) as client:
        try:
            content = read_document(client, where, LARGEST_CATALOGUE)
        except NotThereError:
            if not base:
                raise
            where = join_url(base, RECORDS)
            content = read_document(client, where, LARGEST_CATALOGUE)
    where = public_url(where)
    models: dict[Key, dict[str, Fields]] = defaultdict(dict)
    problems: list[str] = []
    records = Fields(parse_json(content, where), where).entries("data")
    for number, values in enumerate(records):
        try:
            record = Fields(values, f"{where}: record {number + 1}")
            kind = record.text("fileType", "")
            if kind in RECORD_KINDS:
                _put(models, record, kind)
        except CatalogueError as error:
            problems.append(str(error))
    newest: dict[str, CatalogueEntry] = {}
    for key, files in models.items():
        try:
            entry = _record_entry(key, files, base or ATTACHMENTS)
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


def _record_entry(key: Key, records: Mapping[str, Fields], base: str) -> CatalogueEntry:
    source, target, architecture, version = key
    if not any(kinds <= records.keys() for kinds in COMPLETE_RECORDS):
        raise CatalogueError(
            f"{source}-{target} {architecture} {version}: not complete: there is only "
            f"{', '.join(sorted(records))}"
        )
    files = tuple(_attachment(record, base) for record in records.values())
    check_names(files, f"{source}-{target} {version}")
    channel = records["model"].text("filter_expression", "")
    return CatalogueEntry(
        source=RECORDS_NAME,
        name=entry_name(RECORDS_NAME, source, target, architecture),
        source_language=source,
        target_language=target,
        architecture=architecture,
        version=version,
        status=RELEASED.get(channel, "not released"),
        released=channel in RELEASED,
        licence=FIREFOX_LICENCE,
        files=files,
    )


def _attachment(record: Fields, base: str) -> RemoteFile:
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
    """The sort key by age of versions such as 1.0, 2.1a3 and 3.0."""
    found = VERSION.fullmatch(version)
    if found is None:
        raise CatalogueError(f"{where}: version is {shown(version)}, not a version such as 2.1; refused")
    numbers = [int(part or 0) for part in found.group(1, 2, 3)]
    return numbers[0], numbers[1], numbers[2], found[4] or FINAL, int(found[5] or 0)


FIREFOX_RECORDS = Source(
    RECORDS_NAME,
    "Firefox's Remote Settings",
    f"{RECORDS_ADDRESS}/{RECORDS}",
    "UWAGA_FIREFOX_RECORDS_URL",
    read_records,
)
