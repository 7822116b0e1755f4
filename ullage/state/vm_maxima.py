"""Maxima that VirtualMachines had before they were lowered: an agent that has not heard of it may still go by them."""

from ullage.model.fact_event import ObjectKey
from ullage.model.vm import NOTHING, Vm, VmAmounts, VmPod
from ullage.state.forking import Forkable


class VmMaxima(Forkable):
    """Larger maxima of VMs, each kept until the VM's agent has a permit within the new one.

    A process that starts knows no earlier maximum. It reads from a pod's annotations what they prove: an approval is
    never more than what the agent asked for, so one within that request is the scheduler's own.
    """

    def __init__(self) -> None:
        self._outgrown: dict[ObjectKey, VmAmounts] = {}

    def largest(self, vm: Vm) -> VmAmounts:
        """The VM's maximum, or more where its agent may still go by a larger one."""
        return vm.maximum.at_least(self._outgrown.get(vm.key, NOTHING))

    def admitted(self, vm: Vm, approved: VmAmounts | None) -> VmAmounts | None:
        """The approval, if the scheduler can have written it: no more than the VM may have or might have, or uses."""
        possible = self.largest(vm).at_least(vm.use)
        return approved if approved is not None and approved.within(possible) else None

    def changed(self, before: Vm | None, vm: Vm) -> None:
        """Note that `vm` was seen after `before`."""
        if before is not None and before.uid != vm.uid:
            self.forget(vm.key)
        elif before is not None:
            self._keep(vm, before.maximum)

    def read(self, vm: Vm, pod: VmPod) -> None:
        """Note what the annotations of one of the VM's pods prove."""
        if pod.approved is not None and pod.requested is not None and pod.approved.within(pod.requested):
            self._keep(vm, pod.approved)

    def permitted(self, vm: Vm, approved: VmAmounts | None) -> None:
        """Note that the VM's agent spoke and was permitted this: no larger permit is left."""
        if approved is not None and approved.within(vm.maximum):
            self.forget(vm.key)

    def forget(self, key: ObjectKey) -> None:
        self._outgrown.pop(key, None)

    def _keep(self, vm: Vm, amounts: VmAmounts) -> None:
        most = self.largest(vm).at_least(amounts)
        if most == vm.maximum:
            self.forget(vm.key)
        else:
            self._outgrown[vm.key] = most
