"""Uploads as multipart forms."""

import asyncio

import pytest
from starlette.requests import Request

from uwaga_server.api_errors import ApiError
from uwaga_server.http import Parameters, read_upload
from uwaga_server.middleware import BodyMemory, RequestState


class NamedUpload(Parameters):
    """Parameters of an upload."""

    name: str


def upload(*parts: tuple[str, str]) -> Request:
    """Return a multipart request from pairs of a disposition and a content."""
    parts_text = "".join(
        f"--x\r\nContent-Disposition: form-data; {disposition}\r\n\r\n{content}\r\n"
        for disposition, content in parts
    )
    body = (parts_text + "--x--\r\n").encode()

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"content-type", b"multipart/form-data; boundary=x")]
    scope = {"type": "http", "method": "POST", "headers": headers, "query_string": b""}
    scope["uwaga"] = RequestState("1", BodyMemory(1 << 20))
    return Request(scope, receive)


FILE = ('name="file"; filename="a.txt"', "words")
OTHER_FILE = ('name="file"; filename="b.txt"', "more")
NAME = ('name="name"', "letter")


def test_upload_is_closed_after_the_with_block():
    async def read():
        async with read_upload(upload(NAME, FILE), NamedUpload) as (fields, file):
            assert (fields.name, file.filename, file.file.read()) == ("letter", "a.txt", b"words")
        return file.file

    assert asyncio.run(read()).closed


@pytest.mark.parametrize("parts", [(FILE,), (NAME,), (NAME, FILE, OTHER_FILE), (NAME, NAME, FILE)])
def test_invalid_uploads_are_refused(parts):
    async def read():
        async with read_upload(upload(*parts), NamedUpload):
            raise AssertionError("it was taken")

    with pytest.raises(ApiError) as refused:
        asyncio.run(read())
    assert refused.value.status == 400
