"""Headers of error responses."""

import asyncio

import httpx
import pytest

from uwaga_server.api_errors import _ERROR_CODES, ApiError, api_error
from uwaga_server.app import create_app
from uwaga_server.metrics import Metrics
from uwaga_server.serve import open_service
from uwaga_server.settings import DIALECTS, server_settings


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)
def test_responses_with_status_503_have_a_retry_after_header(dialect):
    for kind, _, _ in _ERROR_CODES:
        problem = api_error(kind("the disk is full"))
        response = dialect.render(problem, "0123")
        headers = {**response.headers, **problem.headers}
        assert response.status_code != 503 or int(headers["retry-after"]) >= 1


def test_health_response_of_a_loading_server_has_a_retry_after_header():
    settings, metrics = server_settings({}, "the test"), Metrics()
    app = create_app(open_service(settings, metrics), settings, metrics)

    async def health():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get("/health")

    response = asyncio.run(health())
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")


def test_retry_after_header_has_the_given_value_or_the_default_for_the_status():
    assert ApiError(503, "busy", "", retry_after=2.0).headers == {"retry-after": "2"}
    assert ApiError(400, "refused", "").headers == {}
