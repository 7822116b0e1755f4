"""Gang invariants: a gang holds all its Leases before its first bind, and is not left partly bound."""

import heapq

from ullage.decide.gang.timeout import DEFAULT_TIMEOUT
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import POD_GROUPS
from ullage.model.fact_event import ObjectKey
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.apiserver.storage.store import StoredChange
from ullage.sim.world.invariants.breach import InvariantBreach, Report, pod_name
from ullage.sim.world.object_mirror import ObjectChange, ObjectMirror
from ullage.sim.world.stored_objects import StoredLease, StoredPod

SLACK_SECONDS = 180.0
"""Added to a gang's own timeout: evictions are requested, refused and requested again."""


class GangChecks:
    """Checks gangs. A gang is known by the claims of its pods."""

    def __init__(self, mirror: ObjectMirror, server: SimulatedApiServer, report: Report, scheduler: str) -> None:
        self._mirror = mirror
        self._report = report
        self._scheduler = scheduler
        self._groups: dict[ObjectKey, JsonObject] = {}
        self._members: dict[ObjectKey, dict[str, StoredPod]] = {}
        """Members that have not ended, by gang and uid."""
        self._ended: dict[ObjectKey, dict[str, None]] = {}
        """Uids of members that have succeeded and are still there."""
        self._gang_of: dict[str, ObjectKey] = {}
        self._leases: dict[str, int] = {}
        """Number of GPUs each pod holds a Lease on, by uid."""
        self._partly: dict[ObjectKey, float] = {}
        self._deadlines: list[tuple[float, ObjectKey]] = []
        mirror.pod_listeners.append(self._pod)
        mirror.lease_listeners.append(self._lease)
        server.listen(POD_GROUPS.id, self._group)

    def _group(self, change: StoredChange) -> None:
        meta = change.after.obj["metadata"]
        key = ObjectKey(meta["namespace"], meta["name"])
        if change.deleted:
            self._groups.pop(key, None)
        else:
            self._groups[key] = change.after.obj.get("spec") or {}

    def _lease(self, step: ObjectChange[StoredLease]) -> None:
        for uid in step.before.holders if step.before is not None else ():
            self._leases[uid] = self._leases.get(uid, 0) - 1
            if not self._leases[uid]:
                del self._leases[uid]
        for uid in step.after.holders if step.after is not None else ():
            self._leases[uid] = self._leases.get(uid, 0) + 1

    def _pod(self, step: ObjectChange[StoredPod]) -> None:
        if self._deadlines:
            self.check_deadlines(step.at)
        pod = step.fact
        if not pod.claim and not pod.template:
            return
        gang = self._gang(pod)
        if gang is None:
            return
        members = self._members.setdefault(gang, {})
        was_bound = any(one.node for one in members.values())
        if step.after is None or step.after.over:
            members.pop(pod.uid, None)
            self._note_ended(gang, step)
        else:
            members[pod.uid] = step.after
        if step.after is not None and step.after.node and not was_bound and step.by == self._scheduler:
            self._begun(step, gang)
        self._note_partly(gang, step)
        if not members:
            del self._members[gang]

    def _note_ended(self, gang: ObjectKey, step: ObjectChange[StoredPod]) -> None:
        uid, ended = step.fact.uid, self._ended.setdefault(gang, {})
        if step.after is not None:
            if step.after.phase == "Succeeded":
                ended[uid] = None
            return
        ended.pop(uid, None)
        self._gang_of.pop(uid, None)
        if not ended:
            del self._ended[gang]

    def _gang(self, pod: StoredPod) -> ObjectKey | None:
        if pod.uid in self._gang_of:
            return self._gang_of[pod.uid]
        spec = self._mirror.claims.get(ObjectKey(pod.key.namespace, pod.claim or pod.template)) or {}
        if not spec.get("gangRef"):
            return None
        gang = self._gang_of[pod.uid] = ObjectKey(pod.key.namespace, spec["gangRef"])
        return gang

    def _least(self, gang: ObjectKey) -> int:
        said = self._groups.get(gang, {}).get("minMember")
        if said:
            return int(said)
        specs = [
            self._mirror.claims.get(ObjectKey(one.key.namespace, one.claim or one.template)) or {}
            for one in self._members[gang].values()
        ]
        return max((int(spec.get("gangMinMember") or 0) for spec in specs), default=0)

    def _begun(self, step: ObjectChange[StoredPod], gang: ObjectKey) -> None:
        members, least = self._members[gang], self._least(gang)
        holding = sum(uid in self._leases or (not one.devices and bool(one.node)) for uid, one in members.items())
        holding += len(self._ended.get(gang, ()))  # they had their turn: the others go on without them
        counted = not step.fact.devices
        if not counted and holding < least:
            what = f"{step.fact.key} was bound when {holding} of {least} members of gang {gang} held their GPUs"
            about = tuple(pod_name(one.key) for one in members.values())
            self._report(InvariantBreach(step.at, "a gang holds all its leases before its first bind", what, about))

    def _note_partly(self, gang: ObjectKey, step: ObjectChange[StoredPod]) -> None:
        """Note since when a gang is partly bound.

        Only members that still wait count as missing; a finished one does not.
        """
        members = self._members[gang]
        bound = sum(bool(one.node) for one in members.values())
        partly = 0 < bound < self._least(gang) and any(not one.node for one in members.values())
        if not partly:
            self._partly.pop(gang, None)
        elif gang not in self._partly:
            timeout = float(self._groups.get(gang, {}).get("scheduleTimeoutSeconds") or DEFAULT_TIMEOUT)
            self._partly[gang] = until = step.at + timeout + SLACK_SECONDS
            heapq.heappush(self._deadlines, (until, gang))

    def check_deadlines(self, now: float) -> None:
        """Report gangs that have been partly bound past their deadline."""
        while self._deadlines and self._deadlines[0][0] <= now:
            until, gang = heapq.heappop(self._deadlines)
            if self._partly.get(gang) == until:
                members = self._members[gang]
                bound = sum(bool(one.node) for one in members.values())
                what = f"gang {gang} has had {bound} of {self._least(gang)} members bound for too long"
                about = tuple(pod_name(one.key) for one in members.values())
                self._report(InvariantBreach(now, "a gang is never left in part", what, about))
