"""The kinds we define, and what `kubectl get` shows of each. A new kind is one entry here and a struct in `objects`."""

from ullage.kube.crds.definition import Column, Definition
from ullage.kube.resources import GPU_CLAIMS, GPU_NODE_STATUSES, GPU_QUOTAS, NODE_PROVISIONERS, POD_GROUPS

GPU_CLAIM = Definition(
    resource=GPU_CLAIMS,
    short_names=("gclaim",),
    columns=(
        Column(name="Phase", path=".status.phase"),
        Column(name="Node", path=".status.nodeName"),
        Column(name="GPUs", path=".status.gpuIds"),
        Column(name="Count", path=".spec.devices.count", type="integer"),
        Column(name="Model", path=".spec.devices.model"),
        Column(name="Gang", path=".spec.gangRef"),
        Column(name="Policy", path=".spec.devices.policy", wide=True),
        Column(name="Exclusivity", path=".spec.devices.exclusivity", wide=True),
        Column(name="Memory", path=".spec.devices.memory", wide=True),
        Column(name="Pool", path=".spec.pool", wide=True),
        Column(name="Message", path=".status.message", wide=True),
    ),
    selectable=(".spec.gangRef", ".spec.pool", ".status.phase", ".status.nodeName"),
)
GPU_NODE_STATUS = Definition(
    resource=GPU_NODE_STATUSES,
    short_names=("gns",),
    columns=(
        Column(name="Total", path=".status.total", type="integer"),
        Column(name="Healthy", path=".status.healthy", type="integer"),
        Column(name="Kind", path=".status.kind"),
        Column(name="Model", path=".status.devices[0].model", description="Of the first GPU."),
        Column(name="Updated", path=".status.observedAt", type="date", description="When the agent last looked."),
    ),
    selectable=(".status.kind",),
)
GPU_QUOTA = Definition(
    resource=GPU_QUOTAS,
    short_names=("gq",),
    columns=(
        Column(name="GPUs", path=".spec.gpus", type="integer"),
        Column(name="Used", path=".status.used.gpus", type="integer"),
        Column(name="ByModel", path=".spec.byModel", wide=True),
        Column(name="UsedByModel", path=".status.used.byModel", wide=True),
        Column(name="Shares", path=".spec.sharesMilli", type="integer", description="In thousandths.", wide=True),
        Column(name="UsedShares", path=".status.used.sharesMilli", type="integer", wide=True),
    ),
)
NODE_PROVISIONER = Definition(
    resource=NODE_PROVISIONERS,
    short_names=("np",),
    columns=(
        Column(name="Current", path=".status.currentSize", type="integer"),
        Column(name="Target", path=".status.targetSize", type="integer"),
        Column(
            name="Used", path=".status.gpuUtilizationPercent", type="integer", description="GPUs in use, in percent."
        ),
        Column(name="Ready", path='.status.conditions[?(@.type=="Ready")].status'),
        Column(name="Model", path=".spec.template.gpus.model"),
        Column(name="Last", path=".status.lastDecision.action", description="What was decided last."),
        Column(name="Min", path=".spec.minSize", type="integer", wide=True),
        Column(name="Max", path=".spec.maxSize", type="integer", wide=True),
        Column(name="Provider", path=".spec.provider.name", wide=True),
        Column(name="Price", path=".spec.template.pricePerHour", wide=True),
        Column(name="Why", path=".status.lastDecision.why", wide=True),
    ),
    selectable=(".spec.provider.name",),
)
POD_GROUP = Definition(
    resource=POD_GROUPS,
    short_names=("pg",),
    columns=(
        Column(name="Phase", path=".status.phase"),
        Column(name="MinMember", path=".spec.minMember", type="integer"),
        Column(name="Running", path=".status.running", type="integer"),
    ),
)
"""Not ours. For clusters without the scheduler plugins that bring it, and for tests."""

OURS = (GPU_CLAIM, GPU_NODE_STATUS, GPU_QUOTA, NODE_PROVISIONER)

FILES = {definition.file_name: definition for definition in OURS} | {
    f"optional/{POD_GROUP.file_name}": POD_GROUP,
}
"""Where each is kept, relative to `deploy/crds`. `kubectl apply -f deploy/crds` leaves the optional ones out."""
