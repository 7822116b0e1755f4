"""Pool invariants: pools stay within their bounds, and nothing is bought without pending pods."""

from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import NODE_PROVISIONERS
from ullage.model.instance import Instance
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.apiserver.storage.store import StoredChange
from ullage.sim.world.invariants.breach import InvariantBreach, Report, node_name
from ullage.sim.world.object_mirror import ObjectChange, ObjectMirror
from ullage.sim.world.stored_objects import StoredPod

FORGOTTEN_SECONDS = 60.0
"""Seconds after the last pending pod in which a purchase is no breach: the pod may have left while it was made."""


class PoolChecks:
    """Checks every instance that is created or terminated."""

    def __init__(self, mirror: ObjectMirror, server: SimulatedApiServer, report: Report) -> None:
        self._mirror = mirror
        self._report = report
        self._specs: dict[str, JsonObject] = {}
        self._machines: dict[str, str] = {}
        """Pool of each instance."""
        self._sizes: dict[str, int] = {}
        self._waiting: dict[str, None] = {}
        self._last_wait = float("-inf")
        mirror.pod_listeners.append(self._pod)
        server.listen(NODE_PROVISIONERS.id, self._provisioner)

    def made(self, machine: Instance) -> None:
        pool = self._machines[machine.id] = machine.pool
        size = self._sizes[pool] = self._sizes.get(pool, 0) + 1
        spec = self._specs.get(pool)
        if spec is None or machine.node:
            return
        if size > int(spec.get("maxSize", size)):
            self._say(pool, f"has {size} machines and may have {spec['maxSize']}", "pools stay within their bounds")
        waited = self._waiting or self._mirror.clock.now() - self._last_wait <= FORGOTTEN_SECONDS
        if not waited and size > int(spec.get("minSize", 0)):
            self._say(pool, f"got {machine.id}, and no pod waits", "nothing is bought for nobody")

    def lost(self, machine: str) -> str:
        """Note that a machine is no more, whoever ended it. Returns its pool."""
        pool = self._machines.pop(machine)
        self._sizes[pool] -= 1
        return pool

    def gone(self, machine: str) -> None:
        """Note that a machine was given back."""
        pool = self.lost(machine)
        size = self._sizes[pool]
        spec = self._specs.get(pool)
        usable = machine in self._mirror.nodes and self._mirror.nodes[machine].gpus
        if spec is not None and usable and size < int(spec.get("minSize", 0)):
            what = f"gave back {machine} and has {size} machines left of {spec['minSize']}"
            self._say(pool, what, "pools stay within their bounds", machine)

    def _provisioner(self, change: StoredChange) -> None:
        name = change.after.obj["metadata"]["name"]
        if change.deleted:
            self._specs.pop(name, None)
        else:
            self._specs[name] = change.after.obj.get("spec") or {}

    def _pod(self, step: ObjectChange[StoredPod]) -> None:
        if step.after is not None and not step.after.node and not step.after.over:
            self._waiting[step.after.uid] = None
        elif step.fact.uid in self._waiting:
            del self._waiting[step.fact.uid]
            self._last_wait = step.at

    def _say(self, pool: str, what: str, rule: str, *nodes: str) -> None:
        about = tuple(node_name(one) for one in nodes)
        self._report(InvariantBreach(self._mirror.clock.now(), rule, f"NodeProvisioner {pool} {what}", about))
