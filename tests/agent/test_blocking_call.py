"""Calls that hang: bounded, refused while they hang, taken up again when they come back."""

import asyncio
import threading
import time

import pytest

from ullage.agent.blocking_call import BlockingCallThread, CallTimedOut


async def test_what_is_returned_and_raised_comes_back() -> None:
    lane = BlockingCallThread("test")
    assert await lane.call(lambda: 42, 1.0) == 42
    with pytest.raises(ZeroDivisionError):
        await lane.call(lambda: 1 // 0, 1.0)
    lane.close()


async def test_a_call_that_hangs_is_given_up_and_the_lane_comes_back() -> None:
    lane, go_on = BlockingCallThread("test"), threading.Event()
    with pytest.raises(CallTimedOut, match="no answer"):
        await lane.call(lambda: go_on.wait(10), 0.05)
    began = time.monotonic()
    with pytest.raises(CallTimedOut, match="no answer for"):
        await lane.call(lambda: 1, 5.0)
    assert time.monotonic() - began < 4, "it does not wait behind a call that hangs"
    go_on.set()
    await come_back(lane)
    assert await lane.call(lambda: 2, 30.0) == 2
    lane.close()


async def test_an_error_that_comes_too_late_is_nobodys() -> None:
    lane, go_on = BlockingCallThread("test"), threading.Event()

    def fail() -> None:
        go_on.wait(10)
        raise ValueError("late")

    with pytest.raises(CallTimedOut):
        await lane.call(fail, 0.05)
    go_on.set()
    await come_back(lane)
    lane.close()


async def come_back(lane: BlockingCallThread) -> None:
    """Until the call that hung has returned."""
    async with asyncio.timeout(30):
        while lane.stuck:  # noqa: ASYNC110 - the thread tells nobody
            await asyncio.sleep(0.01)


async def test_lanes_do_not_wait_for_each_other() -> None:
    stuck, free, go_on = BlockingCallThread("stuck"), BlockingCallThread("free"), threading.Event()
    hanging = asyncio.ensure_future(stuck.call(lambda: go_on.wait(30), 30.0))
    assert await free.call(lambda: "free", 4.0) == "free"
    assert not hanging.done()
    go_on.set()
    assert await hanging
    stuck.close()
    free.close()
