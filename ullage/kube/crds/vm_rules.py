"""Rules between fields of a VirtualMachine, for the definition of tests and the demo. Its reader checks the CPUs."""

from collections.abc import Mapping, Sequence

import msgspec

from ullage.kube.crds.marks import ValidationRule
from ullage.kube.objects.vm import GuestMemorySlots

VM_RULES: Mapping[type[msgspec.Struct], Sequence[ValidationRule]] = {
    GuestMemorySlots: (
        ValidationRule(
            cel="self.min <= self.use && self.use <= self.max",
            message="must be from min to max",
            field=".use",
        ),
    ),
}
