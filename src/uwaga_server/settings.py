"""Settings of a server, from a YAML file or flags."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, field_validator, model_validator

from uwaga.errors import SettingsError
from uwaga.plugins import Registry, load_listed_plugins
from uwaga.settings import parse
from uwaga.settings.parsing import StrictModel
from uwaga.settings.yaml_text import read_yaml

DIALECTS: Registry[Any] = Registry(
    "dialect",
    "uwaga.dialects",
    {
        "v1": "uwaga_server.dialects.v1:DIALECT",
        "libretranslate": "uwaga_server.dialects.libretranslate:DIALECT",
        "deepl": "uwaga_server.dialects.deepl.dialect:DIALECT",
        "deeplx": "uwaga_server.dialects.deeplx:DIALECT",
        "immersive": "uwaga_server.dialects.immersive:DIALECT",
        "kiss": "uwaga_server.dialects.kiss:DIALECT",
        "google": "uwaga_server.dialects.google:DIALECT",
        "opuscat": "uwaga_server.dialects.opuscat:DIALECT",
        "openai": "uwaga_server.dialects.openai:DIALECT",
    },
)
"""The dialects, each a :class:`~uwaga_server.context.Dialect`."""
DEFAULT_DIALECTS = ("v1", "libretranslate", "deepl")
"""Dialects served unless the settings name others."""
LogLevel = Literal["debug", "info", "warning", "error"]
Port = Annotated[int, Field(ge=0, le=65535)]


class ModelSettings(StrictModel):
    """A model to serve.

    Attributes:
        name: model folder, Hugging Face name, ``bundled``, or a language pair (``en-pt``) for the best
            installed model.
        source: source language to serve; needed only if the model states none.
        target: target language to serve; needed only if the model states none.
        precision: as in :func:`uwaga.load`, like ``engine`` and ``shortlist``.
        engine: ``native`` or ``torch``.
        shortlist: file of a vocabulary shortlist.
        threads: engine threads; None for the server's.
        preload: load at start rather than at first use.
    """

    name: Annotated[str, Field(min_length=1)] = "bundled"
    source: str | None = None
    target: str | None = None
    precision: Literal["auto", "float32", "float16", "bfloat16", "int8", "int4"] = "auto"
    engine: Literal["auto", "native", "torch"] = "auto"
    shortlist: str | None = None
    threads: NonNegativeInt | None = None
    preload: bool = True

    @model_validator(mode="before")
    @classmethod
    def _expand_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class LimitSettings(StrictModel):
    """Limits of requests and of what the server stores.

    Attributes:
        texts: maximum texts in a request.
        characters: maximum characters of a request's texts together.
        body_bytes: maximum size of a request body.
        document_bytes: maximum size of a request body with a document or a glossary.
        total_body_bytes: memory per worker for the bodies of all requests in progress; beyond it, the
            unfinished body that began first is refused. At least ``document_bytes``.
        requests_per_minute: limit of each key, or of each address without a key; 0 for no limit.
        characters_per_minute: likewise.
        waiting: requests that wait for a model before further ones are refused.
        documents: stored documents of all clients. Beyond the limit the client's oldest downloaded one is
            deleted; if there is none, the upload is refused.
        documents_per_client: likewise, of one client.
        document_hours: hours until a document is deleted.
        glossary_bytes_per_client: maximum size of a client's stored glossaries together.
        deadline: seconds until a request is abandoned.
        body_seconds: seconds within which a request body must arrive.
    """

    texts: PositiveInt = 512
    characters: PositiveInt = 100_000
    body_bytes: PositiveInt = 2 << 20
    document_bytes: PositiveInt = 32 << 20
    total_body_bytes: PositiveInt = 64 << 20
    requests_per_minute: NonNegativeInt = 0
    characters_per_minute: NonNegativeInt = 0
    waiting: PositiveInt = 2048
    documents: PositiveInt = 1000
    documents_per_client: PositiveInt = 100
    document_hours: PositiveFloat = 24.0
    glossary_bytes_per_client: PositiveInt = 1 << 30
    deadline: PositiveFloat = 60.0
    body_seconds: PositiveFloat = 30.0

    @model_validator(mode="after")
    def _check_total_body_bytes(self) -> LimitSettings:
        largest = max(self.body_bytes, self.document_bytes)
        if self.total_body_bytes < largest:
            raise ValueError(f"total_body_bytes: set it to {largest} or more, the size of the largest body")
        return self


class ServerSettings(StrictModel):
    """Settings of a server.

    Attributes:
        models: models to serve; the first of several for the same languages is used.
        host: address to listen on.
        port: port to listen on.
        workers: processes.
        threads: engine threads in total, divided among the workers; 0 for all cores.
        nice: niceness of the engine's threads relative to those that serve requests, as for nice(1).
        memory: MiB of loaded models in a worker beyond which the least recently used ones are unloaded; 0 for
            no limit.
        limits: limits on requests and on stored data.
        keys: file of API keys, see ``uwaga serve keys``; None serves everybody.
        cors: origins whose pages may call the server, ``*`` for any.
        state: folder for glossaries and usage (``state.sqlite``) and documents, which other users of the
            machine cannot read; None for a temporary one if ``host`` is an address of this machine only and
            there is no ``database``, else stores nothing.
        database: URL of an SQL database instead of ``state.sqlite``, for several machines; documents then
            need a ``state`` folder that all machines share.
        memories: folder of translation memories, whose files end in ``.uwm``; None has none.
        suggestions: file for translations that users suggest; None refuses them.
        dialects: APIs to serve.
        page: serve the web page at ``/``.
        public_url: URL by which clients reach the server, for links in responses; None takes the request's.
        log_level: minimum severity of the messages to log.
        metrics: serve Prometheus metrics at ``/metrics``.
    """

    plugins: list[str] = []  # noqa: RUF012
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
    state: Path | None = None
    database: str | None = None
    memories: Path | None = None
    suggestions: Path | None = None
    dialects: list[str] = list(DEFAULT_DIALECTS)  # noqa: RUF012
    page: bool = True
    public_url: str | None = None
    log_level: LogLevel = "info"
    metrics: bool = True

    @field_validator("dialects")
    @classmethod
    def _check_dialects(cls, names: list[str]) -> list[str]:
        for name in names:
            try:
                DIALECTS.check(name)
            except SettingsError as error:
                raise ValueError(str(error)) from None
        return names


def read_server_settings(path: Path | None, changes: Mapping[str, Any] | None = None) -> ServerSettings:
    """Read the settings of a YAML file.

    Args:
        path: the file; None for the defaults.
        changes: values that replace those of the file, by key.
    """
    values: dict[str, Any] = {}
    if path is not None:
        if not path.is_file():
            raise SettingsError(f"{path}: no such file; `uwaga serve --show-settings` prints one")
        values = read_yaml(path)
        load_listed_plugins(values, str(path))
    return server_settings({**values, **(changes or {})}, "the options" if path is None else str(path))


def server_settings(values: dict[str, Any], origin: str) -> ServerSettings:
    """Return raw values as settings, after checking them."""
    return parse(ServerSettings, values, origin)
