"""Stored documents: atomic storage, resumption, limits, and access by the owner only."""

import asyncio
import io
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from full_disk import limited_file_size
from hypothesis import given
from hypothesis import strategies as st

from uwaga_documents import DocumentOptions, document_job, run_document_job
from uwaga_server.api_errors import ApiError, NotReadyError, NotStoredError, QuotaError, StorageError
from uwaga_server.dialects.documents import result_response
from uwaga_server.store.database import open_database
from uwaga_server.store.documents import (
    MAX_ATTEMPTS,
    NO_DOCUMENT,
    DocumentLimits,
    DocumentSpec,
    DocumentStopped,
    DocumentStore,
    display_name,
    key_hash,
    stored_id,
)

SPEC = DocumentSpec("ann", "words.txt", "txt", "de", "en")


class Documents(DocumentStore):
    """A document store in a folder with its own database."""

    def __init__(self, state, *limits):
        super().__init__(open_database(state, None), state / "documents", *limits)


def add(store, content=b"one\n\ntwo\n", **fields):
    return store.add(replace(SPEC, **fields), io.BytesIO(content))


def translate_to_upper_case(claimed, batch=2, wait=0.0):
    """Translate a document to upper case."""

    def translate(inlines):
        time.sleep(wait)
        return [
            tuple(part.upper() if isinstance(part, str) else part for part in inline) for inline in inlines
        ]

    job = document_job(claimed.document, claimed.output, DocumentOptions(format=claimed.spec.format))
    run_document_job(replace(job, batch=batch), translate, claimed.progress)


def test_document_is_queued_translated_and_removed(tmp_path):
    store = Documents(tmp_path)
    document_id = add(store)
    assert store.status("ann", document_id).state == "queued"
    with pytest.raises(NotReadyError):
        store.result("ann", document_id)
    claimed = Documents(tmp_path).claim_next()
    assert store.status("ann", document_id).state == "running"
    assert store.claim_next() is None
    translate_to_upper_case(claimed)
    claimed.finish()
    status = store.status("ann", document_id.upper())
    assert (status.state, status.translated, status.total) == ("done", 2, 2)
    assert store.result("ann", document_id).read_bytes() == b"ONE\n\nTWO\n"
    store.remove("ann", document_id)
    with pytest.raises(NotStoredError):
        store.status("ann", document_id)
    assert not list((tmp_path / "documents").iterdir())


def test_failed_document_has_no_result(tmp_path):
    store = Documents(tmp_path)
    document_id = add(store)
    claimed = store.claim_next()
    claimed.fail("no such thing", "invalid")
    status = store.status("ann", document_id)
    assert (status.state, status.error, status.code) == ("failed", "no such thing", "invalid")
    with pytest.raises(NotReadyError, match="no such thing"):
        store.result("ann", document_id)
    assert store.claim_next() is None


class RemovingStore(Documents):
    """A store in which a document is removed while its result is requested."""

    after = "result"

    def result(self, owner, document_id, key=None):
        path = super().result(owner, document_id, key)
        return self._and_gone("result", owner, document_id, path)

    def status(self, owner, document_id, key=None):
        result = super().status(owner, document_id, key)
        return self._and_gone("status", owner, document_id, result)

    def _and_gone(self, step, owner, document_id, result):
        if step == self.after:
            self.remove(owner, document_id)
        return result


def add_translated(store):
    document_id = add(store)
    claimed = store.claim_next()
    translate_to_upper_case(claimed)
    claimed.finish()
    return document_id


@pytest.mark.parametrize("after", ["result", "status"])
def test_result_removed_during_the_request_is_not_found(tmp_path, after):
    store = RemovingStore(tmp_path)
    store.after = after
    document_id = add_translated(store)
    with pytest.raises(ApiError) as error:
        asyncio.run(result_response(store, "ann", document_id))
    assert (error.value.status, error.value.message) == (404, NO_DOCUMENT)


def test_result_removed_during_the_response_is_sent_completely(tmp_path):
    store = Documents(tmp_path)
    document_id = add_translated(store)

    async def send():
        response = await result_response(store, "ann", document_id)
        store.remove("ann", document_id)
        assert response.headers["content-length"] == "9"
        return b"".join([block async for block in response.body_iterator])

    assert asyncio.run(send()) == b"ONE\n\nTWO\n"


def test_document_access_requires_the_owner_and_the_key(tmp_path):
    store = Documents(tmp_path)
    document_id = add(store, key=key_hash("secret"))
    pairs = [
        ("bob", "secret"), ("ann", None), ("ann", ""), ("ann", "Secret"), ("", "secret"), (None, "secret"),
    ]  # fmt: skip
    for owner, key in pairs:
        for attempt in (store.status, store.result, store.remove):
            with pytest.raises(NotStoredError):
                attempt(owner, document_id, key)
    assert store.status("ann", document_id, "secret").id == document_id
    assert not any(b"secret" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    store.remove("ann", document_id, "secret")


def test_linked_document_is_accessible_anonymously_but_only_with_its_key(tmp_path):
    store = Documents(tmp_path)
    document_id = add(store, key=key_hash("secret"), linked=True)
    for owner, key in ((None, None), (None, ""), (None, "Secret"), ("ann", None), ("bob", "secret")):
        for attempt in (store.status, store.result, store.remove):
            with pytest.raises(NotStoredError):
                attempt(owner, document_id, key)
    assert store.status(None, document_id, "secret").id == document_id
    store.remove(None, document_id, "secret")


def test_document_id_is_not_stored_in_plain_text(tmp_path):
    store = Documents(tmp_path)
    document_id = add(store)
    assert store.claim_next().id != document_id
    assert not any(document_id in str(path) for path in tmp_path.rglob("*"))
    assert not any(
        document_id.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
    )


@pytest.mark.parametrize(
    "document_id", ["", "..", "../open", "0" * 31, "0" * 33, "g" * 32, "0" * 32, "\0" * 32]
)
def test_invalid_and_unknown_document_ids_are_not_found(tmp_path, document_id):
    store = Documents(tmp_path)
    add(store)
    for attempt in (store.status, store.result, store.remove):
        with pytest.raises(NotStoredError):
            attempt("ann", document_id)


@given(st.text())
def test_displayed_file_name_is_short_and_contains_no_path(name):
    displayed = display_name(name)
    assert 0 < len(displayed) <= 200
    assert "/" not in displayed and "\\" not in displayed and displayed not in (".", "..")
    assert all(char.isprintable() or ord(char) > 159 for char in displayed)
    displayed.encode()
    assert display_name(displayed) == displayed


def test_uploaded_file_names_are_not_used_as_paths(tmp_path):
    store = Documents(tmp_path / "store")
    for name in ("../../evil.txt", "/etc/passwd", "a\0b.txt", "x" * 4000, "\ud800.txt"):
        document_id = add(store, name=name, owner=name)
        assert store.status(name, document_id).state == "queued"
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    assert not any("evil" in path.name or "passwd" in path.name for path in tmp_path.rglob("*"))


def test_number_of_documents_is_limited_per_owner_and_in_total(tmp_path):
    store = Documents(tmp_path, DocumentLimits(total=5, per_owner=2))
    first = add(store)
    add(store)
    with pytest.raises(QuotaError, match="2 documents"):
        add(store)
    for owner in ("bob", "bob", "cat"):
        add(store, owner=owner)
    with pytest.raises(QuotaError, match="no room for more"):
        add(store, owner="dan")
    assert len(list((tmp_path / "documents").iterdir())) == store.count_unfinished() == 5
    store.remove("ann", first)
    add(store, owner="dan")


def test_oldest_of_the_downloaded_documents_is_removed_to_make_room(tmp_path):
    store = Documents(tmp_path, DocumentLimits(per_owner=2))
    first, second = add_translated(store), add_translated(store)
    with pytest.raises(QuotaError):
        add(store)
    store.result("ann", second)
    store.result("ann", first)
    add(store)
    with pytest.raises(NotStoredError):
        store.status("ann", first)
    assert store.status("ann", second).state == "done"
    assert len(list((tmp_path / "documents").iterdir())) == 2


def test_clean_up_removes_old_documents_except_running_ones(tmp_path):
    store = Documents(tmp_path, DocumentLimits(age=0.05))
    failed, running, queued = (add(store, owner=name) for name in ("a", "b", "c"))
    store.claim_next().fail("so be it", "no")
    claimed = store.claim_next()
    time.sleep(0.1)
    store.sweep()
    for owner, document_id in (("a", failed), ("c", queued)):
        with pytest.raises(NotStoredError):
            store.status(owner, document_id)
    assert store.status("b", running).state == "running"
    claimed.release()


def test_owner_with_the_fewest_running_documents_is_served_first(tmp_path):
    store = Documents(tmp_path)
    for _ in range(3):
        add(store)
    other_id = add(store, owner="bob")
    first = store.claim_next()
    assert first.spec.owner == "ann"
    assert store.claim_next().id == stored_id(other_id)


def test_deleting_a_running_document_stops_its_translation(tmp_path):
    store = Documents(tmp_path)
    document_id = add(store)
    claimed = store.claim_next()
    Documents(tmp_path).remove("ann", document_id)
    with pytest.raises(NotStoredError):
        store.status("ann", document_id)
    with pytest.raises(DocumentStopped):
        translate_to_upper_case(claimed)
    claimed.release()
    assert not list((tmp_path / "documents").iterdir())


def test_document_released_repeatedly_by_stopping_workers_does_not_fail(tmp_path):
    store = Documents(tmp_path)
    document_id = add(store, b"\n\n".join(b"line %d" % index for index in range(20)))
    for _ in range(3 * MAX_ATTEMPTS):
        claimed = store.claim_next()
        claimed.stopping = True
        with pytest.raises(DocumentStopped):
            translate_to_upper_case(claimed)
        claimed.release()
    assert store.status("ann", document_id).state != "failed"


KILLED_WORKERS_PROGRAM = """
import os, sys
from pathlib import Path
from uwaga_server.store.database import open_database
from uwaga_server.store.documents import DocumentStore
state = Path(sys.argv[1])
for _ in range(int(sys.argv[2])):
    if not os.fork():
        assert DocumentStore(open_database(state, None), state / "documents").claim_next() is not None
        os.kill(os.getpid(), 9)
    assert os.wait()[1] == 9
"""


def test_document_that_kills_its_workers_fails(tmp_path):
    store = Documents(tmp_path)
    document_id = add(store)
    subprocess.run(
        [sys.executable, "-c", KILLED_WORKERS_PROGRAM, str(tmp_path), str(MAX_ATTEMPTS)], check=True
    )
    assert store.claim_next() is None
    assert store.status("ann", document_id).code == "gave_up"


WORKER_PROGRAM = """
import sys
from pathlib import Path
from test_document_store import Documents, translate_to_upper_case
store = Documents(Path(sys.argv[1]))
print("ready", flush=True)
while (claimed := store.claim_next()) is not None:
    translate_to_upper_case(claimed, batch=5, wait=0.01)
    claimed.finish()
"""


@pytest.mark.slow
def test_killed_workers_leave_only_complete_documents(tmp_path):
    store, rng = Documents(tmp_path), random.Random(3)
    contents = {}
    for number in range(4):
        content = b"\n\n".join(b"line %d of %d" % (index, number) for index in range(300))
        contents[add(store, content, owner=str(number))] = content

    def start():
        return subprocess.Popen(
            [sys.executable, "-c", WORKER_PROGRAM, str(tmp_path)],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )

    workers = [start(), start()]
    killed, deadline = 0, time.monotonic() + 100
    while store.count_unfinished() and time.monotonic() < deadline:
        index = rng.randrange(2)
        if killed < 8:
            workers[index].stdout.readline()
            time.sleep(rng.random() * 0.6)
            workers[index].send_signal(signal.SIGKILL)
            killed += 1
        else:
            time.sleep(0.05)
        if workers[index].poll() is not None or killed < 8:
            workers[index].wait()
            workers[index].stdout.close()
            workers[index] = start()
    for worker in workers:
        worker.kill()
        worker.wait()
        worker.stdout.close()
    for number, (document_id, content) in enumerate(contents.items()):
        status = store.status(str(number), document_id)
        assert (status.state, status.error) == ("done", "")
        assert store.result(str(number), document_id).read_bytes() == content.upper()
    assert killed >= 2


def test_full_disk_leaves_no_partial_document(tmp_path):
    store = Documents(tmp_path)
    document_id = add(store)
    with limited_file_size(1000), pytest.raises(StorageError) as error:
        add(store, b"x" * 5000)
    assert str(tmp_path) not in str(error.value)
    assert [path.name for path in (tmp_path / "documents").iterdir()] == [stored_id(document_id)]
    assert store.status("ann", document_id).state == "queued"


def test_clean_up_removes_the_folder_of_an_abandoned_upload(tmp_path, monkeypatch):
    store = Documents(tmp_path)
    document_id = add(store)
    (tmp_path / "documents" / ("0" * 32)).mkdir()
    monkeypatch.setattr("uwaga_server.store.documents.ABANDONED_AGE", -1.0)
    store.sweep()
    assert [path.name for path in (tmp_path / "documents").iterdir()] == [stored_id(document_id)]


def test_completed_output_of_a_killed_worker_is_used(tmp_path):
    store = Documents(tmp_path)
    document_id = add(store)
    claimed = store.claim_next()
    translate_to_upper_case(claimed)
    claimed._lock.close()  # as the system does when the process ends
    assert store.claim_next() is None
    assert store.status("ann", document_id).state == "done"
