"""Live settings of running loops: after a change each loop works with what a new loop with these settings would."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.vms import a_vm, key, size
from ullage.clock import WallClock
from ullage.config.declaration import SettingSpec, declared, sections
from ullage.config.laws import broken_laws
from ullage.config.settings import Settings
from ullage.control.draining.wiring import DrainController
from ullage.control.provisioning.wiring import ProvisioningController
from ullage.control.scheduling.loop import SchedulerLoop
from ullage.control.scheduling.wiring import Scheduler
from ullage.model.vm import VmPhase
from ullage.observe.vm_agent_metrics import VmAgentMetrics
from ullage.runtime import Wakeup
from ullage.vm_agent.client import PermitClient
from ullage.vm_agent.executor import VmRunner
from ullage.vm_agent.facts import GuestPod, GuestVm
from ullage.vm_agent.metrics_source import HttpMetricsSource
from ullage.vm_agent.wiring import AgentOutside, VmAgent, metrics_endpoint, scaling_policy

SECTIONS = {
    "provisioner": ("provisioning",),
    "drains": ("draining", "vms"),
    "scheduler": ("scheduling",),
    "vms": ("vms",),
    "vm-agent": ("vmagent",),
}
"""Loops, each with the sections whose live settings it has to take over."""
ELSEWHERE = {
    ("drains", "vms.grant"), ("drains", "vms.capacityPressureFactor"), ("drains", "vms.pressureSustained"),
    ("drains", "vms.silentAfter"), ("drains", "vms.migrate"), ("drains", "vms.nodeNeedAfter"),
}  # fmt: skip
"""Settings of a section that are another loop's alone."""
VALUES = (True, False, 7, 0.25, "7s", "70s", "7", "7Gi", "joint", "spread", {"gpu-scheduler": "spread"})
"""Values to try, as files have them."""


def built(name: str, settings: Settings) -> Any:
    """A program with its loops, of which none runs."""
    nobody: Any = None
    api, clock = nobody, WallClock()
    if name == "vm-agent":
        return an_agent(nobody, settings)
    if name in ("provisioner", "drains"):
        controller = ProvisioningController(api, settings, clock, seed=1)
        return controller if name == "provisioner" else DrainController(controller, settings)
    scheduler = Scheduler(api, settings, clock, instance="s", seed=1)
    actuator: Any = SimpleNamespace(refuser=None)
    scheduler._loop = SchedulerLoop(scheduler.core, actuator, nobody, clock, settings)
    return scheduler


def an_agent(nobody: Any, settings: Settings) -> VmAgent:
    """The agent of a node on which one VM runs."""
    source = HttpMetricsSource(metrics_endpoint(settings.vmagent), random.Random(1))
    outside = AgentOutside(nobody, PermitClient(nobody, timeout=settings.vmagent.request_timeout), source)
    policy, metrics = scaling_policy(settings.vmagent), VmAgentMetrics(CollectorRegistry())
    agent = VmAgent("n", outside, policy, WallClock(), metrics)
    pod = GuestPod(key=key("v"), uid="v", vm=key("v"), address="10.0.0.1", runs=True)
    guest = GuestVm(vm=a_vm("v", size(1, 4)), phase=VmPhase.RUNNING, pod="v")
    agent._runners[pod.key] = (VmRunner(pod, guest, agent._contacts, policy), nobody)
    return agent


def loops(name: str, program: Any) -> list[Any]:
    if name == "vms":
        return [program.vms]
    if name == "vm-agent":
        return [program._policy, program._contacts.permits, program._contacts.metrics_source, *program.runners.values()]
    return [program._loop] if name == "scheduler" else [program.loop]


def in_use(roots: list[Any]) -> dict[str, set[str]]:
    """Plain values of all objects that can be reached from these, by the kind of object and its attribute."""
    found: dict[str, set[str]] = {}
    seen: set[int] = set()
    todo = [("", root) for root in roots]
    while todo:
        name, one = todo.pop()
        if one is None or isinstance(one, bool | int | float | str | Enum):
            found.setdefault(name, set()).add(repr(one))
        elif isinstance(one, Mapping):
            todo += [(f"{name}[{key}]", value) for key, value in one.items()]
        elif isinstance(one, list | tuple):
            todo += [(f"{name}[{place}]", value) for place, value in enumerate(one)]
        elif id(one) not in seen and type(one).__module__.startswith("ullage.") and not isinstance(one, Wakeup):
            seen.add(id(one))
            kind = type(one).__name__
            todo += [(f"{kind}.{part}", getattr(one, part)) for part in parts(one) if hasattr(one, part)]
    return found


def parts(one: Any) -> Iterator[str]:
    yield from getattr(one, "__dict__", ())
    for kind in type(one).__mro__:
        slots = vars(kind).get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots


def changed(section: str, one: SettingSpec) -> Settings:
    """Settings with another value of one setting, and nothing that contradicts it."""
    for raw in VALUES:
        try:
            value = one.values.read(raw)
        except (ValueError, TypeError, AttributeError):
            continue
        settings = Settings()
        settings = replace(settings, **{section: replace(getattr(settings, section), **{one.attribute: value})})
        if value != one.default and not list(broken_laws(settings)):
            return settings
    raise AssertionError(f"no other value of {section}.{one.name} is known: add one to VALUES")


ROWS = [
    pytest.param(name, section, one, id=f"{name}-{section}.{one.name}")
    for name, taken in SECTIONS.items()
    for section, kind in sections(Settings)
    if section in taken
    for one in declared(kind)
    if one.live and (name, f"{section}.{one.name}") not in ELSEWHERE
]


@pytest.mark.parametrize(("name", "section", "one"), ROWS)
def test_a_live_setting_changes_what_the_loop_uses(name: str, section: str, one: SettingSpec) -> None:
    settings = changed(section, one)
    program, new = built(name, Settings()), built(name, settings)
    before = in_use(loops(name, program))
    program.configure(settings)
    after, wanted = in_use(loops(name, program)), in_use(loops(name, new))
    assert after != before, "the loop does not have it at all"
    assert {what: (values, wanted.get(what)) for what, values in after.items() if values != wanted.get(what)} == {}


@pytest.mark.parametrize("name", SECTIONS)
def test_a_loop_that_sleeps_wakes_up_for_changed_settings(name: str) -> None:
    program = built(name, Settings())
    if name == "vm-agent":
        (runner,) = program.runners.values()
        program.configure(Settings())
        assert runner._wake.is_set
        return
    wakeup = program.vms._changes.migrations if name == "vms" else loops(name, program)[0]._wakeup
    wakeup.clear()
    program.configure(Settings())
    assert wakeup.is_set
