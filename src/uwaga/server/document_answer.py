"""A document as an answer."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from urllib.parse import quote

from starlette.background import BackgroundTask
from starlette.responses import Response, StreamingResponse

from uwaga.server.problems import problem_of
from uwaga.server.stored_errors import NotStoredError

BLOCK = 1 << 16


def document_answer(path: Path, name: str) -> Response:
    """A file to download. It is opened now: who deletes it meanwhile does not break the answer off.

    Args:
        path: the file.
        name: what the client calls it.

    Raises:
        Problem: it has been deleted.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise problem_of(NotStoredError("there is no such document")) from None
    headers = {
        "content-length": str(os.fstat(file.fileno()).st_size),
        "content-disposition": f"attachment; filename*=utf-8''{quote(name, safe='')}",
    }
    blocks = iter(partial(file.read, BLOCK), b"")
    kind = "application/octet-stream"
    return StreamingResponse(blocks, headers=headers, media_type=kind, background=BackgroundTask(file.close))
