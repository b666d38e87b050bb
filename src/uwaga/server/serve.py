"""Run the application in one process, or in several that share a socket; its logs."""

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
from uwaga.server.app import Application, create_app
from uwaga.server.connection import KEEP_ALIVE, WatchedConnection
from uwaga.server.context import Dialect
from uwaga.server.limits import RateLimiter
from uwaga.server.metrics import FOLDER, Metrics, forget_dead_workers
from uwaga.server.models import ModelPool, loader
from uwaga.server.served_models import read_served_models
from uwaga.server.service import Service
from uwaga.server.settings import ServerSettings
from uwaga.server.store import open_stores
from uwaga.server.supervisor import Supervisor

OWN = ("uwaga.server", "uvicorn.error")
"""Loggers that write JSON lines."""
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON: time, level, event, and its ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _USUAL}
        if record.exc_info and record.exc_info[1] is not None:
            # The place, not the message: messages of libraries quote their input.
            error = record.exc_info[1]
            line["error"] = type(error).__name__
            line["where"] = [
                f"{f.filename}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)[-8:]
            ]
        return json.dumps(line, ensure_ascii=False, default=str)


def set_up_logs(level: str) -> None:
    """Write the server's logs to standard error, as lines of JSON.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in OWN:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())


LOG = logging.getLogger("uwaga.server")
SWITCH = 0.001
"""Seconds between switches of Python threads, so that a long text does not delay short ones."""
DRAIN = 30
"""Seconds for running requests to finish when the server stops."""
STUCK = 30
"""Seconds after which an unresponsive worker is replaced; on a busy machine a healthy one takes a few."""


def run_server(settings: ServerSettings, dialects: Sequence[Dialect] | None = None) -> None:
    """Serve until the process is told to stop, then finish the running requests.

    Args:
        settings: the settings of the server.
        dialects: the APIs to serve; those of the settings if None.
    """
    set_up_logs(settings.log_level)
    for model in read_served_models(settings.models):  # errors in the settings come before a port is taken
        if model.problem:
            LOG.error("model not served", extra={"model": model.name, "reason": model.problem})
    open_stores(settings)
    _raise_open_files()
    bound = _listen(settings.host, settings.port)
    with bound, contextlib.ExitStack() as shared:
        buckets = None
        if settings.workers > 1:
            shared.enter_context(safe_import_path())
            shared.enter_context(_shared_figures())
            folder = shared.enter_context(tempfile.TemporaryDirectory(prefix="uwaga-limits-"))
            buckets = Path(folder) / "buckets"
        config = _http(settings, functools.partial(build_app, settings, buckets, dialects))
        host, port = bound.getsockname()[:2]
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        LOG.info("listening", extra={"url": url, "workers": settings.workers})
        if settings.workers == 1:
            uvicorn.Server(config).run(sockets=[bound])
        else:
            Supervisor(config, sockets=[bound]).run()


def _http(settings: ServerSettings, app: Callable[[], Application]) -> uvicorn.Config:
    connection = functools.partial(WatchedConnection, patience=settings.limits.body_seconds)
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
        timeout_worker_healthcheck=STUCK,
        timeout_graceful_shutdown=DRAIN,
    )


def build_app(
    settings: ServerSettings, buckets: Path | None = None, dialects: Sequence[Dialect] | None = None
) -> Application:
    """Create the application of one worker.

    Args:
        settings: the settings of the server.
        buckets: file in which workers share the limits per minute; None for a single worker.
        dialects: as in :func:`run_server`.
    """
    set_up_logs(settings.log_level)
    forget_dead_workers()
    sys.setswitchinterval(SWITCH)
    metrics = Metrics()
    return create_app(open_service(settings, metrics), settings, metrics, RateLimiter(buckets), dialects)


def open_service(settings: ServerSettings, metrics: Metrics) -> Service:
    """Return the service of one worker; it loads no model yet."""
    threads = settings.threads or max(1, usable_cores() // settings.workers)
    load = loader(threads, settings.workers > 1)
    pool = ModelPool(load, settings.memory, settings.limits.waiting, metrics.of_model, settings.nice)
    return Service(read_served_models(settings.models), pool, metrics.answered)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name != "nt":  # where it would let two servers listen on one port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise SettingsError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another --port"
        ) from None
    bound.set_inheritable(True)
    return bound


def _raise_open_files() -> None:
    """Raise the limit of open files, and thus connections, to the hard limit."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # Windows has no such limit
        import resource

        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextlib.contextmanager
def _shared_figures() -> Iterator[None]:
    """Create a folder in which workers share their metrics, unless the environment names one."""
    if os.environ.get(FOLDER):
        yield
        return
    folder = tempfile.mkdtemp(prefix="uwaga-metrics-")
    os.environ[FOLDER] = folder
    try:
        yield
    finally:
        del os.environ[FOLDER]
        shutil.rmtree(folder, ignore_errors=True)
