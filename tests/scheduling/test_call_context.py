"""Calls with long texts run one at a time; a cancelled or expired call stops at its next item."""

import contextlib
import gc
import threading
import weakref

import pytest

from uwaga.errors import CancelledRequestError, DeadlineError
from uwaga.scheduling.call_context import CallContext, while_active


def test_long_calls_wait_for_each_other_and_short_calls_do_not():
    order, entered = [], threading.Event()

    def second_call():
        with CallContext(is_long=True).active():
            order.append("second")
            entered.set()

    thread = threading.Thread(target=second_call)
    with CallContext(is_long=True).active():
        thread.start()
        with CallContext().active():
            order.append("short")
        order.append("first")
    assert entered.wait(10)
    thread.join()
    assert order == ["short", "first", "second"]


def test_blocked_call_lets_other_long_calls_run():
    first = CallContext(is_long=True)
    with first.active(), first.waiting(), CallContext(is_long=True).active():
        pass


def test_deadline_that_passes_while_waiting_raises_an_error():
    with (
        CallContext(is_long=True).active(),
        pytest.raises(DeadlineError),
        CallContext("", 0.0, True).active(),
    ):
        pass
    with CallContext(is_long=True).active():
        pass


def test_cancelled_call_stops_at_the_next_item():
    call = CallContext()
    with call.active():
        items = while_active(range(5))
        assert next(items) == 0
        call.cancel()
        with pytest.raises(CancelledRequestError):
            next(items)
    assert list(while_active("ab")) == ["a", "b"]


def test_error_in_a_call_does_not_create_a_reference_cycle():
    gc.collect()
    gc.disable()
    try:
        call = CallContext()
        call.cancel()
        with contextlib.suppress(CancelledRequestError):
            call.check()
        reference = weakref.ref(call)
        del call
        assert reference() is None
    finally:
        gc.enable()
