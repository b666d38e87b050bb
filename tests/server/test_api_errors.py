"""Laws of error responses."""

import pytest

from uwaga.server.api_errors import _KINDS, ApiError, api_error
from uwaga.server.app import DIALECTS


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("kind", [kind for kind, _, _ in _KINDS], ids=lambda kind: kind.__name__)
def test_each_503_says_when_to_try_again(kind, dialect):
    problem = api_error(kind("the disk is full"))
    response = dialect.render(problem, "0123")
    headers = {**response.headers, **problem.headers}
    assert response.status_code != 503 or int(headers["retry-after"]) >= 1


def test_a_503_keeps_the_time_that_is_known():
    assert ApiError(503, "busy", "", retry_after=2.0).headers == {"retry-after": "2"}
    assert ApiError(400, "refused", "").headers == {}
