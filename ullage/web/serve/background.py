"""Work beside the loops, one piece at a time, in daemon threads: the end of the program does not wait for it.

Pieces run on copies of the cluster. They share the interpreter with the loops, which go on meanwhile.
"""

import concurrent.futures
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Background:
    """Runs pieces of work. Methods may be called from any thread."""

    def __init__(self) -> None:
        self._turn = threading.Lock()

    def submit(self, work: Callable[[], T]) -> "concurrent.futures.Future[T]":
        """Start a piece of work, after those before it. One that is cancelled before its turn does not run."""
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def run() -> None:
            with self._turn:
                if not future.set_running_or_notify_cancel():
                    return
                try:
                    found = work()
                except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
                    future.set_exception(error)
                else:
                    future.set_result(found)

        threading.Thread(target=run, name="question", daemon=True).start()
        return future
