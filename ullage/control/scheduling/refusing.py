"""Says on pods why they wait. Only the latest word on each pod is worth a write, and writes never pile up."""

from collections.abc import Callable, Coroutine
from typing import Any

from ullage.act.refuse import Refuser
from ullage.control.scheduling.decisions import Refused
from ullage.control.scheduling.telling import Teller
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.refusal import NotRefused, NotTold, Refuse

Spawn = Callable[[Coroutine[Any, Any, None]], object]


class RefusalDesk:
    """Writes refusals, a few at a time."""

    def __init__(self, refuser: Refuser, teller: Teller, *, at_once: int) -> None:
        self._refuser = refuser
        self._teller = teller
        self._at_once = at_once
        self._noted: dict[ObjectKey, tuple[Pod, Refuse]] = {}
        self._under_way = 0

    def note(self, refused: Refused, spawn: Spawn) -> None:
        """These pods wait, for this reason."""
        nominated = "" if refused.unnominate else None
        for pod in refused.pods:
            self._noted[pod.key] = pod, Refuse(pod=pod.key, uid=pod.uid, why=refused.why, nominated=nominated)
        while self._under_way < min(self._at_once, len(self._noted)):
            self._under_way += 1
            spawn(self._write())

    def forget(self, pod: ObjectKey) -> None:
        """It has a place now: there is nothing to say any more."""
        self._noted.pop(pod, None)

    async def _write(self) -> None:
        try:
            while self._noted:
                pod, action = self._noted.pop(next(iter(self._noted)))
                outcome = await self._refuser.perform(action)
                gone = isinstance(outcome, NotRefused) and outcome.setback is not NotTold.API_FAILED
                if not gone:
                    self._teller.refusal_written(pod, action.why)
        finally:
            self._under_way -= 1
