"""Atomic installation of models into the folder of models."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path

from uwaga.checkpoints.card import CARD
from uwaga.errors import CatalogueError, UwagaError
from uwaga.files.atomic import new_folder, remove_folder, remove_leftovers
from uwaga.files.http import HttpClient, Limits, public_url, to_json
from uwaga.files.lines import load_zstandard
from uwaga.files.lock import file_lock
from uwaga.library.entry import FIREFOX_LICENCE, CatalogueEntry, RemoteFile
from uwaga.library.fetch import ByteProgress, PartialDownload, ReceivedFile, fetch, unpack
from uwaga.library.installed import ORIGIN_FILE, InstalledFile, Origin, models_home, read_origin

NOTICES = {
    FIREFOX_LICENCE: (
        "These files are subject to the terms of the Mozilla Public License, v. 2.0. You can obtain a copy "
        "of it at https://mozilla.org/MPL/2.0/. The models are Mozilla's, from Firefox Translations: "
        "https://github.com/mozilla/translations."
    )
}
"""Notices that must be distributed with the files of a model, by licence."""


def licence_notice(licence: str) -> str:
    """Return the notice on a licence that is shown before a download and written into the model card."""
    return NOTICES.get(licence, f"Licence: {licence or 'not stated'}.")


def write_card(origin: Origin) -> str:
    """Return the model card of a downloaded model, with front matter."""
    front_matter = {"license": origin.licence.lower() or "not stated", "language": all_languages(origin)}
    rows = [
        ("licence", origin.licence or "not stated"),
        ("from", " ".join(origin.source_languages)),
        ("to", " ".join(origin.target_languages)),
        ("architecture", origin.architecture),
        ("version", origin.version),
        ("status", origin.status),
        ("parameters", "" if origin.parameters is None else str(origin.parameters)),
        ("catalogue", origin.source),
        *((name, f"{value:g}") for name, value in origin.metrics.items()),
    ]
    files = [
        (name, f"{file.size} bytes, SHA-256 {file.sha256}, {file.location}")
        for name, file in origin.files.items()
    ]
    return "\n".join(
        [
            "---",
            *(f"{key}: {json.dumps(value)}" for key, value in front_matter.items()),
            "---",
            f"# {origin.name}",
            "",
            licence_notice(origin.licence),
            "",
            "| | |",
            "|---|---|",
            *(f"| {_cell(key)} | {_cell(value)} |" for key, value in rows if value),
            "",
            "| file | |",
            "|---|---|",
            *(f"| {_cell(key)} | {_cell(value)} |" for key, value in files),
            "",
        ]
    )


def all_languages(origin: Origin) -> list[str]:
    """Return the codes of the source and target languages of a model."""
    return [*origin.source_languages, *origin.target_languages]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PARTS_FOLDER, LOCKS_FOLDER = ".incomplete", ".locks"
RECORD_BYTES = 1 << 20
"""Disk space in bytes that is reserved for the card, ``origin.json`` and the file system."""

Progress = Callable[[int, int | None], None]
"""Type of callbacks, called with the number of bytes received and the total number, None if unknown."""


def install(
    entry: CatalogueEntry,
    environment: Mapping[str, str],
    limits: Limits,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Path:
    """Download a model into the folder of models, unless the catalogue's version is already installed.

    If another process is installing the same model, this function waits and uses its files. Partial downloads
    are kept and resumed later.

    Args:
        entry: the model.
        environment: environment variables, which may give the folder of models.
        limits: timeouts and retries.
        progress: called whenever bytes have been received, from several threads but never concurrently.
        on_wait: called with a message if another process is downloading the same model.

    Returns:
        the folder of the model.

    Raises:
        CatalogueError: if a file cannot be downloaded or does not match the catalogue. Nothing is then
            installed.
        ModelError: if the disk is full or cannot be written.
        MissingExtraError: if the library that unpacks the files is not installed.
    """
    home = models_home(environment)
    folder, parts = home / entry.name, home / PARTS_FOLDER / entry.name
    for file in entry.files:
        if file.packing == "zstd":
            load_zstandard("models of this source", "reading")
    try:
        for path in (home / LOCKS_FOLDER, parts):
            path.mkdir(parents=True, exist_ok=True)
        with file_lock(home / LOCKS_FOLDER / entry.name, _wait_callback(entry.name, on_wait)):
            if not is_current(folder, entry):
                if folder.exists() and not (folder / ORIGIN_FILE).is_file():
                    raise CatalogueError(
                        f"{folder}: this folder exists and is not a downloaded model; rename it, or "
                        f"remove it with `uwaga models remove {entry.name}`"
                    )
                _check_disk_space(home, entry)
                parts.mkdir(parents=True, exist_ok=True)  # another process may have removed it
                _download(entry, folder, parts, limits, progress)
            shutil.rmtree(parts, ignore_errors=True)
    except OSError as error:
        raise CatalogueError(
            f"{error.filename or home}: cannot be written: {error.strerror or error}; make it writable, or "
            "give another folder with the environment variable UWAGA_HOME"
        ) from None
    return folder


def is_current(folder: Path, entry: CatalogueEntry) -> bool:
    """Return True if a folder contains all files of a model in the catalogue's version."""
    try:
        origin = read_origin(folder)
    except UwagaError:
        return False
    files = {file.name: file for file in entry.files}
    if origin.version != entry.version or not files.keys() <= origin.files.keys():
        return False
    for name, installed_file in origin.files.items():
        file_record = files.get(name)
        if file_record is not None and file_record.sha256 not in (None, installed_file.sha256):
            return False
        if not (folder / name).is_file() or (folder / name).stat().st_size != installed_file.size:
            return False
    return True


def uninstall(
    name: str, environment: Mapping[str, str], on_wait: Callable[[str], None] | None = None
) -> bool:
    """Remove an installed model and its partial downloads; return False if there is nothing to remove.

    Removal is atomic: a process that loads the model finds either all files or none.

    Args:
        name: name of the model.
        environment: environment variables, which may give the folder of models.
        on_wait: called with a message if another process is downloading the model.

    Raises:
        OSError: if the files cannot be removed.
    """
    home = models_home(environment)
    folder, parts = home / name, home / PARTS_FOLDER / name
    if not folder.is_dir() and not parts.is_dir():
        return False
    (home / LOCKS_FOLDER).mkdir(parents=True, exist_ok=True)
    with file_lock(home / LOCKS_FOLDER / name, _wait_callback(name, on_wait)):
        if folder.is_dir():
            remove_folder(folder)
        shutil.rmtree(parts, ignore_errors=True)
        remove_leftovers(folder)
    return True


def _wait_callback(name: str, on_wait: Callable[[str], None] | None) -> Callable[[], None] | None:
    """Return a callback that tells ``on_wait`` that another process has locked the model."""
    return on_wait and (lambda: on_wait(f"another process is installing or removing {name}; waiting for it"))


def _check_disk_space(home: Path, entry: CatalogueEntry) -> None:
    # compressed files are kept next to the unpacked files
    needed_bytes = 2 * (entry.size or 0) + RECORD_BYTES
    free_bytes = shutil.disk_usage(home).free
    if needed_bytes > free_bytes:
        raise CatalogueError(
            f"{home}: {entry.name} needs {needed_bytes >> 20} MB, but only {free_bytes >> 20} MB are free; "
            "free disk space, or give another folder with the environment variable UWAGA_HOME"
        )


def _download(
    entry: CatalogueEntry, folder: Path, parts: Path, limits: Limits, progress: Progress | None
) -> None:
    """Download all files of a model concurrently; the first failure cancels the other downloads."""
    client, total = HttpClient(limits), _TotalProgress(entry.files, progress)
    pool = ThreadPoolExecutor(limits.parallel_files, "uwaga-download")
    try:
        jobs = {
            file.name: pool.submit(fetch, client, file, parts / f"{file.name}.part", total.callback(file))
            for file in entry.files
        }
        _wait(jobs)
        with new_folder(folder) as staging:
            _install_files(entry, staging, client, parts, {name: job.result() for name, job in jobs.items()})
    finally:
        client.stop()
        pool.shutdown(cancel_futures=True)


def _wait(jobs: Mapping[str, Future[ReceivedFile]]) -> None:
    """Wait until all downloads are complete, or until one fails, in which case its error is raised."""
    finished_jobs, _ = wait(jobs.values(), return_when=FIRST_EXCEPTION)
    for job in jobs.values():
        if job in finished_jobs and (error := job.exception()) is not None:
            raise error


def _install_files(
    entry: CatalogueEntry,
    staging: Path,
    client: HttpClient,
    parts: Path,
    downloads: Mapping[str, ReceivedFile],
) -> None:
    """Unpack the files into the new model folder, and write the model card and ``origin.json``."""
    files = {}
    for file in entry.files:
        received_file = downloads[file.name]
        try:
            size, sha256 = _unpack_and_check(received_file, staging, file)
        except CatalogueError:
            if received_file.is_download:
                PartialDownload(received_file.path, received_file.location).drop()
            if not received_file.resumed:
                raise
            # The resumed part may be from another version: download the file again.
            received_file = fetch(
                client, file, parts / f"{file.name}.part", lambda received_file, total: None
            )
            size, sha256 = _unpack_and_check(received_file, staging, file)
        files[file.name] = InstalledFile(
            size=size, sha256=sha256, location=public_url(received_file.location)
        )
    origin = Origin(
        name=entry.name,
        source=entry.source,
        version=entry.version,
        source_languages=(entry.source_language,),
        target_languages=(entry.target_language,),
        architecture=entry.architecture,
        licence=entry.licence,
        status=entry.status,
        model=entry.model,
        files=files,
        metrics=dict(entry.metrics),
        parameters=entry.parameters,
    )
    if CARD not in files:
        (staging / CARD).write_text(write_card(origin), encoding="utf-8")
    (staging / ORIGIN_FILE).write_bytes(to_json(origin.model_dump(mode="json")))


def _unpack_and_check(received_file: ReceivedFile, staging: Path, file: RemoteFile) -> tuple[int, str]:
    target = staging / file.name
    target.unlink(missing_ok=True)
    result = unpack(received_file.path, target, file)
    if target.suffix == ".argosmodel":
        from uwaga.checkpoints.formats.argos import select_members
        from uwaga.files.zip import open_archive

        try:
            with open_archive(target, "an Argos package") as package:
                select_members(package)
                package.verify_checksums()
        except UwagaError as error:
            text = str(error).replace(str(target), file.name)
            raise CatalogueError(f"{text} (from {public_url(received_file.location)})") from None
    return result


class _TotalProgress:
    """The combined progress of several downloads."""

    def __init__(self, files: tuple[RemoteFile, ...], progress: Progress | None) -> None:
        self._progress, self._lock = progress, threading.Lock()
        self._received = dict.fromkeys((file.name for file in files), 0)
        self._totals: dict[str, int | None] = {file.name: file.packed_size for file in files}

    def callback(self, file: RemoteFile) -> ByteProgress:
        """Return the progress callback for one of the files."""

        def update(received_bytes: int, total: int | None) -> None:
            with self._lock:
                self._received[file.name] = received_bytes
                self._totals[file.name] = total if total is not None else self._totals[file.name]
                if self._progress is not None:
                    sizes = [size for size in self._totals.values() if size is not None]
                    total_size = sum(sizes) if len(sizes) == len(self._totals) else None
                    self._progress(sum(self._received.values()), total_size)

        return update
