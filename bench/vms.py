"""A week of 50 nodes with 40 VMs each: beside the same week without migration, and without an agent.

Times are of fleets with the same 50 nodes, so they say what migration does for service. Nodes needed are computed from
the peaks of demand of that week, not from a run on so many nodes: they say what it does for cost.
"""

import time
from concurrent.futures import ProcessPoolExecutor

from bench.record import Figure
from ullage.model.vm import VmAmounts
from ullage.sim.vms.fleet import VmFleet
from ullage.sim.vms.fleet_checks import check_fleet
from ullage.sim.vms.fleet_report import FleetReport, nodes_for_maxima
from ullage.sim.vms.fleet_spec import FleetSpec

_WEEK = 7 * 86_400
_CHECK_SECONDS = 600
_CPU_MINUTES = 30.0


def run(scale: float) -> list[Figure]:
    """`scale` is the part of the week."""
    seconds = max(3600, int(_WEEK * scale))
    with ProcessPoolExecutor(2) as pool:
        moving, staying = pool.map(_lived, (True, False), (seconds, seconds))
    spec = FleetSpec()
    room = _reservable(spec)
    vms = spec.nodes * spec.vms_per_node
    static = nodes_for_maxima(vms, spec.largest, room)
    (with_moves, cpu), (without, _) = moving, staying
    below = VmAmounts(int(room.cpu * spec.watermark), int(room.memory * spec.watermark))
    needed, unmoved = with_moves.nodes_needed(below), without.nodes_needed_unmoved(room)
    node_hours, vm_hours = spec.nodes * seconds / 100, vms * seconds / 100
    alone = f"no migration, same {spec.nodes} nodes"
    return [
        Figure("nodes needed, agent and migration", "nodes", needed, static, "static maxima"),
        Figure("nodes needed, agent alone", "nodes", unmoved, static, "static maxima"),
        Figure("nodes needed, migration beside none", "nodes", needed, unmoved, "agent alone"),
        Figure("time with denied requests, migration", "%", with_moves.denied / node_hours,
               without.denied / node_hours, alone),
        Figure("time VMs were short, migration", "%", with_moves.short / vm_hours, without.short / vm_hours, alone),
        Figure("time above watermark, migration", "%", with_moves.above_watermark / node_hours,
               without.above_watermark / node_hours, alone),
        Figure("migrations per VM and day", "moves", with_moves.moved / vms / (seconds / 86_400)),
        Figure("migrations that failed", "moves", with_moves.failed),
        Figure("approvals changed", "writes", with_moves.changes),
        Figure("scheduler restarts", "times", with_moves.restarts),
        Figure("CPU of the simulation", "min", cpu / 60, _CPU_MINUTES, "at most", bound=1.0),
    ]  # fmt: skip


def _lived(migrate: bool, seconds: int) -> tuple[FleetReport, float]:
    """The report of a fleet after so many seconds, and the CPU seconds it took. Raises where an invariant breaks."""
    began = time.process_time()
    fleet = VmFleet(FleetSpec(migrate=migrate))
    for second in range(_CHECK_SECONDS, seconds + 1, _CHECK_SECONDS):
        fleet.run(second)
        check_fleet(fleet)
    return fleet.report, time.process_time() - began


def _reservable(spec: FleetSpec) -> VmAmounts:
    """Room of a node without the system's part."""
    node = spec.config.defaults
    return VmAmounts(spec.room.cpu - 1000, spec.room.memory - node.memory.system)
