"""Fixtures for tests of the server (``pytest_plugins = "server_fixtures"``); a module defines ``server``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import chromium
from server_page import START, open_server_page

import uwaga


@pytest.fixture(scope="module")
def translator() -> uwaga.Translator:
    """Return the bundled model, which the server has too."""
    return uwaga.Translator.load(threads=1)


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with chromium() as chrome:
        yield chrome


@pytest.fixture
def page(browser, server: str) -> Iterator:
    """Yield the page of the module's server, without a text."""
    with open_server_page(browser, server, START) as new_page:
        new_page.wait_for_selector("#source")
        yield new_page
