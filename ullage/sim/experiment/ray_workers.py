"""Parallel runs on a Ray cluster. Results equal those of local runs, because a RunSpec determines its run.

Ray is an extra (`pip install ullage[ray]`), imported only here. Its workers need ullage installed.
"""

import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ullage.errors import UserError
from ullage.observe.log import configure
from ullage.sim.experiment.run import RunOutcome, perform
from ullage.sim.experiment.run_spec import RunSpec

_KNOCK_SECONDS = 5.0

OnDone = Callable[[int, RunOutcome], None]


def run_on_ray(address: str, recipes: Sequence[RunSpec], *, keep_steps: bool, on_done: OnDone) -> list[RunOutcome]:
    """Run all, as many at a time as the cluster has cores. Raises UserError."""
    with _connected(address) as ray:
        remote = ray.remote(max_retries=2)(_perform)
        asked = {remote.remote(recipe, keep_steps): place for place, recipe in enumerate(recipes)}
        outcomes: dict[int, RunOutcome] = {}
        waiting = list(asked)
        while waiting:
            done, waiting = ray.wait(waiting)
            for reference in done:
                place = asked[reference]
                outcomes[place] = _result(ray, reference)
                on_done(place, outcomes[place])
        return [outcomes[place] for place in range(len(recipes))]


def _perform(recipe: RunSpec, keep_steps: bool) -> RunOutcome:
    configure(level="error")
    return perform(recipe, keep_steps=keep_steps)


def _result(ray: Any, reference: Any) -> RunOutcome:
    try:
        outcome: RunOutcome = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause if isinstance(getattr(error, "cause", None), Exception) else error
        raise UserError(f"--ray: a run failed there: {cause}") from error
    except ray.exceptions.RayError as error:
        raise UserError(f"--ray: the cluster lost a run: {error}; look at its log, or run without --ray") from error
    return outcome


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    _knock(address)
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "2")  # else it asks for minutes, and prints while it does
    try:
        import ray
    except ImportError as error:
        raise UserError("--ray needs the extra `ray`; install it with: pip install 'ullage[ray]'") from error
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise UserError(f"--ray {address}: no Ray cluster answers there ({_first_line(error)})") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Raise UserError at once if no cluster answers at the address, because Ray itself waits long."""
    host, colon, port = address.rpartition(":")
    if "://" in address or not colon or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_SECONDS).close()
    except OSError as error:
        raise UserError(f"--ray {address}: no Ray cluster answers there ({error.strerror or error})") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
