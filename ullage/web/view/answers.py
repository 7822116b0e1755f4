"""Answers about claims, gangs, quotas and pools for the page: what `ullage explain` says of them."""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from ullage.decide.explain.answer import Answer
from ullage.decide.explain.claim import explain_claim
from ullage.decide.explain.gang import explain_gang
from ullage.decide.explain.planning import PlanInputs
from ullage.decide.explain.provisioner import explain_provisioner
from ullage.decide.explain.quota import explain_quota
from ullage.decide.provisioning.planner import FleetFacts, plan_fleet
from ullage.decide.provisioning.pool_nodes import machines_of_nodes
from ullage.decide.provisioning.vm_demand import pending_and_vms_in_need
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.fact_event import ObjectKey
from ullage.model.units import Instant
from ullage.state.snapshot import ClusterSnapshot
from ullage.web.view.cluster_copy import ClusterCopy
from ullage.web.view.rows import ViewRow

ANSWERED = ("claim", "gang", "quota", "pool")
"""Kinds that can be asked about."""
CLUSTER_WIDE = ("pool",)
"""Kinds among them whose objects have no namespace."""
MOST_PLANNED = 2000
"""Waiting pods up to which a plan of the pools is made for an answer: nobody waits longer for a page."""


class _Explainer(Protocol):
    def __call__(
        self, snapshot: ClusterSnapshot, key: ObjectKey, known: PlanInputs, /, *, now: Instant
    ) -> Answer | None: ...


_EXPLAINERS: Mapping[str, _Explainer] = {"claim": explain_claim, "gang": explain_gang, "quota": explain_quota}


class AnswerView(ViewRow, frozen=True, kw_only=True):
    """An answer."""

    about: str
    verdict: str
    message: str
    lines: tuple[str, ...] = ()
    helps: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


def answered(copy: ClusterCopy, kind: str, key: ObjectKey) -> bytes | None:
    """Answer as JSON; None if there is no such object."""
    maker = _EXPLAINERS.get(kind)
    said = _pool(copy, key.name) if maker is None else maker(copy.snapshot, key, copy.known, now=copy.now)
    return None if said is None else msgspec.json.encode(_shown(said))


def _pool(copy: ClusterCopy, name: str) -> Answer | None:
    pools = copy.known.pools
    if not any(one.name == name for one in pools):
        return None
    if copy.pending > MOST_PLANNED:
        return Answer(
            about=f"nodeprovisioner/{name}",
            verdict="NotPlanned",
            message=f"{copy.pending} pods wait: ask on the command line what is planned",
            commands=(f"ullage explain nodeprovisioner/{name}",),
        )
    fleet = FleetFacts(provisioners=pools, instances=machines_of_nodes(pools, copy.snapshot))
    assigner = PodAssigner(copy.snapshot, copy.policy)
    plan = plan_fleet(assigner.engine, fleet, pending_and_vms_in_need(assigner), now=copy.now)
    return explain_provisioner(plan, name, now=copy.now)


def _shown(said: Answer) -> AnswerView:
    helps = [one.remedy.sentence for one in said.remedies]
    tried = [command for one in said.remedies[:1] for command in one.remedy.commands]
    return AnswerView(
        about=said.about,
        verdict=said.verdict,
        message=said.message,
        lines=said.lines,
        helps=tuple(dict.fromkeys((*helps, *said.steps))),
        commands=tuple(dict.fromkeys((*tried, *said.commands))),
    )
