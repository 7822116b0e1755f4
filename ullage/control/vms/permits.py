"""Answers to permit requests of agents: read, decide, write the approval, answer. No sockets and no credentials here.

Requests of one VM are answered one after another; those of different VMs meet only in the ledger, where a grant counts
from the moment it is decided.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from ullage import errors
from ullage.act.vms import VmActuator
from ullage.clock import Clock
from ullage.decide.vms.core import VmCore
from ullage.decide.vms.permit import PermitDecision, PermitRefused, PermitRequest
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import PODS, VIRTUAL_MACHINES
from ullage.kube.read.vm import read_vm, read_vm_pod
from ullage.model.fact_event import ObjectKey
from ullage.model.outcomes import ApprovalWritten
from ullage.model.units import Instant
from ullage.model.vm import Vm, VmPod, VmRefusal
from ullage.protocol.vm_permits import (
    PermitAnswer,
    PermitMessage,
    Rejection,
    ledger_units,
    read_request,
    rejection,
    unit_mismatch,
    write_answer,
)

JSON, TEXT = "application/json", "text/plain"
_log = structlog.get_logger("vms")


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    content_type: str
    body: bytes
    reason: VmRefusal | None = None
    """Reason of a refusal, for metrics; None where a permit was given."""


class PermitHandler:
    """Answers one request at a time for each VM."""

    def __init__(
        self, core: VmCore, api: KubeApi, clock: Clock, waits: Callable[[ObjectKey], bool] = lambda _pod: False
    ) -> None:
        """`waits` is true of pods that are on no node yet."""
        self._core = core
        self._waits = waits
        self._api = api
        self._actuator = VmActuator(api)
        self._clock = clock
        self._locks: dict[ObjectKey, tuple[asyncio.Lock, int]] = {}

    async def handle(self, method: str, body: bytes, *, node: str | None) -> HttpAnswer:
        """Return the answer to an agent of `node`. None: agents are not told apart, and may send for any VM."""
        try:
            answered = await self._answered(method, body, node)
        except errors.LeadershipLost as lost:
            return HttpAnswer(503, TEXT, str(lost).encode(), VmRefusal.NOT_LEADER)
        except Exception:  # noqa: BLE001 - a bug must not end the server; the agent asks again
            _log.exception("permit request failed")
            answered = rejection(VmRefusal.INTERNAL)
        if isinstance(answered, Rejection):
            return HttpAnswer(answered.status, TEXT, answered.text.encode(), answered.reason)
        return HttpAnswer(200, JSON, answered)

    async def _answered(self, method: str, body: bytes, node: str | None) -> bytes | Rejection:
        message = read_request(method, body)
        if isinstance(message, Rejection):
            return message
        async with self._turn(message.pod):
            found = self._lookup(message, node)
            if isinstance(found, Rejection):
                return found
            pod, vm = found
            amounts = ledger_units(message, vm.memory_slot)
            if isinstance(amounts, Rejection):
                return amounts
            request = PermitRequest(
                pod=pod.key, wanted=amounts.wanted, unit=amounts.unit, last_permit=amounts.last_permit
            )
            return await self._permit(message, request, pod, vm)

    def _lookup(self, message: PermitMessage, node: str | None) -> tuple[VmPod, Vm] | Rejection:
        ledger = self._core.ledger
        pod = ledger.pod(message.pod)
        if pod is None:
            if self._waits(message.pod):
                return rejection(VmRefusal.POD_NOT_PLACED)
            known = ledger.is_ordinary(message.pod)
            return rejection(VmRefusal.POD_NOT_A_VM if known else VmRefusal.POD_NOT_FOUND)
        if node is not None and pod.node != node:
            return rejection(VmRefusal.POD_ON_OTHER_NODE)
        vm = ledger.vm(pod.vm_key)
        return rejection(VmRefusal.POD_NOT_A_VM) if vm is None else (pod, vm)

    async def _permit(self, message: PermitMessage, request: PermitRequest, pod: VmPod, vm: Vm) -> bytes | Rejection:
        for again in (False, True):
            if again or self._core.needs_fresh_read(request):
                refused = await self._read_afresh(pod)
                if refused is not None:
                    return refused
            decided = self._core.request(request, message.load1, now=Instant(self._clock.now()))
            if isinstance(decided, PermitRefused):
                answered_unit = (self._core.ledger.pod(pod.key) or pod).unit
                if decided.reason is VmRefusal.UNIT_MISMATCH and answered_unit is not None:
                    return unit_mismatch(message, answered_unit, vm.memory_slot)
                return rejection(decided.reason)
            # Kubelets write to pods too: a write that met one is decided once more, on what is there now.
            if await self._written(decided):
                answer = PermitAnswer(
                    granted=decided.permit.granted, answered_unit=decided.answered_unit, migrate=decided.migrate
                )
                return write_answer(message, answer, vm.memory_slot)
        return rejection(VmRefusal.WRITE_FAILED)

    async def _read_afresh(self, pod: VmPod) -> Rejection | None:
        """Put the pod and its VirtualMachine as they are now into the ledger."""
        try:
            raw_vm, raw_pod = await asyncio.gather(
                self._api.get(VIRTUAL_MACHINES, pod.vm, pod.key.namespace),
                self._api.get(PODS, pod.key.name, pod.key.namespace),
            )
            vm, fresh = read_vm(raw_vm), read_vm_pod(raw_pod)
        except errors.NotFound:
            return rejection(VmRefusal.POD_NOT_FOUND)
        except errors.ApiError as error:
            _log.warning("VM could not be read", pod=str(pod.key), error=error.message)
            return rejection(VmRefusal.WRITE_FAILED)
        if fresh is None or fresh.uid != pod.uid:
            return rejection(VmRefusal.POD_NOT_FOUND)
        self._core.ledger.put_vm(vm)
        self._core.approval_read(fresh)
        return None

    async def _written(self, decided: PermitDecision) -> bool:
        if decided.write is None:
            return True
        outcome = await self._actuator.perform(decided.write)
        self._core.settle(outcome)
        if isinstance(outcome, ApprovalWritten):
            return True
        _log.warning("approval not written", pod=str(decided.write.pod.key), outcome=type(outcome).__name__)
        return False

    @asynccontextmanager
    async def _turn(self, key: ObjectKey) -> AsyncIterator[None]:
        """Handle one request of a VM at a time. Locks of VMs without a request are forgotten."""
        lock, waiting = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = (lock, waiting + 1)
        try:
            async with lock:
                yield
        finally:
            lock, waiting = self._locks.pop(key)
            if waiting > 1:
                self._locks[key] = (lock, waiting - 1)
