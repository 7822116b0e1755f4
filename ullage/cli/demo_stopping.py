"""Real time and signals around a demo: a tick for pictures, and signals that wait until somebody can clean up."""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager


def _stopping() -> tuple[signal.Signals, ...]:
    """Signals that stop a demo. A hang-up is none under `nohup`."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return signal.SIGINT, signal.SIGTERM
    return signal.SIGINT, signal.SIGTERM, signal.SIGHUP


@contextmanager
def signals_held() -> Iterator[None]:
    """Let signals wait during the block, except while somebody handles them: nothing is left half cleaned up."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _stopping())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def signals_handled(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` in the running loop on every signal during the block; also on one that has been waiting."""
    loop, stopping = asyncio.get_running_loop(), _stopping()
    for one in stopping:
        loop.add_signal_handler(one, stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, stopping)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, stopping)


@asynccontextmanager
async def ticking(seconds: float) -> AsyncIterator[asyncio.Event]:
    """Event that is set every so many real seconds, however fast the loop's own time passes."""
    loop, tick, over = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def run() -> None:
        while not over.wait(seconds):
            loop.call_soon_threadsafe(tick.set)

    thread = threading.Thread(target=run, name="tick", daemon=True)
    thread.start()
    try:
        yield tick
    finally:
        over.set()
        thread.join()
