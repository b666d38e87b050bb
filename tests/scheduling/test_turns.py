"""Calls with long texts work one after the other; a call that is over stops at the next piece of its work."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref

import pytest

from uwaga.errors import CancelledRequestError, DeadlineError
from uwaga.scheduling.call_context import CallContext, while_active


def test_a_long_call_waits_for_the_one_before_and_a_short_one_does_not():
    order, entered = [], threading.Event()

    def other():
        with CallContext(long=True).active():
            order.append("second")
            entered.set()

    thread = threading.Thread(target=other)
    with CallContext(long=True).active():
        thread.start()
        with CallContext().active():
            order.append("short")
        order.append("first")
    assert entered.wait(10)
    thread.join()
    assert order == ["short", "first", "second"]


def test_another_has_its_turn_while_a_call_waits_for_the_model():
    first = CallContext(long=True)
    with first.active(), first.waiting(), CallContext(long=True).active():
        pass


def test_a_call_whose_time_is_over_before_its_turn_fails():
    with CallContext(long=True).active(), pytest.raises(DeadlineError), CallContext("", 0.0, True).active():
        pass
    with CallContext(long=True).active():
        pass


def test_a_cancelled_call_stops_at_its_next_item():
    call = CallContext()
    with call.active():
        items = while_active(range(5))
        assert next(items) == 0
        call.cancel()
        with pytest.raises(CancelledRequestError):
            next(items)
    assert list(while_active("ab")) == ["a", "b"]


def test_an_error_of_a_call_that_ended_is_in_no_cycle():
    gc.collect()
    gc.disable()
    try:
        call = CallContext()
        call.cancel()
        with contextlib.suppress(CancelledRequestError):
            call.check()
        gone = weakref.ref(call)
        del call
        assert gone() is None
    finally:
        gc.enable()
