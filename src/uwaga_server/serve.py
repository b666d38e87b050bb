"""Functions that run the server in one process, or in several that share a socket, and set up its logs."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import os
import shutil
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import uvicorn

from uwaga.child_processes import safe_import_path
from uwaga.engine.cpu import usable_cores
from uwaga.errors import SettingsError
from uwaga_server.app import Application, create_app
from uwaga_server.connection import KEEP_ALIVE, WatchedConnection
from uwaga_server.context import Dialect
from uwaga_server.limits import RateLimiter
from uwaga_server.metrics import FOLDER_VARIABLE, Metrics, forget_dead_workers
from uwaga_server.models import ModelPool, loader
from uwaga_server.origins import is_loopback
from uwaga_server.served_models import read_served_models
from uwaga_server.service import Service
from uwaga_server.settings import ServerSettings
from uwaga_server.store import open_stores
from uwaga_server.supervisor import Supervisor

JSON_LOGGERS = ("uwaga_server", "uvicorn.error")
"""Loggers that write JSON lines."""
_STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
    "color_message",
}


class JsonLines(logging.Formatter):
    """Log formatter that writes a record as a line of JSON with time, level, event and ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line of JSON."""
        line: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD_ATTRIBUTES}
        if record.exc_info and record.exc_info[1] is not None:
            # The message of the exception is omitted, since messages of libraries may quote their input.
            error = record.exc_info[1]
            line["error"] = type(error).__name__
            line["where"] = [
                f"{f.filename}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)[-8:]
            ]
        return json.dumps(line, ensure_ascii=False, default=str)


def set_up_logs(level: str) -> None:
    """Configure logging: the server's logs go to standard error, as lines of JSON.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in JSON_LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())


LOG = logging.getLogger("uwaga_server")
SWITCH_INTERVAL = 0.001
"""Switch interval of Python threads in seconds, which is short so that long texts do not delay short ones."""
SHUTDOWN_TIMEOUT = 30
"""Maximum seconds to wait for running requests when the server stops."""
WORKER_TIMEOUT = 30
"""Seconds after which an unresponsive worker is replaced."""


def run_server(settings: ServerSettings, dialects: Sequence[Dialect] | None = None) -> None:
    """Run the server until the process receives a signal to stop, then finish the running requests.

    Args:
        settings: the settings of the server.
        dialects: the dialects to serve; if None, those that the settings name.
    """
    set_up_logs(settings.log_level)
    for model in read_served_models(settings.models):  # report errors in the settings before binding the port
        if model.problem:
            LOG.error("model not served", extra={"model": model.name, "reason": model.problem})
    if settings.keys is not None and not settings.keys.exists():
        LOG.warning("key file does not exist: all requests are refused", extra={"keys": str(settings.keys)})
    with contextlib.ExitStack() as stack:
        if settings.state is None and settings.database is None and is_loopback(settings.host):
            temporary = tempfile.TemporaryDirectory(prefix="uwaga-state-", ignore_cleanup_errors=True)
            state = Path(stack.enter_context(temporary))
            settings = settings.model_copy(update={"state": state})
        open_stores(settings)
        _raise_open_file_limit()
        listener = stack.enter_context(_bind_socket(settings.host, settings.port))
        buckets = None
        if settings.workers > 1:
            stack.enter_context(safe_import_path())
            stack.enter_context(_shared_metrics_folder())
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="uwaga-limits-"))
            buckets = Path(folder) / "buckets"
        config = _uvicorn_config(settings, functools.partial(build_app, settings, buckets, dialects))
        host, port = listener.getsockname()[:2]
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        LOG.info("listening", extra={"url": url, "workers": settings.workers})
        if settings.workers == 1:
            uvicorn.Server(config).run(sockets=[listener])
        else:
            Supervisor(config, sockets=[listener]).run()


def _uvicorn_config(settings: ServerSettings, app: Callable[[], Application]) -> uvicorn.Config:
    connection = functools.partial(WatchedConnection, check_interval=settings.limits.body_seconds)
    return uvicorn.Config(
        app,
        factory=True,
        workers=settings.workers,
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=2048,
        http=cast("type[asyncio.Protocol]", connection),
        ws="none",
        timeout_keep_alive=KEEP_ALIVE,
        timeout_worker_healthcheck=WORKER_TIMEOUT,
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT,
    )


def build_app(
    settings: ServerSettings, buckets: Path | None = None, dialects: Sequence[Dialect] | None = None
) -> Application:
    """Create the application of a worker process.

    Args:
        settings: the settings of the server.
        buckets: file in which workers share the rate limits; None for a single worker.
        dialects: as in :func:`run_server`.
    """
    set_up_logs(settings.log_level)
    forget_dead_workers()
    sys.setswitchinterval(SWITCH_INTERVAL)
    metrics = Metrics()
    return create_app(open_service(settings, metrics), settings, metrics, RateLimiter(buckets), dialects)


def open_service(settings: ServerSettings, metrics: Metrics) -> Service:
    """Return the translation service of a worker process, without loading models."""
    threads = settings.threads or max(1, usable_cores() // settings.workers)
    load = loader(threads, settings.workers > 1)
    pool = ModelPool(load, settings.memory, settings.limits.waiting, metrics.model_observer, settings.nice)
    return Service(read_served_models(settings.models), pool, metrics.count_translations)


def _bind_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name != "nt":  # on Windows, this would allow two servers to listen on the same port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SettingsError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another --port"
        ) from None
    listener.set_inheritable(True)
    return listener


def _raise_open_file_limit() -> None:
    """Raise the soft limit on open files, which also limits connections, to the hard limit."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # Windows has no such limit
        import resource

        hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))


@contextlib.contextmanager
def _shared_metrics_folder() -> Iterator[None]:
    """Create the folder in which workers share their metrics, unless the environment names one."""
    if os.environ.get(FOLDER_VARIABLE):
        yield
        return
    folder = tempfile.mkdtemp(prefix="uwaga-metrics-")
    os.environ[FOLDER_VARIABLE] = folder
    try:
        yield
    finally:
        del os.environ[FOLDER_VARIABLE]
        shutil.rmtree(folder, ignore_errors=True)
