"""`ullage explain KIND/NAME`: why a pod waits, and why other objects are as they are."""

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ullage.cli.cluster_input import ClusterInput, ClusterInputChoice, scene_options
from ullage.cli.setting_options import read_options, setting_options
from ullage.cli.table import aligned
from ullage.errors import UserError
from ullage.model.units import Instant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ullage.config.vms import VmSettings
    from ullage.decide.explain.pod import PodExplanation
    from ullage.decide.explain.proof import ProvedRemedy
    from ullage.model.fact_event import ObjectKey
    from ullage.model.pod import Pod

KINDS: "Mapping[str, tuple[str, ...]]" = {
    "pod": ("pod", "pods", "po"),
    "vm": ("vm", "vms", "virtualmachine", "virtualmachines"),
    "claim": ("claim", "claims", "gpuclaim", "gpuclaims", "gcl"),
    "gang": ("gang", "gangs", "podgroup", "podgroups", "pg"),
    "quota": ("quota", "quotas", "gpuquota", "gpuquotas", "gq"),
    "node": ("node", "nodes", "no"),
    "nodeprovisioner": ("nodeprovisioner", "nodeprovisioners", "np", "pool", "pools"),
}
"""Kinds that can be explained, each with the names that people may type."""
CLUSTER_WIDE = ("node", "nodeprovisioner")
MOST_NAMES = 4
MOST_DETAILS = 3

EXAMPLES = """\b
Examples:
  ullage explain pod/team-a/train-0 --prove
  ullage explain pod/train-0 --namespace team-a -f cluster.yaml
  ullage explain claim/team-a/train -o json
  ullage explain gang/team-a/train
  ullage explain node/gpu-17
  ullage explain nodeprovisioner/h100
  ullage explain quota/team-a/gpus
  ullage explain vm/team-a/db-0
"""


@click.command("explain", epilog=EXAMPLES)
@click.argument("what", metavar="KIND/[NAMESPACE/]NAME")
@scene_options
@click.option(
    "--output",
    "-o",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="For whom to print.",
)
@setting_options()
@click.option("--prove", is_flag=True, help="Try every advice on a copy of the cluster, and say whether it works.")
def command(where: ClusterInputChoice, what: str, policy: str, output: str, prove: bool, **options: Any) -> None:
    """Say why something is as it is: the obstacle first, then what would help, with commands to copy.

    KIND is pod, claim, gang, quota, node, nodeprovisioner or vm. Of a pod: why it waits, and what every node answers.
    Of a node: why it takes nothing, and why it is not removed. Of a NodeProvisioner: why it does not buy or shrink,
    and when it looks next. With --prove every advice is tried on a copy of the cluster.

    Where there are NodeProvisioners, that includes which of them buys a node for a pod, or why none does. Where
    Karpenter was asked for a node, it includes which NodeClaim is coming and when, or why none came.

    Nodes are asked as they are, before other pods that wait are placed; whether the pod gets a place after those ahead
    of it in the queue is said beside. Without -f the cluster of the kubeconfig is read; nothing in it is changed. With
    -f the time is that of the newest GpuNodeStatus report in the files. Of --settings the sections `vms` and `draining`
    count, for VMs and removals of nodes: give the file of the scheduler and the controller, or the defaults explain.
    """
    kind, namespace, name = parsed(what)
    scene, settings = where.load(), read_options(options)
    if kind == "vm":
        _explain_vm(scene, (namespace, name), settings.vms, output)
        return
    if kind != "pod":
        from ullage.cli.explain_others import explain_other

        named = kind, namespace, name
        click.echo(explain_other(scene, where, named, settings, prove=prove, output=output))
        return
    from ullage.decide.explain.pod import explain_pod

    pod = _found(scene, namespace, name)
    known = replace(scene.known, pools=scene.provisioners)
    said = explain_pod(scene.snapshot, pod, known, now=Instant(scene.now), policy=policy, every=prove)
    said = _with_what_is_bought(said, scene, pod, policy)
    if output == "json":
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(as_json(said)), indent=2))
    else:
        click.echo("\n".join(as_lines(said, prove=prove)))


def _with_what_is_bought(said: "PodExplanation", scene: ClusterInput, pod: "Pod", policy: str) -> "PodExplanation":
    """Add what Karpenter and the NodeProvisioners do for a pod that nodes refuse, after the other remedies."""
    from ullage.decide.explain.pod import ExplainedState
    from ullage.decide.explain.scale_up import forecast
    from ullage.decide.karpenter.outlook import explain_capacity
    from ullage.decide.scheduling.assignment import PodAssigner

    if said.verdict != ExplainedState.UNSCHEDULABLE:
        return said
    assigner = PodAssigner(scene.snapshot, policy, scene.known.unreadable_claims)
    bought = explain_capacity(scene.karpenter, pod, now=Instant(scene.now))
    foreseen = forecast(assigner, pod, scene.provisioners, now=Instant(scene.now))
    return replace(said, steps=tuple(dict.fromkeys((*said.steps, *bought, *foreseen))))


def parsed(what: str) -> tuple[str, str, str]:
    """Kind, namespace and name. The namespace is empty where none is said."""
    typed, *rest = what.split("/")
    kind = next((kind for kind, names in KINDS.items() if typed.lower() in names), "")
    if not kind:
        known = [name for names in KINDS.values() for name in names]
        near = difflib.get_close_matches(typed.lower(), known, n=1)
        hint = f"; did you mean {near[0]}/?" if near else ""
        raise UserError(f"{what!r} cannot be explained; KIND is one of {', '.join(KINDS)}{hint}")
    parts = 1 if kind in CLUSTER_WIDE else 2
    if not 1 <= len(rest) <= parts or not all(rest):
        shape = f"{kind}/NAME" if parts == 1 else f"{kind}/NAME or {kind}/NAMESPACE/NAME"
        raise UserError(f"{what!r} cannot be explained; give {shape}")
    return kind, "" if len(rest) == 1 else rest[0], rest[-1]


def _explain_vm(scene: ClusterInput, what: tuple[str, str], settings: "VmSettings", output: str) -> None:
    from ullage.cli.plan_drain import plan_time
    from ullage.control.vms.wiring import vm_rules
    from ullage.decide.explain.vm import explain_vm
    from ullage.decide.scheduling.assignment import PodAssigner
    from ullage.model.fact_event import ObjectKey

    namespace, name = what
    key = ObjectKey(namespace or scene.namespace, name)
    vm = scene.snapshot.state.vms.get(key)
    if vm is None:
        known = sorted(str(one) for one in scene.snapshot.state.vms)[:MOST_NAMES]
        hint = f"; there is {' and '.join(known)}" if known else "; there is no VirtualMachine at all"
        raise UserError(f"VirtualMachine {key} is not in {scene.origin}{hint}")
    said = explain_vm(PodAssigner(scene.snapshot).engine, vm, vm_rules(settings), now=Instant(plan_time(scene)))
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
        "reason": said.reason,
        "message": said.message,
        "nodes": [
            {"node": node, "fits": bool(verdict), "reason": verdict.reason.value, "detail": verdict.detail}
            for node, verdict in said.nodes.items()
        ],
        "helps": list(said.steps),
        "remedies": remedies_as_json(said.remedies),
    }


def remedies_as_json(tried: "Sequence[ProvedRemedy]") -> list[dict[str, Any]]:
    """Remedies for programs, with what became of them on a copy."""
    return [
        {
            "advice": one.remedy.sentence,
            "commands": list(one.remedy.commands),
            "works": one.proof.works,
            "proof": one.proof.said,
        }
        for one in tried
    ]


def as_lines(said: "PodExplanation", *, prove: bool = False) -> list[str]:
    """Explanation as lines of text, for people: what would help, then nodes grouped by their answer."""
    lines = [f"{said.pod}: {said.verdict}: {said.message}"]
    if said.steps:
        lines += ["", "What would help:", *advice_lines(said.steps, said.remedies, prove=prove)]
    groups: dict[str, dict[str, list[str]]] = {}
    for node, verdict in said.nodes.items():
        groups.setdefault(verdict.reason.value, {}).setdefault(verdict.detail, []).append(node)
    ranked = sorted(groups.items(), key=lambda group: (group[0] != "Fits", -sum(map(len, group[1].values())), group[0]))
    rows = [row for reason, details in ranked for row in _reason_rows(reason, details)]
    if rows:
        lines += ["", *aligned([("NODES", "REASON", "WHICH", "DETAIL"), *rows])]
    return lines


def advice_lines(steps: "Sequence[str]", tried: "Sequence[ProvedRemedy]", *, prove: bool) -> list[str]:
    """Next steps, each with its commands; with `prove` also how it went on a copy of the cluster."""
    known = {one.remedy.sentence: one for one in tried}
    lines: list[str] = []
    for step in steps:
        lines.append(f"  {step}")
        if (one := known.get(step)) is not None:
            lines += [f"    $ {command}" for command in one.remedy.commands]
            lines += [f"    {one.proof.said}"] if prove else []
    return lines


def _reason_rows(reason: str, details: dict[str, list[str]]) -> list[tuple[str, str, str, str]]:
    """The most frequent details each in a line, all others together in one."""
    ranked = sorted(details.items(), key=lambda entry: (-len(entry[1]), entry[1]))
    rows = [(str(len(nodes)), reason, _names(nodes), detail) for detail, nodes in ranked[:MOST_DETAILS]]
    rest = sorted(node for _, nodes in ranked[MOST_DETAILS:] for node in nodes)
    more = f"{len(details) - MOST_DETAILS} other details of the same reason; -o json has them all"
    return [*rows, (str(len(rest)), reason, _names(rest), more)] if rest else rows


def _names(nodes: list[str]) -> str:
    more = f" and {len(nodes) - MOST_NAMES} more" if len(nodes) > MOST_NAMES else ""
    return f"{', '.join(nodes[:MOST_NAMES])}{more}"
