"""Objects a new cluster starts with: the first namespaces and the system's priority classes."""

from ullage.kube.client.transport import Request
from ullage.sim.apiserver.kinds.registry import KindRegistry, RequestTarget
from ullage.sim.apiserver.request.api_call import ApiCall
from ullage.sim.apiserver.request.authorization import ADMIN
from ullage.sim.apiserver.storage.context import ServerContext
from ullage.sim.apiserver.storage.json_bytes import JsonObject
from ullage.sim.apiserver.storage.views import inward
from ullage.sim.apiserver.verbs.create import create_object

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


def seed_cluster(world: ServerContext, registry: KindRegistry) -> None:
    for name in _NAMESPACES:
        _create(world, registry, "", "namespaces", {"metadata": {"name": name}})
    for name, value, description in _CLASSES:
        body = {"metadata": {"name": name}, "value": value, "description": description}
        _create(world, registry, "scheduling.k8s.io", "priorityclasses", body)


def _create(world: ServerContext, registry: KindRegistry, group: str, plural: str, body: JsonObject) -> None:
    kind = registry.find(group, "v1", plural)
    if kind is None:
        raise LookupError(plural)
    call = ApiCall(RequestTarget(kind), Request("POST", ""), ADMIN)
    create_object(call, inward(kind, body), world, dry_run=False)
