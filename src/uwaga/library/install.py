"""Download, verify and install a model into the folder of models, atomically."""

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
from uwaga.library.fetch import Fetched, Part, Seen, fetch, unpack
from uwaga.library.installed import ORIGIN, InstalledFile, Origin, models_home, read_origin

NOTICES = {
    FIREFOX_LICENCE: (
        "These files are subject to the terms of the Mozilla Public License, v. 2.0. You can obtain a copy "
        "of it at https://mozilla.org/MPL/2.0/. The models are Mozilla's, from Firefox Translations: "
        "https://github.com/mozilla/translations."
    )
}
"""What a licence asks to be told to whoever gets the files, by its name."""


def licence_notice(licence: str) -> str:
    """Return the licence notice that is shown before a download and kept in the model's card."""
    return NOTICES.get(licence, f"Licence: {licence or 'not stated'}.")


def write_card(origin: Origin) -> str:
    """Return the text of ``card.md``, with its front matter."""
    front = {"license": origin.licence.lower() or "not stated", "language": languages(origin)}
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
            *(f"{key}: {json.dumps(value)}" for key, value in front.items()),
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


def languages(origin: Origin) -> list[str]:
    """Return the language codes of both sides."""
    return [*origin.source_languages, *origin.target_languages]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PARTS, LOCKS = ".incomplete", ".locks"
ROOM = 1 << 20
"""Bytes that a card, a record and the file system take beside a model."""

Progress = Callable[[int, int | None], None]
"""Called with the bytes that have come, and how many there are, None while that is not known."""


def install(
    entry: CatalogueEntry,
    environment: Mapping[str, str],
    limits: Limits,
    progress: Progress | None = None,
    waiting: Callable[[str], None] | None = None,
) -> Path:
    """Download a model into the folder of models, unless it is installed in the catalogue's version.

    Several processes may call this at once: the second waits for the first and uses what it installed.
    Partial downloads are kept and resumed next time.

    Args:
        entry: the model.
        environment: environment variables that locate the folder.
        limits: timeouts and retries.
        progress: called with the progress, from several threads but never concurrently.
        waiting: called with a message if another process downloads the same model.

    Returns:
        The folder of the model.

    Raises:
        CatalogueError: a file cannot be fetched or is not what the catalogue states; nothing is installed.
        ModelError: the disk is full or cannot be written.
        MissingExtraError: the library that unpacks its files is not installed.
    """
    home = models_home(environment)
    folder, parts = home / entry.name, home / PARTS / entry.name
    for file in entry.files:
        if file.packing == "zstd":
            load_zstandard("models of this source", "reading")
    try:
        for place in (home / LOCKS, parts):
            place.mkdir(parents=True, exist_ok=True)
        with file_lock(home / LOCKS / entry.name, _waiting_for(entry.name, waiting)):
            if not is_current(folder, entry):
                if folder.exists() and not (folder / ORIGIN).is_file():
                    raise CatalogueError(
                        f"{folder}: already exists and is not a downloaded model; rename it, or "
                        f"remove it with `uwaga models remove {entry.name}`"
                    )
                _check_room(home, entry)
                parts.mkdir(parents=True, exist_ok=True)  # the other process has removed them
                _download(entry, folder, parts, limits, progress)
            shutil.rmtree(parts, ignore_errors=True)
    except OSError as error:
        raise CatalogueError(
            f"{error.filename or home}: cannot be written: {error.strerror or error}; free it, or name "
            "another place with the variable UWAGA_HOME"
        ) from None
    return folder


def is_current(folder: Path, entry: CatalogueEntry) -> bool:
    """Return True if a folder holds the complete model in the version that a catalogue states."""
    try:
        origin = read_origin(folder)
    except UwagaError:
        return False
    files = {file.name: file for file in entry.files}
    if origin.version != entry.version or not files.keys() <= origin.files.keys():
        return False
    for name, known in origin.files.items():
        stated = files.get(name)
        if stated is not None and stated.sha256 not in (None, known.sha256):
            return False
        if not (folder / name).is_file() or (folder / name).stat().st_size != known.size:
            return False
    return True


def uninstall(
    name: str, environment: Mapping[str, str], waiting: Callable[[str], None] | None = None
) -> bool:
    """Remove an installed model and its partial downloads; return False if there is neither.

    Removal is atomic: a process that loads the model finds all of it or nothing.

    Args:
        name: of the model.
        environment: environment variables that locate the folder.
        waiting: called with a message if another process downloads the model.

    Raises:
        OSError: it cannot be removed.
    """
    home = models_home(environment)
    folder, parts = home / name, home / PARTS / name
    if not folder.is_dir() and not parts.is_dir():
        return False
    (home / LOCKS).mkdir(parents=True, exist_ok=True)
    with file_lock(home / LOCKS / name, _waiting_for(name, waiting)):
        if folder.is_dir():
            remove_folder(folder)
        shutil.rmtree(parts, ignore_errors=True)
        remove_leftovers(folder)
    return True


def _waiting_for(name: str, waiting: Callable[[str], None] | None) -> Callable[[], None] | None:
    """Return a callback that reports that another process holds the lock of a model."""
    return waiting and (lambda: waiting(f"another process is at work on {name}; waiting for it"))


def _check_room(home: Path, entry: CatalogueEntry) -> None:
    needed = 2 * (entry.size or 0) + ROOM  # packed files are kept next to the unpacked ones
    free = shutil.disk_usage(home).free
    if needed > free:
        raise CatalogueError(
            f"{home}: {entry.name} needs {needed >> 20} MB and there are {free >> 20} MB free; free some, or "
            "name another place with the variable UWAGA_HOME"
        )


def _download(
    entry: CatalogueEntry, folder: Path, parts: Path, limits: Limits, progress: Progress | None
) -> None:
    """Download all files concurrently, within the limits; the first failure cancels the others."""
    web, total = HttpClient(limits), _Total(entry.files, progress)
    pool = ThreadPoolExecutor(limits.together, "uwaga-download")
    try:
        jobs = {
            file.name: pool.submit(fetch, web, file, parts / f"{file.name}.part", total.of(file))
            for file in entry.files
        }
        _wait(jobs)
        with new_folder(folder) as fresh:
            _fill(entry, fresh, web, parts, {name: job.result() for name, job in jobs.items()})
    finally:
        web.stop()
        pool.shutdown(cancel_futures=True)


def _wait(jobs: Mapping[str, Future[Fetched]]) -> None:
    """Wait for all downloads, or raise the error of the first that fails."""
    done, _ = wait(jobs.values(), return_when=FIRST_EXCEPTION)
    for job in jobs.values():
        if job in done and (error := job.exception()) is not None:
            raise error


def _fill(
    entry: CatalogueEntry, fresh: Path, web: HttpClient, parts: Path, sent: Mapping[str, Fetched]
) -> None:
    """Unpack the files into the new model folder and write its card and ``origin.json``."""
    files = {}
    for file in entry.files:
        fetched = sent[file.name]
        try:
            size, sha256 = _unpack(fetched, fresh, file)
        except CatalogueError:
            if fetched.ours:
                Part(fetched.path, fetched.location).drop()
            if not fetched.resumed:
                raise
            # The resumed part may be of another version: download the whole file again.
            fetched = fetch(web, file, parts / f"{file.name}.part", lambda now, total: None)
            size, sha256 = _unpack(fetched, fresh, file)
        files[file.name] = InstalledFile(size=size, sha256=sha256, location=public_url(fetched.location))
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
        (fresh / CARD).write_text(write_card(origin), encoding="utf-8")
    (fresh / ORIGIN).write_bytes(to_json(origin.model_dump(mode="json")))


def _unpack(fetched: Fetched, fresh: Path, file: RemoteFile) -> tuple[int, str]:
    target = fresh / file.name
    target.unlink(missing_ok=True)
    found = unpack(fetched.path, target, file)
    if target.suffix == ".argosmodel":
        from uwaga.checkpoints.formats.argos.package import needed_members
        from uwaga.files.zip import open_archive

        try:
            with open_archive(target, "an Argos package") as package:
                needed_members(package)
                package.check_sums()
        except UwagaError as error:
            text = str(error).replace(str(target), file.name)
            raise CatalogueError(f"{text} (from {public_url(fetched.location)})") from None
    return found


class _Total:
    """The summed progress of several files."""

    def __init__(self, files: tuple[RemoteFile, ...], progress: Progress | None) -> None:
        self._progress, self._lock = progress, threading.Lock()
        self._now = dict.fromkeys((one.name for one in files), 0)
        self._all: dict[str, int | None] = {one.name: one.packed_size for one in files}

    def of(self, file: RemoteFile) -> Seen:
        """Return the progress callback of one file."""

        def seen(now: int, total: int | None) -> None:
            with self._lock:
                self._now[file.name] = now
                self._all[file.name] = total if total is not None else self._all[file.name]
                if self._progress is not None:
                    known = [one for one in self._all.values() if one is not None]
                    whole = sum(known) if len(known) == len(self._all) else None
                    self._progress(sum(self._now.values()), whole)

        return seen
