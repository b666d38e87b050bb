import os

import pytest


@pytest.fixture(autouse=True, scope="module")
def skip_fsync():
    """Skip fsync, as thousands of small documents need not be durable."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield
