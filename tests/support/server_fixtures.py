"""What tests of the server share: ``pytest_plugins = "server_fixtures"``; ``server`` is of each module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import chromium
from page_visit import START, visit

import uwaga


@pytest.fixture(scope="module")
def translator() -> uwaga.Translator:
    """The bundled model, which the server has too."""
    return uwaga.Translator.load(threads=1)


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser, server: str) -> Iterator:
    """The page of the module's server, with nothing typed."""
    with visit(browser, server, START) as found:
        found.wait_for_selector("#source")
        yield found
