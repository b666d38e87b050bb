"""Stored data is accessible to the server's user only, with any umask and any previous permissions."""

import io
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwaga.files.handles import make_private
from uwaga_documents import DocumentOptions, document_job, run_document_job
from uwaga_server.settings import ServerSettings
from uwaga_server.store import open_stores
from uwaga_server.store.database import USAGE, open_database
from uwaga_server.store.documents import DocumentSpec

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")

SPEC = DocumentSpec("ann", "words.txt", "txt", "de", "en")


@pytest.fixture(params=[0o000, 0o002, 0o022, 0o077], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


def permissions(folder: Path) -> dict[str, int]:
    """Return the permissions of a folder and of its contents by relative path."""
    paths = [folder, *folder.rglob("*")]
    return {str(path.relative_to(folder)): stat.S_IMODE(path.lstat().st_mode) for path in paths}


def open_to_others(folder: Path) -> dict[str, str]:
    return {path: oct(mode) for path, mode in permissions(folder).items() if mode & 0o077}


def store_everything(state: Path) -> dict[str, int]:
    """Store a translated, a running and a waiting document and usage; return the permissions at that time."""
    stores = open_stores(ServerSettings(state=state))
    for _ in range(3):
        stores.documents.add(SPEC, io.BytesIO(b"one\n\ntwo\n"))
    stores.usage.add("ann", 10, limit=100)
    translated, options = stores.documents.claim_next(), DocumentOptions(format="txt")
    assert translated is not None
    run_document_job(document_job(translated.document, translated.output, options), list)
    translated.finish()
    running = stores.documents.claim_next()
    assert running is not None
    modes: dict[str, int] = {}

    def translate(inlines):
        modes.update(permissions(state))
        return list(inlines)

    run_document_job(document_job(running.document, running.output, options), translate)
    running.finish()
    return modes


@pytest.mark.usefixtures("umask")
def test_state_files_are_private_with_any_umask(tmp_path):
    state = tmp_path / "state"
    modes = store_everything(state)
    assert not open_to_others(state)
    names = {Path(path).name for path in modes}
    assert {"state.sqlite", "state.sqlite-wal", "state.sqlite-shm", "document", "output", "lock"} <= names
    temporary = {".part"}  # in a private folder, and private when it becomes the translation
    assert not [path for path, mode in modes.items() if mode & 0o077 and Path(path).suffix not in temporary]


def test_state_folders_of_earlier_versions_become_private(tmp_path):
    state = tmp_path / "state"
    store_everything(state)
    database = open_database(state, None)
    with database.connect() as connection:  # -wal and -shm exist while it is open
        connection.execute(USAGE.select())
        for path in (state, *state.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        open_stores(ServerSettings(state=state))
        assert not open_to_others(state)


@pytest.mark.usefixtures("umask")
def test_sqlite_database_outside_the_state_folder_is_private(tmp_path):
    database = open_database(None, f"sqlite:///{tmp_path}/other.sqlite")
    with database.connect() as connection:
        connection.execute(USAGE.select())
        assert not [path.name for path in tmp_path.iterdir() if path.lstat().st_mode & 0o077]


def test_in_memory_database_creates_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    open_database(None, "sqlite://").dispose()
    assert not list(tmp_path.iterdir())


def test_state_folder_accessible_to_others_is_logged(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("uwaga_server.store.database.make_private", lambda path: False)
    open_database(tmp_path, None)
    [record] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert record.path == str(tmp_path)


@given(mode=st.integers(0, 0o777))
def test_make_private_keeps_only_the_permissions_of_the_owner(tmp_path_factory, mode):
    path = tmp_path_factory.mktemp("modes") / "file"
    path.touch()
    path.chmod(mode)
    assert make_private(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode & 0o700


def test_targets_of_symbolic_links_keep_their_permissions(tmp_path):
    target = tmp_path / "elsewhere"
    target.touch(0o644)
    target.chmod(0o644)
    documents = tmp_path / "state" / "documents"
    documents.mkdir(parents=True)
    (documents / "link").symlink_to(target)
    open_stores(ServerSettings(state=tmp_path / "state"))
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
