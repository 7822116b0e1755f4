"""Rules between fields of this project's kinds, each in CEL for the API server and in Python for manifests."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from ullage.kube.crds.label_keys import LABEL_KEY, is_label_key
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
from ullage.model.claim import DevicePolicy, Exclusivity
from ullage.model.device import MOST_DEVICES

Rules = Mapping[type[msgspec.Struct], Sequence[ValidationRule]]

_SOMETHING = r"^[0-9.]*[1-9]"
"""A quantity above zero, by its digits: to work out `1e9999999` would keep the API server busy for seconds."""

_says_something = re.compile(_SOMETHING).match


def _some_memory(devices: GpuClaimDevices) -> bool:
    return not isinstance(devices.memory, str) or _says_something(devices.memory) is not None


def _ids_where_named(devices: GpuClaimDevices) -> bool:
    return devices.policy != DevicePolicy.PREFER_IDS or bool(devices.prefer_ids)


def _ids_only_where_named(devices: GpuClaimDevices) -> bool:
    return devices.policy == DevicePolicy.PREFER_IDS or not devices.prefer_ids


def _as_many_ids_as_asked(devices: GpuClaimDevices) -> bool:
    return not devices.prefer_ids or len(devices.prefer_ids) == devices.count


def _shared_says_how_much(devices: GpuClaimDevices) -> bool:
    return devices.exclusivity != Exclusivity.SHARED or devices.memory is not None or devices.tflops is not None


def _mig_says_how_much(devices: GpuClaimDevices) -> bool:
    return devices.exclusivity != Exclusivity.MIG or devices.memory is not None


def _labels_have_keys(selector: ClaimSelector) -> bool:
    return all(is_label_key(key) for key in selector.match_labels)


def _gang_is_named(spec: GpuClaimSpec) -> bool:
    return spec.gang_min_member is None or bool(spec.gang_ref)


def _named_as_its_node(status: GpuNodeStatus) -> bool:
    return status.metadata.name == status.spec.node_name


def _limits_something(spec: GpuQuotaSpec) -> bool:
    return spec.gpus is not None or bool(spec.by_model) or spec.shares is not None


_GPU_RULES: Rules = {
    GpuClaimDevices: (
        ValidationRule(
            cel=f"self.count <= {MOST_DEVICES}",
            holds=lambda devices: devices.count <= MOST_DEVICES,
            message=f"no node has more than {MOST_DEVICES} GPUs",
            field=".count",
        ),
        ValidationRule(
            cel=f"!has(self.memory) || type(self.memory) == int || self.memory.matches('{_SOMETHING}')",
            holds=_some_memory,
            message="must be more than 0",
            field=".memory",
        ),
        ValidationRule(
            cel="self.policy != 'preferIds' || (has(self.preferIds) && size(self.preferIds) > 0)",
            holds=_ids_where_named,
            message="policy preferIds needs the ids of the GPUs to take",
            field=".preferIds",
            reason="FieldValueRequired",
        ),
        ValidationRule(
            cel="self.policy == 'preferIds' || !has(self.preferIds) || size(self.preferIds) == 0",
            holds=_ids_only_where_named,
            message="only with policy preferIds",
            field=".preferIds",
            reason="FieldValueForbidden",
        ),
        ValidationRule(
            cel="!has(self.preferIds) || size(self.preferIds) == 0 || size(self.preferIds) == self.count",
            holds=_as_many_ids_as_asked,
            message="must name exactly as many GPUs as count",
            field=".preferIds",
        ),
        ValidationRule(
            cel="self.exclusivity != 'Shared' || has(self.memory) || has(self.tflops)",
            holds=_shared_says_how_much,
            message="exclusivity Shared needs memory or tflops: how much of each GPU is taken",
            field=".memory",
            reason="FieldValueRequired",
        ),
        ValidationRule(
            cel="self.exclusivity != 'MIG' || has(self.memory)",
            holds=_mig_says_how_much,
            message="exclusivity MIG needs memory: how large an instance is taken",
            field=".memory",
            reason="FieldValueRequired",
        ),
    ),
    ClaimSelector: (
        ValidationRule(
            cel=f"!has(self.matchLabels) || self.matchLabels.all(key, key.matches(r'{LABEL_KEY}'))",
            holds=_labels_have_keys,
            message="must be keys of labels, such as topology.kubernetes.io/zone",
            field=".matchLabels",
        ),
    ),
    GpuClaimSpec: (
        ValidationRule(
            cel="!has(self.gangMinMember) || has(self.gangRef)",
            holds=_gang_is_named,
            message="gangMinMember needs gangRef: which gang it is the size of",
            field=".gangRef",
            reason="FieldValueRequired",
        ),
    ),
    GpuClaim: (
        ValidationRule(
            cel="!has(oldSelf.status) || !has(oldSelf.status.phase) || "
            "!(oldSelf.status.phase in ['Reserved', 'Bound']) || self.spec == oldSelf.spec",
            holds=None,
            message="cannot change while the claim holds GPUs; delete its pod first",
            field=".spec",
            reason="FieldValueForbidden",
        ),
    ),
    GpuNodeStatus: (
        ValidationRule(
            cel="self.metadata.name == self.spec.nodeName",
            holds=_named_as_its_node,
            message="must be the name of this object: a node has one GpuNodeStatus",
            field=".spec.nodeName",
        ),
    ),
    GpuQuotaSpec: (
        ValidationRule(
            cel="has(self.gpus) || has(self.sharesMilli) || (has(self.byModel) && size(self.byModel) > 0)",
            holds=_limits_something,
            message="must limit something: gpus, byModel or sharesMilli",
        ),
    ),
}

RULES: Rules = {**_GPU_RULES, **PROVISIONER_RULES, **VM_RULES}
