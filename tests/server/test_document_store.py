"""Laws of stored documents: whole or absent, resumed, bounded, and reached by their owner alone."""

import asyncio
import io
import random
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwaga.documents import DocumentOptions, document_job, run_document_job
from uwaga.server.api_errors import ApiError, NotReadyError, NotStoredError, QuotaError, StorageError
from uwaga.server.dialects.documents import result_response
from uwaga.server.store.database import open_database
from uwaga.server.store.documents import (
    ATTEMPTS,
    NO_DOCUMENT,
    DocumentLimits,
    DocumentSpec,
    DocumentStopped,
    DocumentStore,
    key_hash,
    shown_name,
    stored_id,
)

SPEC = DocumentSpec("ann", "words.txt", "txt", "de", "en")


class Documents(DocumentStore):
    """Documents in a folder with their own database."""

    def __init__(self, state, *limits):
        super().__init__(open_database(state, None), state / "documents", *limits)


def add(jobs, content=b"one\n\ntwo\n", **more):
    return jobs.add(replace(SPEC, **more), io.BytesIO(content))


def shouted(claimed, batch=2, wait=0.0):
    """Translate a document into capitals."""

    def translate(inlines):
        time.sleep(wait)
        return [tuple(part.upper() if isinstance(part, str) else part for part in one) for one in inlines]

    job = document_job(claimed.document, claimed.output, claimed.spec.format, DocumentOptions())
    run_document_job(replace(job, batch=batch), translate, claimed.progress)


def test_a_job_goes_from_queued_over_running_to_done(tmp_path):
    jobs = Documents(tmp_path)
    job_id = add(jobs)
    assert jobs.status("ann", job_id).state == "queued"
    with pytest.raises(NotReadyError):
        jobs.result("ann", job_id)
    claimed = Documents(tmp_path).take()
    assert jobs.status("ann", job_id).state == "running"
    assert jobs.take() is None
    shouted(claimed)
    claimed.finish()
    told = jobs.status("ann", job_id.upper())
    assert (told.state, told.done, told.of) == ("done", 2, 2)
    assert jobs.result("ann", job_id).read_bytes() == b"ONE\n\nTWO\n"
    jobs.remove("ann", job_id)
    with pytest.raises(NotStoredError):
        jobs.status("ann", job_id)
    assert not list((tmp_path / "documents").iterdir())


def test_a_job_that_fails_says_why_and_leaves_no_result(tmp_path):
    jobs = Documents(tmp_path)
    job_id = add(jobs)
    claimed = jobs.take()
    claimed.fail("no such thing", "invalid")
    told = jobs.status("ann", job_id)
    assert (told.state, told.error, told.code) == ("failed", "no such thing", "invalid")
    with pytest.raises(NotReadyError, match="no such thing"):
        jobs.result("ann", job_id)
    assert jobs.take() is None


class Removed(Documents):
    """Jobs whose owner removes one while its result is looked for."""

    after = "result"

    def result(self, owner, job_id, key=None):
        found = super().result(owner, job_id, key)
        return self._and_gone("result", owner, job_id, found)

    def status(self, owner, job_id, key=None):
        found = super().status(owner, job_id, key)
        return self._and_gone("status", owner, job_id, found)

    def _and_gone(self, step, owner, job_id, found):
        if step == self.after:
            self.remove(owner, job_id)
        return found


def translated(jobs):
    job_id = add(jobs)
    claimed = jobs.take()
    shouted(claimed)
    claimed.finish()
    return job_id


@pytest.mark.parametrize("after", ["result", "status"])
def test_a_result_that_is_removed_while_it_is_asked_for_is_not_found(tmp_path, after):
    jobs = Removed(tmp_path)
    jobs.after = after
    job_id = translated(jobs)
    with pytest.raises(ApiError) as found:
        asyncio.run(result_response(jobs, "ann", job_id))
    assert (found.value.status, found.value.message) == (404, NO_DOCUMENT)


def test_a_result_that_is_removed_while_it_is_sent_is_sent_whole(tmp_path):
    jobs = Documents(tmp_path)
    job_id = translated(jobs)

    async def sent():
        answer = await result_response(jobs, "ann", job_id)
        jobs.remove("ann", job_id)
        assert answer.headers["content-length"] == "9"
        return b"".join([block async for block in answer.body_iterator])

    assert asyncio.run(sent()) == b"ONE\n\nTWO\n"


def test_only_the_owner_with_the_key_reaches_a_job(tmp_path):
    jobs = Documents(tmp_path)
    job_id = add(jobs, key=key_hash("secret"))
    pairs = [
        ("bob", "secret"),
        ("ann", None),
        ("ann", ""),
        ("ann", "Secret"),
        ("", "secret"),
        (None, "secret"),
    ]
    for owner, key in pairs:
        for attempt in (jobs.status, jobs.result, jobs.remove):
            with pytest.raises(NotStoredError):
                attempt(owner, job_id, key)
    assert jobs.status("ann", job_id, "secret").id == job_id
    assert not any(b"secret" in one.read_bytes() for one in tmp_path.rglob("*") if one.is_file())
    jobs.remove("ann", job_id, "secret")


def test_a_linked_document_is_reached_by_its_key_alone(tmp_path):
    jobs = Documents(tmp_path)
    job_id = add(jobs, key=key_hash("secret"), linked=True)
    for owner, key in ((None, None), (None, ""), (None, "Secret"), ("ann", None), ("bob", "secret")):
        for attempt in (jobs.status, jobs.result, jobs.remove):
            with pytest.raises(NotStoredError):
                attempt(owner, job_id, key)
    assert jobs.status(None, job_id, "secret").id == job_id
    jobs.remove(None, job_id, "secret")


def test_neither_files_nor_rows_have_the_id_of_a_document(tmp_path):
    jobs = Documents(tmp_path)
    job_id = add(jobs)
    assert jobs.take().id != job_id
    assert not any(job_id in str(path) for path in tmp_path.rglob("*"))
    assert not any(job_id.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize("job_id", ["", "..", "../open", "0" * 31, "0" * 33, "g" * 32, "0" * 32, "\0" * 32])
def test_ids_that_are_none_are_not_found(tmp_path, job_id):
    jobs = Documents(tmp_path)
    add(jobs)
    for attempt in (jobs.status, jobs.result, jobs.remove):
        with pytest.raises(NotStoredError):
            attempt("ann", job_id)


@given(st.text())
def test_a_strangers_file_name_is_harmless_to_show(name):
    shown = shown_name(name)
    assert 0 < len(shown) <= 200
    assert "/" not in shown and "\\" not in shown and shown not in (".", "..")
    assert all(one.isprintable() or ord(one) > 159 for one in shown)
    shown.encode()
    assert shown_name(shown) == shown


def test_names_never_become_paths(tmp_path):
    jobs = Documents(tmp_path / "jobs")
    for name in ("../../evil.txt", "/etc/passwd", "a\0b.txt", "x" * 4000, "\ud800.txt"):
        job_id = add(jobs, name=name, owner=name)
        assert jobs.status(name, job_id).state == "queued"
    assert [one.name for one in tmp_path.iterdir()] == ["jobs"]
    assert not any("evil" in one.name or "passwd" in one.name for one in tmp_path.rglob("*"))


def test_numbers_are_bounded_of_an_owner_and_of_all(tmp_path):
    jobs = Documents(tmp_path, DocumentLimits(total=5, per_owner=2))
    first = add(jobs)
    add(jobs)
    with pytest.raises(QuotaError, match="2 documents"):
        add(jobs)
    for owner in ("bob", "bob", "cat"):
        add(jobs, owner=owner)
    with pytest.raises(QuotaError, match="no more"):
        add(jobs, owner="dan")
    assert len(list((tmp_path / "documents").iterdir())) == jobs.waiting() == 5
    jobs.remove("ann", first)
    add(jobs, owner="dan")


def test_the_oldest_downloaded_document_makes_room(tmp_path):
    jobs = Documents(tmp_path, DocumentLimits(per_owner=2))
    first, second = translated(jobs), translated(jobs)
    with pytest.raises(QuotaError):
        add(jobs)
    jobs.result("ann", second)
    jobs.result("ann", first)
    add(jobs)
    with pytest.raises(NotStoredError):
        jobs.status("ann", first)
    assert jobs.status("ann", second).state == "done"
    assert len(list((tmp_path / "documents").iterdir())) == 2


def test_what_is_too_old_goes_but_not_what_is_worked_on(tmp_path):
    jobs = Documents(tmp_path, DocumentLimits(age=0.05))
    done, running, queued = (add(jobs, owner=name) for name in ("a", "b", "c"))
    jobs.take().fail("so be it", "no")
    claimed = jobs.take()
    time.sleep(0.1)
    jobs.sweep()
    for owner, job_id in (("a", done), ("c", queued)):
        with pytest.raises(NotStoredError):
            jobs.status(owner, job_id)
    assert jobs.status("b", running).state == "running"
    claimed.release()


def test_an_owner_with_many_documents_does_not_hold_up_another(tmp_path):
    jobs = Documents(tmp_path)
    for _ in range(3):
        add(jobs)
    late = add(jobs, owner="bob")
    first = jobs.take()
    assert first.spec.owner == "ann"
    assert jobs.take().id == stored_id(late)


def test_a_removed_job_that_is_worked_on_is_left_and_goes(tmp_path):
    jobs = Documents(tmp_path)
    job_id = add(jobs)
    claimed = jobs.take()
    Documents(tmp_path).remove("ann", job_id)
    with pytest.raises(NotStoredError):
        jobs.status("ann", job_id)
    with pytest.raises(DocumentStopped):
        shouted(claimed)
    claimed.release()
    assert not list((tmp_path / "documents").iterdir())


def test_a_job_that_is_left_goes_on_where_it_was(tmp_path):
    jobs = Documents(tmp_path)
    job_id = add(jobs, b"\n\n".join(b"line %d" % at for at in range(20)))
    for _ in range(3 * ATTEMPTS):
        claimed = jobs.take()
        claimed.stopping = True
        with pytest.raises(DocumentStopped):
            shouted(claimed)
        claimed.release()
    assert jobs.status("ann", job_id).state != "failed"


KILLED = """
import os, sys
from pathlib import Path
from uwaga.server.store.database import open_database
from uwaga.server.store.documents import DocumentStore
state = Path(sys.argv[1])
for _ in range(int(sys.argv[2])):
    if not os.fork():
        assert DocumentStore(open_database(state, None), state / "documents").take() is not None
        os.kill(os.getpid(), 9)
    assert os.wait()[1] == 9
"""


def test_a_job_that_kills_its_workers_is_given_up(tmp_path):
    jobs = Documents(tmp_path)
    job_id = add(jobs)
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(ATTEMPTS)], check=True)
    assert jobs.take() is None
    assert jobs.status("ann", job_id).code == "gave_up"


WORKER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_document_store import Documents, shouted
jobs = Documents(Path(sys.argv[1]))
print("ready", flush=True)
while (claimed := jobs.take()) is not None:
    shouted(claimed, batch=5, wait=0.01)
    claimed.finish()
"""


@pytest.mark.slow
def test_two_workers_are_killed_again_and_again_and_every_document_is_whole(tmp_path):
    jobs, rng = Documents(tmp_path), random.Random(3)
    contents = {}
    for number in range(4):
        content = b"\n\n".join(b"line %d of %d" % (at, number) for at in range(300))
        contents[add(jobs, content, owner=str(number))] = content

    def start():
        here = str(Path(__file__).parent)
        return subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path), here], stdout=subprocess.PIPE)

    workers = [start(), start()]
    killed, until = 0, time.monotonic() + 100
    while jobs.waiting() and time.monotonic() < until:
        at = rng.randrange(2)
        if killed < 8:
            workers[at].stdout.readline()
            time.sleep(rng.random() * 0.6)
            workers[at].send_signal(signal.SIGKILL)
            killed += 1
        else:
            time.sleep(0.05)
        if workers[at].poll() is not None or killed < 8:
            workers[at].wait()
            workers[at].stdout.close()
            workers[at] = start()
    for worker in workers:
        worker.kill()
        worker.wait()
        worker.stdout.close()
    for number, (job_id, content) in enumerate(contents.items()):
        told = jobs.status(str(number), job_id)
        assert (told.state, told.error) == ("done", "")
        assert jobs.result(str(number), job_id).read_bytes() == content.upper()
    assert killed >= 2


def test_a_full_disk_is_told_and_nothing_half_written_is_left(tmp_path):
    jobs = Documents(tmp_path)
    kept = add(jobs)
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, old[1]))
    try:
        with pytest.raises(StorageError) as told:
            add(jobs, b"x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, ignored)
    assert str(tmp_path) not in str(told.value)
    assert [one.name for one in (tmp_path / "documents").iterdir()] == [stored_id(kept)]
    assert jobs.status("ann", kept).state == "queued"


def test_a_folder_that_a_killed_upload_has_left_is_removed(tmp_path, monkeypatch):
    jobs = Documents(tmp_path)
    kept = add(jobs)
    (tmp_path / "documents" / ("0" * 32)).mkdir()
    monkeypatch.setattr("uwaga.server.store.documents.ABANDONED", -1.0)
    jobs.sweep()
    assert [one.name for one in (tmp_path / "documents").iterdir()] == [stored_id(kept)]


def test_a_document_whose_worker_was_killed_before_it_could_say_so_is_done(tmp_path):
    jobs = Documents(tmp_path)
    job_id = add(jobs)
    claimed = jobs.take()
    shouted(claimed)
    claimed._lock.close()  # as the system does when the process ends
    assert jobs.take() is None
    assert jobs.status("ann", job_id).state == "done"
