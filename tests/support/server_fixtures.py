"""Fixtures for tests of the server (``pytest_plugins = "server_fixtures"``)."""

from collections.abc import Iterator

import pytest
from browser import chromium
from running_server import RunningServer, running_server
from server_page import START, open_server_page

import uwaga
from uwaga_server.settings import DIALECTS


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Start a server with the bundled model, all dialects, and folders for state and suggestions."""
    folder = tmp_path_factory.mktemp("shared-server")
    paths = {"state": str(folder / "state"), "suggestions": str(folder / "suggestions.jsonl")}
    with running_server(folder, dialects=list(DIALECTS), **paths) as running:
        yield running


@pytest.fixture(scope="session")
def server(shared_server: RunningServer) -> RunningServer:
    """Return the shared server, for modules that do not start their own."""
    return shared_server


@pytest.fixture(scope="session")
def translator() -> uwaga.Translator:
    """Return a translator with the bundled model, which the server uses too."""
    return uwaga.Translator.load(threads=1)


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with chromium() as chrome:
        yield chrome


@pytest.fixture
def page(browser, server: str) -> Iterator:
    """Yield the page of the server that the test module defines, with empty text."""
    with open_server_page(browser, server, START) as new_page:
        yield new_page
