"""GET of metrics.k8s.io, as metrics-server answers: use of CPU and memory by nodes and running pods. Never stored.

Nothing runs in a simulated container, so use is made up: a part of what is requested, steady for memory, another one
every minute for CPU. The same pod at the same minute always uses the same.
"""

import zlib
from typing import Any

from ullage.kube.client.transport import Response
from ullage.model.quantity import milli
from ullage.sim.apiserver.kinds.kind import KindRules, ServedKind
from ullage.sim.apiserver.request.api_call import ApiCall
from ullage.sim.apiserver.request.selectors import choose
from ullage.sim.apiserver.request.status_errors import method_not_allowed, not_found
from ullage.sim.apiserver.storage.context import ServerContext
from ullage.sim.apiserver.storage.json_bytes import JsonObject, encode

GROUP = "metrics.k8s.io"
_WINDOW = "15s"
_MI = 1 << 20
_SYSTEM = (180.0, 900.0 * _MI)
"""Use of a node's own programs: CPU in thousandths, bytes."""
_IDLE = (3.0, 24.0 * _MI)
"""Use of a container that requests nothing."""

METRICS_KINDS = tuple(
    ServedKind(
        GROUP, "v1beta1", plural, kind, namespaced, KindRules(), verbs=("get", "list"), custom=True, shelf=plural
    )
    for plural, kind, namespaced in (("nodes", "NodeMetrics", False), ("pods", "PodMetrics", True))
)


def read_metrics(call: ApiCall, world: ServerContext) -> Response:
    """Metrics of one object, or of all that the selectors choose. Raises StatusError."""
    if call.request.method != "GET":
        raise method_not_allowed()
    make = _NodeUse(world) if call.kind.plural == "nodes" else lambda pod: _of_pod(pod, world)
    if call.target.name:
        found = world.find(call.kind.plural, call.key)
        said = None if found is None else make(found)
        if said is None:
            raise not_found(call.kind.about(call.target.name))
        return Response(200, encode(_typed(call) | said))
    choice = choose(call.kind, call.query.get("labelSelector", ""), call.query.get("fieldSelector", ""))
    chosen = [obj for obj in world.all(call.kind.plural) if _in(call, obj) and choice.matches(obj)]
    items = [_typed(call) | said for obj in chosen if (said := make(obj)) is not None]
    items.sort(key=lambda one: (one["metadata"].get("namespace", ""), one["metadata"]["name"]))
    head: JsonObject = {"kind": f"{call.kind.kind}List", "apiVersion": call.kind.api_version, "metadata": {}}
    return Response(200, encode(head | {"items": items}))


def _typed(call: ApiCall) -> JsonObject:
    return {"kind": call.kind.kind, "apiVersion": call.kind.api_version}


def _in(call: ApiCall, obj: JsonObject) -> bool:
    return not call.target.namespace or obj["metadata"].get("namespace") == call.target.namespace


def _of_pod(pod: JsonObject, world: ServerContext) -> JsonObject | None:
    """Metrics of a pod; None if it does not run."""
    if (pod.get("status") or {}).get("phase") != "Running":
        return None
    minute, uid = int(world.now() // 60), pod["metadata"]["uid"]
    containers = [
        {"name": one["name"], "usage": _usage(*_used(one, f"{uid}/{one['name']}", minute))}
        for one in pod["spec"]["containers"]
    ]
    return _measured(pod, world) | {"containers": containers}


class _NodeUse:
    """Metrics of nodes: their running pods, and their own programs."""

    def __init__(self, world: ServerContext) -> None:
        self._world = world
        self._by_node: dict[str, tuple[float, float]] = {}
        minute = int(world.now() // 60)
        for pod in world.all("pods"):
            node = pod["spec"].get("nodeName", "")
            if node and (pod.get("status") or {}).get("phase") == "Running":
                cpu, memory = self._by_node.get(node, _SYSTEM)
                for one in pod["spec"]["containers"]:
                    more = _used(one, f"{pod['metadata']['uid']}/{one['name']}", minute)
                    cpu, memory = cpu + more[0], memory + more[1]
                self._by_node[node] = cpu, memory

    def __call__(self, node: JsonObject) -> JsonObject | None:
        """Metrics of a node; None if it is not ready: nobody answers there."""
        conditions = (node.get("status") or {}).get("conditions") or ()
        if not any(one["type"] == "Ready" and one["status"] == "True" for one in conditions):
            return None
        used = self._by_node.get(node["metadata"]["name"], _SYSTEM)
        return _measured(node, self._world) | {"usage": _usage(*used)}


def _measured(obj: JsonObject, world: ServerContext) -> JsonObject:
    kept = ("name", "namespace", "labels", "creationTimestamp")
    metadata = {key: obj["metadata"][key] for key in kept if key in obj["metadata"]}
    return {"metadata": metadata, "timestamp": world.timestamp(), "window": _WINDOW}


def _used(container: JsonObject, who: str, minute: int) -> tuple[float, float]:
    """CPU in thousandths, and bytes."""
    requests: dict[str, Any] = (container.get("resources") or {}).get("requests") or {}
    cpu, memory = milli(requests.get("cpu", "0")), milli(requests.get("memory", "0")) // 1000
    busy = cpu * (0.35 + 0.55 * _part(f"{who} {minute}")) if cpu else _IDLE[0]
    return busy, memory * (0.45 + 0.4 * _part(who)) if memory else _IDLE[1]


def _part(text: str) -> float:
    """A number from 0 to 1 that belongs to the text."""
    return zlib.crc32(text.encode()) / 0xFFFFFFFF


def _usage(cpu: float, memory: float) -> JsonObject:
    return {"cpu": f"{cpu:.0f}m", "memory": f"{memory / 1024:.0f}Ki"}
