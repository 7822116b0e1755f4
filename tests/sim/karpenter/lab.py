"""Laboratory of the experiments: Karpenter, kube-scheduler and kubelets of either kind, and the figures taken."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from ullage.clock import Clock
from ullage.kube.client.api import DELETE_NOW, KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import EVENTS, NODE_CLAIMS, NODES, PODS
from ullage.kube.read.karpenter import read_node_claim
from ullage.model.karpenter import NodeClaim
from ullage.testing.builders import a_pod

NS = "default"
KEY = "ullage.dev/claim"
POOL = "gpu"
TOLERATES = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
PATIENCE = 120.0


def within(seconds: float, measured: float) -> bool:
    """A quarter, or a second."""
    return abs(seconds - measured) <= max(1.0, measured / 4)


@dataclass
class Lab:
    """Karpenter, kube-scheduler and kubelets; nothing of ours."""

    api: KubeApi
    clock: Clock
    figures: list[tuple[str, float, float]] = field(default_factory=list)
    """What was measured: name, seconds, seconds in the table."""
    uids: dict[str, str] = field(default_factory=dict)
    """Pods that were made, by name: Events of earlier experiments are about others of the same name."""

    def written(self, name: str) -> str:
        """The figures as lines."""
        return "".join(f"{name}\t{what}\t{seconds:.2f}\t{table:g}\n" for what, seconds, table in self.figures)

    def took(self, what: str, seconds: float, measured: float) -> None:
        """Note a figure, and what the table says. `check` compares them."""
        self.figures.append((what, seconds, measured))

    def check(self) -> None:
        """Compare all figures with the table: within a quarter, or a second."""
        wrong = [
            f"{what}: {seconds:.2f} s, and {measured:g} s in the table"
            for what, seconds, measured in self.figures
            if not within(seconds, measured)
        ]
        assert not wrong, "; ".join(wrong)

    async def pod(self, name: str, *, claim: str = "", gpus: int = 1, **spec: Any) -> float:
        """A pod that wants GPUs; returns when it was made."""
        selector = {"nodeSelector": {KEY: claim}} if claim else {}
        plain: JsonObject = {"tolerations": TOLERATES, "schedulerName": "default-scheduler"}
        requests = {"cpu": "1", "memory": "1Gi"} | spec.pop("asks", {})
        metadata = spec.pop("metadata", {})
        body = a_pod(name, gpus=gpus, requests=requests, **(plain | selector | spec))
        body["metadata"] |= metadata
        self.uids[name] = (await self.api.create(PODS.whole(), body, NS))["metadata"]["uid"]
        return self.clock.now()

    async def served(self, name: str = "p") -> str:
        """A pod with a new node of its own, and the node Ready; returns the node."""
        await self.pod(name, claim="r1")
        await self.condition("Ready")
        await self.bound(name)
        return await self.node_of(name)

    async def claims(self) -> list[NodeClaim]:
        return [read_node_claim(one) for one in (await self.api.list(NODE_CLAIMS)).items]

    async def node_of(self, name: str) -> str:
        return (await self.api.get(PODS, name, NS)).spec.node_name

    async def until(self, holds: Callable[[], Awaitable[Any]], seconds: float = PATIENCE) -> float:
        ends = self.clock.now() + seconds
        while not await holds():
            assert self.clock.now() < ends, f"not within {seconds:g} s: {await self.claims()}"
            await asyncio.sleep(0.02)
        return self.clock.now()

    async def condition(self, name: str) -> float:
        """When the first NodeClaim has this condition."""

        async def holds() -> bool:
            return any(one.holds(name) for one in await self.claims())

        return await self.until(holds)

    async def claimed(self, count: int = 1) -> float:
        async def so_many() -> bool:
            return len(await self.claims()) >= count

        return await self.until(so_many)

    async def bound(self, name: str) -> float:
        async def has_a_node() -> bool:
            return bool(await self.node_of(name))

        return await self.until(has_a_node)

    async def going(self) -> float:
        async def deleted() -> bool:
            return any(claim.deleting for claim in await self.claims())

        return await self.until(deleted)

    async def gone(self) -> float:
        async def nothing() -> bool:
            return not await self.claims()

        return await self.until(nothing)

    async def said(self, name: str, by: str = "karpenter", reason: str = "") -> str:
        """The last thing a component says of a pod."""

        async def told() -> list[str]:
            events = (await self.api.list(EVENTS)).items
            return [
                one["note"]
                for one in events
                if one["regarding"].get("uid") == self.uids[name]
                and by in (one.get("reportingController"), (one.get("deprecatedSource") or {}).get("component"))
                and reason in ("", one["reason"])
            ]

        await self.until(told, 20.0)
        return (await told())[-1]

    async def delete(self, name: str) -> float:
        await self.api.delete(PODS, name, NS, how=DELETE_NOW)
        return self.clock.now()

    async def annotate(self, node: str, value: str | None) -> float:
        body = MergePatch({"metadata": {"annotations": {DO_NOT_DISRUPT: value}}})
        await self.api.patch(NODES, node, body)
        return self.clock.now()
