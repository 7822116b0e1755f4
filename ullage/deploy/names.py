"""Reference of every name that Ullage writes or reads on objects: labels, annotations, taints, finalizers; and Events.

`docs/generated/names.md` is made of it. A test finds every such key in the source and misses none here. Names of other
projects are in `foreign_names`.
"""

from collections.abc import Iterable

from ullage.deploy.foreign_names import FOREIGN_NAMES
from ullage.deploy.object_name import NameKind, ObjectName
from ullage.model.karpenter import CAPACITY_CONDITION, HANDOVER_UNPROTECTED
from ullage.observe.events import KINDS as EVENT_STYLES
from ullage.observe.events import EventReason

_A, _L, _T, _F = NameKind.ANNOTATION, NameKind.LABEL, NameKind.TAINT, NameKind.FINALIZER
_G = "gpu.scheduling/"

NAMES = (
    ObjectName(f"{_G}claim", _A, "Pod", "you", "The GpuClaim by which the pod gets its GPUs."),
    ObjectName(
        f"{_G}claim-template", _A, "Pod", "you", "The GpuClaim of which a copy is made for this pod, and goes with it."
    ),
    ObjectName(f"{_G}allocated", _A, "Pod", "scheduler", "Node and GPUs it holds, as NODE:INDEX,INDEX."),
    ObjectName(f"{_G}visible-devices", _A, "Pod", "scheduler", "UUIDs of its GPUs or MIG instances."),
    ObjectName(f"{_G}visible-indices", _A, "Pod", "scheduler", "The same by number, for programs that count."),
    ObjectName(f"{_G}share-milli", _A, "Pod", "scheduler", "Thousandths of each GPU; missing for whole ones."),
    ObjectName(f"{_G}unsettled-bind", _A, "Pod", "scheduler", "A bind got no answer, and is fenced off by this."),
    ObjectName(f"{_G}capacity-failure", _A, "Pod", "controller", "The last failure of its request to Karpenter."),
    ObjectName(f"{_G}vm-approved", _A, "Pod of a VM", "scheduler", "Size that the VM may have."),
    ObjectName(f"{_G}vm-requested", _A, "Pod of a VM", "scheduler", "Size that its agent asked for last."),
    ObjectName(f"{_G}vm-unit", _A, "Pod of a VM", "scheduler", "Compute unit in which it grows."),
    ObjectName(f"{_G}vm-last-migration", _A, "VirtualMachine", "scheduler", "Unix second of its last migration."),
    ObjectName(
        f"{_G}vm-needs-node", _A, "VirtualMachine", "scheduler", "Since when it finds no other node (Unix second)."
    ),
    ObjectName(f"{_G}template", _A, "GpuClaim", "scheduler", "The claim that this one is a copy of."),
    ObjectName(f"{_G}claim-protection", _F, "GpuClaim", "scheduler", "The claim is in use; it goes when its pods do."),
    ObjectName(f"{_G}node-kind", _L, "Node", "agent", "How its GPUs are given out: leased, counted, dra."),
    ObjectName(f"{_G}leased", _T, "Node", "agent", "Its GPUs are leased: only pods with claims come here."),
    ObjectName(f"{_G}boot-id", _A, "GpuNodeStatus", "agent", "Boot of the machine that was reported on."),
    ObjectName(f"{_G}provisioner", _L, "Node", "controller", "Pool it belongs to. Also a tag in the cloud."),
    ObjectName(f"{_G}capacity-type", _L, "Node", "controller", "OnDemand or Spot."),
    ObjectName(f"{_G}deletion-time", _T, "Node", "controller", "It is to go; the Unix second after which it may."),
    ObjectName(f"{_G}scale-down-disabled", _A, "Node", "you", "true: the node stays."),
    ObjectName(f"{_G}drain-candidate", _T, "Node", "controller", "Its pods fit elsewhere since this Unix second."),
    ObjectName(f"{_G}draining", _T, "Node", "controller", "Its pods are evicted since this Unix second."),
    ObjectName(f"{_G}request", _L, "smart Pod, NodeClaim, Node", "controller", "Request that Karpenter was asked for."),
    ObjectName(f"{_G}handover", _T, "Node", "controller", "Closed for one request; as an annotation, the hand-over."),
    ObjectName(f"{_G}unconfined", _L, "Namespace", "you", "Its pods may see all GPUs, because they manage them."),
    ObjectName(f"{_G}managed", _L, "Lease", "scheduler", "true: the Lease of a GPU."),
    ObjectName(f"{_G}node", _L, "Lease", "scheduler", "Node of the GPU."),
    ObjectName(f"{_G}device", _L, "Lease", "scheduler", "Index of the GPU."),
    ObjectName(f"{_G}pod", _A, "Lease", "scheduler", "Pod that holds the GPU."),
    ObjectName(f"{_G}shares", _A, "Lease", "scheduler", "Holders of a shared GPU, with their parts."),
    ObjectName(f"{_G}instances", _A, "Lease", "scheduler", "Holders of MIG instances."),
    ObjectName(f"{_G}share-stamps", _A, "Lease", "scheduler", "Number of the write of each part."),
    ObjectName(f"{_G}reservation", _L, "ResourceClaim", "scheduler", "Withholds a leased GPU from DRA."),
    ObjectName(f"{_G}lease-protection", _F, "ResourceClaim", "scheduler", "It stays while its GPU is leased."),
    ObjectName(f"{_G}purchases", _A, "MachineDeployment", "controller", "Machines that were asked for, by purchase."),
    ObjectName(f"{_G}removals", _A, "MachineDeployment", "controller", "Machines that are on their way out."),
    ObjectName(f"{_G}kwok-purchase", _L, "ConfigMap", "controller", "A purchase of simulated nodes."),
    ObjectName(f"{_G}cluster", NameKind.TAG, "instance", "controller", "Cluster the machine was bought for."),
    ObjectName(f"{_G}token", NameKind.TAG, "instance", "controller", "Purchase the machine belongs to."),
)

CONDITIONS = (
    ("Pod", "PodScheduled", "False while it waits; reason and message say why ([reasons](reasons.md))."),
    ("Pod", CAPACITY_CONDITION, "False from a failed request to Karpenter until it has a node; the reason says why."),
    ("NodePool", HANDOVER_UNPROTECTED, "True while its nodes are open to rivals before they are handed over."),
    ("GpuClaim", "Allocated", "True while a pod holds GPUs by it; the reason is that of its phase."),
    ("GpuQuota", "Exhausted", "True while nothing more fits into a limit."),
    ("GpuNodeStatus", "Ready", "True while the agent reads its GPUs."),
    ("GpuNodeStatus", "AllHealthy", "False while a GPU is unhealthy."),
    ("GpuNodeStatus", "KindSettled", "False while the node changes how its GPUs are given out."),
    ("NodeProvisioner", "Ready", "False while its provider fails, or a field is wrong."),
    ("NodeProvisioner", "ScalingUp", "True while nodes are coming."),
    ("NodeProvisioner", "ScalingDown", "True while nodes are going."),
    ("NodeProvisioner", "CapacityBlocked", "True while the cloud has no such machine, or a limit is reached."),
    ("NodeProvisioner", "ScaleDownThrottled", "True while a limit keeps nodes that could go."),
    ("NodeProvisioner", "AgentsSilent", "True while no agent reports the GPUs of some of its nodes."),
)
"""Kind, type and meaning."""


def names_page() -> str:
    """The page, as Markdown."""
    lines = ["# Labels, annotations, taints, conditions and Events", "", "Generated by `make format`; do not edit.", ""]
    lines += _table(NAMES)
    lines += ["", "## Names of other projects", "", "Read or written by Ullage, too.", "", *_table(FOREIGN_NAMES)]
    lines += ["", "## Conditions", "", "| kind | condition | meaning |", "|---|---|---|"]
    lines += [f"| {kind} | `{name}` | {meaning} |" for kind, name, meaning in CONDITIONS]
    lines += ["", "## Events", "", "| reason | type | action |", "|---|---|---|"]
    for reason in EventReason:
        style = EVENT_STYLES[reason]
        lines.append(f"| `{reason.value}` | {'Warning' if style.warning else 'Normal'} | {style.action} |")
    return "\n".join(lines) + "\n"


def _table(names: Iterable[ObjectName]) -> list[str]:
    rows = [f"| `{one.key}` | {one.kind} | {one.on} | {one.writer} | {one.meaning} |" for one in names]
    return ["| key | is a | on | written by | says |", "|---|---|---|---|---|", *rows]
