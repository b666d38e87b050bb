"""Settings of the server, which are read from a YAML file and the command line."""

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
"""The dialects that are served by default."""
LogLevel = Literal["debug", "info", "warning", "error"]
Port = Annotated[int, Field(ge=0, le=65535)]


class ModelSettings(StrictModel):
    """A model to serve.

    Attributes:
        name: a model folder, a Hugging Face name, ``bundled``, or a language pair such as ``en-pt`` for the
            best installed model.
        source: the source language to serve; required only if the model states no source language.
        target: the target language to serve; required only if the model states no target language.
        precision: the number format of the weights, as in :func:`uwaga.load`.
        engine: the engine, as in :func:`uwaga.load`.
        shortlist: the file of a vocabulary shortlist, as in :func:`uwaga.load`.
        threads: number of engine threads; None for the setting of the server.
        preload: whether to load the model at startup rather than at first use.
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
    """Limits on requests and on stored data.

    Attributes:
        texts: maximum number of texts in a request.
        characters: maximum total number of characters of the texts in a request.
        body_bytes: maximum size of a request body in bytes.
        document_bytes: maximum size in bytes of a request body with a document or a glossary.
        total_body_bytes: maximum memory in bytes, for each worker, for the bodies of all requests in
            progress. If it is exceeded, the oldest incomplete body is refused. It must be at least
            ``body_bytes`` and ``document_bytes``.
        requests_per_minute: maximum number of requests per minute for each key, or for each address on a
            server without keys; 0 for no limit.
        characters_per_minute: maximum number of characters per minute for each key or address; 0 for no
            limit.
        waiting: maximum number of requests that wait for a model; further requests are refused.
        documents: maximum number of stored documents of all clients. If it is exceeded, the oldest
            downloaded or failed document of the client is deleted; if there is none, the upload is refused.
        documents_per_client: maximum number of stored documents of one client, enforced in the same way.
        document_hours: hours after which a document is deleted.
        glossary_bytes_per_client: maximum total size in bytes of a client's stored glossaries.
        deadline: seconds after which a request is abandoned.
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
            raise ValueError(f"total_body_bytes: must be at least {largest}, the maximum size of a body")
        return self


class ServerSettings(StrictModel):
    """Settings of a server.

    Attributes:
        plugins: Python files that extend uwaga, for example with dialects.
        models: models to serve; of several models for the same languages, the first is used.
        host: address to listen on.
        port: port to listen on; 0 for any free port.
        workers: number of worker processes.
        threads: total number of engine threads, divided among the workers; 0 for all cores.
        nice: niceness of the engine's threads relative to the threads that serve requests, as for nice(1).
        memory: limit in MiB on the size of the loaded models in a worker, above which the least recently used
            models are unloaded; 0 for no limit.
        limits: limits on requests and on stored data.
        keys: file of API keys, see ``uwaga serve keys``; if None, requests need no key.
        cors: web origins whose pages may call the server, or ``*`` for any.
        state: folder for glossaries and usage (in ``state.sqlite``) and for documents; other users of the
            machine cannot read the folder. If None, a temporary folder is used if ``host`` is a loopback
            address and ``database`` is None; otherwise nothing is stored.
        database: URL of an SQL database that replaces ``state.sqlite``, for servers on several machines. To
            store documents, set ``state`` to a folder that all machines share.
        memories: folder of translation memories, whose files end with ``.uwm``; None for no memories.
        suggestions: file in which users' suggested translations are stored; if None, suggestions are refused.
        dialects: names of the dialects to serve.
        page: whether to serve the web page at ``/``.
        public_url: URL by which clients reach the server, for links in responses; None to use the URL of the
            request.
        log_level: minimum severity of logged messages.
        metrics: whether to serve Prometheus metrics at ``/metrics``.
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
    """Read server settings from a YAML file.

    Args:
        path: the file; None for the default settings.
        changes: values by key that override those in the file.
    """
    values: dict[str, Any] = {}
    if path is not None:
        if not path.is_file():
            raise SettingsError(f"{path}: no such file; `uwaga serve --show-settings` prints one")
        values = read_yaml(path)
        load_listed_plugins(values, str(path))
    return server_settings({**values, **(changes or {})}, "the options" if path is None else str(path))


def server_settings(values: dict[str, Any], origin: str) -> ServerSettings:
    """Return validated settings for raw values.

    Args:
        values: the values by key.
        origin: where the values come from, for error messages.
    """
    return parse(ServerSettings, values, origin)
