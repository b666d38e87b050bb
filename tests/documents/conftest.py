import os

import pytest


@pytest.fixture(autouse=True, scope="module")
def skip_fsync():
    """Replace fsync by a function that does nothing, since these documents need not be durable."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield
