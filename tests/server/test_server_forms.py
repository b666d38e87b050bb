"""What a request says, whichever form it is in."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request

from uwaga.server.api_errors import ApiError
from uwaga.server.http import Parameters, read_upload
from uwaga.server.middleware import BodyRoom, RequestState


class Named(Parameters):
    """A file with a name."""

    name: str


def upload(*parts: tuple[str, str]) -> Request:
    """A form of parts: what stands in their headers, and what they hold."""
    made = "".join(
        f"--x\r\nContent-Disposition: form-data; {head}\r\n\r\n{content}\r\n" for head, content in parts
    )
    body = (made + "--x--\r\n").encode()

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"content-type", b"multipart/form-data; boundary=x")]
    scope = {"type": "http", "method": "POST", "headers": headers, "query_string": b""}
    scope["uwaga"] = RequestState("1", BodyRoom(1 << 20))
    return Request(scope, receive)


FILE = ('name="file"; filename="a.txt"', "words")
OTHER = ('name="file"; filename="b.txt"', "more")
NAME = ('name="name"', "letter")


def test_an_upload_is_closed_when_it_has_been_read():
    async def work():
        async with read_upload(upload(NAME, FILE), Named) as (asked, file):
            assert (asked.name, file.filename, file.file.read()) == ("letter", "a.txt", b"words")
        return file.file

    assert asyncio.run(work()).closed


@pytest.mark.parametrize("parts", [(FILE,), (NAME,), (NAME, FILE, OTHER), (NAME, NAME, FILE)])
def test_an_upload_that_is_not_what_it_must_be_is_refused(parts):
    async def work():
        async with read_upload(upload(*parts), Named):
            raise AssertionError("it was taken")

    with pytest.raises(ApiError) as refused:
        asyncio.run(work())
    assert refused.value.status == 400
