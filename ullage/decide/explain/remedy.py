"""Remedy: one step that would help a waiting pod, as a sentence, as commands, and as changes of the cluster.

The changes are what `--prove` tries on a copy. Which remedies there are for a reason is said in `remedies`.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from ullage.decide.explain.planning import PlanInputs
from ullage.decide.placement.obstacle import Obstacle
from ullage.decide.placement.prefilter import claim_of
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.admission import LEASED_TAINT
from ullage.model.claim import Claim
from ullage.model.fact_event import Deleted, FactEvent, ObjectKey, Updated
from ullage.model.node import Node
from ullage.model.pod import Phase, Pod
from ullage.model.provisioner import Provisioner
from ullage.model.shape import Shape, interned
from ullage.model.shape_terms import Toleration
from ullage.model.units import Instant
from ullage.state.cluster import Fact

Change = FactEvent[Fact]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One step that would help."""

    sentence: str
    commands: tuple[str, ...] = ()
    """Commands to copy, in order."""
    changes: tuple[Change, ...] = ()
    """Changes of the cluster that the step comes to. None where there is only to be waited."""
    pools: tuple[Provisioner, ...] = ()
    """Pools as they are after the step, where the nodes they buy are what helps."""
    readable: frozenset[ObjectKey] = frozenset()
    """GpuClaims that break no rule any more after the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A pod that waits, with everything remedies are derived from."""

    assigner: PodAssigner
    pod: Pod
    """The pod as it was observed."""
    ready: Pod
    """The same with what its claim asks for; as observed where its claim allows no placement."""
    obstacle: Obstacle
    now: Instant
    known: PlanInputs = field(default_factory=PlanInputs)
    detail: str = ""
    """Words of the verdict, where one holds for all nodes."""

    @property
    def pools(self) -> Sequence[Provisioner]:
        return self.known.pools

    @property
    def node(self) -> Node | None:
        """The node nearest to taking the pod."""
        return self.assigner.snapshot.state.nodes.get(self.obstacle.example)

    @property
    def claim(self) -> Claim | None:
        """Claim or template the pod is placed by."""
        return claim_of(self.pod, self.assigner.snapshot.state)

    def with_shape(self, **changes: Any) -> tuple[Change, ...]:
        """The pod with another shape."""
        return (_updated(self.pod, shape=interned(replace(self.pod.shape, **changes))),)

    def with_pod(self, **changes: Any) -> tuple[Change, ...]:
        return (_updated(self.pod, **changes),)

    def with_node(self, node: Node, **changes: Any) -> tuple[Change, ...]:
        return (Updated(ObjectKey("", node.name), node, replace(node, **changes)),)

    def asking(self, sentence: str, fields: Mapping[str, Any], **changes: Any) -> Remedy | None:
        """The claim asks for something else; None if the pod has no claim."""
        claim = self.claim
        if claim is None:
            return None
        new = replace(claim, ask=replace(claim.ask, **changes))
        return Remedy(
            sentence=f"in GpuClaim {claim.key}, {sentence}",
            commands=(patch("gpuclaim", claim.key, {"spec": dict(fields)}),),
            changes=(Updated(claim.key, claim, new),),
        )

    def asking_pod(self, sentence: str, path: str, **shape: Any) -> Remedy:
        """The pod itself asks for something else: it is created again, by its owner if it has one."""
        return Remedy(sentence=sentence, commands=recreate(self.pod, path), changes=self.with_shape(**shape))

    def ending(self, pods: Sequence[Pod]) -> tuple[Change, ...]:
        state = self.assigner.snapshot.state
        return tuple(Deleted(pod.key, state.pods.get(pod.key, pod)) for pod in pods)


def _updated(pod: Pod, **changes: Any) -> Change:
    return Updated(pod.key, pod, replace(pod, **changes))


def new_pod(key: ObjectKey, *, claim: str = "", scheduler: str = "") -> Pod:
    """A pod that nobody has created yet. It tolerates what the webhook lets pods with a claim tolerate."""
    tolerations = (Toleration(key=LEASED_TAINT, exists=True),) if claim else ()
    return Pod(
        key=key,
        uid=f"new-{key.name}",
        created=Instant(0.0),
        node="",
        phase=Phase.PENDING,
        deleting=False,
        gated=False,
        scheduler=scheduler,
        priority=0,
        labels={},
        shape=interned(Shape(tolerations=tolerations)),
        owner=None,
        claim=claim,
    )


def patch(kind: str, key: ObjectKey, body: Mapping[str, Any]) -> str:
    """Command that merges a change into an object."""
    where = f" -n {key.namespace}" if key.namespace else ""
    return f"kubectl{where} patch {kind} {key.name} --type merge -p {shlex.quote(msgspec.json.encode(body).decode())}"


def recreate(pod: Pod, path: str) -> tuple[str, ...]:
    """Commands that change a field of a pod which cannot be changed in place."""
    where, owner = f"kubectl -n {pod.key.namespace}", pod.owner
    if owner is None:
        file = f"{pod.key.name}.yaml"
        read = f"{where} get pod {pod.key.name} -o yaml > {file}  # then change {path} in {file}"
        return read, f"{where} replace --force -f {file}"
    name, kind = owner.name, owner.kind.lower()
    if kind == "replicaset" and "-" in name:  # a Deployment's, which would undo a change of its ReplicaSet
        kind, name = "deployment", name.rpartition("-")[0]
    return (f"{where} edit {kind} {name}  # change {path} of its pod template",)


def clone(shape: Shape, **changes: Any) -> Shape:
    return interned(replace(shape, **changes))
