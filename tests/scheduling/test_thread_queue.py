"""The queue from threads to a coroutine."""

import asyncio

import pytest

from uwaga.scheduling.thread_queue import ThreadQueue


def test_items_of_a_thread_arrive_in_order_and_end_with_the_task():
    async def read() -> list[int]:
        queue = ThreadQueue[int]()

        def send() -> None:
            for number in range(100):
                queue.put(number)
            raise ValueError("the last item was sent")

        task = asyncio.ensure_future(asyncio.to_thread(send))
        queue.close_after(task)
        items = [item async for item in queue]
        with pytest.raises(ValueError, match="last item"):
            await task
        return items

    assert asyncio.run(read()) == list(range(100))


def test_items_sent_before_the_queue_is_closed_are_read():
    async def read() -> list[str]:
        queue = ThreadQueue[str]()
        queue.put("a")
        await asyncio.sleep(0)
        queue.close()
        return [item async for item in queue]

    assert asyncio.run(read()) == ["a"]


def test_items_for_a_closed_event_loop_are_dropped():
    async def create() -> ThreadQueue[str]:
        return ThreadQueue()

    asyncio.run(create()).put("late")
