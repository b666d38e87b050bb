"""Firefox Translations' models from the storage that their makers fill: gzip files and ``db/models.json``.

The catalogue states the size and the SHA-256 of the weights, unpacked; of the vocabulary and the shortlist it
states nothing, so gzip's own sums must do (github.com/mozilla/translations, db/updater.py).
"""

from __future__ import annotations

from uwaga.errors import CatalogueError, shown
from uwaga.files.http import HttpClient, NotThereError, is_url, join_url, public_url, read_document
from uwaga.library.entry import (
    FIREFOX_LICENCE,
    MODEL_BYTES,
    OTHER_BYTES,
    CatalogueEntry,
    RemoteFile,
    check_names,
    entry_name,
)
from uwaga.library.fields import Fields, as_list, check_file_name, check_language, parse_json
from uwaga.library.sources.source import Listing, Query, Source
from uwaga.library.unpack import packing_of

NAME = "firefox"
ADDRESS = "https://storage.googleapis.com/moz-fx-translations-data--303e-prod-translations-data"
CATALOGUE = "models.json"
STORED = "db/models.json"
LARGEST = 1 << 26
"""Bytes of a catalogue."""
WEIGHTS = "model"
KINDS = ("lexicalShortlist", "vocab", "srcVocab", "trgVocab")
VOCABULARIES = (("vocab",), ("srcVocab", "trgVocab"))


def read_firefox(query: Query) -> Listing:
    """What the storage or a mirror of it lists. A mirror's files are below the mirror, whatever it states.

    Raises:
        CatalogueError: the catalogue cannot be had, or is none.
    """
    with HttpClient(query.limits) as client:
        if query.place:
            base = query.place.rstrip("/") or "/"
            content, where = _read_mirrored(client, base)
        else:
            base, where = ADDRESS, join_url(ADDRESS, STORED)
            content = read_document(client, where, LARGEST)
    where = public_url(where)
    catalogue = Fields(parse_json(content, where), where)
    if not query.place and catalogue.has("baseUrl"):
        base = catalogue.text("baseUrl")
        if not base.lower().startswith("https://"):
            raise CatalogueError(f"{where}: baseUrl is {shown(base)}, which is not encrypted; refused")
    entries: dict[str, CatalogueEntry] = {}
    problems = []
    for pair, models in catalogue.fields("models").items():
        for number, values in enumerate(as_list(models, f"{where}: {shown(pair)}")):
            place = f"{where}: {shown(pair)}, model {number + 1}"
            try:
                entry = _entry(Fields(values, place), pair, base)
                if entry.name in entries:
                    raise CatalogueError(f"{place}: {entry.name} is there twice; refused")
                entries[entry.name] = entry
            except CatalogueError as error:
                problems.append(str(error))
    return Listing(tuple(entries.values()), tuple(problems))


def _read_mirrored(client: HttpClient, base: str) -> tuple[bytes, str]:
    """A mirror's catalogue, beside the files or where the storage has it."""
    try:
        return read_document(client, join_url(base, CATALOGUE), LARGEST), join_url(base, CATALOGUE)
    except NotThereError:
        pass
    try:
        return read_document(client, join_url(base, STORED), LARGEST), join_url(base, STORED)
    except NotThereError:
        kind = "mirror" if is_url(base) else "folder"
        raise CatalogueError(
            f"{public_url(base)}: a {kind} without {CATALOGUE} or {STORED}, so not one of Firefox's models; "
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
    """The languages of a model; a pair of plain codes says them too."""
    if values.has("sourceLanguage") or values.has("targetLanguage"):
        found = values.language("sourceLanguage"), values.language("targetLanguage")
        if "-".join(found) != pair:
            raise CatalogueError(f"{values.where}: is of {'-'.join(found)}, listed as {shown(pair)}; refused")
        return found
    source, hyphen, target = pair.partition("-")
    if not hyphen or "-" in target:
        raise CatalogueError(f"{values.where}: {shown(pair)} does not say which two languages; refused")
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
