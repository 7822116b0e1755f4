"""Parallel runs in processes of this machine. Results equal those of sequential runs, in the same order."""

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing.connection import wait as wait_for
from multiprocessing.queues import Queue
from typing import Any

from ullage.observe.log import configure
from ullage.sim.experiment.run import RunOutcome, RunProgress, perform
from ullage.sim.experiment.run_spec import RunSpec

OnProgress = Callable[[RunProgress], None]
OnDone = Callable[[int, RunOutcome], None]

_channel: "Queue[Any] | None" = None
"""Queue on which a worker process reports its progress."""


def run_all(
    recipes: Sequence[RunSpec], *, processes: int, keep_steps: bool, on_progress: OnProgress, on_done: OnDone
) -> list[RunOutcome]:
    """Run all, a limited number at a time. With one process, they run in the calling process."""
    if processes <= 1 or len(recipes) <= 1:
        return _one_by_one(recipes, keep_steps, on_progress, on_done)
    context = multiprocessing.get_context("spawn")
    channel: Queue[Any] = context.Queue()
    with _passing_on(channel, on_progress):
        workers = min(processes, len(recipes))
        with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(channel,)) as pool:
            try:
                with _interrupts_held():  # workers inherit it: the parent alone answers Ctrl-C
                    asked = {pool.submit(_perform, recipe, keep_steps): place for place, recipe in enumerate(recipes)}
                return _gathered(asked, on_done)
            except KeyboardInterrupt:
                for worker in multiprocessing.active_children():
                    worker.terminate()
                raise


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back until the end of the block. Processes that are started in it never get any."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: held.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    if held:
        signal.raise_signal(signal.SIGINT)


def _one_by_one(
    recipes: Sequence[RunSpec], keep_steps: bool, on_progress: OnProgress, on_done: OnDone
) -> list[RunOutcome]:
    found: list[RunOutcome] = []
    for place, recipe in enumerate(recipes):
        found.append(perform(recipe, keep_steps=keep_steps, on_progress=on_progress))
        on_done(place, found[-1])
    return found


def _gathered(asked: dict[Future[RunOutcome], int], on_done: OnDone) -> list[RunOutcome]:
    outcomes: dict[int, RunOutcome] = {}
    try:
        waiting = set(asked)
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=asked.__getitem__):
                outcomes[asked[future]] = future.result()
                on_done(asked[future], outcomes[asked[future]])
    except Exception:  # after Ctrl-C the pool itself ends what is left, and stumbles over what was cancelled
        for future in asked:
            future.cancel()
        raise
    return [outcomes[place] for place in range(len(asked))]


def _begin(channel: "Queue[Any]") -> None:
    global _channel
    _channel = channel
    configure(level="error")
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()


def _end_with_parent() -> None:
    """End this worker when its parent process ends, so that no worker is left running after the parent was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def _perform(recipe: RunSpec, keep_steps: bool) -> RunOutcome:
    channel = _channel
    return perform(recipe, keep_steps=keep_steps, on_progress=lambda far: channel.put(far) if channel else None)


@contextmanager
def _passing_on(channel: "Queue[Any]", on_progress: OnProgress) -> Iterator[None]:
    """Pass on the progress of workers during the block."""
    over = threading.Event()

    def listen() -> None:
        while not over.is_set():
            try:
                on_progress(channel.get(timeout=0.2))
            except queue.Empty:
                continue

    listener = threading.Thread(target=listen, name="progress", daemon=True)
    listener.start()
    try:
        yield
    finally:
        over.set()
        listener.join()
        channel.close()
