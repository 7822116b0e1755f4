"""`ullage explain pod/…` and `vm/…`: why a pod is where it is, or nowhere; and what a VM may use."""

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ullage.cli.cluster_input import ClusterInput, ClusterInputChoice, scene_options
from ullage.cli.table import aligned
from ullage.errors import UserError

if TYPE_CHECKING:
    from ullage.decide.explain.pod import PodExplanation
    from ullage.model.fact_event import ObjectKey
    from ullage.model.pod import Pod

KINDS = ("pod", "pods", "po")
VM_KINDS = ("vm", "vms", "virtualmachine", "virtualmachines")
MOST_NAMES = 4
MOST_DETAILS = 3

EXAMPLES = """\b
Examples:
  ullage explain pod/team-a/train-0
  ullage explain pod/train-0 --namespace team-a -f cluster.yaml
  ullage explain pod/team-a/train-0 -f cluster.yaml -f claims/ -o json
  ullage explain vm/team-a/db-0
"""


@click.command("explain", epilog=EXAMPLES)
@click.argument("what", metavar="pod/[NAMESPACE/]NAME|vm/[NAMESPACE/]NAME")
@scene_options
@click.option(
    "--output",
    "-o",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="For whom to print.",
)
def command(where: ClusterInputChoice, what: str, policy: str, output: str) -> None:
    """Say what every node answers to a pod: the first rule that refuses it, or that it fits; and what would help.

    Where there are NodeProvisioners, that includes which of them buys a node for it, or why none does. Where Karpenter
    was asked for a node, it includes which NodeClaim is coming and when, or why none came.

    Nodes are asked as they are, before other pods that wait are placed; whether the pod gets a place after those ahead
    of it in the queue is said beside. Without -f the cluster of the kubeconfig is read; nothing in it is changed. With
    -f the time is that of the newest GpuNodeStatus report in the files.
    """
    from ullage.decide.explain.pod import explain_pod

    vm, named = _parsed(what)
    scene = where.load()
    if vm:
        _explain_vm(scene, *named, output)
        return
    pod = _found(scene, *named)
    said = explain_pod(scene.snapshot, pod, scene.known, now=scene.now, policy=policy)
    said = _with_what_is_bought(said, scene, pod, policy)
    if output == "json":
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(as_json(said)), indent=2))
    else:
        click.echo("\n".join(as_lines(said)))


def _with_what_is_bought(said: "PodExplanation", scene: ClusterInput, pod: "Pod", policy: str) -> "PodExplanation":
    """Add what Karpenter and the NodeProvisioners do for a pod that nodes refuse, after the other remedies."""
    from ullage.decide.explain.pod import ExplainedState
    from ullage.decide.explain.scale_up import forecast
    from ullage.decide.karpenter.outlook import explain_capacity
    from ullage.decide.scheduling.assignment import PodAssigner

    if said.verdict != ExplainedState.UNSCHEDULABLE:
        return said
    assigner = PodAssigner(scene.snapshot, policy, scene.known.unreadable_claims)
    bought = explain_capacity(scene.karpenter, pod, now=scene.now)
    return replace(said, steps=(*said.steps, *bought, *forecast(assigner, pod, scene.provisioners, now=scene.now)))


def _parsed(what: str) -> tuple[bool, tuple[str, str]]:
    """True for a VM; namespace and name."""
    kind, *rest = what.split("/")
    if kind not in (*KINDS, *VM_KINDS) or not 1 <= len(rest) <= 2 or not all(rest):
        raise UserError(f"{what!r} cannot be explained; give pod/NAME or pod/NAMESPACE/NAME, or vm/ instead of pod/")
    return kind in VM_KINDS, ("", rest[0]) if len(rest) == 1 else (rest[0], rest[1])


def _explain_vm(scene: ClusterInput, namespace: str, name: str, output: str) -> None:
    from ullage.decide.explain.vm import explain_vm
    from ullage.decide.vms.migration import MigrationRules
    from ullage.model.fact_event import ObjectKey
    from ullage.model.units import Instant

    key, room = ObjectKey(namespace or scene.namespace, name), scene.snapshot.vms
    vm = scene.snapshot.state.vms.get(key)
    if vm is None:
        known = sorted(str(one) for one in scene.snapshot.state.vms)[:MOST_NAMES]
        hint = f"; there is {' and '.join(known)}" if known else "; there is no VirtualMachine at all"
        raise UserError(f"VirtualMachine {key} is not in {scene.origin}{hint}")
    said = explain_vm(room, vm, MigrationRules(), now=Instant(scene.now))
    if output == "json":
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(said), indent=2))
    else:
        click.echo("\n".join((f"{said.vm}: {said.verdict}: {said.sizes}", *said.pods, *said.nodes)))


def _found(scene: ClusterInput, namespace: str, name: str) -> "Pod":
    from ullage.model.fact_event import ObjectKey

    key = ObjectKey(namespace or scene.namespace, name)
    pods = scene.snapshot.state.pods
    if key in pods:
        return pods[key]
    near = _like(key, list(pods))
    hint = f"; there is {' and '.join(near)}" if near else "; check the name and the namespace"
    raise UserError(f"pod {key} is not in {scene.origin}{hint}")


def _like(key: "ObjectKey", pods: "list[ObjectKey]") -> list[str]:
    """Pods that may be meant: of the same name elsewhere, else of a name like it."""
    names = [key.name] if any(one.name == key.name for one in pods) else []
    names = names or difflib.get_close_matches(key.name, sorted({one.name for one in pods}), n=MOST_NAMES)
    return sorted(str(one) for one in pods if one.name in names)[:MOST_NAMES]


def as_json(said: "PodExplanation") -> dict[str, Any]:
    """Explanation as JSON, for programs: every node."""
    return {
        "pod": str(said.pod),
        "verdict": str(said.verdict),
        "message": said.message,
        "nodes": [
            {"node": node, "fits": bool(verdict), "reason": verdict.reason.value, "detail": verdict.detail}
            for node, verdict in said.nodes.items()
        ],
        "helps": list(said.steps),
    }


def as_lines(said: "PodExplanation") -> list[str]:
    """Explanation as lines of text, for people: nodes grouped by their answer, and named while they are few."""
    lines = [f"{said.pod}: {said.verdict}: {said.message}"]
    groups: dict[str, dict[str, list[str]]] = {}
    for node, verdict in said.nodes.items():
        groups.setdefault(verdict.reason.value, {}).setdefault(verdict.detail, []).append(node)
    ranked = sorted(groups.items(), key=lambda group: (group[0] != "Fits", -sum(map(len, group[1].values())), group[0]))
    rows = [row for reason, details in ranked for row in _reason_rows(reason, details)]
    if rows:
        lines += ["", *aligned([("NODES", "REASON", "WHICH", "DETAIL"), *rows])]
    if said.steps:
        lines += ["", "What would help:", *(f"  {step}" for step in said.steps)]
    return lines


def _reason_rows(reason: str, details: dict[str, list[str]]) -> list[tuple[str, str, str, str]]:
    """The most frequent details each in a line, all others together in one."""
    ranked = sorted(details.items(), key=lambda entry: (-len(entry[1]), entry[1]))
    rows = [(str(len(nodes)), reason, _names(nodes), detail) for detail, nodes in ranked[:MOST_DETAILS]]
    rest = sorted(node for _, nodes in ranked[MOST_DETAILS:] for node in nodes)
    return [*rows, (str(len(rest)), reason, _names(rest), "and the like")] if rest else rows


def _names(nodes: list[str]) -> str:
    more = f" and {len(nodes) - MOST_NAMES} more" if len(nodes) > MOST_NAMES else ""
    return f"{', '.join(nodes[:MOST_NAMES])}{more}"
