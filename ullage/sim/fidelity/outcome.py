"""Outcome of a story, from the objects of either cluster: who was placed where and when, what was bought and removed.

Pure, and the same for both sides: the time is an argument, and objects are plain JSON.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ullage.kube.client.resource import JsonObject
from ullage.model.allocation import ALLOCATED
from ullage.model.provisioner import PROVISIONER_LABEL
from ullage.model.resources import GPU


@dataclass(frozen=True, slots=True)
class PodOutcome:
    """Fate of one pod. Nodes that were bought are called by pool and number, as names differ."""

    node: str = ""
    """Empty if it was never placed."""
    gpus: tuple[int, ...] = ()
    shape: str = ""
    """Pool of its node and number of GPUs there: `pool/8`, `/8` for a node without a pool."""
    wait: float | None = None
    """Seconds from its creation to its bind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryOutcome:
    """Outcome of one story on one side."""

    pods: Mapping[str, PodOutcome]
    bought: Mapping[str, int] = field(default_factory=dict)
    """Nodes that joined, by pool."""
    removed: Mapping[str, int] = field(default_factory=dict)
    """Nodes of pools that went, by pool."""


@dataclass(slots=True)
class _Node:
    pool: str
    gpus: int
    first: bool
    """True if it was there from the beginning."""


@dataclass(slots=True)
class _Pod:
    created: float
    bound: float | None = None
    node: str = ""
    gpus: tuple[int, ...] = ()


class OutcomeRecorder:
    """Takes in every version of pods and nodes. Pods go by their names, which a story gives once."""

    def __init__(self) -> None:
        self._pods: dict[str, _Pod] = {}
        self._nodes: dict[str, _Node] = {}
        """All nodes that ever were."""
        self._removed: Counter[str] = Counter()
        self._began = False

    def begin(self) -> None:
        """From now on nodes of pools that appear were bought."""
        self._began = True

    def pod(self, manifest: JsonObject, at: float) -> None:
        """Take in one version of a pod."""
        meta = manifest["metadata"]
        found = self._pods.setdefault(meta["name"], _Pod(at))
        node = manifest["spec"].get("nodeName", "")
        if node and found.bound is None:
            found.bound, found.node = at, node
            _, _, gpus = (meta.get("annotations") or {}).get(ALLOCATED, "").rpartition(":")
            found.gpus = tuple(sorted(int(one) for one in gpus.split(",") if one))

    def node(self, manifest: JsonObject, *, gone: bool = False) -> None:
        """Take in one version of a node, or that it is gone."""
        meta = manifest["metadata"]
        pool = (meta.get("labels") or {}).get(PROVISIONER_LABEL, "")
        gpus = int(((manifest.get("status") or {}).get("allocatable") or {}).get(GPU, 0))
        known = self._nodes.setdefault(meta["name"], _Node(pool, gpus, first=not self._began))
        known.gpus = max(known.gpus, gpus)
        if gone and pool:
            self._removed[pool] += 1

    def outcome(self) -> StoryOutcome:
        """Everything so far."""
        called = self._called()
        bought = Counter(one.pool for one in self._nodes.values() if one.pool and not one.first)
        pods = {name: self._pod_outcome(pod, called) for name, pod in self._pods.items()}
        return StoryOutcome(pods=pods, bought=dict(bought), removed=dict(self._removed))

    def _called(self) -> dict[str, str]:
        """Name of each node. Bought ones are numbered by their first pods, in the order of the binds."""
        called = {name: name for name, one in self._nodes.items() if one.first}
        used: Counter[str] = Counter()
        for pod in sorted(self._pods.values(), key=lambda one: (one.bound is None, one.bound or 0.0, one.created)):
            node = self._nodes.get(pod.node)
            if node is not None and pod.node not in called:
                called[pod.node] = f"{node.pool}#{used[node.pool]}"
                used[node.pool] += 1
        return called

    def _pod_outcome(self, pod: _Pod, called: Mapping[str, str]) -> PodOutcome:
        if pod.bound is None:
            return PodOutcome()
        node = self._nodes.get(pod.node)
        shape = "" if node is None else f"{node.pool}/{node.gpus}"
        return PodOutcome(called.get(pod.node, pod.node), pod.gpus, shape, pod.bound - pod.created)
