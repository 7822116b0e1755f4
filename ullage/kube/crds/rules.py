"""Rules between fields of this project's kinds, each written once, in CEL."""

from collections.abc import Mapping, Sequence

import msgspec

from ullage.kube.crds.label_keys import LABEL_KEY
from ullage.kube.crds.marks import ValidationRule
from ullage.kube.crds.provisioner_rules import PROVISIONER_RULES
from ullage.kube.crds.vm_rules import VM_RULES
from ullage.kube.objects.gpu import (
    ClaimSelector,
    GpuClaim,
    GpuClaimDevices,
    GpuClaimSpec,
    GpuNodeStatus,
    GpuQuotaSpec,
)
from ullage.model.device import MOST_DEVICES

Rules = Mapping[type[msgspec.Struct], Sequence[ValidationRule]]

_SOMETHING = r"^[0-9.]*[1-9]"
"""A quantity above zero, by its digits: to work out `1e9999999` would keep the API server busy for seconds."""


_GPU_RULES: Rules = {
    GpuClaimDevices: (
        ValidationRule(
            cel=f"self.count <= {MOST_DEVICES}",
            message=f"no node has more than {MOST_DEVICES} GPUs",
            field=".count",
        ),
        ValidationRule(
            cel=f"!has(self.memory) || type(self.memory) == int || self.memory.matches('{_SOMETHING}')",
            message="must be more than 0",
            field=".memory",
        ),
        ValidationRule(
            cel="self.policy != 'preferIds' || (has(self.preferIds) && size(self.preferIds) > 0)",
            message="policy preferIds needs the ids of the GPUs to take",
            field=".preferIds",
            reason="FieldValueRequired",
        ),
        ValidationRule(
            cel="self.policy == 'preferIds' || !has(self.preferIds) || size(self.preferIds) == 0",
            message="only with policy preferIds",
            field=".preferIds",
            reason="FieldValueForbidden",
        ),
        ValidationRule(
            cel="!has(self.preferIds) || size(self.preferIds) == 0 || size(self.preferIds) == self.count",
            message="must name exactly as many GPUs as count",
            field=".preferIds",
        ),
        ValidationRule(
            cel="self.exclusivity != 'Shared' || has(self.memory) || has(self.tflops)",
            message="exclusivity Shared needs memory or tflops: how much of each GPU is taken",
            field=".memory",
            reason="FieldValueRequired",
        ),
        ValidationRule(
            cel="self.exclusivity != 'MIG' || has(self.memory)",
            message="exclusivity MIG needs memory: how large an instance is taken",
            field=".memory",
            reason="FieldValueRequired",
        ),
    ),
    ClaimSelector: (
        ValidationRule(
            cel=f"!has(self.matchLabels) || self.matchLabels.all(key, key.matches(r'{LABEL_KEY}'))",
            message="must be keys of labels, such as topology.kubernetes.io/zone",
            field=".matchLabels",
        ),
    ),
    GpuClaimSpec: (
        ValidationRule(
            cel="!has(self.gangMinMember) || has(self.gangRef)",
            message="gangMinMember needs gangRef: which gang it is the size of",
            field=".gangRef",
            reason="FieldValueRequired",
        ),
    ),
    GpuClaim: (
        ValidationRule(
            cel="!has(oldSelf.status) || !has(oldSelf.status.phase) || "
            "!(oldSelf.status.phase in ['Reserved', 'Bound']) || self.spec == oldSelf.spec",
            message="cannot change while the claim holds GPUs; delete its pod first",
            field=".spec",
            reason="FieldValueForbidden",
        ),
    ),
    GpuNodeStatus: (
        ValidationRule(
            cel="self.metadata.name == self.spec.nodeName",
            message="must be the name of this object: a node has one GpuNodeStatus",
            field=".spec.nodeName",
        ),
    ),
    GpuQuotaSpec: (
        ValidationRule(
            cel="has(self.gpus) || has(self.sharesMilli) || (has(self.byModel) && size(self.byModel) > 0)",
            message="must limit something: gpus, byModel or sharesMilli",
        ),
    ),
}

RULES: Rules = {**_GPU_RULES, **PROVISIONER_RULES, **VM_RULES}
