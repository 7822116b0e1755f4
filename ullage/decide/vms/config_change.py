"""VM configuration compared with the one in force, and the rule on compute units across a change.

Documents are read in `kube.read.vm_config`. A wrong configuration is refused with the field that is wrong; the one in
force stays.
"""

import math
from dataclasses import dataclass

from ullage.model.vm import Vm, VmAmounts
from ullage.model.vm_config import ConfigRefusal, NodeConfig, VmConfig, unchangeable

CORE = 1000


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One node configuration that differs. Node is empty for the defaults."""

    node: str
    old: NodeConfig
    new: NodeConfig


def compare_configs(old: VmConfig, new: VmConfig) -> tuple[ConfigChange, ...] | ConfigRefusal:
    """Changes that a running scheduler takes over; or the field that cannot change while it runs."""
    fixed = unchangeable(old, new)
    if fixed is not None:
        return fixed
    changes = [ConfigChange("", old.defaults, new.defaults)]
    named = {node for config in (old, new) for one in config.overrides for node in one.nodes}
    changes += [ConfigChange(node, old.for_node(node), new.for_node(node)) for node in sorted(named)]
    return tuple(one for one in changes if one.old != one.new)


def divides_cleanly(wanted: VmAmounts, unit: VmAmounts, vm: Vm) -> bool:
    """True if the amounts are a whole number of the compute units last sent to this VM's agent.

    Exempt where a resource is at the VM's minimum or maximum: those need not be whole units. A unit of nothing, or of
    more than the VM may have, was never sent: somebody edited it.
    """
    if not (unit.cpu and unit.memory and unit.within(vm.maximum)):
        return True
    if wanted.cpu in (vm.minimum.cpu, vm.maximum.cpu) or wanted.memory in (vm.minimum.memory, vm.maximum.memory):
        return True
    if wanted.cpu % unit.cpu or wanted.memory % unit.memory:
        return False
    return wanted.cpu // unit.cpu == wanted.memory // unit.memory


def whole_core_unit(unit: VmAmounts) -> VmAmounts:
    """The smallest number of compute units that is whole cores: agents of versions 1-2 count no less."""
    return unit.times(CORE // math.gcd(unit.cpu, CORE))
