"""Jobs that can never run on a fleet, found before a run: each is tried on the fleet while nobody else is on it.

The scheduler's own decision is asked, on one node of every kind the fleet has or may buy (for gangs, as many as they
have pods). Pods on the fleet's nodes are left out: they may end.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from ullage.decide.explain.rejections import node_rejections
from ullage.decide.gang.placement import GangNoFit
from ullage.decide.placement.engine import NoFit
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.errors import UserError
from ullage.kube.client.resource import JsonObject
from ullage.kube.manifests.manifests import Manifests, read_manifests
from ullage.model.device import Inventory
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.provisioner import Provisioner, labels_of
from ullage.model.units import Instant
from ullage.model.verdict import Verdict
from ullage.sim.fleet.fleet import SimulatedFleet
from ullage.sim.workload.job import TraceJob, Workload
from ullage.sim.workload.manifests import PodOptions, arrivals, surroundings
from ullage.sim.world.nodes import node_manifest, report_manifest
from ullage.sim.world.spec import FleetNode
from ullage.state.snapshot import ClusterSnapshot

_NOW = 1.0
_MOST_REASONS = 2
_NAMED = 3
_LEFT_OUT = ("Pod", "NodeProvisioner", "PodDisruptionBudget")


@dataclass(frozen=True, slots=True)
class ImpossibleJobs:
    """Jobs of one kind that no node of the fleet could ever take, and why."""

    jobs: tuple[TraceJob, ...]
    why: str

    @property
    def sentence(self) -> str:
        names = ", ".join(job.name for job in self.jobs[:_NAMED])
        more = f" and {len(self.jobs) - _NAMED} more" if len(self.jobs) > _NAMED else ""
        return f"{names}{more} ({asked(self.jobs[0])}): {self.why}"


def asked(job: TraceJob) -> str:
    """Request of a job, in words."""
    gpus = f"{job.share_milli / 1000:g} of a GPU" if job.is_share and not job.gpu_memory else _plural(job.gpus, "GPU")
    models = f" {' or '.join(job.models)}" if job.models else ""
    each = f"{gpus}{models}" if job.gpus else f"{job.cpu_milli / 1000:g} cores"
    return each if job.pods == 1 else f"{job.pods} pods with {each} each"


def impossible_jobs(jobs: Iterable[TraceJob], fleet: SimulatedFleet, manner: PodOptions) -> list[ImpossibleJobs]:
    """Jobs that can never run, by what they ask for, in the order of the jobs."""
    by_kind: dict[TraceJob, list[TraceJob]] = {}
    for job in jobs:
        by_kind.setdefault(_kind(job), []).append(job)
    if not by_kind:
        return []
    tried = _Trial([same[0] for same in by_kind.values()], fleet, manner)
    found = ((same, tried.why_not(same[0])) for same in by_kind.values())
    return [ImpossibleJobs(tuple(same), why) for same, why in found if why]


def possible(workload: Workload, fleet: SimulatedFleet, manner: PodOptions) -> Workload:
    """The workload without jobs that can never run on the fleet, which it names. Raises UserError if none is left."""
    found = impossible_jobs(workload.jobs, fleet, manner)
    if not found:
        return workload
    never = {job for kind in found for job in kind.jobs}
    left = tuple(job for job in workload.jobs if job not in never)
    sentences = tuple(kind.sentence for kind in found)
    if not left:
        raise UserError(f"no job of {workload.name or 'the workload'} can ever run on this fleet: {sentences[0]}")
    pods = sum(job.pods for job in never)
    return msgspec.structs.replace(workload, jobs=left, impossible=sentences, impossible_pods=pods)


def _kind(job: TraceJob) -> TraceJob:
    """A job without what placement does not look at."""
    return msgspec.structs.replace(job, name="", at=0.0, seconds=None, stays=None, priority=0)


class _Trial:
    """The empty fleet, with one job of every kind waiting."""

    def __init__(self, jobs: list[TraceJob], fleet: SimulatedFleet, manner: PodOptions) -> None:
        most = max(job.pods for job in jobs)
        waiting = [one for arrival in arrivals(jobs, manner) for one in arrival.objects]
        around = [one for one in fleet.objects if one.get("kind") not in _LEFT_OUT]
        pools = _read([one for one in fleet.objects if one.get("kind") == "NodeProvisioner"]).provisioners
        nodes = [*_nodes(_some_of_each(fleet.nodes, most)), *_nodes(_to_buy(pools, most))]
        read = _read([*surroundings(jobs), *around, *nodes, *waiting])
        self._snapshot = ClusterSnapshot(read.state)
        self._assigner = PodAssigner(self._snapshot, unreadable_claims=read.unreadable_claims)
        self._kinds = len(self._snapshot.columns.rows)

    def why_not(self, job: TraceJob) -> str:
        """The reason that a job can never run; empty if it can."""
        name = job.name if job.pods == 1 else f"{job.name}-0"
        pod = self._assigner.entitled(self._snapshot.state.pods[ObjectKey(job.namespace, name)])
        if isinstance(pod, Verdict):
            return f"{pod.reason.value}: {pod.detail}"
        answer = self._assigner.engine.place(pod, now=Instant(_NOW), closed=self._assigner.closed(pod))
        if isinstance(answer, NoFit):
            return self._rejections(pod)
        return self._gang_why_not(job) if job.pods > 1 else ""

    def _gang_why_not(self, job: TraceJob) -> str:
        gang = self._assigner.gang_ask(ObjectKey(job.namespace, job.name))
        with self._snapshot.what_if():
            answer = self._assigner.assign_gang(gang, (), now=Instant(_NOW))
        if not isinstance(answer, GangNoFit):
            return ""
        return f"GangIncomplete: the whole fleet has room for {answer.placed} of its {job.pods} pods at once"

    def _rejections(self, pod: Pod) -> str:
        if not self._kinds:
            return "the fleet has no node and may buy none"
        found = node_rejections(self._assigner.engine, pod, now=Instant(_NOW), closed=self._assigner.closed(pod))
        said = (f"{one.reason.value}: {one.detail}" if one.detail else one.reason.value for one in found)
        return "; ".join(list(dict.fromkeys(said))[:_MOST_REASONS])


def _read(objects: list[JsonObject]) -> Manifests:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}).encode()
    return read_manifests(["-"], stdin=text)


def _some_of_each(nodes: Iterable[FleetNode], most: int) -> Iterator[FleetNode]:
    """Nodes of the fleet, at most so many of each kind."""
    seen: dict[bytes, int] = {}
    for node in nodes:
        kind = msgspec.json.encode((node.template, node.pool, node.labels, node.zone))
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= most:
            yield node


def _to_buy(pools: Iterable[Provisioner], most: int) -> Iterator[FleetNode]:
    """Nodes that pools may buy, at most so many of each zone and pool."""
    for pool in pools:
        zones = pool.template.zones or ("",)
        for number in range(min(pool.thresholds.max_size, most * len(zones))):
            zone = zones[number % len(zones)]
            template = msgspec.structs.replace(pool.template, labels={})
            yield FleetNode(name=f"{pool.name}-{number}", template=template, labels=labels_of(pool, zone), zone=zone)


def _nodes(nodes: Iterable[FleetNode]) -> Iterator[JsonObject]:
    for node in nodes:
        yield node_manifest(node.name, node.template, node.labels, zone=node.zone)
        gpus = node.template.gpus
        if gpus.count:
            devices = gpus.devices(node.name)
            yield report_manifest(Inventory(node=node.name, reported_at=Instant(_NOW), devices=devices, kind=gpus.kind))


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
