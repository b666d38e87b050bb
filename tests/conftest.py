import atexit
import gc
import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine takes its time over any example. The examples are the same in each run, so that a change is
# refused for its own faults alone; `make fuzz` searches with more and new ones.
settings.register_profile("quick", deadline=None, max_examples=10, derandomize=True)
settings.register_profile("new", deadline=None, max_examples=100)
settings.load_profile("quick")

# Tests call nothing but loopback. They trust one authority, whose key was deleted: those of the system would
# be read for every client, in 60 ms.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "support/authority.pem")
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)


LONG_FILES = (
    "test_engine_sanitised", "test_scale_out", "test_site", "test_server_openapi", "_browser",
    "test_c_library", "test_server_operation", "test_page.py", "training/", "test_native_kernels",
    "test_v1_stored", "corpora/", "translator/",
)  # fmt: skip
"""Parts of the names of the slowest files, the slowest first."""


def _length_rank(item):
    """Return the position of an item's file in ``LONG_FILES``, or their number for a short file."""
    parts = (rank for rank, part in enumerate(LONG_FILES) if part in item.nodeid)
    return next(parts, len(LONG_FILES))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave all but every nth case of a test marked ``sampled(n)`` to `make release-check`.

    The slowest files run first, so that no process runs one alone at the end.
    """
    cases = Counter()
    for item in items:
        if sampled := item.get_closest_marker("sampled"):
            function = item.nodeid.partition("[")[0]
            if cases[function] % sampled.args[0]:
                item.add_marker("release")
            cases[function] += 1
    items.sort(key=_length_rank)


@pytest.fixture(scope="session")
def translator():
    """The bundled model."""
    import uwaga

    return uwaga.load(threads=1)


@pytest.fixture(scope="session")
def anyio_backend():
    """Run asynchronous tests with asyncio alone."""
    return "asyncio"


gc.disable()


def pytest_collection_finish():
    """Exclude modules and tests from garbage collection until the process ends: there are a million objects.

    A service that is closed in a test would unfreeze them for all later tests. The garbage among them, less
    than 10 %, is kept: finding it would take a second.
    """
    gc.freeze()
    gc.enable()
    atexit.register(gc.unfreeze)
    gc.unfreeze = lambda: None


# A shell that starts the tests in the background has them and their programs ignore Ctrl+C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
