"""Deletions of instances by removals that run concurrently: those asked for together go to the cloud in one call.

A cloud that asks to be left alone is left alone by all removals, not only by the one that was told.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ullage.act.concurrency import each
from ullage.clock import Clock
from ullage.cloud.api import CloudError, CloudProvider, OutcomeUnknown, RequestRejected, Throttled
from ullage.model.provisioner import MOST_ASKED_FOR
from ullage.model.units import Steady

GATHERED_FOR = 0.1
"""Seconds the first deletion of a call waits for others. Its node was looked at before: no longer than it has to be."""
MOST_DELETED = 100
"""Instances deleted in one call."""
_CALLS_AT_ONCE = 8

Answers = dict[str, "asyncio.Future[None]"]
"""Answers that callers wait for, by instance."""


@dataclass(slots=True)
class _Requested:
    """Deletions requested of one provider."""

    next_call: Answers = field(default_factory=dict)
    left_alone_until: Steady = Steady(0.0)
    why: str = ""


class InstanceDeleter:
    """Deleter of instances, shared by all removals."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._requested: dict[str, _Requested] = {}
        """By name of the provider."""

    async def delete(self, provider: CloudProvider, instance: str) -> None:
        """Delete an instance. Raises CloudError."""
        asked = self._requested.setdefault(provider.name, _Requested())
        rest = asked.left_alone_until - self._clock.steady()
        if rest > 0.0:
            raise Throttled(asked.why, retry_after=rest)
        is_first = not asked.next_call
        answer = asked.next_call.setdefault(instance, asyncio.get_running_loop().create_future())
        if is_first:
            await self._call(provider, asked)
        # Others may wait for the same answer: a caller that is cancelled does not take it away.
        await asyncio.shield(answer)

    async def _call(self, provider: CloudProvider, asked: _Requested) -> None:
        """Delete what has been requested when the wait is over, and answer everybody."""
        answers: Answers = asked.next_call
        try:
            await asyncio.sleep(GATHERED_FOR)
            asked.next_call = {}
            ids = list(answers)
            parts = [ids[begin : begin + MOST_DELETED] for begin in range(0, len(ids), MOST_DELETED)]
            for found in await each(parts, lambda part: delete_all(provider, part), at_once=_CALLS_AT_ONCE):
                self._answer(asked, answers, found)
        finally:
            if asked.next_call is answers:
                asked.next_call = {}
            for answer in answers.values():
                if not answer.done():  # whoever made the call was cancelled: the others ask again
                    _fail(answer, OutcomeUnknown("the call that was to delete it was given up"))

    def _answer(self, asked: _Requested, answers: Answers, found: Mapping[str, CloudError | None]) -> None:
        for instance, error in found.items():
            if isinstance(error, Throttled) and error.retry_after:
                asked.left_alone_until = Steady(self._clock.steady() + min(error.retry_after, MOST_ASKED_FOR))
                asked.why = error.message
            if error is None:
                answers[instance].set_result(None)
            else:
                _fail(answers[instance], error)


async def delete_all(provider: CloudProvider, ids: Sequence[str]) -> dict[str, CloudError | None]:
    """Delete at most MOST_DELETED instances; errors by instance.

    It is one call. If that is rejected, one call each: one wrong instance must not keep the others.
    """
    try:
        await provider.delete(ids)
    except RequestRejected as error:
        if len(ids) == 1:
            return {ids[0]: error}
        alone = await each(ids, lambda one: delete_all(provider, [one]), at_once=_CALLS_AT_ONCE)
        return {one: error for found in alone for one, error in found.items()}
    except CloudError as error:
        return dict.fromkeys(ids, error)
    return dict.fromkeys(ids)


def _fail(answer: "asyncio.Future[None]", error: CloudError) -> None:
    answer.set_exception(error)
    answer.exception()  # retrieved: its caller may be gone
