"""How a server is set up: a YAML file, or flags."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from uwaga.errors import SettingsError
from uwaga.settings import parse
from uwaga.settings.base import StrictModel
from uwaga.settings.parsing import read_yaml

DialectName = Literal["v1", "libretranslate", "deepl"]
LogLevel = Literal["debug", "info", "warning", "error"]
Port = Annotated[int, Field(ge=0, le=65535)]


class ModelSettings(StrictModel):
    """A model on offer.

    ``name``: a model folder, a Hugging Face name, ``bundled``, or a pair of languages (``en-pt``) for the
    best installed model. ``source`` and ``target``: the languages that are offered of it; needed only
    where the model states none. ``precision``, ``engine`` and ``shortlist`` as
    :meth:`uwaga.Translator.load` has them. ``threads``: of the engine, None as the server's.
    ``preload``: load it at start, not at first use.
    """

    name: Annotated[str, Field(min_length=1)] = "bundled"
    source: str | None = None
    target: str | None = None
    precision: Literal["auto", "float32", "float16", "bfloat16", "int8"] = "auto"
    engine: Literal["auto", "native", "torch"] = "auto"
    shortlist: str | None = None
    threads: NonNegativeInt | None = None
    preload: bool = True

    @model_validator(mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class LimitSettings(StrictModel):
    """What one request may ask for, and one client in a minute.

    ``texts`` and ``characters`` of a request's texts together; ``body_bytes`` of its body and
    ``document_bytes`` of one with a document. ``requests_per_minute`` and ``characters_per_minute`` of a key,
    or of an address without one; 0 for any number. ``waiting``: requests that wait for a model before more
    are refused. ``deadline``: seconds until a request is given up; ``body_seconds``: until its body must be
    there.
    """

    texts: PositiveInt = 512
    characters: PositiveInt = 100_000
    body_bytes: PositiveInt = 2 << 20
    document_bytes: PositiveInt = 32 << 20
    requests_per_minute: NonNegativeInt = 0
    characters_per_minute: NonNegativeInt = 0
    waiting: PositiveInt = 2048
    deadline: PositiveFloat = 60.0
    body_seconds: PositiveFloat = 30.0


class ServerSettings(StrictModel):
    """A server.

    ``models``: on offer, the first of those of the same languages is used. ``threads``: of the engine in each
    worker, 0 for all cores, shared among the ``workers``. ``nice``: by how much these threads step back, as
    nice(1) has it, for those that take requests and give answers. ``memory``: MiB that loaded models may take
    in a worker before those not used for longest are let go, 0 for any. ``keys``: a file of ``uwaga serve
    keys``; None lets everybody in. ``cors``: origins whose pages may call the server, ``*`` for any.
    ``glossaries``: a folder, or the URL of an SQL database. ``documents``: a folder for documents that are
    being translated; None refuses them. ``suggestions``: a file where readers' better translations go; None
    refuses them. ``dialects``: which are spoken. ``page``: serve the page at ``/``. ``public_url``: how
    clients reach the server, where answers hold links to itself; None for what a request says.
    """

    models: Annotated[list[ModelSettings], Field(min_length=1)] = [ModelSettings()]  # noqa: RUF012
    host: str = "127.0.0.1"
    port: Port = 5000
    workers: PositiveInt = 1
    threads: NonNegativeInt = 0
    nice: Annotated[int, Field(ge=0, le=19)] = 4
    memory: NonNegativeInt = 0
    limits: LimitSettings = LimitSettings()
    keys: Path | None = None
    cors: list[str] = []  # noqa: RUF012
    glossaries: str | None = None
    documents: Path | None = None
    suggestions: Path | None = None
    dialects: list[DialectName] = Field(default_factory=lambda: list(get_args(DialectName)))
    page: bool = True
    public_url: str | None = None
    log_level: LogLevel = "info"
    metrics: bool = True


def read_server_settings(path: Path) -> ServerSettings:
    """The settings in a YAML file.

    Raises:
        SettingsError: the file is missing, is not YAML, or holds a bad setting; names the key.
    """
    if not path.is_file():
        raise SettingsError(f"{path}: no such settings file; `uwaga serve --show-settings` prints one")
    return server_settings(read_yaml(path), str(path))


def server_settings(values: dict[str, Any], where: str) -> ServerSettings:
    """Check raw values.

    Raises:
        SettingsError: names ``where``, the key, what is wrong and the nearest known key.
    """
    return parse(ServerSettings, values, where)
