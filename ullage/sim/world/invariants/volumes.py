"""Volume invariants: a volume serves one claim, a claim's volume is made for one node, pods go where their volumes are.

So the disk of a node never serves pods on two nodes, and pods that share its claim are on that node.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import PERSISTENT_VOLUMES, VOLUME_CLAIMS
from ullage.model.fact_event import ObjectKey
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.apiserver.storage.store import StoredChange
from ullage.sim.world.invariants.breach import InvariantBreach, Report, node_name, pod_name
from ullage.sim.world.object_mirror import ObjectChange, ObjectMirror
from ullage.sim.world.stored_objects import StoredNode, StoredPod

_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_decoded = msgspec.json.Decoder().decode


class VolumeChecks:
    """Checks writes of `scheduler` to volumes and claims, and the binds it makes."""

    def __init__(self, mirror: ObjectMirror, server: SimulatedApiServer, report: Report, scheduler: str) -> None:
        self._mirror = mirror
        self._server = server
        self._report = report
        self._scheduler = scheduler
        self._volumes: dict[str, JsonObject] = {}
        self._claims: dict[ObjectKey, JsonObject] = {}
        server.listen(PERSISTENT_VOLUMES.id, self._volume)
        server.listen(VOLUME_CLAIMS.id, self._claim)
        mirror.pod_listeners.append(self._pod)

    def _volume(self, change: StoredChange) -> None:
        name = change.after.obj["metadata"]["name"]
        before = self._volumes.pop(name, None)
        if change.deleted:
            return
        after = self._volumes[name] = change.after.obj
        had, has = _owner(before), _owner(after)
        if had and has != had and self._server.caller == self._scheduler:
            self._say("a volume serves one claim", f"volume {name} of claim {had} was given to claim {has or 'nobody'}")

    def _claim(self, change: StoredChange) -> None:
        meta = change.after.obj["metadata"]
        key = ObjectKey(meta["namespace"], meta["name"])
        before = self._claims.pop(key, None)
        if change.deleted:
            return
        after = self._claims[key] = change.after.obj
        if before is None or before["metadata"]["uid"] != meta["uid"]:
            return
        had, has = _selected(before), _selected(after)
        if had and has != had and self._server.caller == self._scheduler:
            what = f"the volume of claim {key} is being made for {had}, and was asked for on {has or 'no node'}"
            self._say("a claim's volume is made for one node", what)

    def _pod(self, step: ObjectChange[StoredPod]) -> None:
        pod = step.after
        if pod is None or not pod.node or (step.before and step.before.node) or step.by != self._scheduler:
            return
        node = self._mirror.nodes.get(pod.node)
        for name in _claims_of(pod.key.name, _decoded(step.stored)["spec"]):
            claim = self._claims.get(ObjectKey(pod.key.namespace, name))
            if claim is None or node is None:
                continue  # deleted meanwhile
            volume = claim["spec"].get("volumeName", "")
            if not volume:
                self._misplaced(pod, f"claim {name} has no volume")
            elif volume in self._volumes and not _reaches(node, self._volumes[volume]):
                self._misplaced(pod, f"volume {volume} of claim {name} is not to be had there")

    def _misplaced(self, pod: StoredPod, why: str) -> None:
        what = f"{pod.key} was bound to {pod.node}, and {why}"
        self._say("a pod goes where its volumes are", what, pod_name(pod.key), node_name(pod.node))

    def _say(self, rule: str, what: str, *about: str) -> None:
        self._report(InvariantBreach(self._mirror.clock.now(), rule, what, about))


def _owner(volume: JsonObject | None) -> str:
    """Claim that a volume is reserved for; empty without one."""
    referred = (volume or {}).get("spec", {}).get("claimRef") or {}
    return f"{referred.get('namespace', '')}/{referred['name']}" if referred.get("name") else ""


def _selected(claim: JsonObject) -> str:
    return str((claim["metadata"].get("annotations") or {}).get(_SELECTED_NODE, ""))


def _claims_of(pod: str, spec: JsonObject) -> Iterator[str]:
    for volume in spec.get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"]["claimName"]
        elif "ephemeral" in volume:
            yield f"{pod}-{volume['name']}"


def _reaches(node: StoredNode, volume: JsonObject) -> bool:
    """True if a volume can be had on a node: one of its terms matches, or it has none."""
    required = ((volume["spec"].get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms")
    return required is None or any(_matches(node, term) for term in required)


def _matches(node: StoredNode, term: JsonObject) -> bool:
    """True if the node has the labels of a term. Its name is not looked at, as kube-scheduler does not for volumes."""
    return all(_holds(one, node.labels.get(one["key"])) for one in term.get("matchExpressions") or ())


def _holds(expression: dict[str, Any], value: str | None) -> bool:
    match expression["operator"]:
        case "In":
            return value in expression["values"]
        case "NotIn":
            return value not in expression["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return True  # Gt and Lt: nobody reserves a disk by them
