"""Keys of clients: a file holds what they hash to, and what each may ask for."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import time
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import NonNegativeInt

from uwaga.errors import SettingsError, shown
from uwaga.files.atomic import write_file
from uwaga.server.api_errors import ApiError
from uwaga.settings import StrictModel, parse

PREFIX = "uwk"
NAME = re.compile(r"[\w.@+-]{1,64}", re.ASCII)
KEY = re.compile(rf"{PREFIX}-([0-9a-f]{{8}})-([\w-]{{32,64}})", re.ASCII)
LARGEST = 16 << 20
"""Bytes of a file of keys."""
RECHECKED = 1.0
"""Seconds until the file is looked at again."""
NOBODY = hashlib.sha256(b"").hexdigest()
"""What a key of an unknown number is compared with, so that it takes as long."""


@dataclass(frozen=True)
class Client:
    """Who asks. Of 0 there is no limit.

    ``name``: of the key, or the address where no keys are asked for. ``characters``: in all, which a dialect
    with a usage report refuses to go beyond.
    """

    name: str
    requests_per_minute: int = 0
    characters_per_minute: int = 0
    characters: int = 0


class StoredKey(StrictModel):
    """A key as the file holds it: 256 random bits need no slow hash."""

    name: str
    number: str
    sha256: str
    created: str
    requests_per_minute: NonNegativeInt | None = None
    characters_per_minute: NonNegativeInt | None = None
    characters: NonNegativeInt = 0


class KeyFile(StrictModel):
    """The whole file."""

    keys: list[StoredKey] = []  # noqa: RUF012


def read_keys(path: Path) -> list[StoredKey]:
    """The keys of a file; none of one that is not there.

    Raises:
        SettingsError: it cannot be read, or is no such file.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST)
        return parse(KeyFile, json.loads(content), str(path)).keys
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: cannot be read as a file of keys: {error}") from None


def add_key(
    path: Path,
    name: str,
    requests_per_minute: int | None = None,
    characters_per_minute: int | None = None,
    characters: int = 0,
) -> str:
    """Make a key and keep what it hashes to; the key itself is nowhere but in what is returned.

    Args:
        path: the file, made if it is not there.
        name: of who gets it, once in a file.
        requests_per_minute: None for the server's own limit, 0 for any number.
        characters_per_minute: likewise.
        characters: in all, 0 for any number.

    Raises:
        SettingsError: there is a key of the name, it is no name, or the file is damaged.
    """
    if not NAME.fullmatch(name):
        raise SettingsError(f"{shown(name)}: a name of up to 64 letters, digits and . @ + - _ is needed")
    keys = read_keys(path)
    if any(one.name == name for one in keys):
        raise SettingsError(f"{path}: has a key for {name} already; remove that first")
    number, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    key = f"{PREFIX}-{number}-{secret}"
    made = StoredKey(
        name=name,
        number=number,
        sha256=hashlib.sha256(key.encode()).hexdigest(),
        created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        requests_per_minute=requests_per_minute,
        characters_per_minute=characters_per_minute,
        characters=characters,
    )
    _write(path, [*keys, made])
    return key


def remove_key(path: Path, name: str) -> None:
    """Take a key out of a file; servers notice within a second.

    Raises:
        SettingsError: there is none of the name.
    """
    keys = read_keys(path)
    if all(one.name != name for one in keys):
        known = ", ".join(one.name for one in keys[:8]) or "none"
        raise SettingsError(f"{path}: has no key for {shown(name)}; it has keys for {known}")
    _write(path, [one for one in keys if one.name != name])


def _write(path: Path, keys: list[StoredKey]) -> None:
    content = json.dumps({"keys": [one.model_dump() for one in keys]}, indent=1)
    try:
        write_file(path, content, mode=0o600)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written: {error.strerror}") from None


class KeyRing:
    """The keys of a file, read again when it changes.

    Args:
        path: the file.
        usual: what a client may ask for where its key says nothing.

    Raises:
        SettingsError: the file is damaged.
    """

    def __init__(self, path: Path, usual: Client) -> None:
        self._path, self._usual = path, usual
        self._checked, self._stamp = time.monotonic(), _stamp(path)
        self._keys = {one.number: one for one in read_keys(path)}

    def client(self, key: str | None) -> Client:
        """Whose key it is; takes as long for a wrong one, however much of it is right.

        Raises:
            ApiError: none is given, or it is wrong.
        """
        if not key:
            raise ApiError(401, "key_missing", "this server asks for an API key", "api_key")
        self._renew()
        match = KEY.fullmatch(key)
        found = self._keys.get(match[1]) if match else None
        given = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
        if not hmac.compare_digest(given, NOBODY if found is None else found.sha256) or found is None:
            raise ApiError(403, "key_wrong", "the API key is wrong", "api_key")
        usual = self._usual
        requests, characters = found.requests_per_minute, found.characters_per_minute
        return replace(
            usual,
            name=found.name,
            requests_per_minute=usual.requests_per_minute if requests is None else requests,
            characters_per_minute=usual.characters_per_minute if characters is None else characters,
            characters=found.characters,
        )

    def _renew(self) -> None:
        now = time.monotonic()
        if now - self._checked < RECHECKED:
            return
        self._checked = now
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        try:
            self._keys = {one.number: one for one in read_keys(self._path)}
            self._stamp = stamp
        except SettingsError:
            return  # half-copied by hand: those that are known stay, and it is looked at again


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0, 0
    return status.st_mtime_ns, status.st_size, status.st_ino
