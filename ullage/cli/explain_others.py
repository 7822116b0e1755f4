"""Explanations of claims, gangs, quotas, nodes and NodeProvisioners for people and programs."""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ullage.cli.cluster_input import ClusterInput, ClusterInputChoice
from ullage.cli.explain import MOST_NAMES, advice_lines, remedies_as_json
from ullage.errors import UserError
from ullage.model.units import Instant

if TYPE_CHECKING:
    from ullage.decide.explain.answer import Answer
    from ullage.decide.provisioning.planner import FleetPlan

Named = tuple[str, str, str]
"""Kind, namespace and name."""


def explain_other(scene: ClusterInput, where: ClusterInputChoice, named: Named, *, prove: bool, output: str) -> str:
    """Explanation as text or JSON. Raises UserError if there is no such object."""
    kind, namespace, name = named
    if kind in ("node", "nodeprovisioner"):
        answer = _node(scene, where, name) if kind == "node" else _pool(scene, name, prove=prove)
        found = answer or _missing(scene, kind, name, _names_of(scene, kind))
    else:
        found = _namespaced(scene, named, prove=prove) or _missing(
            scene, kind, f"{namespace or scene.namespace}/{name}", _names_of(scene, kind)
        )
    if output == "json":
        import msgspec

        return msgspec.json.format(msgspec.json.encode(as_json(found)), indent=2).decode()
    return "\n".join(as_lines(found, prove=prove))


def _namespaced(scene: ClusterInput, named: Named, *, prove: bool) -> "Answer | None":
    from ullage.decide.explain.claim import explain_claim
    from ullage.decide.explain.gang import explain_gang
    from ullage.decide.explain.quota import explain_quota
    from ullage.model.fact_event import ObjectKey

    kind, namespace, name = named
    makers: dict[str, Callable[..., Answer | None]] = {
        "claim": explain_claim,
        "gang": explain_gang,
        "quota": explain_quota,
    }
    known = replace(scene.known, pools=scene.provisioners)
    key = ObjectKey(namespace or scene.namespace, name)
    return makers[kind](scene.snapshot, key, known, now=scene.now, every=prove)


def _node(scene: ClusterInput, where: ClusterInputChoice, name: str) -> "Answer | None":
    from ullage.cli.plan_drain import drain_inputs, plan_time
    from ullage.decide.draining.inputs import DrainPolicy
    from ullage.decide.draining.planner import plan_drain
    from ullage.decide.explain.node import explain_node
    from ullage.decide.scheduling.assignment import PodAssigner

    if name not in scene.snapshot.state.nodes:
        return None
    assigner = PodAssigner(scene.snapshot, unreadable_claims=scene.known.unreadable_claims)
    drained = (one for one in scene.provisioners if one.consolidation.drains)
    rules = DrainPolicy(pools_used_milli={one.name: one.consolidation.used_milli for one in drained})
    plan = plan_drain(assigner, drain_inputs(scene, (), where), rules, now=Instant(plan_time(scene)))
    return explain_node(assigner, name, plan, _fleet(scene), now=Instant(scene.now))


def _pool(scene: ClusterInput, name: str, *, prove: bool) -> "Answer | None":
    from ullage.decide.explain.pod import explain_pod
    from ullage.decide.explain.provisioner import blocked_pods, explain_provisioner

    fleet = _fleet(scene)
    answer = None if fleet is None else explain_provisioner(fleet, name, now=Instant(scene.now))
    blocked = blocked_pods(fleet, name) if fleet is not None and answer is not None and prove else []
    if answer is None or not blocked:
        return answer
    pod, known = scene.snapshot.state.pods[blocked[0]], replace(scene.known, pools=scene.provisioners)
    said = explain_pod(scene.snapshot, pod, known, now=Instant(scene.now), every=True)
    tried = tuple(one for one in said.remedies if f"NodeProvisioner {name}" in one.remedy.sentence)
    steps = tuple(one.remedy.sentence for one in tried)
    return replace(answer, steps=steps or answer.steps, remedies=tried)


def _fleet(scene: ClusterInput) -> "FleetPlan | None":
    from ullage.decide.provisioning.planner import FleetFacts, plan_fleet
    from ullage.decide.provisioning.pool_nodes import machines_of_nodes
    from ullage.decide.provisioning.vm_demand import pending_and_vms_in_need
    from ullage.decide.scheduling.assignment import PodAssigner

    if not scene.provisioners:
        return None
    assigner = PodAssigner(scene.snapshot, unreadable_claims=scene.known.unreadable_claims)
    machines = machines_of_nodes(scene.provisioners, scene.snapshot)
    fleet = FleetFacts(provisioners=scene.provisioners, instances=machines)
    return plan_fleet(assigner.engine, fleet, pending_and_vms_in_need(assigner), now=Instant(scene.now))


def _names_of(scene: ClusterInput, kind: str) -> list[str]:
    state = scene.snapshot.state
    known: dict[str, Iterable[object]] = {
        "node": state.nodes,
        "nodeprovisioner": [one.name for one in scene.provisioners],
        "claim": state.claims,
        "gang": [*state.groups, *(f"{c.key.namespace}/{c.gang}" for c in state.claims.values() if c.gang)],
        "quota": state.quotas,
    }
    return sorted({str(one) for one in known[kind]})


def _missing(scene: ClusterInput, kind: str, name: str, known: list[str]) -> "Answer":
    near = difflib.get_close_matches(name, known, n=MOST_NAMES, cutoff=0.5) or known[:MOST_NAMES]
    hint = f"; there is {' and '.join(near)}" if near else f"; there is no {kind} at all"
    raise UserError(f"{kind} {name} is not in {scene.origin}{hint}")


def as_json(found: "Answer") -> dict[str, Any]:
    """Explanation for programs."""
    return {
        "about": found.about,
        "verdict": found.verdict,
        "message": found.message,
        "details": list(found.lines),
        "helps": list(found.steps),
        "remedies": remedies_as_json(found.remedies),
        "commands": list(found.commands),
    }


def as_lines(found: "Answer", *, prove: bool) -> list[str]:
    """Explanation for people."""
    lines = [f"{found.about}: {found.verdict}: {found.message}"]
    if found.lines:
        lines += ["", *(f"  {line}" for line in found.lines)]
    if found.steps:
        lines += ["", "What would help:", *advice_lines(found.steps, found.remedies, prove=prove)]
    if found.commands:
        lines += ["", "To see more:", *(f"  $ {command}" for command in found.commands)]
    return lines
