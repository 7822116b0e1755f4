"""A loop that decides and hears nothing: for every waiting pod a Lease, a bind and an Event, as fast as they are taken.

No scheduler that makes these three writes can be faster on the machine where it shares the processors with the API
server. It is run as a program of its own: `python -m bench.writes_alone KUBECONFIG NAMESPACE`.
"""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import uvloop

from bench.rivals import LEASE_NAMESPACE
from ullage.act.events import KubeEventWriter
from ullage.act.leases import LeaseClient, LeaseHolder, LeaseRequest
from ullage.clock import WallClock
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import Binding, KubeApi
from ullage.kube.client.resources import PODS
from ullage.kube.objects.pod import KubePod
from ullage.model.allocation import ALLOCATED
from ullage.model.fact_event import ObjectKey
from ullage.observe.events import EventMessage, EventReason, EventSeries, ObjectReference

AT_ONCE = 64
GPUS_OF_A_NODE = 8


class Writer:
    """The three writes, for pod after pod."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._clock = WallClock()
        self._book = LeaseClient(api, LEASE_NAMESPACE, self._clock)
        self._events = KubeEventWriter(api, controller="ullage.dev/writes-alone", instance="bench")

    async def write(self, pending: Iterator[tuple[int, KubePod]]) -> None:
        """Take turns until none is left."""
        for number, pod in pending:
            await self._place(pod, f"node-{number // GPUS_OF_A_NODE:04d}", number % GPUS_OF_A_NODE)

    async def _place(self, pod: KubePod, node: str, gpu: int) -> None:
        key, uid = ObjectKey(pod.metadata.namespace, pod.metadata.name), pod.metadata.uid
        await self._book.reserve(LeaseHolder(key, uid), LeaseRequest(node, (gpu,)))
        binding = Binding(node, uid=uid, annotations={ALLOCATED: f"{node}:{gpu}"})
        await self._api.bind(key.name, key.namespace, binding)
        note = f"Successfully assigned {key} to {node} with GPU {gpu}: best of 1000 that fit, by fragmentation"
        told, now = EventMessage(ObjectReference("Pod", key, uid), EventReason.SCHEDULED, note), self._clock.now()
        await self._events.create(EventSeries(name=f"{key.name}.written", announcement=told, first=now, last=now))


async def main(kubeconfig: Path, namespace: str) -> None:
    """Write for every pod of the namespace, then wait to be ended."""
    api = connect(kubeconfig)
    writer, pending = Writer(api), iter(enumerate((await api.list(PODS, namespace)).items))
    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(writer.write(pending))
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1]), sys.argv[2]))
