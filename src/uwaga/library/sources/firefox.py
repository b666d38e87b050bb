"""The sources of Firefox Translations' models: Mozilla's storage and Firefox's Remote Settings.

The storage contains gzip files and ``db/models.json``, which states the size and the SHA-256 of the unpacked
weights, but not of the vocabulary and the shortlist. These can be verified only by the checksum of gzip
(github.com/mozilla/translations, db/updater.py).

Remote Settings contains zstd files and states the size and the SHA-256 of both the packed and the unpacked
files. It is a service for Firefox and not meant for other products, so the storage or a mirror is preferable.
"""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Mapping

from uwaga.errors import CatalogueError, quoted
from uwaga.files.http import HttpClient, NotFoundError, is_http_url, join_url, public_url, read_document
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
from uwaga.library.fetch import split_packing
from uwaga.library.fields import Fields, as_list, check_file_name, check_language, parse_json

NAME = "firefox"
ADDRESS = "https://storage.googleapis.com/moz-fx-translations-data--303e-prod-translations-data"
CATALOGUE = "models.json"
STORAGE_CATALOGUE = "db/models.json"
MAX_CATALOGUE_BYTES = 1 << 26
"""Maximum size of a catalogue in bytes."""
WEIGHTS = "model"
FILE_KINDS = ("lexicalShortlist", "vocab", "srcVocab", "trgVocab")
VOCABULARIES = (("vocab",), ("srcVocab", "trgVocab"))


def read_firefox(query: Query) -> Listing:
    """Return the models in the storage or on a mirror; a mirror's files are below its address."""
    with HttpClient(query.limits) as client:
        if query.mirror:
            base = query.mirror.rstrip("/") or "/"
            content, context = _read_mirror(client, base)
        else:
            base, context = ADDRESS, join_url(ADDRESS, STORAGE_CATALOGUE)
            content = read_document(client, context, MAX_CATALOGUE_BYTES)
    context = public_url(context)
    catalogue = Fields(parse_json(content, context), context)
    if not query.mirror and catalogue.has_key("baseUrl"):
        base = catalogue.text("baseUrl")
        if not base.lower().startswith("https://"):
            raise CatalogueError(
                f"{context}: baseUrl is {quoted(base)}, which is not an https:// URL; the catalogue is "
                "refused"
            )
    entries: dict[str, CatalogueEntry] = {}
    problems = []
    for pair, models in catalogue.fields("models").items():
        for index, values in enumerate(as_list(models, f"{context}: {quoted(pair)}")):
            entry_context = f"{context}: {quoted(pair)}, model {index + 1}"
            try:
                entry = _entry(Fields(values, entry_context), pair, base)
                if entry.name in entries:
                    raise CatalogueError(
                        f"{entry_context}: {entry.name} is listed twice; the second entry is refused"
                    )
                entries[entry.name] = entry
            except CatalogueError as error:
                problems.append(str(error))
    return Listing(tuple(entries.values()), tuple(problems))


def _read_mirror(client: HttpClient, base: str) -> tuple[bytes, str]:
    """Return the contents and the address of a mirror's catalogue.

    The catalogue is either next to the files or at the same path as in the storage.
    """
    for path in (CATALOGUE, STORAGE_CATALOGUE):
        address = join_url(base, path)
        with contextlib.suppress(NotFoundError):
            return read_document(client, address, MAX_CATALOGUE_BYTES), address
    kind = "mirror" if is_http_url(base) else "folder"
    raise CatalogueError(
        f"{public_url(base)}: this {kind} contains neither {CATALOGUE} nor {STORAGE_CATALOGUE}, so it is not "
        "a mirror of Firefox's models; for a folder of model folders, use --from-source folder"
    )


def _entry(values: Fields, pair: str, base: str) -> CatalogueEntry:
    source, target = _languages(values, pair)
    architecture = values.word("architecture", "")
    status = values.text("releaseStatus", "")
    files = values.fields("files")
    weights = files.fields(WEIGHTS)
    remote_files = [
        _file(
            weights, base, weights.size("uncompressedSize", MODEL_BYTES), weights.sha256("uncompressedHash")
        )
    ]
    remote_files += [_file(files.fields(kind), base) for kind in FILE_KINDS if files.has_key(kind)]
    if not any(all(files.has_key(kind) for kind in kinds) for kinds in VOCABULARIES):
        raise CatalogueError(f"{files.context}: has neither vocab nor both srcVocab and trgVocab")
    check_names(remote_files, files.context)
    statistics = values.fields("modelStatistics") if values.has_key("modelStatistics") else None
    return CatalogueEntry(
        source=NAME,
        name=entry_name(NAME, source, target, architecture),
        source_language=source,
        target_language=target,
        architecture=architecture,
        status=status,
        released=status.startswith("Release"),
        licence=FIREFOX_LICENCE,
        files=tuple(remote_files),
        metrics=_metrics(values),
        parameters=statistics.count("parameters") if statistics else None,
    )


def _languages(values: Fields, pair: str) -> tuple[str, str]:
    """Return a model's language codes, stated in its entry or else by the pair under which it is listed."""
    if values.has_key("sourceLanguage") or values.has_key("targetLanguage"):
        languages = values.language("sourceLanguage"), values.language("targetLanguage")
        if "-".join(languages) != pair:
            raise CatalogueError(
                f"{values.context}: translates {'-'.join(languages)} but is listed as {quoted(pair)}; the "
                "entry is refused"
            )
        return languages
    source, hyphen, target = pair.partition("-")
    if not hyphen or "-" in target:
        raise CatalogueError(
            f"{values.context}: {quoted(pair)} is not a pair of languages; the entry is refused"
        )
    return check_language(source, values.context), check_language(target, values.context)


def _file(values: Fields, base: str, size: int | None = None, sha256: str | None = None) -> RemoteFile:
    path = values.path("path")
    name, packing = split_packing(path)
    return RemoteFile(
        name=check_file_name(name, values.context),
        locations=(join_url(base, path),),
        packing=packing,
        size=size,
        sha256=sha256,
        default_limit=MODEL_BYTES if size is not None else OTHER_BYTES,
    )


def _metrics(values: Fields) -> dict[str, float]:
    flattened: dict[str, float] = {}
    if not values.has_key("metrics"):
        return flattened
    metrics = values.fields("metrics")
    for test, _ in metrics.items():
        scores = metrics.fields(test)
        for name, score in scores.items():
            if score is not None:
                flattened[f"{test} {name}"[:200]] = scores.number(name)
    return {name: score for name, score in flattened.items() if name.isprintable()}


FIREFOX = Source(NAME, "Firefox Translations", ADDRESS, "UWAGA_FIREFOX_URL", read_firefox)


# Remote Settings

RECORDS_NAME = "firefox-records"
RECORDS_ADDRESS = "https://firefox.settings.services.mozilla.com/v1"
ATTACHMENTS_ADDRESS = "https://firefox-settings-attachments.cdn.mozilla.net"
RECORDS_PATH = "buckets/main/collections/translations-models-v2/records"
MIRROR_RECORDS = "records.json"
COMPLETE_RECORDS = ({"model", "vocab"}, {"model", "srcvocab", "trgvocab"})
RECORD_KINDS = ("model", "lex", "vocab", "srcvocab", "trgvocab")
RELEASE_CHANNELS = {
    "": "Release",
    "env.appinfo.OS == 'Android'": "Release Android",
    "env.appinfo.OS != 'Android'": "Release Desktop",
}
VERSION = re.compile(r"(\d{1,6})(?:\.(\d{1,6}))?(?:\.(\d{1,6}))?(?:([ab])(\d{1,6}))?", re.ASCII)
FINAL_RELEASE = "c"
"""Sort key of final releases, which places them after ``a`` (alpha) and ``b`` (beta)."""

ModelKey = tuple[str, str, str, str]
"""Source language, target language, architecture and version, which all records of a model have in common."""


def read_records(query: Query) -> Listing:
    """Return the newest complete model of each language pair and architecture."""
    base = query.mirror.rstrip("/")
    context = join_url(base, MIRROR_RECORDS) if base else join_url(RECORDS_ADDRESS, RECORDS_PATH)
    with HttpClient(query.limits) as client:
        try:
            content = read_document(client, context, MAX_CATALOGUE_BYTES)
        except NotFoundError:
            if not base:
                raise
            context = join_url(base, RECORDS_PATH)
            content = read_document(client, context, MAX_CATALOGUE_BYTES)
    context = public_url(context)
    models: dict[ModelKey, dict[str, Fields]] = defaultdict(dict)
    problems: list[str] = []
    records = Fields(parse_json(content, context), context).entries("data")
    for index, values in enumerate(records):
        try:
            record = Fields(values, f"{context}: record {index + 1}")
            kind = record.text("fileType", "")
            if kind in RECORD_KINDS:
                _add_record(models, record, kind)
        except CatalogueError as error:
            problems.append(str(error))
    newest_entries: dict[str, CatalogueEntry] = {}
    for key, files in models.items():
        try:
            entry = _record_entry(key, files, base or ATTACHMENTS_ADDRESS)
        except CatalogueError as error:
            problems.append(str(error))
            continue
        if entry.name not in newest_entries or _version_key(entry.version) > _version_key(
            newest_entries[entry.name].version
        ):
            newest_entries[entry.name] = entry
    return Listing(tuple(newest_entries.values()), tuple(problems))


def _add_record(models: Mapping[ModelKey, dict[str, Fields]], record: Fields, kind: str) -> None:
    source, target = record.language("sourceLanguage"), record.language("targetLanguage")
    version = record.word("version")
    _version_key(version, record.context)
    files = models[source, target, record.word("architecture", ""), version]
    if kind in files:
        raise CatalogueError(
            f"{record.context}: there is a second {kind} of {source}-{target} {version}; the record is "
            "refused"
        )
    files[kind] = record


def _record_entry(key: ModelKey, records: Mapping[str, Fields], base: str) -> CatalogueEntry:
    source, target, architecture, version = key
    if not any(kinds <= records.keys() for kinds in COMPLETE_RECORDS):
        raise CatalogueError(
            f"{source}-{target} {architecture} {version}: the model is incomplete, since it has only "
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
        status=RELEASE_CHANNELS.get(channel, "not released"),
        released=channel in RELEASE_CHANNELS,
        licence=FIREFOX_LICENCE,
        files=files,
    )


def _attachment(record: Fields, base: str) -> RemoteFile:
    attachment = record.fields("attachment")
    location = attachment.path("location")
    name = check_file_name(record.text("name"), record.context)
    packed = attachment.text("filename", location)
    return RemoteFile(
        name=name,
        locations=(join_url(base, location),),
        packing=split_packing(location)[1] or split_packing(packed)[1],
        size=record.size("decompressedSize", MODEL_BYTES),
        sha256=record.sha256("decompressedHash"),
        packed_size=attachment.size("size", MODEL_BYTES),
        packed_sha256=attachment.sha256("hash"),
    )


def _version_key(version: str, context: str = "") -> tuple[int, int, int, str, int]:
    """Return a sort key for versions such as 1.0, 2.1a3 and 3.0."""
    match = VERSION.fullmatch(version)
    if match is None:
        raise CatalogueError(
            f"{context}: version is {quoted(version)}, not a version such as 2.1; the record is refused"
        )
    numbers = [int(part or 0) for part in match.group(1, 2, 3)]
    return numbers[0], numbers[1], numbers[2], match[4] or FINAL_RELEASE, int(match[5] or 0)


FIREFOX_RECORDS = Source(
    RECORDS_NAME,
    "Firefox's Remote Settings",
    f"{RECORDS_ADDRESS}/{RECORDS_PATH}",
    "UWAGA_FIREFOX_RECORDS_URL",
    read_records,
)
