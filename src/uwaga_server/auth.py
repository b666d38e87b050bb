"""API keys: a file stores their hashes and the limits of each client."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import NonNegativeInt

from uwaga.errors import SettingsError, quoted
from uwaga.files.atomic import write_file
from uwaga.settings import StrictModel, parse
from uwaga_server.api_errors import ApiError

PREFIX = "uwk"
NAME = re.compile(r"[\w.@+-]{1,64}", re.ASCII)
KEY = re.compile(rf"{PREFIX}-([0-9a-f]{{8}})-([\w-]{{32,64}})", re.ASCII)
MAX_FILE_BYTES = 16 << 20
"""Maximum bytes of a file of keys."""
RECHECK_INTERVAL = 1.0
"""Seconds between two checks of the file."""
EMPTY_KEY_HASH = hashlib.sha256(b"").hexdigest()
"""Compared with a key whose number is unknown, so that the check takes the same time."""


@dataclass(frozen=True)
class Client:
    """A client and its limits; 0 means no limit.

    Attributes:
        name: the name of the key, or the address on a server without keys.
        requests_per_minute: maximum requests per minute.
        characters_per_minute: maximum characters of texts per minute.
        characters: maximum characters in total.
    """

    name: str
    requests_per_minute: int = 0
    characters_per_minute: int = 0
    characters: int = 0


class StoredKey(StrictModel):
    """A key in the file; since a key has 256 random bits, a fast hash is enough."""

    name: str
    number: str
    sha256: str
    created: str
    requests_per_minute: NonNegativeInt | None = None
    characters_per_minute: NonNegativeInt | None = None
    characters: NonNegativeInt = 0


class KeyFile(StrictModel):
    """The key file."""

    keys: list[StoredKey] = []  # noqa: RUF012


def read_keys(path: Path) -> list[StoredKey]:
    """Return the keys of a file; an empty list if it does not exist."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES)
        return parse(KeyFile, json.loads(content), str(path)).keys
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: cannot be read as a key file: {error}") from None


def add_key(
    path: Path,
    name: str,
    requests_per_minute: int | None = None,
    characters_per_minute: int | None = None,
    characters: int = 0,
) -> str:
    """Create a key, store its hash and return the key, which is not stored.

    Args:
        path: the file, created if missing.
        name: the name of the client; unique in the file.
        requests_per_minute: None for the server's limit, 0 for none.
        characters_per_minute: likewise.
        characters: maximum characters in total; 0 for no limit.
    """
    if not NAME.fullmatch(name):
        raise SettingsError(f"{quoted(name)}: not a valid name; use up to 64 letters, digits and . @ + - _")
    keys = read_keys(path)
    if any(key.name == name for key in keys):
        raise SettingsError(f"{path}: has a key for {name} already; replace it with --rotate, or remove it")
    return _add(path, keys, name, requests_per_minute, characters_per_minute, characters)


def rotate_key(path: Path, name: str) -> str:
    """Create another key for a client, with the limits of the newest one, and return it.

    The older keys stay valid until :func:`remove_key` revokes them, so that the client can change its key
    without an outage.
    """
    keys = read_keys(path)
    old = _find(path, keys, name)[-1]
    limits = old.requests_per_minute, old.characters_per_minute, old.characters
    return _add(path, keys, name, *limits)


def _add(
    path: Path,
    keys: Sequence[StoredKey],
    name: str,
    requests_per_minute: int | None,
    characters_per_minute: int | None,
    characters: int,
) -> str:
    number, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    key = f"{PREFIX}-{number}-{secret}"
    stored = StoredKey(
        name=name,
        number=number,
        sha256=hashlib.sha256(key.encode()).hexdigest(),
        created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        requests_per_minute=requests_per_minute,
        characters_per_minute=characters_per_minute,
        characters=characters,
    )
    _write(path, [*keys, stored])
    return key


def remove_key(path: Path, name: str, older: bool = False) -> None:
    """Revoke the keys of a client; servers notice within a second.

    Args:
        path: the file.
        name: the name of the client.
        older: keep the newest key.
    """
    keys = read_keys(path)
    newest = _find(path, keys, name)[-1]
    _write(path, [stored for stored in keys if stored.name != name or (older and stored is newest)])


def _find(path: Path, keys: Sequence[StoredKey], name: str) -> list[StoredKey]:
    """Return the keys of a client, the newest last."""
    client_keys = [stored for stored in keys if stored.name == name]
    if not client_keys:
        names = ", ".join(dict.fromkeys(stored.name for stored in keys[:8])) or "none"
        raise SettingsError(f"{path}: has no key for {quoted(name)}; it has keys for {names}")
    return client_keys


def _write(path: Path, keys: list[StoredKey]) -> None:
    content = json.dumps({"keys": [stored.model_dump() for stored in keys]}, indent=1)
    try:
        write_file(path, content, mode=0o600)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written: {error.strerror}") from None


class KeyRing:
    """The API keys of a file, which is read again when it changes.

    Args:
        path: the file.
        default: the limits of clients whose key has none.
    """

    def __init__(self, path: Path, default: Client) -> None:
        self._path, self._default = path, default
        self._check_time, self._stamp = time.monotonic(), _stamp(path)
        self._keys = {stored.number: stored for stored in read_keys(path)}

    def client(self, key: str | None) -> Client:
        """Return the client of a key, in constant time."""
        if not key:
            raise ApiError(401, "key_missing", "this server requires an API key", "api_key")
        self._renew()
        match = KEY.fullmatch(key)
        stored = self._keys.get(match[1]) if match else None
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
        if (
            not hmac.compare_digest(digest, EMPTY_KEY_HASH if stored is None else stored.sha256)
            or stored is None
        ):
            raise ApiError(403, "key_wrong", "the API key is wrong", "api_key")
        default = self._default
        requests, characters = stored.requests_per_minute, stored.characters_per_minute
        return replace(
            default,
            name=stored.name,
            requests_per_minute=default.requests_per_minute if requests is None else requests,
            characters_per_minute=default.characters_per_minute if characters is None else characters,
            characters=stored.characters,
        )

    def _renew(self) -> None:
        now = time.monotonic()
        if now - self._check_time < RECHECK_INTERVAL:
            return
        self._check_time = now
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        try:
            self._keys = {stored.number: stored for stored in read_keys(self._path)}
            self._stamp = stamp
        except SettingsError:
            return  # the file is being copied: keep the current keys and read it again later


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0, 0
    return status.st_mtime_ns, status.st_size, status.st_ino
