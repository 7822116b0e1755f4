"""Size and rules of a VmFleet."""

import math
from dataclasses import dataclass

from ullage.decide.vms.core import VmRules
from ullage.decide.vms.migration import MigrationRules
from ullage.model.units import Seconds
from ullage.model.vm import VmAmounts
from ullage.model.vm_config import MILLIONTHS, NodeConfig, ResourceConfig, VmConfig

GI = 1 << 30
FOREVER = Seconds(math.inf)
_ROOM, _LARGEST, _UNIT = VmAmounts(64_000, 256 * GI), VmAmounts(8_000, 32 * GI), VmAmounts(250, GI)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSpec:
    """Size and rules of a fleet."""

    nodes: int = 50
    vms_per_node: int = 40
    room: VmAmounts = _ROOM
    """Allocatable of each node."""
    smallest: VmAmounts = _UNIT
    largest: VmAmounts = _LARGEST
    unit: VmAmounts = _UNIT
    watermark: float = 0.8
    migrate: bool = True
    cooldown: float = 900.0
    restart_every: float = 3600.0
    """Seconds between two restarts of the scheduler."""
    lost: float = 0.01
    """Part of the requests whose answer is lost."""
    migration_failures: float = 0.1
    seed: int = 1

    @property
    def config(self) -> VmConfig:
        part = round(self.watermark * MILLIONTHS)
        node = NodeConfig(ResourceConfig(part, 500), ResourceConfig(part, GI), self.unit)
        return VmConfig(slot=VmAmounts(1000, GI), defaults=node)

    @property
    def rules(self) -> VmRules:
        # Agents are never silent here: their repeated requests are only left out.
        cooling = MigrationRules(cooldown=Seconds(self.cooldown))
        return VmRules(migrate=self.migrate, silent_after=FOREVER, migration=cooling)
