import os

import pytest


@pytest.fixture(autouse=True, scope="module")
def quick_disk():
    """Thousands of small documents need not outlive a power cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield
