"""The kinds we define, and what `kubectl get` shows of each. A new kind is one entry here and a struct in `objects`."""

from ullage.kube.client.resources import (
    GPU_CLAIMS,
    GPU_NODE_STATUSES,
    GPU_QUOTAS,
    NODE_PROVISIONERS,
    POD_GROUPS,
    VIRTUAL_MACHINE_MIGRATIONS,
    VIRTUAL_MACHINES,
)
from ullage.kube.crds.definition import CrdDefinition, PrinterColumn

GPU_CLAIM = CrdDefinition(
    resource=GPU_CLAIMS,
    short_names=("gclaim",),
    columns=(
        PrinterColumn(name="Phase", path=".status.phase"),
        PrinterColumn(name="Node", path=".status.nodeName"),
        PrinterColumn(name="GPUs", path=".status.gpuIds"),
        PrinterColumn(name="Count", path=".spec.devices.count", type="integer"),
        PrinterColumn(name="Model", path=".spec.devices.model"),
        PrinterColumn(name="Gang", path=".spec.gangRef"),
        PrinterColumn(name="Policy", path=".spec.devices.policy", wide=True),
        PrinterColumn(name="Exclusivity", path=".spec.devices.exclusivity", wide=True),
        PrinterColumn(name="Memory", path=".spec.devices.memory", wide=True),
        PrinterColumn(name="Pool", path=".spec.pool", wide=True),
        PrinterColumn(name="Message", path=".status.message", wide=True),
    ),
    selectable=(".spec.gangRef", ".spec.pool", ".status.phase", ".status.nodeName"),
)
GPU_NODE_STATUS = CrdDefinition(
    resource=GPU_NODE_STATUSES,
    short_names=("gns",),
    columns=(
        PrinterColumn(name="Total", path=".status.total", type="integer"),
        PrinterColumn(name="Healthy", path=".status.healthy", type="integer"),
        PrinterColumn(name="Kind", path=".status.kind"),
        PrinterColumn(name="Model", path=".status.devices[0].model", description="Of the first GPU."),
        PrinterColumn(
            name="Updated", path=".status.observedAt", type="date", description="When the agent last looked."
        ),
    ),
    selectable=(".status.kind",),
)
GPU_QUOTA = CrdDefinition(
    resource=GPU_QUOTAS,
    short_names=("gq",),
    columns=(
        PrinterColumn(name="GPUs", path=".spec.gpus", type="integer"),
        PrinterColumn(name="Used", path=".status.used.gpus", type="integer"),
        PrinterColumn(name="ByModel", path=".spec.byModel", wide=True),
        PrinterColumn(name="UsedByModel", path=".status.used.byModel", wide=True),
        PrinterColumn(
            name="Shares", path=".spec.sharesMilli", type="integer", description="In thousandths.", wide=True
        ),
        PrinterColumn(name="UsedShares", path=".status.used.sharesMilli", type="integer", wide=True),
    ),
)
NODE_PROVISIONER = CrdDefinition(
    resource=NODE_PROVISIONERS,
    short_names=("np",),
    columns=(
        PrinterColumn(name="Current", path=".status.currentSize", type="integer"),
        PrinterColumn(name="Target", path=".status.targetSize", type="integer"),
        PrinterColumn(
            name="Used", path=".status.gpuUtilizationPercent", type="integer", description="GPUs in use, in percent."
        ),
        PrinterColumn(name="Ready", path='.status.conditions[?(@.type=="Ready")].status'),
        PrinterColumn(name="Model", path=".spec.template.gpus.model"),
        PrinterColumn(
            name="BackOff",
            path='.status.conditions[?(@.type=="CapacityBlocked")].reason',
            description="Why nothing is bought at this moment; NoFailure if nothing is in the way.",
        ),
        PrinterColumn(
            name="Unmet", path=".status.unmetPods", type="integer", description="Pods that wait for it in vain."
        ),
        PrinterColumn(name="Last", path=".status.lastDecision.action", description="What was decided last."),
        PrinterColumn(name="Min", path=".spec.minSize", type="integer", wide=True),
        PrinterColumn(name="Max", path=".spec.maxSize", type="integer", wide=True),
        PrinterColumn(name="Provider", path=".spec.provider.name", wide=True),
        PrinterColumn(name="Price", path=".spec.template.pricePerHour", wide=True),
        PrinterColumn(name="Why", path=".status.lastDecision.why", wide=True),
    ),
    selectable=(".spec.provider.name",),
)
POD_GROUP = CrdDefinition(
    resource=POD_GROUPS,
    short_names=("pg",),
    columns=(
        PrinterColumn(name="Phase", path=".status.phase"),
        PrinterColumn(name="MinMember", path=".spec.minMember", type="integer"),
        PrinterColumn(name="Running", path=".status.running", type="integer"),
    ),
)
"""Not ours. For clusters without the scheduler plugins that bring it, and for tests."""

VIRTUAL_MACHINE = CrdDefinition(
    resource=VIRTUAL_MACHINES,
    short_names=("neonvm",),
    columns=(
        PrinterColumn(name="Phase", path=".status.phase"),
        PrinterColumn(name="CPUs", path=".spec.guest.cpus.use"),
        PrinterColumn(
            name="Slots", path=".spec.guest.memorySlots.use", type="integer", description="Memory slots in use."
        ),
        PrinterColumn(name="Node", path=".status.node"),
        PrinterColumn(name="Pod", path=".status.podName", wide=True),
    ),
)
VIRTUAL_MACHINE_MIGRATION = CrdDefinition(
    resource=VIRTUAL_MACHINE_MIGRATIONS,
    short_names=("neonvmm",),
    columns=(
        PrinterColumn(name="VM", path=".spec.vmName"),
        PrinterColumn(name="Phase", path=".status.phase"),
        PrinterColumn(name="From", path=".status.sourceNode"),
        PrinterColumn(name="To", path=".status.targetNode"),
    ),
)
VM_KINDS = (VIRTUAL_MACHINE, VIRTUAL_MACHINE_MIGRATION)
"""Not ours either: only the fields we look at, for tests and the demo."""

OURS = (GPU_CLAIM, GPU_NODE_STATUS, GPU_QUOTA, NODE_PROVISIONER)

FILES = {definition.file_name: definition for definition in OURS} | {
    f"optional/{definition.file_name}": definition for definition in (POD_GROUP, *VM_KINDS)
}
"""Definitions by file, relative to `deploy/crds`. `kubectl apply -f deploy/crds` leaves the optional ones out."""
