"""API keys, whose hashes are stored in a file together with the limits of each client."""

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

KEY_PREFIX = "uwk"
NAME_PATTERN = re.compile(r"[\w.@+-]{1,64}", re.ASCII)
KEY_PATTERN = re.compile(rf"{KEY_PREFIX}-([0-9a-f]{{8}})-([\w-]{{32,64}})", re.ASCII)
MAX_FILE_BYTES = 16 << 20
"""Maximum number of bytes that are read from a key file."""
RECHECK_INTERVAL = 1.0
"""Seconds between two checks of whether the key file has changed."""
EMPTY_KEY_HASH = hashlib.sha256(b"").hexdigest()
"""Hash with which a key is compared if its id is unknown, so that the check takes the same time."""


@dataclass(frozen=True)
class Client:
    """A client and its limits; 0 means no limit.

    Attributes:
        name: the name for which the key was created; on a server without keys, the client's address.
        requests_per_minute: maximum requests per minute.
        characters_per_minute: maximum characters of texts per minute.
        characters: maximum characters in total.
    """

    name: str
    requests_per_minute: int = 0
    characters_per_minute: int = 0
    characters: int = 0


class StoredKey(StrictModel):
    """An entry of a key file. Since a key has 256 random bits, a fast hash of it is secure."""

    name: str
    number: str
    sha256: str
    created: str
    requests_per_minute: NonNegativeInt | None = None
    characters_per_minute: NonNegativeInt | None = None
    characters: NonNegativeInt = 0


class KeyFile(StrictModel):
    """The contents of a key file."""

    keys: list[StoredKey] = []  # noqa: RUF012


def read_keys(path: Path) -> list[StoredKey]:
    """Return the keys stored in a file; an empty list if the file does not exist."""
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
    """Create a key for a client and return it; only its hash is stored.

    Args:
        path: the key file, created if missing.
        name: the name of the client, unique in the file.
        requests_per_minute: maximum number of requests per minute; None for the server's limit, 0 for no
            limit.
        characters_per_minute: maximum number of characters per minute; None for the server's limit, 0 for no
            limit.
        characters: maximum number of characters in total; 0 for no limit.
    """
    if not NAME_PATTERN.fullmatch(name):
        raise SettingsError(
            f"{quoted(name)}: not a valid name; use at most 64 characters: letters, digits and . @ + - _"
        )
    keys = read_keys(path)
    if any(key.name == name for key in keys):
        raise SettingsError(
            f"{path}: already has a key for {name}; add another with --rotate, or remove it first"
        )
    return _create_key(path, keys, name, requests_per_minute, characters_per_minute, characters)


def rotate_key(path: Path, name: str) -> str:
    """Create another key for a client, with the same limits as its newest key, and return it.

    The older keys remain valid until :func:`remove_key` revokes them, so that the client can switch to the
    new key without an outage.
    """
    keys = read_keys(path)
    old_key = _client_keys(path, keys, name)[-1]
    limits = old_key.requests_per_minute, old_key.characters_per_minute, old_key.characters
    return _create_key(path, keys, name, *limits)


def _create_key(
    path: Path,
    keys: Sequence[StoredKey],
    name: str,
    requests_per_minute: int | None,
    characters_per_minute: int | None,
    characters: int,
) -> str:
    number, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    key = f"{KEY_PREFIX}-{number}-{secret}"
    stored_key = StoredKey(
        name=name,
        number=number,
        sha256=hashlib.sha256(key.encode()).hexdigest(),
        created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        requests_per_minute=requests_per_minute,
        characters_per_minute=characters_per_minute,
        characters=characters,
    )
    _write_keys(path, [*keys, stored_key])
    return key


def remove_key(path: Path, name: str, older: bool = False) -> None:
    """Revoke the keys of a client; running servers reject them within a second.

    Args:
        path: the key file.
        name: the name of the client.
        older: whether to revoke only the older keys and keep the newest one.
    """
    keys = read_keys(path)
    newest_key = _client_keys(path, keys, name)[-1]
    _write_keys(path, [key for key in keys if key.name != name or (older and key is newest_key)])


def _client_keys(path: Path, keys: Sequence[StoredKey], name: str) -> list[StoredKey]:
    """Return the keys of a client, oldest first."""
    client_keys = [key for key in keys if key.name == name]
    if not client_keys:
        names = ", ".join(dict.fromkeys(key.name for key in keys[:8])) or "none"
        raise SettingsError(f"{path}: has no key for {quoted(name)}; the clients with keys are: {names}")
    return client_keys


def _write_keys(path: Path, keys: list[StoredKey]) -> None:
    content = json.dumps({"keys": [key.model_dump() for key in keys]}, indent=1)
    try:
        write_file(path, content, mode=0o600)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written: {error.strerror}") from None


class KeyRing:
    """The API keys of a key file, which is reloaded when it changes.

    Args:
        path: the key file.
        default: a client whose limits apply to keys for which the file states no limits.
    """

    def __init__(self, path: Path, default: Client) -> None:
        self._path, self._default = path, default
        self._check_time, self._stamp = time.monotonic(), _file_stamp(path)
        self._keys = {key.number: key for key in read_keys(path)}

    def client(self, key: str | None) -> Client:
        """Return the client that a key belongs to; the comparison takes constant time.

        Raises:
            ApiError: the key is missing or wrong.
        """
        if not key:
            raise ApiError(401, "key_missing", "this server requires an API key", "api_key")
        self._reload_if_changed()
        match = KEY_PATTERN.fullmatch(key)
        stored_key = self._keys.get(match[1]) if match else None
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
        if (
            not hmac.compare_digest(digest, EMPTY_KEY_HASH if stored_key is None else stored_key.sha256)
            or stored_key is None
        ):
            raise ApiError(403, "key_wrong", "the API key is wrong", "api_key")
        default = self._default
        requests, characters = stored_key.requests_per_minute, stored_key.characters_per_minute
        return replace(
            default,
            name=stored_key.name,
            requests_per_minute=default.requests_per_minute if requests is None else requests,
            characters_per_minute=default.characters_per_minute if characters is None else characters,
            characters=stored_key.characters,
        )

    def _reload_if_changed(self) -> None:
        now = time.monotonic()
        if now - self._check_time < RECHECK_INTERVAL:
            return
        self._check_time = now
        stamp = _file_stamp(self._path)
        if stamp == self._stamp:
            return
        try:
            self._keys = {key.number: key for key in read_keys(self._path)}
            self._stamp = stamp
        except SettingsError:
            return  # the file may be incomplete while it is copied: keep the current keys and retry later


def _file_stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0, 0
    return status.st_mtime_ns, status.st_size, status.st_ino
