"""Pool invariants: pools stay within their bounds, and nothing is bought without pending pods."""

from collections.abc import Iterator, Mapping

from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import NODE_PROVISIONERS
from ullage.model.device import MILLI_GPU
from ullage.model.instance import Instance
from ullage.model.quantity import milli
from ullage.model.resources import GPU
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
        self._states: dict[str, JsonObject] = {}
        """Status of each NodeProvisioner that has one."""
        self._moved: dict[str, float] = {}
        """Time at which a pool last got or lost a machine, or was changed by its owner."""
        self._waiting: dict[str, None] = {}
        self._last_wait = float("-inf")
        mirror.pod_listeners.append(self._pod)
        server.listen(NODE_PROVISIONERS.id, self._provisioner)

    def made(self, machine: Instance) -> None:
        pool = self._machines[machine.id] = machine.pool
        size = self._sizes[pool] = self._sizes.get(pool, 0) + 1
        self._moved[pool] = self._mirror.clock.now()
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
        self._moved[pool] = self._mirror.clock.now()
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

    def is_beyond_minimum(self, pool: str) -> bool:
        """True if a pool has more machines than it has in any case."""
        spec = self._specs.get(pool)
        return spec is not None and self._sizes.get(pool, 0) > int(spec.get("minSize", 0))

    def idle(self, now: float, seconds: float) -> Iterator[str]:
        """Pools that may grow, and for so long have neither changed nor tried to."""
        for name, spec in sorted(self._specs.items()):
            status = self._states.get(name) or {}
            held_back = spec.get("paused") or spec.get("recommendOnly")
            tries = status.get("backOff") or status.get("purchase")
            full = self._sizes.get(name, 0) >= int(spec.get("maxSize", 0))
            if status and not (held_back or tries or full) and now - self._moved[name] >= seconds:
                yield name

    def serves(self, pool: str, requests: Mapping[str, int]) -> bool:
        """True if a new node of the pool has these amounts, in thousandths, and admits pods with a claim."""
        template = self._specs[pool].get("template") or {}
        offers: dict[str, int] = {name: milli(amount) for name, amount in (template.get("resources") or {}).items()}
        gpus = template.get("gpus") or {}
        offers[GPU] = int(gpus.get("count", 0)) * MILLI_GPU
        enough = all(offers.get(name, 0) >= amount for name, amount in requests.items())
        return enough and not template.get("taints") and gpus.get("kind", "Leased") == "Leased"

    def _provisioner(self, change: StoredChange) -> None:
        name = change.after.obj["metadata"]["name"]
        before = self._specs.pop(name, None)
        self._states.pop(name, None)
        if change.deleted:
            return
        after = self._specs[name] = change.after.obj.get("spec") or {}
        self._states[name] = change.after.obj.get("status") or {}
        if before != after:
            self._moved[name] = self._mirror.clock.now()

    def _pod(self, step: ObjectChange[StoredPod]) -> None:
        if step.after is not None and not step.after.node and not step.after.over:
            self._waiting[step.after.uid] = None
        elif step.fact.uid in self._waiting:
            del self._waiting[step.fact.uid]
            self._last_wait = step.at

    def _say(self, pool: str, what: str, rule: str, *nodes: str) -> None:
        about = tuple(node_name(one) for one in nodes)
        self._report(InvariantBreach(self._mirror.clock.now(), rule, f"NodeProvisioner {pool} {what}", about))
