"""VMs: live-resizable VMs grow by permits, are migrated under pressure, and shrink again."""

from ullage.kube.client.resource import JsonObject
from ullage.model.provisioner import GpuTemplate, NodeTemplate
from ullage.model.scoring import DEFAULT_SCHEDULER
from ullage.model.units import Bytes, Micros
from ullage.model.vm import VmAmounts
from ullage.sim.demo.story import CreateManifest, LoadVm, Story, StoryStep
from ullage.sim.vms.controller import HypervisorTimings
from ullage.sim.vms.guest_load import BurstyLoad
from ullage.sim.world.spec import FleetNode, WorldSpec
from ullage.sim.world.vms import VmWorldSpec, virtual_machine

_GI = 1 << 30
_UNIT = VmAmounts(1000, 4 * _GI)
_TEMPLATE = NodeTemplate(
    gpus=GpuTemplate(model="", count=0, memory=Bytes(0)),
    resources={"cpu": 48_000, "memory": 192 * _GI * 1000},
    price=Micros(0),
)
_NAMES = tuple(f"db-{number}" for number in range(1, 7))
_QUIET = BurstyLoad(seed=0, calm=(0.9, 0.9), burst=(0.9, 0.9))
"""Every VM idles until the story says otherwise."""


def _vm(name: str) -> JsonObject:
    return virtual_machine(name, DEFAULT_SCHEDULER, _UNIT.times(4), _UNIT.times(24), unit=_UNIT)


def _world(seed: int) -> WorldSpec:
    return WorldSpec(
        seed=seed,
        nodes=tuple(FleetNode(name=f"vm-node-{number}", template=_TEMPLATE) for number in range(1, 4)),
        vms=VmWorldSpec(
            load=_QUIET,
            unit=_UNIT,
            hypervisor=HypervisorTimings(hotplug=2.0, migration=40.0),
            migration_failures=0.0,
            lost=0.0,
        ),
    )


_STEPS = (
    StoryStep(
        at=0,
        name="beginning",
        caption="Three nodes of 48 cores. Six databases come as VMs of four cores each. Their nodes appear "
        "under VM nodes, with what is reserved as a bar.",
        steps=tuple(CreateManifest(_vm(name)) for name in _NAMES),
    ),
    StoryStep(
        at=90,
        name="idle",
        caption="Nobody uses them: their agents shrink each to one core, and tell the scheduler afterwards.",
    ),
    StoryStep(
        at=240,
        name="growing",
        caption="db-1 gets busy. Its agent asks for twelve cores first; the scheduler writes the permit on its pod. "
        "Only then does the VM grow.",
        steps=(LoadVm("db-1", 10.5),),
    ),
    StoryStep(
        at=420,
        name="pressure",
        caption="All get busy at once. Together they reserve more than the watermark, and what does not fit is denied: "
        "that is pressure.",
        steps=tuple(LoadVm(name, 10.5) for name in _NAMES),
    ),
    StoryStep(
        at=600,
        name="moving",
        caption="Pressure that lasts moves VMs away, the least busy first, live and never above the other node's "
        "watermark. The node's bar falls below the mark again.",
    ),
    StoryStep(
        at=900,
        name="calm",
        caption="The rush is over: the VMs shrink by themselves, and nothing was ever given twice.",
        steps=tuple(LoadVm(name, 0.9) for name in _NAMES),
    ),
    StoryStep(
        at=1200,
        name="end",
        caption="Every VM is back at one core, each where it was moved to. `kubectl get virtualmachines` shows them.",
    ),
)

VMS = Story(
    name="vms",
    summary="live-resizable VMs: permits, pressure and migration",
    world=_world,
    story_steps=_STEPS,
)
