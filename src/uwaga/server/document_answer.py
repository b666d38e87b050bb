"""A document as an answer."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from urllib.parse import quote

from starlette.background import BackgroundTask
from starlette.responses import Response, StreamingResponse

from uwaga.server.api_errors import NotStoredError
from uwaga.server.document_jobs import DocumentJobs
from uwaga.server.job_files import NO_DOCUMENT
from uwaga.server.kept import in_thread

BLOCK = 1 << 16


async def result_answer(jobs: DocumentJobs, owner: str, job_id: str, key: str | None = None) -> Response:
    """A translated document to download.

    Args:
        jobs: where it lies.
        owner: whose it is.
        job_id: which.
        key: the document's own key, None where it has none.

    Raises:
        ApiError: there is none of this owner and key (404), or it is not translated (409).
    """

    def opened() -> Response:
        path = jobs.result(owner, job_id, key)
        return document_answer(path, jobs.status(owner, job_id, key).order.name)

    return await in_thread(opened)


def document_answer(path: Path, name: str) -> Response:
    """A file to download. It is opened now: who deletes it meanwhile does not break the answer off.

    Args:
        path: the file.
        name: what the client calls it.

    Raises:
        NotStoredError: it has been deleted.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise NotStoredError(NO_DOCUMENT) from None
    headers = {
        "content-length": str(os.fstat(file.fileno()).st_size),
        "content-disposition": f"attachment; filename*=utf-8''{quote(name, safe='')}",
    }
    blocks = iter(partial(file.read, BLOCK), b"")
    kind = "application/octet-stream"
    return StreamingResponse(blocks, headers=headers, media_type=kind, background=BackgroundTask(file.close))
