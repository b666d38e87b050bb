"""Common parts of browser extensions' APIs: texts with placeholders, keys in the URL, errors.

Their documentation names the fields of a request and a response, and neither a path nor the form of an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from pydantic import BaseModel
from starlette.responses import Response

from uwaga.languages.detection import AUTO
from uwaga.server.api_errors import ApiError
from uwaga.server.context import KeyPlace
from uwaga.server.http import json_response
from uwaga.server.routing import error_answers
from uwaga.translator.request import Request, build_requests

KEY = KeyPlace(("bearer",), parameter="key")
PLACEHOLDER = re.compile(r"</?[a-z]{1,8}\d{1,6}>|<[a-z]{1,8} i=\d{1,6}>")
"""A placeholder in the form of a tag: ``<b0>`` or ``<a i=0>``."""


class ExtensionError(BaseModel):
    """An error."""

    code: str
    message: str


ERRORS = error_answers(ExtensionError, without=[404])


def page_requests(texts: Sequence[str], source: str, target: str) -> list[Request]:
    """Return the requests for texts of a web page; those with placeholders in the form of tags are HTML.

    Args:
        texts: of one language.
        source: its code; ``auto``, or empty, to detect it.
        target: code of the language of the translations.
    """
    return [
        replace(request, format="html") if PLACEHOLDER.search(request.text) else request
        for request in build_requests(texts, {"source": source or AUTO, "target": target})
    ]


def render(problem: ApiError, number: str) -> Response:
    """Return an error as JSON with its code and message."""
    return json_response({"code": problem.code, "message": problem.message}, problem.status)
