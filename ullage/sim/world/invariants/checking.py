"""All invariant checks. The first breach is the violation; later ones may follow from it and are not reported."""

import asyncio
from collections.abc import Sequence

from ullage.model.instance import Instance
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.world.invariants.breach import InvariantBreach
from ullage.sim.world.invariants.claims import ClaimChecks
from ullage.sim.world.invariants.containers import ContainerChecks
from ullage.sim.world.invariants.disruption import DisruptionChecks
from ullage.sim.world.invariants.gangs import GangChecks
from ullage.sim.world.invariants.gpus import GpuChecks
from ullage.sim.world.invariants.karpenter import KarpenterChecks
from ullage.sim.world.invariants.order import OrderChecks
from ullage.sim.world.invariants.placement import PlacementChecks
from ullage.sim.world.invariants.pools import PoolChecks
from ullage.sim.world.invariants.purchases import PurchaseChecks
from ullage.sim.world.invariants.quiet import QuietChecks
from ullage.sim.world.invariants.returning import ReturningChecks
from ullage.sim.world.invariants.vms import VmChecks
from ullage.sim.world.invariants.volumes import VolumeChecks
from ullage.sim.world.object_mirror import ObjectMirror
from ullage.sim.world.spec import SCHEDULER


class InvariantChecker:
    """Checks invariants once armed. Before that, the world is being built."""

    def __init__(self, mirror: ObjectMirror, server: SimulatedApiServer, ours: Sequence[str]) -> None:
        self.breach: InvariantBreach | None = None
        self._armed = False
        self._broken = asyncio.Event()
        ClaimChecks(mirror, server, self.report, SCHEDULER)
        self._containers = ContainerChecks(mirror, self.report, SCHEDULER)
        self._gpus = GpuChecks(mirror, server, self.report, ours)
        OrderChecks(mirror, self.report, SCHEDULER)
        self._placement = PlacementChecks(mirror, server, self.report, SCHEDULER)
        QuietChecks(mirror, server, self.report, SCHEDULER)
        self._gangs = GangChecks(mirror, server, self.report, SCHEDULER)
        DisruptionChecks(mirror, server, self.report, ours)
        self.pools = PoolChecks(mirror, server, self.report)
        KarpenterChecks(mirror, server, self.report, ours)
        self._purchases = PurchaseChecks(mirror, server, self.report, self.pools)
        ReturningChecks(mirror, server, self.report, ours)
        VolumeChecks(mirror, server, self.report, SCHEDULER)
        self.vms: VmChecks | None = None
        self._mirror, self._server = mirror, server

    def check_vms(self, agent: str, cooldown: float) -> None:
        """Check VMs, which are resized by the user `agent`."""
        self.vms = VmChecks(self._mirror, self._server, self.report, agent=agent, cooldown=cooldown)

    def expect_behind(self, seconds: float) -> None:
        """Faults keep processes behind for so long: what they cannot know by then is no breach."""
        self._placement.race_seconds += seconds
        self._containers.reported_seconds += seconds

    def arm(self) -> None:
        self._armed = True

    def made(self, machine: Instance) -> None:
        """Check a new machine."""
        self.pools.made(machine)
        if not machine.node:
            self._purchases.made(machine.pool)

    def check_the_end(self, now: float) -> None:
        """Check the deadlines of GPUs and gangs at the end of a run."""
        self._gpus.check_left(now)
        self._purchases.check_due(now)
        self._gangs.check_deadlines(now)

    async def broken(self) -> InvariantBreach:
        """Wait for a breach."""
        await self._broken.wait()
        if self.breach is None:
            raise ValueError("broken without a breach")
        return self.breach

    def report(self, breach: InvariantBreach) -> None:
        """Note a breach. Also for checks that are made elsewhere."""
        if self._armed and self.breach is None:
            self.breach = breach
            self._broken.set()
