"""Logs as lines of JSON. What a client sends is never among them: no text, no query, no key."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback

OWN = ("uwaga.server", "uvicorn.error")
"""Loggers that write here."""
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class JsonLines(logging.Formatter):
    """A record as one line of JSON: time, level, event, and what was given as ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _USUAL}
        if record.exc_info and record.exc_info[1] is not None:
            # Where it happened, not what it said: messages of libraries quote what they were given.
            error = record.exc_info[1]
            line["error"] = type(error).__name__
            line["where"] = [
                f"{f.filename}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)[-8:]
            ]
        return json.dumps(line, ensure_ascii=False, default=str)


def set_up_logs(level: str) -> None:
    """Let the server's loggers write lines of JSON to standard error.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in OWN:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())
