"""Write the size of a VirtualMachine. The size is decided in `decide.vm_agent`."""

from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resources import VIRTUAL_MACHINES
from ullage.kube.objects.vm import KubeVirtualMachine
from ullage.kube.write.vm import guest_size
from ullage.model.vm import Vm, VmAmounts


async def write_vm_size(api: KubeApi, vm: Vm, target: VmAmounts) -> KubeVirtualMachine:
    """Give the VM another size and return it as it is then. Raises ApiError; Conflict for another VM of that name.

    Without resourceVersion: the VM controller writes the status beside it. The server checks `use` against min and max.
    """
    patch = {"metadata": {"uid": vm.uid}} | guest_size(target, vm.memory_slot)
    return await api.patch(VIRTUAL_MACHINES, vm.key.name, MergePatch(patch), vm.key.namespace)
