"""What is there when a cluster starts: its first namespaces and the system's priority classes."""

from ullage.kube.transport import Request
from ullage.sim.apiserver.authorise import ADMIN
from ullage.sim.apiserver.call import Call
from ullage.sim.apiserver.creation import create_object
from ullage.sim.apiserver.registry import Registry, Target
from ullage.sim.apiserver.views import inward
from ullage.sim.apiserver.wire import JsonObject
from ullage.sim.apiserver.world import World

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_CLASSES = (
    (
        "system-node-critical",
        2000001000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2000000000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
)


def seed_cluster(world: World, registry: Registry) -> None:
    for name in _NAMESPACES:
        _create(world, registry, "", "namespaces", {"metadata": {"name": name}})
    for name, value, description in _CLASSES:
        body = {"metadata": {"name": name}, "value": value, "description": description}
        _create(world, registry, "scheduling.k8s.io", "priorityclasses", body)


def _create(world: World, registry: Registry, group: str, plural: str, body: JsonObject) -> None:
    kind = registry.find(group, "v1", plural)
    if kind is None:
        raise LookupError(plural)
    call = Call(Target(kind), Request("POST", ""), ADMIN)
    create_object(call, inward(kind, body), world, dry_run=False)
