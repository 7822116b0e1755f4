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
    from ullage.config.settings import Settings
    from ullage.decide.explain.answer import Answer

Named = tuple[str, str, str]
"""Kind, namespace and name."""


def explain_other(
    scene: ClusterInput, where: ClusterInputChoice, named: Named, settings: "Settings", *, prove: bool, output: str
) -> str:
    """Explanation as text or JSON. Raises UserError if there is no such object."""
    kind, namespace, name = named
    if kind in ("node", "nodeprovisioner"):
        answer = _node(scene, where, name, settings, prove=prove) if kind == "node" else _pool(scene, name, prove=prove)
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


def _node(
    scene: ClusterInput, where: ClusterInputChoice, name: str, settings: "Settings", *, prove: bool
) -> "Answer | None":
    from ullage.cli.plan_drain import drain_trials
    from ullage.decide.draining.inputs import DrainPolicy
    from ullage.decide.explain.node import explain_node

    if name not in scene.snapshot.state.nodes:
        return None
    rules = DrainPolicy.of(settings.draining, settings.vms)
    known, drains = replace(scene.known, pools=scene.provisioners), drain_trials(scene, where, rules=rules)
    return explain_node(scene.snapshot, name, known, drains, every=prove)


def _pool(scene: ClusterInput, name: str, *, prove: bool) -> "Answer | None":
    from ullage.decide.explain.provisioner import explain_provisioner

    known = replace(scene.known, pools=scene.provisioners)
    return explain_provisioner(scene.snapshot, name, known, now=Instant(scene.now), every=prove)


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
