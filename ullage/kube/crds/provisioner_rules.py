"""Rules between fields of NodeProvisioners; see `rules`."""

from collections.abc import Mapping, Sequence

import msgspec

from ullage.kube.crds.label_keys import LABEL_KEY
from ullage.kube.crds.marks import ValidationRule
from ullage.kube.objects.provisioner import (
    ConsolidationSpec,
    NodeProvisioner,
    NodeProvisionerSpec,
    NodeTemplateSpec,
    TemplateGpus,
    TemplateTaint,
)
from ullage.model.draining import CANDIDATE_TAINT, DRAINING_TAINT
from ullage.model.provisioner import DELETION_TAINT, PROVISIONER_LABEL, Consolidation
from ullage.model.resources import GPU

LONGEST_LABEL_VALUE = 63
_OURS = (DELETION_TAINT, CANDIDATE_TAINT, DRAINING_TAINT)
_MOST_AT_ONCE = Consolidation().most_at_once
_AT_ONCE = (
    "(has(self.maxScaleDownParallelism) ? self.maxScaleDownParallelism : "
    f"has(self.maxEmptyBulkDelete) ? self.maxEmptyBulkDelete : {_MOST_AT_ONCE})"
)


PROVISIONER_RULES: Mapping[type[msgspec.Struct], Sequence[ValidationRule]] = {
    TemplateTaint: (
        ValidationRule(
            cel=f"self.key.matches(r'{LABEL_KEY}')",
            message="must be the key of a taint, such as example.com/team",
            field=".key",
        ),
        ValidationRule(
            cel=f"!(self.key in {list(_OURS)})",
            message="is set by the controller on nodes that are to go",
            field=".key",
            reason="FieldValueForbidden",
        ),
    ),
    TemplateGpus: (
        ValidationRule(
            cel="self.islands < 1 || self.count % self.islands == 0",
            message="must divide count: islands are of equal size",
            field=".islands",
        ),
    ),
    NodeTemplateSpec: (
        ValidationRule(
            cel=f"!has(self.labels) || self.labels.all(key, key.matches(r'{LABEL_KEY}'))",
            message="must be keys of labels, such as topology.kubernetes.io/zone",
            field=".labels",
        ),
        ValidationRule(
            cel=f"!has(self.labels) || !('{PROVISIONER_LABEL}' in self.labels)",
            message=f"{PROVISIONER_LABEL} is set on every node of the pool",
            field=".labels",
            reason="FieldValueForbidden",
        ),
        ValidationRule(
            cel="'cpu' in self.resources && 'memory' in self.resources",
            message="must say cpu and memory: without them no pod is known to fit",
            field=".resources",
            reason="FieldValueRequired",
        ),
        ValidationRule(
            cel=f"!('{GPU}' in self.resources)",
            message=f"{GPU} is said in gpus.count",
            field=".resources",
            reason="FieldValueForbidden",
        ),
    ),
    ConsolidationSpec: (
        ValidationRule(
            cel=f"!has(self.maxDrainParallelism) || self.maxDrainParallelism <= {_AT_ONCE}",
            message="must not be more than maxScaleDownParallelism",
            field=".maxDrainParallelism",
        ),
        ValidationRule(
            cel="!has(self.maxEmptyBulkDelete) || !has(self.maxScaleDownParallelism)",
            message="is an old name of maxScaleDownParallelism; say only that",
            field=".maxEmptyBulkDelete",
            reason="FieldValueForbidden",
        ),
    ),
    NodeProvisionerSpec: (
        ValidationRule(
            cel="!has(self.minSize) || self.minSize <= self.maxSize",
            message="must not be above maxSize",
            field=".minSize",
        ),
        ValidationRule(
            cel="!has(self.minUnutilizedGPUNodes) || self.minUnutilizedGPUNodes <= self.maxSize",
            message="must not be above maxSize",
            field=".minUnutilizedGPUNodes",
        ),
        ValidationRule(
            cel="self.provider.name == oldSelf.provider.name",
            message="cannot change: the nodes there are belong to it; make another NodeProvisioner",
            field=".provider.name",
            reason="FieldValueForbidden",
        ),
    ),
    NodeProvisioner: (
        ValidationRule(
            cel=f"size(self.metadata.name) <= {LONGEST_LABEL_VALUE}",
            # The schema does not know metadata's fields, so the message has to name it.
            message=f"metadata.name must be at most {LONGEST_LABEL_VALUE} long: it is the value of a label",
        ),
    ),
}
